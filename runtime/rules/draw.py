"""Provably fair draws: from a secret seed to words, from a word to a pick.

A player can recompute everything here from the data that a play reveals: HMAC-SHA256, big-endian bytes
and IEEE doubles added in array order. Never use the builtin `sum`: since Python 3.12 it adds with
compensation, and before without, which would break replays across versions.
"""

from __future__ import annotations

import hashlib
import hmac
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from runtime.errors import invalid

CLIENT_SEED_MAX_LENGTH: Final = 200

_WORD_RANGE: Final = 2**64


def seed_of(server_key: bytes, nonce: bytes) -> bytes:
    """The 32 secret bytes of one session: HMAC-SHA256(server key, nonce)."""
    signer = keyed(server_key).copy()
    signer.update(nonce)
    return signer.digest()


@lru_cache(maxsize=16)
def keyed(secret: bytes) -> hmac.HMAC:
    """HMAC-SHA256 initialized with the key. Cached, as every play uses one of a few server keys. Copy it before use."""
    return hmac.new(secret, digestmod="sha256")


def seed_hash(seed: bytes) -> str:
    """The commitment shown before the play: SHA-256 of the seed, lower-case hex."""
    return hashlib.sha256(seed).hexdigest()


def plan_key(seed: bytes) -> bytes:
    """The sub-key of a drop plan: HMAC-SHA256(seed, "plan"). A published plan reveals nothing of the draw's words."""
    return hmac.digest(seed, b"plan", "sha256")


def check_client_seed(client_seed: str) -> None:
    """Refuse, on field `client_seed`, text over 200 characters, with NUL, or with invalid Unicode."""
    if len(client_seed) > CLIENT_SEED_MAX_LENGTH:
        raise invalid("client_seed", f"must be at most {CLIENT_SEED_MAX_LENGTH} characters long")
    if "\0" in client_seed:
        raise invalid("client_seed", "must not contain NUL")
    try:
        client_seed.encode()
    except UnicodeEncodeError:
        raise invalid("client_seed", "must be valid Unicode text") from None


class Words:
    """The numbers of one draw: word *i* is 8 big-endian bytes of HMAC-SHA256(seed, "client_seed:i") over 2^64.

    A word lies in [0, 1]: an integer within 2^10 of 2^64 rounds to 1.0 as a double.
    """

    __slots__ = ("_prefix", "_seed")

    def __init__(self, seed: bytes, client_seed: str = "") -> None:
        self._seed = seed
        self._prefix = client_seed.encode() + b":"

    def word(self, i: int) -> float:
        """Word `i`, counted from 0; the same on every call."""
        return int.from_bytes(self.first_bytes(i), "big") / _WORD_RANGE

    def first_bytes(self, i: int) -> bytes:
        """The 8 bytes of word `i`."""
        return hmac.digest(self._seed, self._prefix + b"%d" % i, "sha256")[:8]


def running_sums(weights: Iterable[float]) -> tuple[float, ...]:
    """Running sums in array order: plain IEEE additions, on every Python version."""
    return tuple(accumulate(weights))


def pick_by_sums(sums: Sequence[float], word: float) -> int | None:
    """The first index whose running sum exceeds the word, or None when the word is past them all."""
    # bisect_right finds exactly the first sum above the word, because sums of weights >= 0 never decrease.
    index = bisect_right(sums, word)
    return index if index < len(sums) else None


def scaled(weights: Sequence[float]) -> tuple[float, ...]:
    """Each weight over their total (which must be above 0), so that they sum to 1."""
    total = running_sums(weights)[-1]
    return tuple(weight / total for weight in weights)


def pick_certain(sums: Sequence[float], word: float) -> int:
    """Like `pick_by_sums`, but always picks: a word past the end, due to rounding, picks the last weight above 0.

    `sums` is not empty and its last element is above 0.
    """
    index = pick_by_sums(sums, word)
    # The first index that reaches the final sum has the last weight above 0.
    return sums.index(sums[-1]) if index is None else index
