"""Checks the receipt of a play, without the service: `tombola verify FILE`.

docs/examples/verify.mjs makes the same checks, with the same findings, in JavaScript.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from runtime import messages as m
from runtime.commands.evidence.findings import Finding, read_object, same
from runtime.errors import Fault
from runtime.registry import Registry
from runtime.rules import (
    REWARD_HANDLERS,
    SEED_GENERATORS,
    VALIDATORS,
    GameRule,
    ReplayMismatch,
    Words,
    compose,
    replay,
    seed_hash,
)
from runtime.rules.payloads import UNTIMED_MS
from runtime.rules.replay import RECEIPT_FORMAT
from runtime.wire.schema import fields_of

KIND: Final = "the receipt of a play"

_REGISTRIES: Final[dict[str, Registry[Any]]] = {
    "seed_generator": SEED_GENERATORS,
    "reward_handler": REWARD_HANDLERS,
    "validator": VALIDATORS,
}

_FIELDS: Final = frozenset(fields_of(m.PlayReceipt))


def read_receipt(text: bytes) -> dict[str, Any] | None:
    """The receipt: alone, or as the API's response. None: it is something else."""
    found = read_object(text, KIND)
    receipt = found["data"] if isinstance(found.get("data"), dict) else found
    return receipt if receipt.get("format") == RECEIPT_FORMAT else None


def verify(receipt: Mapping[str, Any], *, commitment: str = "") -> list[Finding]:
    """The findings. commitment: what the start returned, if the player has kept it. Raises ValueError."""
    try:
        return list(_findings(receipt, commitment))
    except (KeyError, TypeError, AttributeError, IndexError, UnicodeEncodeError) as error:
        raise ValueError(f"not {KIND}: {error!r}") from None


def _findings(receipt: Mapping[str, Any], commitment: str) -> Iterator[Finding]:
    text, promised = receipt["terms"], receipt["revision_hash"]
    terms = read_object(text, "terms") if text else None
    seed = bytes.fromhex(receipt["seed"])
    if terms is None:
        yield Finding("the terms are not in the receipt: the outcome is not checked", None)
    else:
        yield Finding("the terms have their hash", _sha256(text) == promised)
        yield Finding("the terms are those of the game", terms["game_id"] == receipt["game_id"])
    yield Finding("the seed has its hash", seed_hash(seed) == receipt["seed_hash"])
    hashed = _sha256(f"{receipt['seed_hash']}:{promised}:{receipt['session_id']}")
    yield Finding("the commitment binds seed, terms and session", hashed == receipt["commitment"])
    if commitment:
        yield Finding("the start returned this commitment", commitment == receipt["commitment"])
    else:
        yield Finding("the start returned this commitment: compare it with your copy", None)
    yield Finding("the session is that of the play and the terms", names(receipt["session_id"], receipt))
    if receipt["erased"]:
        yield Finding("the player's data was erased: words and outcome cannot be checked", None)
    else:
        yield Finding("the words follow from the seeds", same(receipt["words"], _words(seed, receipt)))
        if terms is not None:
            yield from decision(receipt, terms, seed)
    if withheld := list(dict.fromkeys(s[1] for s in receipt["outcome"]["path"] if s[0] == "available" and not s[3])):
        yield Finding(f"unavailable, as the operator states: {', '.join(withheld)}", None)
    yield Finding(f"not fixed by the start: {', '.join(_not_fixed(receipt, terms))}", None)
    if unknown := sorted(receipt.keys() - _FIELDS):
        yield Finding(f"unknown, not checked: {', '.join(unknown)}", None)


def _not_fixed(receipt: Mapping[str, Any], terms: Mapping[str, Any] | None) -> list[str]:
    """The values that follow from no hash of the start."""
    named = ["played_at", "revision"]
    if not receipt["words"]:
        named.append("client_seed")
    if "duration_ms" in receipt["payload"]:
        named.append("duration_ms")
    if any(one["prize_id"] for one in receipt["rewards"]):
        named.append("reward_id")
    if "slot_index" in receipt["outcome"]["metadata"] and (terms is None or terms["reward_handler"] != "lucky_item"):
        named.append("slot_index")
    return named


def decision(receipt: Mapping[str, Any], terms: Mapping[str, Any], seed: bytes) -> Iterator[Finding]:
    """Decides the play again, and compares outcome and rewards."""
    outcome = receipt["outcome"]
    unknown = [terms[name] for name, registry in _REGISTRIES.items() if registry.get(terms[name]) is None]
    if unknown:
        yield Finding(f"the outcome is decided by plugins, not checked here: {', '.join(unknown)}", None)
    else:
        decided = _shown(terms["reward_handler"], outcome)
        yield Finding("the outcome follows from terms and words", same(_decided(receipt, terms, seed), decided))
    units = _units(
        (one["prize_id"], 0 if one["prize_id"] else one["name"], one["quantity"]) for one in receipt["rewards"]
    )
    awarded = _units((one["prize_id"], 0, one["quantity"]) for one in outcome["awards"])
    credited = _units(("", one["item"], one["quantity"]) for one in outcome["credits"])
    yield Finding("the rewards are those of the outcome", units == awarded + credited)
    described = all(_is_described(one, terms) for one in receipt["rewards"])
    yield Finding("the rewards are described as in the terms", described)


def _decided(receipt: Mapping[str, Any], terms: Mapping[str, Any], seed: bytes) -> dict[str, Any] | None:
    """The outcome of the terms. None: the payload is invalid, or the decision takes another path."""
    try:
        rules = compose(terms["seed_generator"], terms["reward_handler"], terms["validator"], terms["handler_config"])
        payload, plan = receipt["payload"], rules.seed_generator.plan(rules.config, seed)
        rules.validator.check(rules.reward_handler, rules.config, payload, plan, UNTIMED_MS)
        outcome = replay(
            rules.reward_handler,
            rules.config,
            GameRule(terms["on_unavailable"], terms["fallback_prize_id"]),
            seed=seed,
            client_seed=receipt["client_seed"],
            payload=payload,
            plan=plan,
            path=receipt["outcome"]["path"],
        )
    except (Fault, ReplayMismatch):
        return None
    return _shown(terms["reward_handler"], msgspec.to_builtins(outcome))


def _shown(handler: str, outcome: dict[str, Any]) -> dict[str, Any]:
    """The outcome without the place where a wheel stops, unless the terms determine it."""
    if handler == "lucky_item":
        return outcome
    return {**outcome, "metadata": {k: v for k, v in outcome["metadata"].items() if k != "slot_index"}}


def _units(won: Iterator[tuple[Any, Any, Any]]) -> Counter[tuple[Any, Any]]:
    """The quantity by prize and item."""
    counted: Counter[tuple[Any, Any]] = Counter()
    for prize_id, item, quantity in won:
        counted[prize_id, item] += quantity
    return counted


def _is_described(reward: Mapping[str, Any], terms: Mapping[str, Any]) -> bool:
    if not reward["prize_id"]:
        return bool(reward["type"] == "item" and reward["value"] == 0 and not reward["reward_id"])
    return any(same([reward[name] for name in ("prize_id", "name", "type", "value")], one) for one in terms["prizes"])


def _words(seed: bytes, receipt: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The words of the path, by the seeds."""
    words = Words(seed, receipt["client_seed"])
    used = [step[1] for step in receipt["outcome"]["path"] if step[0] == "word"]
    return [{"index": i, "bytes": words.first_bytes(i).hex(), "value": words.word(i)} for i in used]


def names(session_id: str, receipt: Mapping[str, Any]) -> bool:
    """Whether the session names the play and the terms (runtime/actors/game/sessions.py)."""
    head, _, terms, *_ = session_id.split(".")
    revision = terms.partition("-")[0]
    return bool(f"play_{head[5:31]}" == receipt["play_id"] and revision == receipt["revision_hash"][:32])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
