"""Stamps of checkpoints by a time-stamping authority (RFC 3161): the signed note existed at a time.

A stamp is the authority's whole response, for the SHA-256 of the note. `openssl ts -verify` checks it too. The package
rfc3161-client is an extra, so it is imported only where a stamp is made or checked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.x509 import Certificate, load_pem_x509_certificates

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

CONTENT_TYPE: Final = "application/timestamp-query"

_CERTIFICATES: Final = (1, 1, 0, 3)
"""The place of the certificates in a response: token, content, signed data, certificates."""

_CERTIFICATES_TAG: Final = 0xA0


class BadStamp(ValueError):
    """A stamp that cannot be trusted. The message says why."""


class BadCertificates(ValueError):
    """A file without a readable certificate."""


class Question(NamedTuple):
    """A request for a stamp. nonce: the response must repeat it."""

    body: bytes
    nonce: int | None


class Stamped(NamedTuple):
    """A signed note with its stamp."""

    note: str
    stamp: bytes

    @classmethod
    def parse(cls, text: str | bytes) -> Stamped:
        """From {"checkpoint": ..., "stamp": base64}. Raises BadStamp."""
        try:
            found = json.loads(text)
            return cls(str(found["checkpoint"]), base64.b64decode(found["stamp"], validate=True))
        except (ValueError, TypeError, LookupError, RecursionError):
            raise BadStamp("not a stamped checkpoint") from None


def is_available() -> bool:
    """Whether the extra `timestamps` is installed."""
    return find_spec("rfc3161_client") is not None


def ask(note: str) -> Question:
    """The request for a stamp of the note, with the authority's certificate."""
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    request = TimestampRequestBuilder().data(note.encode()).hash_algorithm(HashAlgorithm.SHA256).build()
    return Question(request.as_bytes(), request.nonce)


def read_answer(stamp: bytes, note: str, question: Question) -> float:
    """The time in the authority's response to the question. Does not verify the signature. Raises BadStamp."""
    found = _decode(stamp)
    if found.status != 0:
        raise BadStamp(f"the authority refused: status {found.status}")
    info = found.tst_info
    if info.message_imprint.message != hashlib.sha256(note.encode()).digest() or info.nonce != question.nonce:
        raise BadStamp("the stamp is not of this checkpoint")
    return info.gen_time.timestamp()


def read_certificates(path: Path) -> list[Certificate]:
    """The root certificate of an authority, and its intermediates, from a PEM file. Raises BadCertificates."""
    try:
        return load_pem_x509_certificates(path.read_bytes())
    except ValueError:
        raise BadCertificates(f"{path} has no certificate in PEM form") from None


def verify_stamp(stamp: bytes, note: str, trusted: list[Certificate]) -> float:
    """The time at which the authority saw the note. trusted: its root, and intermediates. Raises BadStamp."""
    from rfc3161_client import VerifierBuilder

    found = _decode(stamp)
    try:
        VerifierBuilder(roots=trusted).build().verify_message(found, note.encode())
    except Exception as error:  # A malformed certificate raises errors of several packages.
        reason = str(error).partition(": ErrorStack")[0]
        raise BadStamp(f"the stamp is of another authority or of another checkpoint: {reason}") from None
    return found.tst_info.gen_time.timestamp()


def shown(at: float) -> str:
    """The time, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))


def _decode(stamp: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response

    try:
        return decode_timestamp_response(_in_order(stamp))
    except ValueError as error:
        raise BadStamp(f"not the response of a time-stamping authority: {error}"[:300]) from None


def _in_order(stamp: bytes) -> bytes:
    """The response with its certificates sorted as DER requires. OpenSSL does not sort them; the package requires it.

    The signature does not cover their order.
    """
    try:
        _, first, end = _element(stamp, 0)
        for nth in _CERTIFICATES:
            start, first, end = list(_elements(stamp, first, end))[nth]
        parts = sorted(stamp[one:stop] for one, _, stop in _elements(stamp, first, end))
    except IndexError:
        return stamp
    if stamp[start] != _CERTIFICATES_TAG:
        return stamp
    return stamp[:first] + b"".join(parts) + stamp[end:]


def _elements(der: bytes, first: int, end: int) -> Iterator[tuple[int, int, int]]:
    while first < end:
        yield (found := _element(der, first))
        first = found[2]


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The offsets of the element, of its content and of its end. IndexError if it is cut off."""
    length, content = der[at + 1], at + 2
    if length & 0x80:
        content += length & 0x7F
        length = int.from_bytes(der[at + 2 : content], "big")
    if content + length > len(der):
        raise IndexError
    return at, content, content + length
