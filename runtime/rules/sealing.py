"""Lines that only the owner of a private key can read, such as an authority or a notary: X25519, HKDF-SHA256 and
ChaCha20-Poly1305.

The writer makes a key pair for one file or text. Its public key is the head. The secret shared with the reader's key
gives the cipher's key. The nonce of line n is n, so lines cannot be moved, and one left out is noticed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

_INFO: Final = b"tombola-sealed-1"


class Seal:
    """Encrypts lines for the owner of a public key."""

    def __init__(self, reader: X25519PublicKey) -> None:
        own = X25519PrivateKey.generate()
        self.head = own.public_key().public_bytes_raw().hex()
        self._lines = _Lines(own.exchange(reader), self.head)

    @classmethod
    def read(cls, path: Path) -> Seal:
        """For the public key in a PEM file. ValueError: it is not an X25519 key."""
        key = load_pem_public_key(path.read_bytes())
        if not isinstance(key, X25519PublicKey):
            raise ValueError(f"{path} is not an X25519 public key")
        return cls(key)

    def seal(self, value: Mapping[str, Any]) -> str:
        """The encrypted line, in base64."""
        nonce, cipher = self._lines.next()
        return base64.b64encode(cipher.encrypt(nonce, json.dumps(value, ensure_ascii=False).encode(), None)).decode()


class Opener:
    """Decrypts the lines under one head, in order."""

    def __init__(self, key: X25519PrivateKey, head: str) -> None:
        self._lines = _Lines(key.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(head))), head)

    @classmethod
    def read(cls, path: Path, head: str) -> Opener:
        """With the private key in a PEM file. ValueError: it is not an X25519 key."""
        key = load_pem_private_key(path.read_bytes(), None)
        if not isinstance(key, X25519PrivateKey):
            raise ValueError(f"{path} is not an X25519 private key")
        return cls(key, head)

    def open(self, line: str) -> dict[str, Any]:
        """The line's object. ValueError: it was sealed for another key, or changed, moved or left out."""
        nonce, cipher = self._lines.next()
        try:
            found: dict[str, Any] = json.loads(cipher.decrypt(nonce, base64.b64decode(line, validate=True), None))
        except InvalidTag:
            raise ValueError("a sealed line is not for this key, or was changed") from None
        return found


def sealed(value: Mapping[str, Any], public_key: str) -> str:
    """One line with its head, for the owner of a public key in base64 (DER)."""
    key = load_der_public_key(base64.b64decode(public_key))
    assert isinstance(key, X25519PublicKey), "the setting was checked at start"
    seal = Seal(key)
    return f"{seal.head}.{seal.seal(value)}"


def opened(text: str, path: Path) -> dict[str, Any]:
    """The object of a line with its head, with the private key in a PEM file. ValueError as from Opener."""
    head, _, line = text.strip().partition(".")
    return Opener.read(path, head).open(line)


class _Lines:
    """The cipher of a head, and a nonce for each line."""

    def __init__(self, shared: bytes, head: str) -> None:
        key = HKDF(SHA256(), 32, salt=bytes.fromhex(head), info=_INFO).derive(shared)
        self._cipher = ChaCha20Poly1305(key)
        self._count = 0

    def next(self) -> tuple[bytes, ChaCha20Poly1305]:
        self._count += 1
        return self._count.to_bytes(12, "big"), self._cipher
