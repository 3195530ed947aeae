"""`tombola log`: the Merkle log. `witness` checks that a log is only appended to; the others follow from the rows."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import aiohttp
from cyclopts import Parameter

from runtime.commands.builder import app_of
from runtime.commands.connection import EXIT_UNREACHABLE
from runtime.commands.environment import EXIT_FILE, EXIT_USE, fail_to_start, problem_of_url
from runtime.commands.groups.log.witness import (
    BadState,
    Distrusted,
    Fetch,
    State,
    check_stamped,
    key_of_argument,
    read_entries,
    standstill,
    visit,
)
from runtime.rules.log import stamps
from runtime.rules.log.entries import IDLE_MINUTES

EXIT_REFUTED: Final = 1

STANDSTILL_MINUTES: Final = IDLE_MINUTES + 10
"""The interval of marks, and ten minutes for a late pass."""

BODY_BYTES_MAX: Final = 32 * 1024 * 1024

_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=120)

app = app_of("log")


class _Unreachable(Exception):
    """The log cannot be read. The message says why."""


class _Missing(_Unreachable):
    """The log does not have the resource."""


@app.command
def witness(
    url: str,
    *,
    state: Path,
    key: tuple[str, ...] = (),
    token: Annotated[str, Parameter(show_default=False)] = "",
    all_entries: Annotated[bool, Parameter(name="--all", negative=())] = False,
    older_than: float = STANDSTILL_MINUTES,
    tsa: Path | None = None,
) -> None:
    """Check that a log was only appended to since the last visit, and remember its checkpoint.

    With a token, also check that the rows are still those that were logged. Exits with 1 if the log or a row was
    changed, or if the log stands still. A changed log leaves the state as it was; a changed row is named at each visit.

    Parameters
    ----------
    url
        The log: https://promo.example.com/api/v1/log/TENANT, or with a token
        https://admin.example.com/api/v1/admin/log.
    state
        The file that remembers the last checkpoint.
    key
        A verifier key of the log, from its operator (`tombola log status`). Required at the first visit; later adds
        the key.
    token
        A staff token of the tenant, for checking the entries too. TOMBOLA_TOKEN is not sent: the URL may be anyone's.
    all_entries
        Check every entry, not only those since the last visit.
    older_than
        How many minutes old the newest mark may be, and how far apart marks may be. Without a token: how long the log
        need not grow between visits.
    tsa
        The root certificate (PEM) of the time-stamping authority, for checking the newest stamp too.
    """
    if wrong := problem_of_url("URL", url):
        fail_to_start(wrong)
    keys = tuple(str(key_of_argument(one)) for one in key)
    try:
        problems = asyncio.run(_witness(url.rstrip("/"), state, keys, token, all_entries, older_than, tsa))
    except (Distrusted, stamps.BadStamp) as error:
        print(f"FAILED {error}", file=sys.stderr)
        sys.exit(EXIT_REFUTED)
    except aiohttp.InvalidURL as error:
        print(f"tombola log witness: {error} is no URL", file=sys.stderr)
        sys.exit(EXIT_USE)
    except (_Unreachable, aiohttp.ClientError, TimeoutError) as error:  # Most are OSError too.
        print(f"tombola log witness: {url}: {str(error) or type(error).__name__}", file=sys.stderr)
        sys.exit(EXIT_UNREACHABLE)
    except (ValueError, OSError) as error:
        print(f"tombola log witness: {error}", file=sys.stderr)
        sys.exit(EXIT_FILE if isinstance(error, OSError | BadState | stamps.BadCertificates) else EXIT_USE)
    if problems:
        sys.exit(EXIT_REFUTED)


async def _witness(
    url: str, file: Path, keys: tuple[str, ...], token: str, whole: bool, minutes: float, tsa: Path | None
) -> int:
    """Visits the log. Returns the number of problems with its entries, or with its age."""
    trusted = stamps.read_certificates(tsa) if tsa is not None else []
    known = State.load(file) or State(keys=[])
    known.keys += [key for key in keys if key not in known.keys]
    if not known.keys:
        raise ValueError("the first visit needs --key, a verifier key of the log")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers, timeout=_TIMEOUT) as http:

        async def fetch(path: str) -> bytes:
            async with http.get(f"{url}/{path}", allow_redirects=False) as answer:
                if answer.status != 200:
                    raise (_Missing if answer.status == 404 else _Unreachable)(f"{path}: HTTP {answer.status}")
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > BODY_BYTES_MAX:
                        raise Distrusted(f"{path} is larger than any tile")
                return bytes(body)

        before = known.size
        # Before the visit: the stamp is not of a later checkpoint.
        stamped = await _newest_stamp(fetch) if trusted else None
        checkpoint = await visit(known, fetch)
        print(f"ok     {checkpoint.origin}: {checkpoint.size} entries, {checkpoint.size - before} of them new")
        problems = int(bool(trusted) and stamped is None)
        if problems:
            print("FAILED no checkpoint is stamped")
        if stamped is not None:
            at = stamps.verify_stamp(stamped.stamp, stamped.note, trusted)
            size = await check_stamped(known, stamped, fetch)
            print(f"ok     the authority saw the first {size} entries at {stamps.shown(at)}")
        if token:
            waits: list[str] = []
            notes: list[str] = []
            found = read_entries(known, fetch, whole=whole, waits=waits, notes=notes, minutes=minutes)
            async for problem in found:
                problems += 1
                print(f"FAILED {problem}")
            for wait in waits:
                print(f"open   {wait}")
            for note in notes:
                print(f"note   {note}")
            if not problems:
                age = round((time.time() - known.mark / 1_000_000) / 60)
                print(f"ok     each entry is that of its row, and the newest mark is {age} minutes old")
        if not problems and (stands := standstill(known, minutes, entries=bool(token))):
            problems = 1
            print(f"FAILED {stands}")
    known.store(file)
    return problems


async def _newest_stamp(fetch: Fetch) -> stamps.Stamped | None:
    try:
        return stamps.Stamped.parse(await fetch("stamp"))
    except _Missing:
        return None
