"""The words of a draw, computed as docs/explanation/fairness.md publishes it, without the service's code."""

import hashlib
import hmac
from collections.abc import Iterable


def word(seed: str, client_seed: str, i: int) -> float:
    """Word i of a draw: the first 8 bytes of HMAC-SHA256(seed, "client_seed:i"), over 2^64."""
    mac = hmac.new(bytes.fromhex(seed), f"{client_seed}:{i}".encode(), hashlib.sha256).digest()
    return int.from_bytes(mac[:8], "big") / 2**64


def plan_word(seed: str, j: int) -> float:
    key = hmac.new(bytes.fromhex(seed), b"plan", hashlib.sha256)
    return word(key.hexdigest(), "", j)


def hand_pick(weights: Iterable[float], drawn: float) -> int | None:
    """The first entry whose running sum exceeds the word; None: none does."""
    running = 0.0
    for index, weight in enumerate(weights):
        running += weight
        if running > drawn:
            return index
    return None
