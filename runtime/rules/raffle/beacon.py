"""drand's quicknet: rounds of public randomness, verified offline by their BLS signature.

A signature is a point of G1 over SHA-256 of the round's number (8 bytes, big-endian), hashed to the curve as RFC 9380
defines; the public key is a point of G2. Verification is pure Python (py_ecc) and takes about a second, so it runs in a
thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from importlib.util import find_spec
from typing import Final

from runtime.rules.raffle.selection import FORMS

GENESIS: Final = 1_692_803_367
"""The time of round 1, in unix seconds."""

PERIOD_SECONDS: Final = 3

PUBLIC_KEY: Final = (
    "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d106451"
    "0d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
)
_DOMAIN: Final = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"


def is_available() -> bool:
    """Whether the extra `drand` is installed."""
    return find_spec("py_ecc") is not None


def round_at(at: int) -> int:
    """The first round that is published at or after `at`, in unix seconds."""
    return max(1, -(-(at - GENESIS) // PERIOD_SECONDS) + 1)


async def verifies(round_number: int, signature: str) -> bool:
    """Whether the signature, in lower-case hex, is the round's."""
    return await asyncio.to_thread(verify, round_number, signature)


def verify(round_number: int, signature: str) -> bool:
    """As `verifies`; blocks for about a second."""
    from py_ecc.bls.g2_primitives import subgroup_check
    from py_ecc.bls.hash_to_curve import hash_to_G1
    from py_ecc.bls.point_compression import decompress_G1, decompress_G2
    from py_ecc.optimized_bls12_381 import FQ12, G2, final_exponentiate, neg, pairing

    if not re.fullmatch(FORMS["DRAND"], signature):
        return False
    encoded = bytes.fromhex(signature)
    key = bytes.fromhex(PUBLIC_KEY)
    halves = (int.from_bytes(key[:48], "big"), int.from_bytes(key[48:], "big"))
    try:
        point = decompress_G1(int.from_bytes(encoded, "big"))
    except ValueError:
        return False
    if not subgroup_check(point):
        return False
    digest = hashlib.sha256(round_number.to_bytes(8, "big")).digest()
    hashed = hash_to_G1(digest, _DOMAIN, hashlib.sha256)
    product = pairing(decompress_G2(halves), hashed, final_exponentiate=False)
    product *= pairing(neg(G2), point, final_exponentiate=False)
    return bool(final_exponentiate(product) == FQ12.one())
