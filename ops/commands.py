"""Makes `runtime/commands/commands.json`: the commands that follow from the operations' rows."""

from __future__ import annotations

import re
from collections.abc import Collection
from string import Formatter
from typing import Any, Final

import msgspec

from runtime.commands.facts import Command, Kind, Parameter
from runtime.commands.forms import FORMS
from runtime.http.views import shape_of
from runtime.operations import OPERATIONS, Operation
from runtime.operations.row import Command as Said
from runtime.wire.schema import Field, fields_of
from runtime.wire.schema import Kind as FieldKind

_WORD: Final = re.compile(
    r"(?P<optional>\[)?(?P<dashes>--(?P<negatable>\[no-\])?)?(?P<name>[\w-]+)(?P<many>\.\.\.)?(?:=(?P<is_>\w+))?(?P<needed>!)?\]?"
)
"""A word of a usage: `PRIZE`, `[SEARCH=q]`, `CODES...=ids`, `--reason!`, `--since=won_from`, `--most=50`."""

_NUMBER: Final = re.compile(r"\+?,?(\.\d[f%])?")
"""How a number is shown, beside FORMS."""

_SPECIAL: Final = {"file": Kind.FILE, "key": Kind.KEY, "most": Kind.MOST, "limit": Kind.MOST}
"""Parameters that set no field."""

_KINDS: Final = {
    FieldKind.TEXT: Kind.TEXT,
    FieldKind.INT32: Kind.WHOLE,
    FieldKind.INT64: Kind.WHOLE,
    FieldKind.FLAG: Kind.FLAG,
    FieldKind.ENUM: Kind.TEXT,
}
_TIMES: Final = {"since": Kind.TIME, "until": Kind.TIME, "from": Kind.TIME, "at": Kind.END}
"""How fields end that hold a time."""

_REPEATED: Final = re.compile(
    r"^#+ Table of Contents\n(.*\n)*?(?=\*\*|#)|^\*\*Commands\*\*:\n\n(\* .*\n)+|^\* `--(admin-url|token|json)\b.*\n",
    re.MULTILINE,
)
"""What the page on commands says once: a list of what follows, and the options of every command."""

_MOST: Final = 100
_HELP: Final = {
    "campaign": "Only those of this campaign.",
    "prize": "Only those of this prize.",
    "player": "Only those of this player.",
    "q": "Only those whose name holds this.",
    "most": "How many at most.",
    "limit": "How many at most.",
}
"""What is said of the options of a list."""


def text() -> str:
    """The file's text."""
    made = [command_of(row, said) for row in OPERATIONS for said in row.commands]
    made.sort(key=lambda command: command.words)
    lines = [msgspec.json.encode(command).decode() for command in made]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def markdown() -> str:
    """The commands of `tombola --help` and what each takes, for docs/reference/commands.md."""
    from runtime.cli import app
    from runtime.commands import loop
    from runtime.commands.groups import OPERATOR_COMMANDS, RUN, TOOLS, shown_under

    apps = {name: (app[name], RUN) for name in ("core", "consumer", "admin", "all", "worker", "migrate")}
    apps |= {name: (getattr(loop, name.replace("-", "_")), shown_under(name)) for name in OPERATOR_COMMANDS}
    apps |= {name: (app[name], TOOLS) for name in ("healthcheck", "settings")}
    of_group: dict[str, list[str]] = {}
    for name, (one, group) in sorted(apps.items(), key=lambda item: item[1][1].sort_key):
        text = one.generate_docs(heading_level=3, usage_name=f"tombola {name}")
        _, _, told = text.partition("\n")
        of_group.setdefault(group.name, []).append(f"### tombola {name}\n{told}")
    made = "\n\n".join(f"## {title}\n\n" + "\n\n".join(texts) for title, texts in of_group.items())
    # Cyclopts shows how this process was started.
    made = re.sub(r"^(tombola .*?) -m [\w.]+", r"\1", _REPEATED.sub("", made), flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", made).replace("```console", "```text") + "\n"


def command_of(row: Operation, said: Said) -> Command:
    """A row's command, with what follows from its messages. Fails where the row says what is not in them."""
    words = said.usage.split()
    own = 1 if len(words) == 1 or words[1].startswith("--") else 2
    parameters = [_parameter(row, said, word, index) for index, word in enumerate(words[own:])]
    shown = _shown(row)
    columns = dict(_column(one) for one in said.columns.split(", ") if one)
    named = {parameter.name for parameter in parameters}
    fields = {*shown, *(name for inner in shape_of(row).inner.values() for name in inner.also)}
    _check(row, fields, *columns.values())
    _check(row, fields | named, said.says)
    _check(row, named, said.confirm)
    if said.kept:
        _check(row, fields_of(shown["kept"].type), said.kept)
    assert not said.unless or said.unless in shown, f"{row.name} shows no {said.unless!r}"
    return Command(
        " ".join(words[:own]),
        said.about,
        row.verb,
        row.path,
        listed="items" in fields_of(row.reply) and not said.one,
        one=said.one,
        parameters=tuple(parameters),
        sends=dict(said.sends),
        confirm=said.confirm,
        columns=columns,
        says=said.says,
        as_json=said.as_json,
        unless=said.unless,
        kept=said.kept,
        enums={name: _prefix(field.type) for name, field in shown.items() if field.kind is FieldKind.ENUM},
    )


def _parameter(row: Operation, said: Said, word: str, index: int) -> Parameter:
    parts = _WORD.fullmatch(word)
    assert parts is not None, f"{row.name}: {word}"
    name, is_argument = parts["name"].lower().replace("-", "_"), not parts["dashes"]
    made = Parameter(
        name,
        _SPECIAL.get(name, Kind.TEXT),
        argument=is_argument,
        negatable=bool(parts["negatable"]),
        needed=bool(parts["needed"] or (is_argument and not (parts["optional"] or parts["many"]))),
        help=said.help.get(name, "" if is_argument else _HELP.get(name, "")),
    )
    if name in ("most", "limit"):
        return msgspec.structs.replace(made, most=int(parts["is_"] or _MOST))
    if made.kind is Kind.FILE and name not in said.help:
        help = "The YAML (or JSON) file."
        if row.makes:
            shown = f"the fields that `tombola {row.resource}s show` shows"
            help = f"The YAML (or JSON) file of one {row.resource}, with {shown}."
        return msgspec.structs.replace(made, help=help)
    if made.kind is not Kind.TEXT or (index == 0 and (said.one or "{id}" in row.path)):
        return made
    return _setting(row, made, parts["is_"] or name, is_helped=name in said.help)


def _setting(row: Operation, made: Parameter, wanted: str, *, is_helped: bool) -> Parameter:
    """A parameter, with what follows from the field that it sets."""
    settable = _settable(row)
    found = [
        name for name in (wanted, f"{wanted}_id", f"{wanted}_key", f"{wanted}_at", f"{wanted}s") if name in settable
    ]
    assert found, f"{row.name} has no field {wanted!r}"
    field = settable[found[0]]
    kind = _KINDS[field.kind]
    if field.repeated:
        kind = Kind.MANY if made.argument else Kind.TEXTS
    if field.kind is FieldKind.INT64:
        kind = _TIMES.get(field.name.rpartition("_")[2], kind)
    # A resource's fields stay as they are where nothing is given; a request's own are empty then.
    unsaid = row.verb == "PUT" and bool(row.resource)
    choices: tuple[str, ...] = ()
    help = made.help
    if field.kind is FieldKind.ENUM:
        prefix = _prefix(field.type)
        choices = tuple(one.proto_name.removeprefix(prefix).lower() for one in field.type if one)
        if not is_helped:
            help = f"Only those of this {made.name}: {', '.join(choices)}."
        kind = Kind.CHOICE if unsaid else kind
    return msgspec.structs.replace(
        made, kind=kind, field=field.name, help=help, unsaid=unsaid, choices=choices if kind is Kind.CHOICE else ()
    )


def _column(said: str) -> tuple[str, str]:
    title, _, text = said.partition("=")
    text = text or title
    return title, text if "{" in text else f"{{{text}}}"


def _check(row: Operation, names: Collection[str], *texts: str) -> None:
    """Every field that a text names is one of these, and every form is one that there is."""
    for _, name, form, _ in (part for text in texts for part in Formatter().parse(text)):
        root = (name or "").partition(".")[0]
        assert root in names or not root, f"{row.name} has no {root!r} to show"
        assert form in FORMS or _NUMBER.fullmatch(form or ""), f"{row.name} shows {root!r} in no form {form!r}"


def _settable(row: Operation) -> dict[str, Field]:
    fields = fields_of(row.request)
    if row.resource:
        fields = fields | fields_of(fields[row.resource].type)
    return {name: field for name, field in fields.items() if name not in ("scope", "id")}


def _shown(row: Operation) -> dict[str, Field]:
    """The fields of a list's items, or of the reply."""
    reply, shape = fields_of(row.reply), shape_of(row)
    if "items" in reply:
        return fields_of(reply["items"].type)
    return reply | (fields_of(reply[shape.opened].type) if shape.opened else {})


def _prefix(enum: Any) -> str:
    """TASK_STATUS_"""
    return str(enum(0).proto_name.removesuffix("UNSPECIFIED"))
