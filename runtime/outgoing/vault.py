"""Encryption at rest of voucher codes, receivers' secrets and their header values.

AES-256-GCM, with the keys of the setting CODE_KEYS.

The first key encrypts; every key decrypts. To rotate, prepend a new key, and drop the old one when no row
uses it. The context (for a code, its tenant and prize) is GCM's additional authenticated data, so that a
row copied to another tenant's table does not decrypt there.

A code also has a fingerprint, to find duplicates without decrypting. It is an HMAC, because a shop has few
enough codes to reverse a plain hash.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from runtime.settings import Key

SECRET_FIELDS: Final = ("secret", "previous_secret")
"""Write-only fields of a receiver's config. Both secrets sign during a rotation."""

MASKED: Final = "***"
"""Replaces a header's value, which is write-only too. A client that sends it back keeps the value."""

_NONCE_BYTES: Final = 12  # GCM's standard nonce (NIST SP 800-38D, 8.2.2: random, far below 2^32 uses a key)
_PREFIX: Final = "sealed:"


class VaultError(Exception):
    """Decryption failed: the key is not in CODE_KEYS, or the context or ciphertext does not match."""


class Sealed(NamedTuple):
    """The stored form: the key's id, and nonce plus ciphertext."""

    key_id: str
    ciphertext: bytes


class Vault:
    """Encrypts and decrypts with `keys`. ValueError if there are none."""

    def __init__(self, keys: Sequence[Key]) -> None:
        if not keys:
            raise ValueError("CODE_KEYS is empty: codes and secrets cannot be stored")
        self._first = keys[0].id
        self._ciphers = {key.id: AESGCM(_derived(key, b"seal")) for key in keys}
        self._printers = [HMAC(_derived(key, b"fingerprint"), SHA256()) for key in keys]

    @property
    def first(self) -> str:
        """The id of the key that encrypts."""
        return self._first

    def seal(self, text: str, context: str) -> Sealed:
        """Encrypts `text` in `context` with the first key."""
        nonce = os.urandom(_NONCE_BYTES)
        return Sealed(self._first, nonce + self._ciphers[self._first].encrypt(nonce, text.encode(), context.encode()))

    def open(self, key_id: str, ciphertext: bytes, context: str) -> str:
        """Decrypts a text that was sealed in `context`. Raises VaultError."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise VaultError(f"encrypted with key {key_id!r}, which is not in CODE_KEYS")
        try:
            return cipher.decrypt(ciphertext[:_NONCE_BYTES], ciphertext[_NONCE_BYTES:], context.encode()).decode()
        except (InvalidTag, ValueError):
            raise VaultError("the ciphertext does not match its key and this context") from None

    def fingerprints(self, text: str, context: str) -> list[bytes]:
        """16 bytes for each key: the first is stored; the others match rows stored before a rotation."""
        message = f"{context}\0{text}".encode()
        return [_digest(printer, message)[:16] for printer in self._printers]

    # -- secrets within a config -----------------------------------------------------------------

    def seal_secret(self, secret: str, context: str) -> str:
        """An encrypted secret as one string, for a JSON config."""
        sealed = self.seal(secret, context)
        return f"{_PREFIX}{sealed.key_id}:{base64.b64encode(sealed.ciphertext).decode()}"

    def open_secret(self, stored: str, context: str) -> str:
        """Decrypts the result of `seal_secret`; returns any other string unchanged. Raises VaultError."""
        if not stored.startswith(_PREFIX):
            return stored
        key_id, _, encoded = stored.removeprefix(_PREFIX).partition(":")
        try:
            return self.open(key_id, base64.b64decode(encoded, validate=True), context)
        except binascii.Error:
            raise VaultError("the ciphertext is not base64") from None

    def seal_config(self, config: Mapping[str, Any], context: str) -> dict[str, Any]:
        """A client's `config` with its secrets and header values encrypted; masked values stay masked.

        A value that looks sealed is sealed again. Otherwise a client that has read a row could send its ciphertext
        back to have it decrypted.
        """
        return _changed(config, lambda value: self.seal_secret(value, context))

    def resealed(self, config: Mapping[str, Any], context: str) -> dict[str, Any]:
        """`config` re-encrypted with the first key; unchanged values already use it. Raises VaultError."""
        ours = f"{_PREFIX}{self._first}:"

        def reseal(value: str) -> str:
            return value if value.startswith(ours) else self.seal_secret(self.open_secret(value, context), context)

        return _changed(config, reseal)

    def moved(self, config: Mapping[str, Any], context: str, to: str) -> dict[str, Any]:
        """`config` re-encrypted from one context to another. Raises VaultError."""
        return _changed(config, lambda value: self.seal_secret(self.open_secret(value, context), to))

    def rotated(self, config: Mapping[str, Any], secret: str, context: str) -> dict[str, Any]:
        """`config` with a new secret and the current one as the previous. "" only drops the previous secret."""
        after = {name: value for name, value in config.items() if name != SECRET_FIELDS[1]}
        if secret:
            after |= {SECRET_FIELDS[1]: after[SECRET_FIELDS[0]]} if after.get(SECRET_FIELDS[0]) else {}
            after[SECRET_FIELDS[0]] = self.seal_secret(secret, context)
        return after

    def secrets_of(self, config: Mapping[str, Any], context: str) -> list[str]:
        """The decrypted secrets of a stored config, the current one first. Raises VaultError."""
        return [self.open_secret(text, context) for text in _secrets_in(config)]


def opened(config: Mapping[str, Any], open_secret: Callable[[str], str]) -> tuple[list[str], dict[str, Any]]:
    """A provider's view of a stored config: its decrypted secrets, the current one first, and the config with decrypted
    headers. open_secret: the vault's, bound to the config's context.
    """
    return [open_secret(text) for text in _secrets_in(config)], _headers_changed(config, open_secret)


def _secrets_in(config: Mapping[str, Any]) -> list[str]:
    return [text for name in SECRET_FIELDS if _is_text(text := config.get(name))]


def _headers_changed(config: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    headers = config.get("headers")
    if not isinstance(headers, Mapping):
        return dict(config)
    carried = {name: change(value) if _is_text(value) and value != MASKED else value for name, value in headers.items()}
    return {**config, "headers": carried}


def _changed(config: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """`config` with `change` applied to each secret and header value, except masked ones."""
    after = _headers_changed(config, change)
    return after | {name: change(after[name]) for name in SECRET_FIELDS if _is_text(after.get(name))}


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored config as shown in responses and in the audit log: `secret_set` instead of the secrets, header values
    masked, since they are often credentials.
    """
    shown = {name: value for name, value in config.items() if name not in SECRET_FIELDS}
    if config.get(SECRET_FIELDS[0]):
        shown["secret_set"] = True
    if isinstance(headers := shown.get("headers"), Mapping):
        shown["headers"] = dict.fromkeys(headers, MASKED)
    return shown


@lru_cache(maxsize=8)
def vault_of(keys: tuple[Key, ...]) -> Vault:
    return Vault(keys)


def code_context(tenant_id: str, prize_id: str) -> str:
    """The context of a prize's codes. It is authenticated: a change would make stored codes unreadable."""
    return f"code/{tenant_id}/{prize_id}"


def prize_context(tenant_id: str, prize_id: str) -> str:
    return f"prize/{tenant_id}/{prize_id}"


def integration_context(tenant_id: str, integration_id: str) -> str:
    return f"integration/{tenant_id}/{integration_id}"


def sender_context(tenant_id: str, _: str = "") -> str:
    """The context of the URL of a tenant's mail server."""
    return f"sender/{tenant_id}"


def quest_context(tenant_id: str, quest_id: str) -> str:
    """The context of the secrets that sign a quest's incoming events."""
    return f"quest/{tenant_id}/{quest_id}"


def pack_context(tenant_id: str, pack_id: str) -> str:
    """The context of the secrets that sign a pack's receipts."""
    return f"pack/{tenant_id}/{pack_id}"


def pack_key_context(tenant_id: str, campaign_id: str) -> str:
    """The context of the secret that keys the hashes of a campaign's codes."""
    return f"pack-key/{tenant_id}/{campaign_id}"


def _digest(keyed: HMAC, message: bytes) -> bytes:
    """The HMAC of a message. Copying the keyed state takes less than half the time of hmac.digest."""
    copy = keyed.copy()
    copy.update(message)
    return copy.finalize()


def _derived(key: Key, use: bytes) -> bytes:
    """A key derived for one use, so that no two algorithms share a key."""
    return hmac.digest(key.secret, b"tombola " + use, "sha256")
