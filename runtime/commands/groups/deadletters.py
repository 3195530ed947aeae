"""`tombola deadletters list|replay|drop`: manages messages that failed five times.

A replay puts a dead letter back onto its stream. All consumer groups of the stream process it again, which is safe:
handlers are idempotent. Each shard's newest 10,000 dead letters are in `tombola:dead:{shard}`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.exceptions import RedisError

from runtime.commands.builder import app_of
from runtime.commands.confirm import confirmed
from runtime.commands.connection import DEFAULTS
from runtime.commands.environment import fail_to_start, settings_for
from runtime.commands.stores import fail_store
from runtime.streams import dead_letters
from runtime.streams.dead_letters import Act, Letter, each_letter

app = app_of("deadletters")


@app.command(name="list")
def list_letters(*, group: str = "") -> None:
    """List the dead letters: id, stream, consumer group, fields.

    Parameters
    ----------
    group
        Only letters of this consumer group.
    """

    async def show(client: Any, dead: str, letter: Letter) -> None:
        print(letter)

    count = _run("list", show, group, "")
    print(f"{count} dead letters" if count else "no dead letters")


@app.command
def replay(id: str = "", /, *, group: str = "") -> None:
    """Put dead letters back onto their streams and remove them from the list.

    Parameters
    ----------
    id
        Only the letter with this id, as printed by `list`.
    group
        Only letters of this consumer group.
    """
    print(f"replayed {_run('replay', dead_letters.replay, group, id)}")


@app.command
def drop(id: str = "", /, *, group: str = "", all: bool = False, yes: bool = False) -> None:
    """Delete dead letters permanently. Asks for confirmation without an id.

    Parameters
    ----------
    id
        Only the letter with this id, as printed by `list`.
    group
        Only letters of this consumer group.
    all
        All letters. Required without an id or a group.
    yes
        Do not ask for confirmation.
    """
    if not (id or group or all):
        fail_to_start("deadletters drop: an id, --group or --all is required")
    if not id:
        confirmed(DEFAULTS, yes, f"Delete every dead letter{f' of {group}' if group else ''}?")
    print(f"dropped {_run('drop', dead_letters.discard, group, id)}")


def _run(command: str, act: Act, group: str, id: str) -> int:
    settings = settings_for()
    if not settings.redis_url:
        fail_to_start(f"deadletters {command}: REDIS_URL must be set")
    try:
        return asyncio.run(each_letter(settings, act, group, id))
    except BrokenPipeError:
        raise  # From standard output; runtime.cli handles it.
    except (RedisError, OSError) as error:
        fail_store(f"deadletters {command}", error)
