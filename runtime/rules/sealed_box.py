"""Copies that only the owner of a private key can read, such as a notary's.

A copy is base64 of: a new X25519 public key (32 bytes), then AES-256-GCM of the document with a zero nonce. The AES key
is HKDF-SHA256 of the shared secret, without salt, with the info "tombola-copy-1" + the new key + the recipient's key.
Each copy has its own key, so the nonce is used once.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES: Final = 32
_NONCE: Final = bytes(12)


def new_key() -> tuple[str, str]:
    """A new private key and its public key, in base64."""
    private = X25519PrivateKey.generate()
    return _encoded(private.private_bytes_raw()), _encoded(private.public_key().public_bytes_raw())


def sealed(document: str, public_key: str) -> str:
    """The document's copy for this public key."""
    own, recipient = X25519PrivateKey.generate(), _decoded(public_key)
    sender = own.public_key().public_bytes_raw()
    key = _key(own.exchange(X25519PublicKey.from_public_bytes(recipient)), sender + recipient)
    return _encoded(sender + AESGCM(key).encrypt(_NONCE, document.encode(), None))


def opened(copy: str, private_key: str) -> str:
    """The document of a copy. ValueError if it is damaged, or is for another key."""
    own = X25519PrivateKey.from_private_bytes(_decoded(private_key))
    raw = _base64(copy)
    sender, ciphertext = raw[:KEY_BYTES], raw[KEY_BYTES:]
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(sender))
        key = _key(shared, sender + own.public_key().public_bytes_raw())
        return AESGCM(key).decrypt(_NONCE, ciphertext, None).decode()
    except (InvalidTag, ValueError):
        raise ValueError("the copy is damaged, or was made for another key") from None


def _key(shared: bytes, keys: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"tombola-copy-1" + keys).derive(shared)


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error:
        raise ValueError("must be in base64") from None


def _decoded(text: str) -> bytes:
    raw = _base64(text)
    if len(raw) != KEY_BYTES:
        raise ValueError(f"must be {KEY_BYTES} bytes in base64")
    return raw
