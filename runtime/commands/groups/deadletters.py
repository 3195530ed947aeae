"""`tombola deadletters list|replay|drop`: messages that failed five times, and what to do with them.

A dead letter is put back onto the stream that it came from, where its group handles it once more (and
the other groups of that stream too: every handler does the same thing twice without harm). The letters
of a shard are in `tombola:dead:{shard}`, the newest 10,000 of them.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from redis.exceptions import RedisError

from runtime.commands.confirm import confirmed
from runtime.commands.connection import DEFAULTS
from runtime.commands.environment import settings_for
from runtime.commands.loop import app_of
from runtime.streams.dead_letters import Act, Letter, each_letter, put_back, throw_away

app = app_of("deadletters")


@app.command(name="list")
def list_letters(*, group: str = "") -> None:
    """Print the dead letters: id, stream, consumer group, fields.

    Parameters
    ----------
    group
        Only this consumer group's.
    """

    async def show(client: Any, dead: str, letter: Letter) -> None:
        print(letter)

    count = _run("list", show, group, "")
    print(f"{count} dead letters" if count else "no dead letters")


@app.command
def replay(id: str = "", /, *, group: str = "") -> None:
    """Put dead letters back onto their streams, and take them off the list.

    Parameters
    ----------
    id
        Only this one, as `list` prints it.
    group
        Only this consumer group's.
    """
    print(f"replayed {_run('replay', put_back, group, id)}")


@app.command
def drop(id: str = "", /, *, group: str = "", all: bool = False, yes: bool = False) -> None:
    """Throw dead letters away: for ever, so it is asked about where they are more than one.

    Parameters
    ----------
    id
        Only this one, as `list` prints it.
    group
        Only this consumer group's.
    all
        Every one. Needed where neither an id nor a group is given.
    yes
        Do not ask.
    """
    if not (id or group or all):
        sys.exit("tombola deadletters drop: name an id or a --group, or say --all")
    if not id:
        confirmed(DEFAULTS, yes, f"Throw away every dead letter{f' of {group}' if group else ''}?")
    print(f"dropped {_run('drop', throw_away, group, id)}")


def _run(command: str, act: Act, group: str, id: str) -> int:
    settings = settings_for()
    if not settings.redis_url:
        sys.exit(f"tombola deadletters {command}: REDIS_URL must be set")
    try:
        return asyncio.run(each_letter(settings, act, group, id))
    except BrokenPipeError:
        raise  # Of standard output: runtime.cli ends quietly then.
    except (RedisError, OSError) as error:
        sys.exit(f"tombola deadletters {command}: {error}")
