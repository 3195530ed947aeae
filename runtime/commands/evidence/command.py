"""`tombola verify` and `tombola dossier`: files that the service handed out, without a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cyclopts import App

from runtime.commands.environment import EXIT_FILE
from runtime.commands.evidence import dossier as dossiers
from runtime.commands.evidence import receipts
from runtime.commands.evidence.findings import Finding, printable, read_object, report
from runtime.commands.evidence.witnessed import compare
from runtime.commands.groups import DOSSIER, VERIFY
from runtime.commands.groups.log.witness import State, key_of_argument
from runtime.rules.log.notes import VerifierKey, read_checkpoint
from runtime.rules.log.stamps import read_certificates
from runtime.rules.raffle.selection import FORMAT as DRAW_FORMAT
from runtime.rules.sealing import Opener

app = App(name="verify", help=VERIFY)
dossier = App(name="dossier", help=DOSSIER)


@app.default
def verify(
    file: Path, /, *, commitment: str = "", key: str = "", witness: Path | None = None, tsa: Path | None = None
) -> None:
    """Check the receipt of a play, or the dossier of a campaign, without a server.

    Prints a line per check: `ok`, `FAILED`, or `open` for what the file cannot decide. Exits with 1 if a check fails.

    Parameters
    ----------
    file
        The receipt, from GET /api/v1/plays/ID/receipt, or the dossier, from `tombola campaigns dossier`.
    commitment
        For a receipt: the commitment that the start returned, if you have kept it.
    key
        The verifier key of the operator's log, from `tombola log status` or a witness.
    witness
        The state file of `tombola log witness`, to compare the log with.
    tsa
        For a dossier: the root certificate (PEM) of the authority that stamps the log.
    """
    verifier = key_of_argument(key) if key else None
    with _errors("verify"):
        state = State.load(witness) if witness is not None else None
        if witness is not None and (state is None or not state.keys):
            raise ValueError(f"{witness} is not the state of a witness")
        if dossiers.is_dossier(file):
            trusted = read_certificates(tsa) if tsa is not None else []
            report(dossiers.verify(file, key=verifier, witness=state, trusted=trusted))
        else:
            report(_of_receipt(file, commitment, verifier, state))


@dossier.command(name="open")
def open_dossier(file: Path, /, *, key: Path) -> None:
    """Print the sealed lines of a dossier, for the authority: the players of its pseudonyms, with their contacts.

    Parameters
    ----------
    file
        The dossier.
    key
        The authority's private key (X25519, PEM).
    """
    with _errors("dossier open"), file.open("rb") as lines:
        head = read_object(lines.readline(), dossiers.KIND)["head"]
        if not head["sealed_for"]:
            raise ValueError("the dossier has no sealed lines")
        opener = Opener.read(key, head["sealed_for"])
        for line in lines:
            if (sealed := read_object(line, dossiers.KIND).get("sealed")) is not None:
                print(json.dumps(opener.open(sealed), ensure_ascii=False))


def _of_receipt(file: Path, commitment: str, key: VerifierKey | None, witness: State | None) -> list[Finding]:
    text = file.read_bytes()
    if text.startswith(f'{{"format":"{DRAW_FORMAT}"'.encode()):
        raise ValueError(f"{file} is the evidence of a draw; use `tombola draws verify`")
    receipt = receipts.read_receipt(text)
    if receipt is None:
        raise ValueError(f"neither {receipts.KIND} nor {dossiers.KIND}")
    findings = receipts.verify(receipt, commitment=commitment, key=key)
    if witness is not None:
        log = receipt["log"] or {}
        findings.append(compare(witness, read_checkpoint(log["checkpoint"]) if log.get("checkpoint") else None))
    return findings


@contextmanager
def _errors(command: str) -> Iterator[None]:
    """Ends the process with a message if the file cannot be read, or is no such file."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        print(f"tombola {command}: {printable(str(error))}", file=sys.stderr)
        sys.exit(EXIT_FILE)
