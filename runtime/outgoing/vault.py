"""Voucher codes, receivers' secrets and what their headers carry, at rest.

AES-256-GCM, under the keys of the setting CODE_KEYS.

The first key seals, every key opens, so a key is rotated by putting a new one in front and dropping
the old one when nothing is sealed with it any more. What was sealed in one context opens in no other:
the context (tenant and prize of a code, for one) is authenticated with it, as GCM's additional data, so
that a row copied to another tenant's table does not open there.

A code is also fingerprinted, to find duplicates without opening any: an HMAC, since the codes of a
shop are few enough to be guessed from a plain hash.
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

from runtime.settings import Key

SECRET_FIELDS: Final = ("secret", "previous_secret")
"""Fields of a receiver's config that are write-only. Both sign while a secret is rotated."""

MASKED: Final = "***"
"""What stands for a header's value, which is write-only too; who sends it back keeps the value."""

_NONCE_BYTES: Final = 12  # what GCM is made for (NIST SP 800-38D, 8.2.2: random nonces, far below 2^32 a key)
_PREFIX: Final = "sealed:"


class VaultError(Exception):
    """It cannot be opened: its key is not among CODE_KEYS, or it is not what was sealed in this context."""


class Sealed(NamedTuple):
    """What is stored: the key's id, and nonce and ciphertext in one."""

    key_id: str
    ciphertext: bytes


class Vault:
    """Seals and opens under `keys`. ValueError where there are none."""

    def __init__(self, keys: Sequence[Key]) -> None:
        if not keys:
            raise ValueError("CODE_KEYS names no key: codes and secrets cannot be stored")
        self._first = keys[0].id
        self._ciphers = {key.id: AESGCM(_derived(key, b"seal")) for key in keys}
        self._printers = [_derived(key, b"fingerprint") for key in keys]

    @property
    def first(self) -> str:
        """The id of the key that seals."""
        return self._first

    def seal(self, text: str, context: str) -> Sealed:
        """Encrypts `text` in `context` with the first key."""
        nonce = os.urandom(_NONCE_BYTES)
        return Sealed(self._first, nonce + self._ciphers[self._first].encrypt(nonce, text.encode(), context.encode()))

    def open(self, key_id: str, ciphertext: bytes, context: str) -> str:
        """The text that was sealed in `context`. Raises VaultError."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise VaultError(f"sealed with key {key_id!r}, which CODE_KEYS does not name")
        try:
            return cipher.decrypt(ciphertext[:_NONCE_BYTES], ciphertext[_NONCE_BYTES:], context.encode()).decode()
        except (InvalidTag, ValueError):
            raise VaultError("not what was sealed in this context") from None

    def fingerprints(self, text: str, context: str) -> list[bytes]:
        """16 bytes for each key: the first is stored, the others find what was stored before a rotation."""
        message = f"{context}\0{text}".encode()
        return [hmac.digest(printer, message, "sha256")[:16] for printer in self._printers]

    # -- secrets within a config -----------------------------------------------------------------

    def seal_secret(self, secret: str, context: str) -> str:
        """A secret as one string, to be kept in a JSON config."""
        sealed = self.seal(secret, context)
        return f"{_PREFIX}{sealed.key_id}:{base64.b64encode(sealed.ciphertext).decode()}"

    def open_secret(self, stored: str, context: str) -> str:
        """The secret of `seal_secret`. A string that was never sealed is itself. Raises VaultError."""
        if not stored.startswith(_PREFIX):
            return stored
        key_id, _, encoded = stored.removeprefix(_PREFIX).partition(":")
        try:
            return self.open(key_id, base64.b64decode(encoded, validate=True), context)
        except binascii.Error:
            raise VaultError("not what was sealed in this context") from None

    def seal_config(self, config: Mapping[str, Any], context: str) -> dict[str, Any]:
        """A given `config` with its secret fields, and what its headers carry, sealed; a masked one stays so.

        What looks sealed is sealed again: who has read a row may not have it opened by giving it back.
        """
        return _changed(config, lambda value: self.seal_secret(value, context))

    def resealed(self, config: Mapping[str, Any], context: str) -> dict[str, Any]:
        """`config` with all of it under the first key; the same where it is. Raises VaultError."""
        ours = f"{_PREFIX}{self._first}:"

        def anew(value: str) -> str:
            return value if value.startswith(ours) else self.seal_secret(self.open_secret(value, context), context)

        return _changed(config, anew)

    def moved(self, config: Mapping[str, Any], context: str, to: str) -> dict[str, Any]:
        """`config`, sealed in one context, sealed in another. Raises VaultError."""
        return _changed(config, lambda value: self.seal_secret(self.open_secret(value, context), to))

    def rotated(self, config: Mapping[str, Any], secret: str, context: str) -> dict[str, Any]:
        """`config` with a new secret, the one before as the previous; without a secret the previous one ends."""
        after = {name: value for name, value in config.items() if name != SECRET_FIELDS[1]}
        if secret:
            after |= {SECRET_FIELDS[1]: after[SECRET_FIELDS[0]]} if after.get(SECRET_FIELDS[0]) else {}
            after[SECRET_FIELDS[0]] = self.seal_secret(secret, context)
        return after

    def secrets_of(self, config: Mapping[str, Any], context: str) -> list[str]:
        """The opened secrets of a stored config, the current one first. Raises VaultError."""
        return [self.open_secret(text, context) for text in _secrets_in(config)]


def opened(config: Mapping[str, Any], open_secret: Callable[[str], str]) -> tuple[list[str], dict[str, Any]]:
    """What a provider is given of a stored config: its secrets, the current one first, and the config with what each
    header carries. open_secret: of the vault, in the config's context.
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
    """`config` with each of its secrets, and what each header carries, changed; but for what is masked."""
    after = _headers_changed(config, change)
    return after | {name: change(after[name]) for name in SECRET_FIELDS if _is_text(after.get(name))}


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value)


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A stored config as it reads back, in answers and in the audit log: `secret_set` in place of the secrets
    (contract.md, "Channels"), headers by name alone, since what they carry is often a credential.
    """
    shown = {name: value for name, value in config.items() if name not in SECRET_FIELDS}
    if config.get(SECRET_FIELDS[0]):
        shown["secret_set"] = True
    if isinstance(headers := shown.get("headers"), Mapping):
        shown["headers"] = dict.fromkeys(headers, MASKED)
    return shown


@lru_cache(maxsize=8)
def vault_of(keys: tuple[Key, ...]) -> Vault:
    """The vault of a process's keys, made once."""
    return Vault(keys)


def code_context(tenant_id: str, prize_id: str) -> str:
    """What the codes of a prize are sealed in: these bytes are authenticated, so they never change."""
    return f"code/{tenant_id}/{prize_id}"


def prize_context(tenant_id: str, prize_id: str) -> str:
    """What the secrets of a prize's fulfillment config are sealed in."""
    return f"prize/{tenant_id}/{prize_id}"


def integration_context(tenant_id: str, integration_id: str) -> str:
    """What the secrets of an integration's config are sealed in."""
    return f"integration/{tenant_id}/{integration_id}"


def quest_context(tenant_id: str, quest_id: str) -> str:
    """What the secrets of who tells a quest's events are sealed in."""
    return f"quest/{tenant_id}/{quest_id}"


def _derived(key: Key, use: bytes) -> bytes:
    """A key for one use, so that no two algorithms share one."""
    return hmac.digest(key.secret, b"tombola " + use, "sha256")
