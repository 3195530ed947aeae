"""Makes the commands that follow from the operations' rows.

A group that needs more has a module of its name in this package, which adds commands to the group's `App`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import App
from cyclopts import Parameter as Typed

from runtime.commands import documents
from runtime.commands.confirm import Yes, confirmed, file_told
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    Edge,
    connected,
    fail,
    people,
    print_json,
    print_one,
    table,
)
from runtime.commands.environment import EXIT_USE
from runtime.commands.facts import Command, Kind, Parameter, commands
from runtime.commands.forms import filled, worded
from runtime.commands.groups import OPERATOR_COMMANDS
from runtime.wire.times import expiry, unix

_TYPES: Final[Mapping[Kind, tuple[Any, Any]]] = {
    Kind.TEXT: (str, ""),
    Kind.TEXTS: (tuple[str, ...] | None, None),
    Kind.MANY: (str, inspect.Parameter.empty),
    Kind.WHOLE: (int, 0),
    Kind.FLAG: (bool, False),
    Kind.TIME: (datetime | None, None),
    Kind.END: (str, ""),
    Kind.FILE: (Path, None),
    Kind.KEY: (str, ""),
    Kind.MOST: (int, 0),
}
"""Kind -> what is typed, and what it is where it is left out."""


def __getattr__(group: str) -> App:
    """A group's app by its name, for cyclopts, which imports it when it is asked for."""
    name = group.replace("_", "-")
    if name not in OPERATOR_COMMANDS:
        raise AttributeError(group)
    own = f"{__package__}.groups.{group}"
    app: App = import_module(own).app if find_spec(own) else app_of(name)
    return app


def app_of(group: str) -> App:
    """A group with the commands that follow from rows."""
    listed, own = OPERATOR_COMMANDS[group]
    app = App(name=group, help=own or listed)
    for command in commands():
        of, _, name = command.words.partition(" ")
        if of == group and name:
            app.command(_function(command), name=name)
        elif of == group:
            app.default(_function(command))
    return app


def _function(command: Command) -> Any:
    """What cyclopts calls: a function whose signature has the command's parameters."""
    signature = _signature(command)

    async def ask(*arguments: Any, **options: Any) -> None:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        given = dict(bound.arguments)
        await _run(command, given.pop("connection"), given.pop("yes", True), given)

    ask.__signature__ = signature  # type: ignore[attr-defined]
    ask.__doc__ = command.help
    return ask


def _signature(command: Command) -> inspect.Signature:
    parameters = [_typed(parameter) for parameter in command.parameters]
    named = inspect.Parameter.KEYWORD_ONLY
    if command.confirm:
        parameters.append(inspect.Parameter("yes", named, default=False, annotation=Yes))
    parameters.append(inspect.Parameter("connection", named, default=DEFAULTS, annotation=Connection))
    return inspect.Signature(parameters)


def _typed(parameter: Parameter) -> inspect.Parameter:
    said: dict[str, Any] = {"help": parameter.help} if parameter.help else {}
    if parameter.kind is Kind.CHOICE:
        type_, default = Literal[parameter.choices], None
    else:
        type_, default = _TYPES[parameter.kind]
    if parameter.kind is Kind.MOST:
        default = parameter.most
    if parameter.kind is Kind.FLAG and not parameter.negatable:
        said["negative"] = ()
    if parameter.kind is Kind.TEXTS:
        said |= {"name": f"--{parameter.name}", "negative": f"--no-{parameter.field}"}
    if parameter.unsaid:
        type_, default = type_ | None, None
    place = inspect.Parameter.POSITIONAL_ONLY if parameter.argument else inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.VAR_POSITIONAL if parameter.kind is Kind.MANY else place,
        default=inspect.Parameter.empty if parameter.needed else default,
        annotation=Annotated[type_, Typed(**said)] if said else type_,
    )


async def _run(command: Command, connection: Connection, yes: bool, given: dict[str, Any]) -> None:
    sent = _sent(connection, command, given)
    if command.confirm:
        confirmed(connection, yes, filled(command.confirm, given))
    async with connected(connection) as edge:
        done = await _answer(connection, edge, command, given, sent)
    _show(connection, command, given, done)
    if (command.unless and not done[command.unless]) or (command.kept and done["kept"]):
        sys.exit(EXIT_REFUSED)


def _sent(connection: Connection, command: Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the request that the command line sets."""
    sent = dict(command.sends)
    for parameter in command.parameters:
        value = given[parameter.name]
        if parameter.kind is Kind.FILE:
            sent |= _fields(connection, value, command.path)
        elif parameter.kind is Kind.TIME:
            sent[parameter.field] = unix(value)
        elif parameter.kind is Kind.END:
            sent[parameter.field] = _end(connection, parameter.name, value)
        elif parameter.field and value is not None and (value or parameter.needed or parameter.unsaid):
            sent[parameter.field] = value
    if not sent and any(parameter.unsaid for parameter in command.parameters):
        fail(connection, EXIT_USE, "what is to change?")
    return sent


def _end(connection: Connection, name: str, text: str) -> int:
    if (seconds := expiry(text)) < 0:
        fail(connection, EXIT_USE, f"--{name}: {text!r} is no time: unix seconds, ISO 8601, or a day")
    return seconds


def _fields(connection: Connection, file: Path, path: str) -> dict[str, Any]:
    with file_told(connection, file):
        given: Any = documents.read(file).value
    if not isinstance(given, dict):
        fail(connection, EXIT_USE, f"{file} must hold the fields of one of {path.split('/')[1]}")
    return given


async def _answer(
    connection: Connection, edge: Edge, command: Command, given: Mapping[str, Any], sent: Mapping[str, Any]
) -> Any:
    first = str(next(iter(given.values()), ""))
    path = command.path.replace("{id}", first)
    if command.one:
        found = [item async for item in edge.each(path) if item["id"] == first]
        if not found:
            fail(connection, EXIT_REFUSED, f"there is no {next(iter(given))} {first!r}")
        return found[0]
    if not command.listed:
        query = {} if command.verb in ("POST", "PUT") else {name: str(value) for name, value in sent.items()}
        return await edge.call(command.verb, path, query, sent, key=given.get("key", ""))
    most = [given[parameter.name] for parameter in command.parameters if parameter.kind is Kind.MOST]
    return await edge.first(path, most[0], **sent) if most else [item async for item in edge.each(path, sent)]


def _show_beside(done: Mapping[str, Any]) -> None:
    """What an answer says beside what was asked for: a secret that is shown once, and what is not used."""
    for config in (done.get("config"), (done.get("fulfillment") or {}).get("config")):
        if secret := (config or {}).get("secret_once"):
            print(f"tombola: its secret, which is not shown again: {secret}", file=sys.stderr)
    for one in done.get("warnings", ()):
        print(f"tombola: {one['field']} is stored and not used: it {one['description']}", file=sys.stderr)


def _show(connection: Connection, command: Command, given: Mapping[str, Any], done: Any) -> None:
    if connection.json or command.as_json:
        print_json(done)
    elif command.listed:
        shown = table(*command.columns)
        for item in done:
            named = worded(item, command.enums)
            shown.add_row(*(filled(text, named) for text in command.columns.values()))
        people().print(shown)
    elif command.says:
        people().print(filled(command.says, {**worded(done, command.enums), **given}))
        for one in done["kept"] if command.kept else ():
            print(f"tombola: {filled(command.kept, one)}", file=sys.stderr)
        _show_beside(done)
    elif command.columns:
        for title, text in command.columns.items():
            print(f"{title:12} {filled(text, worded(done, command.enums))}")
    else:
        print_one(connection, done)
