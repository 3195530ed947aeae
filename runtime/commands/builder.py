"""Builds the commands that are generated from the operations' rows.

A group with further commands has a module in `groups/`, which adds them to the group's `App`.
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
from runtime.commands.confirm import Yes, confirmed, file_errors
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    Edge,
    connected,
    fail,
    print_json,
    print_one,
    table,
    text_console,
)
from runtime.commands.environment import EXIT_USE
from runtime.commands.facts import Command, Kind, Parameter, commands
from runtime.commands.groups import OPERATOR_COMMANDS
from runtime.commands.templates import fill, with_enum_words
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
"""Kind -> the parameter's type and its default."""


def __getattr__(group: str) -> App:
    """A group's app by name. cyclopts imports it lazily."""
    name = group.replace("_", "-")
    if name not in OPERATOR_COMMANDS:
        raise AttributeError(group)
    module = f"{__package__}.groups.{group}"
    app: App = import_module(module).app if find_spec(module) else app_of(name)
    return app


def app_of(group: str) -> App:
    """A group with the commands generated from rows."""
    summary, help = OPERATOR_COMMANDS[group]
    app = App(name=group, help=help or summary)
    for command in commands():
        of, _, name = command.words.partition(" ")
        if of == group and name:
            app.command(_function(command), name=name)
        elif of == group:
            app.default(_function(command))
    return app


def _function(command: Command) -> Any:
    """The function that cyclopts calls; its signature has the command's parameters."""
    signature = _signature(command)

    async def run(*positional: Any, **options: Any) -> None:
        bound = signature.bind(*positional, **options)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        await _run(command, arguments.pop("connection"), arguments.pop("yes", True), arguments)

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__doc__ = command.help
    return run


def _signature(command: Command) -> inspect.Signature:
    parameters = [_typed(parameter) for parameter in command.parameters]
    named = inspect.Parameter.KEYWORD_ONLY
    if command.confirm:
        parameters.append(inspect.Parameter("yes", named, default=False, annotation=Yes))
    parameters.append(inspect.Parameter("connection", named, default=DEFAULTS, annotation=Connection))
    return inspect.Signature(parameters)


def _typed(parameter: Parameter) -> inspect.Parameter:
    options: dict[str, Any] = {"help": parameter.help} if parameter.help else {}
    if parameter.kind is Kind.CHOICE:
        type_, default = Literal[parameter.choices], None
    else:
        type_, default = _TYPES[parameter.kind]
    if parameter.kind is Kind.MOST:
        default = parameter.most
    if parameter.kind is Kind.FLAG and not parameter.negatable:
        options["negative"] = ()
    if parameter.kind is Kind.TEXTS:
        options |= {"name": f"--{parameter.name}", "negative": f"--no-{parameter.field}"}
    if parameter.unsaid:
        type_, default = type_ | None, None
    place = inspect.Parameter.POSITIONAL_ONLY if parameter.argument else inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.VAR_POSITIONAL if parameter.kind is Kind.MANY else place,
        default=inspect.Parameter.empty if parameter.needed else default,
        annotation=Annotated[type_, Typed(**options)] if options else type_,
    )


async def _run(command: Command, connection: Connection, yes: bool, arguments: dict[str, Any]) -> None:
    sent = _sent(connection, command, arguments)
    if command.confirm:
        confirmed(connection, yes, fill(command.confirm, arguments))
    async with connected(connection) as edge:
        reply = await _reply(connection, edge, command, arguments, sent)
    _show(connection, command, arguments, reply)
    if (command.unless and not reply[command.unless]) or (command.failure and reply["kept"]):
        sys.exit(EXIT_REFUSED)


def _sent(connection: Connection, command: Command, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The request's fields, from the command line."""
    sent = dict(command.sends)
    for parameter in command.parameters:
        value = arguments[parameter.name]
        if parameter.kind is Kind.FILE:
            sent |= _fields(connection, value, command.path)
        elif parameter.kind is Kind.TIME:
            sent[parameter.field] = unix(value)
        elif parameter.kind is Kind.END:
            sent[parameter.field] = _end(connection, parameter.name, value)
        elif parameter.field and value is not None and (value or parameter.needed or parameter.unsaid):
            sent[parameter.field] = value
    if not sent and any(parameter.unsaid for parameter in command.parameters):
        fail(connection, EXIT_USE, "at least one option is required")
    return sent


def _end(connection: Connection, name: str, text: str) -> int:
    if (seconds := expiry(text)) < 0:
        fail(connection, EXIT_USE, f"--{name}: {text!r} is not a time. Use unix seconds, ISO 8601 or a day")
    return seconds


def _fields(connection: Connection, file: Path, path: str) -> dict[str, Any]:
    with file_errors(connection, file):
        fields: Any = documents.read(file).value
    if not isinstance(fields, dict):
        fail(connection, EXIT_USE, f"{file} must be an object with the fields of one of {path.split('/')[1]}")
    return fields


async def _reply(
    connection: Connection, edge: Edge, command: Command, arguments: Mapping[str, Any], sent: Mapping[str, Any]
) -> Any:
    first = str(next(iter(arguments.values()), ""))
    path = command.path.replace("{id}", first)
    if command.one:
        found = [item async for item in edge.each(path) if item["id"] == first]
        if not found:
            fail(connection, EXIT_REFUSED, f"there is no {next(iter(arguments))} {first!r}")
        return found[0]
    if not command.listed:
        query = {} if command.verb in ("POST", "PUT") else {name: str(value) for name, value in sent.items()}
        return await edge.call(command.verb, path, query, sent, key=arguments.get("key", ""))
    most = [arguments[parameter.name] for parameter in command.parameters if parameter.kind is Kind.MOST]
    return await edge.first(path, most[0], **sent) if most else [item async for item in edge.each(path, sent)]


def _show_extras(reply: Mapping[str, Any]) -> None:
    """Prints a reply's one-time secret and its warnings."""
    for config in (reply.get("config"), (reply.get("fulfillment") or {}).get("config")):
        if secret := (config or {}).get("secret_once"):
            print(f"tombola: the secret, which is not shown again: {secret}", file=sys.stderr)
    for one in reply.get("warnings", ()):
        print(f"tombola: {one['field']} is stored but not used: it {one['description']}", file=sys.stderr)


def _show(connection: Connection, command: Command, arguments: Mapping[str, Any], reply: Any) -> None:
    if connection.json or command.as_json:
        print_json(reply)
    elif command.listed:
        shown = table(*command.columns)
        for item in reply:
            named = with_enum_words(item, command.enums)
            shown.add_row(*(fill(text, named) for text in command.columns.values()))
        text_console().print(shown)
    elif command.outcome:
        text_console().print(fill(command.outcome, {**with_enum_words(reply, command.enums), **arguments}))
        for one in reply["kept"] if command.failure else ():
            print(f"tombola: {fill(command.failure, one)}", file=sys.stderr)
        _show_extras(reply)
    elif command.columns:
        for title, text in command.columns.items():
            print(f"{title:12} {fill(text, with_enum_words(reply, command.enums))}")
    else:
        print_one(connection, reply)
