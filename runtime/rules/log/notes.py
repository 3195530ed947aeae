"""Signed checkpoints (C2SP signed-note and tlog-checkpoint).

A checkpoint is the text "<origin>\\n<size>\\n<root, base64>\\n". Its signatures are by Ed25519, one for each of the
installation's SERVER_KEYS, so that a verifier who knows an older key still accepts it while keys are rotated.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from runtime.rules.log.tree import HASH_BYTES

NOTE_BYTES_MAX: Final = 65_536

_ED25519: Final = b"\x01"
_DASH: Final = "\N{EM DASH}"


class BadNote(ValueError):
    """A note that cannot be trusted. The message says why."""


class Checkpoint(NamedTuple):
    """A log's size and root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


class VerifierKey(NamedTuple):
    """A public key. name: the origin of the log."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """The four bytes that precede each of its signatures."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(_ED25519 + self.public).decode()}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """The key in the form "<name>+<id>+<base64>". ValueError if it is none."""
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        held = base64.b64decode(encoded, validate=True)
        key = cls(name, held[1:])
        if not name or held[:1] != _ED25519 or len(key.public) != HASH_BYTES or key.id.hex() != key_id:
            raise ValueError("not an Ed25519 verifier key")
        return key


class SigningKey:
    """A key of a log, derived from a secret of the installation."""

    def __init__(self, origin: str, secret: bytes) -> None:
        seed = hmac.digest(secret, b"tombola-log-1\n" + origin.encode(), "sha256")
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = VerifierKey(origin, self._private.public_key().public_bytes_raw())

    def sign(self, text: str) -> str:
        """The signature line."""
        signature = self.verifier.id + self._private.sign(text.encode())
        return f"{_DASH} {self.verifier.name} {base64.b64encode(signature).decode()}\n"


def origin_of(installation: str, tenant_id: str) -> str:
    """The origin of a tenant's log."""
    return f"{installation}/log/{quote(tenant_id, safe='')}"


def sign_checkpoint(checkpoint: Checkpoint, keys: Iterable[SigningKey]) -> str:
    """The signed note of a checkpoint."""
    return checkpoint.text + "\n" + "".join(key.sign(checkpoint.text) for key in keys)


def read_checkpoint(note: str) -> Checkpoint:
    """The checkpoint of a note, unverified. BadNote if it is malformed."""
    origin, size, root, *_ = [*_split(note)[0].split("\n"), "", "", ""]
    try:
        found = Checkpoint(origin, int(size), base64.b64decode(root, validate=True))
    except ValueError as error:
        raise BadNote("the checkpoint is malformed") from error
    if not origin or found.size < 0 or str(found.size) != size or len(found.root) != HASH_BYTES:
        raise BadNote("the checkpoint is malformed")
    return found


def verify_note(note: str, keys: Iterable[VerifierKey]) -> str:
    """The text of a note that at least one of the keys signed. BadNote: no key did, or one's signature is wrong."""
    text, lines = _split(note)
    known, verified = {(key.name, key.id): key for key in keys}, False
    for line in lines:
        name, _, encoded = line.removeprefix(f"{_DASH} ").partition(" ")
        try:
            signature = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise BadNote("a signature is malformed") from error
        key = known.get((name, signature[:4]))
        if key is None:
            continue  # By a key that is unknown here: ignored, as the format demands.
        try:
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature[4:], text.encode())
        except InvalidSignature as error:
            raise BadNote("a signature is wrong") from error
        verified = True
    if not verified:
        raise BadNote("the checkpoint is signed by none of the known keys")
    return text


def verify_checkpoint(note: str, keys: Collection[VerifierKey]) -> Checkpoint:
    """The checkpoint of the keys' log that at least one of them signed. BadNote: it is not, or has another form."""
    verify_note(note, keys)
    checkpoint = read_checkpoint(note)
    if checkpoint.origin not in {key.name for key in keys}:
        raise BadNote("the checkpoint is of another log")
    return checkpoint


def _split(note: str) -> tuple[str, list[str]]:
    """The text of a note and its signature lines."""
    text, separator, signatures = note.rpartition("\n\n")
    lines = signatures.removesuffix("\n").split("\n")
    if not separator or len(note) > NOTE_BYTES_MAX or not all(line.startswith(f"{_DASH} ") for line in lines):
        raise BadNote("not a signed note")
    return text + "\n", lines
