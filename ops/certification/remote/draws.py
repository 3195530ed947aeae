"""Verifies a draw as the README describes, from the responses of start, terms and play alone."""

import hashlib
import hmac
import itertools
import json

from ops.certification.remote.deployment import Broken, Draw, hold


def check(draw: Draw, terms: str, gone: frozenset[str] = frozenset()) -> None:
    """Raises Broken if the play differs from the promise. gone: prizes that may have been out of stock."""
    started, play = draw.started, draw.play
    seed = bytes.fromhex(play["seed"])
    promise = f"{hashlib.sha256(seed).hexdigest()}:{started['revision_hash']}:{started['session_id']}"
    hold(hashlib.sha256(terms.encode()).hexdigest() == started["revision_hash"], "terms of another hash than promised")
    hold(hashlib.sha256(seed).hexdigest() == started["seed_hash"] == play["seed_hash"], "another seed than promised")
    hold(hashlib.sha256(promise.encode()).hexdigest() == started["commitment"], "another commitment than promised")
    drawn, given = picked(terms, seed, draw.client_seed), _awarded(play)
    if given != drawn and not (drawn in gone and not given):
        raise Broken(f"{draw.client_seed!r} draws {drawn or 'nothing'}, and {given or 'nothing'} was given")


def picked(terms: str, seed: bytes, client_seed: str) -> str:
    """The prize or item that the first word draws; "" if none."""
    word = int.from_bytes(hmac.digest(seed, f"{client_seed}:0".encode(), "sha256")[:8], "big") / 2**64
    config = json.loads(terms)["handler_config"]
    if "items" in config:
        total = sum(item["weight"] for item in config["items"])
        chances = [(item["item"], item["weight"] / total) for item in config["items"]]
    else:
        chances = [(prize["prize_id"], prize["probability"]) for prize in config["prizes"]]
    sums = itertools.accumulate(chance for _, chance in chances)
    return next((name for (name, _), running in zip(chances, sums, strict=True) if running > word), "")


def _awarded(play: dict[str, object]) -> str:
    metadata, rewards = play["metadata"], play["rewards"]
    assert isinstance(metadata, dict) and isinstance(rewards, list)
    return str(metadata.get("item") or (rewards[0]["prize_id"] if rewards else ""))
