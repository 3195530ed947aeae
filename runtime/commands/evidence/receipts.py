"""Checks the receipt of a play, without the service: `tombola verify FILE`.

runtime/web/verifiers/verify.mjs makes the same checks, with the same findings, in JavaScript.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
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
from runtime.rules.log.entries import commit_sent
from runtime.rules.log.notes import BadNote, VerifierKey, read_checkpoint, verify_checkpoint
from runtime.rules.log.tree import hash_leaf, verify_inclusion
from runtime.rules.payloads import UNTIMED_MS
from runtime.rules.replay import RECEIPT_FORMAT
from runtime.wire.schema import fields_of

KIND: Final = "the receipt of a play"

_REGISTRIES: Final[dict[str, Registry[Any]]] = {
    "seed_generator": SEED_GENERATORS,
    "reward_handler": REWARD_HANDLERS,
    "validator": VALIDATORS,
}

_PENDING_SECONDS: Final = 600
"""From then on a play must be in the log, if the log's key is given."""

_AWARD: Final = {"prize_id": "", "quantity": 0}
_SHAPE: Final[dict[str, Any]] = {
    **dict.fromkeys(("format", "play_id", "game_id", "session_id", "revision_hash", "terms", "commitment"), ""),
    **dict.fromkeys(("seed_hash", "seed", "client_seed"), ""),
    "played_at": 0,
    "revision": 0,
    "payload": {},
    "erased": True,
    "words": [{"index": 0, "bytes": "", "value": 0}],
    "outcome": {
        "awards": [_AWARD],
        "credits": [{"item": "", "quantity": 0}],
        "metadata": {},
        "score": 0,
        "path": [],
    },
    "rewards": [{**_AWARD, "reward_id": "", "name": "", "type": "", "value": 0}],
}
"""Each field with a value of its type."""

_LOG_SHAPE: Final = {
    **dict.fromkeys(("entry", "checkpoint", "salt", "payload", "outcome"), ""),
    "index": 0,
    "proof": [""],
}

_FIELDS: Final = frozenset(fields_of(m.PlayReceipt))


def read_receipt(text: bytes) -> dict[str, Any] | None:
    """The receipt: alone, or as the API's response. None: it is something else."""
    found = read_object(text, KIND)
    receipt = found["data"] if isinstance(found.get("data"), dict) else found
    return receipt if receipt.get("format") == RECEIPT_FORMAT else None


def verify(receipt: Mapping[str, Any], *, commitment: str = "", key: VerifierKey | None = None) -> list[Finding]:
    """The findings. Raises ValueError.

    commitment: what the start returned, if the player has kept it. key: of the log, from a source other than the
    receipt's.
    """
    if wrong := _misshapen(receipt):
        raise ValueError(f"not {KIND}: {wrong} is missing or has a wrong type")
    try:
        return list(_findings(receipt, commitment, key))
    except (KeyError, TypeError, AttributeError, IndexError, UnicodeEncodeError):
        raise ValueError(f"not {KIND}: a value is missing or has a wrong type") from None


def _misshapen(receipt: Mapping[str, Any]) -> str:
    """The name of a field that is missing or has a wrong type; "": none."""
    log = receipt.get("log")
    if log and not (isinstance(log, dict) and (log.get("pending") is True or _fits(log, _LOG_SHAPE))):
        return "log"
    return next((name for name, shape in _SHAPE.items() if not _fits(receipt.get(name), shape)), "")


def _fits(value: Any, shape: Any) -> bool:
    match shape:
        case list():
            return isinstance(value, list) and all(_fits(one, part) for part in shape for one in value)
        case dict():
            return isinstance(value, dict) and all(_fits(value.get(name), part) for name, part in shape.items())
        case bool() | str():
            return type(value) is type(shape)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _findings(receipt: Mapping[str, Any], commitment: str, key: VerifierKey | None) -> Iterator[Finding]:
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
    if withheld := list(dict.fromkeys(step[1] for step in _steps(receipt, "available") if not step[3])):
        yield Finding(f"unavailable, as the operator states: {', '.join(withheld)}", None)
    log = receipt.get("log")
    if log and not log["pending"]:
        yield from _of_log(receipt, log, key)
    else:
        if log:
            is_new = abs(time.time() - receipt["played_at"]) < _PENDING_SECONDS
            yield Finding("pending: the play is not in the log yet", None if is_new or key is None else False)
        elif key is not None:
            yield Finding("the receipt contains the log of the key", False)
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


def _of_log(receipt: Mapping[str, Any], log: Mapping[str, Any], key: VerifierKey | None) -> Iterator[Finding]:
    """Whether the log's entry is that of the play, and under the checkpoint."""
    yield Finding("the log's entry is that of the play", _is_entry(receipt, log))
    try:
        checkpoint, proof = read_checkpoint(log["checkpoint"]), [bytes.fromhex(part) for part in log["proof"]]
    except BadNote as error:
        raise ValueError(str(error)) from None
    leaf = hash_leaf(log["entry"].encode())
    is_included = verify_inclusion(leaf, log["index"], checkpoint.size, proof, checkpoint.root)
    yield Finding("the entry is in the log of the checkpoint", is_included)
    if key is None:
        yield Finding("the checkpoint is signed: give the log's key to check it", None)
        return
    with suppress(BadNote):
        verify_checkpoint(log["checkpoint"], [key])
        yield Finding("the checkpoint is signed by the key", True)
        return
    yield Finding("the checkpoint is signed by the key", False)


def _is_entry(receipt: Mapping[str, Any], log: Mapping[str, Any]) -> bool:
    """Whether the entry has the facts of the receipt (runtime/rules/log/entries.py)."""
    facts = read_object(log["entry"], "an entry of the log")
    payload, outcome = log["payload"], read_object(log["outcome"], "the stored outcome of a play")
    own = {name: receipt[name] for name in ("game_id", "revision", "revision_hash", "seed")}
    own |= {"kind": "play", "id": receipt["play_id"], "score": receipt["outcome"]["score"]}
    own |= {"session": _sha256(receipt["session_id"]), "outcome": _sha256(log["outcome"])}
    sent: str | None = commit_sent(bytes.fromhex(log["salt"]), receipt["client_seed"], payload)
    if not receipt["client_seed"] and payload == "{}":
        sent = None
    return (
        all(same(facts.get(name), value) for name, value in own.items())
        and (receipt["erased"] or facts.get("sent") == sent)
        and facts["at"] // 1_000_000 == receipt["played_at"]
        and same([outcome["decided"], outcome["rewards"]], [receipt["outcome"], receipt["rewards"]])
        and same(read_object(payload, "the stored payload of a play"), receipt["payload"])
    )


def decision(receipt: Mapping[str, Any], terms: Mapping[str, Any], seed: bytes) -> Iterator[Finding]:
    """Decides the play again, and compares outcome and rewards."""
    outcome = receipt["outcome"]
    unknown = [terms[name] for name, registry in _REGISTRIES.items() if registry.get(terms[name]) is None]
    if unknown:
        yield Finding(f"the outcome is not decided again here: {', '.join(unknown)}", None)
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
    used = [step[1] for step in _steps(receipt, "word")]
    return [{"index": i, "bytes": words.first_bytes(i).hex(), "value": words.word(i)} for i in used]


def _steps(receipt: Mapping[str, Any], kind: str) -> list[list[Any]]:
    """The steps of this kind. A plugin's own steps are any JSON values."""
    return [step for step in receipt["outcome"]["path"] if isinstance(step, list) and step[:1] == [kind]]


def names(session_id: str, receipt: Mapping[str, Any]) -> bool:
    """Whether the session names the play and the terms (runtime/actors/game/sessions.py)."""
    head, _, terms, *_ = session_id.split(".")
    revision = terms.partition("-")[0]
    return bool(f"play_{head[5:31]}" == receipt["play_id"] and revision == receipt["revision_hash"][:32])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
