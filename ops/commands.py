"""Generates `runtime/commands/commands.json`: the commands derived from the operations' rows."""

import re
from collections.abc import Collection
from string import Formatter
from typing import Any, Final

import msgspec

from runtime.commands.facts import Command, Kind, Parameter
from runtime.commands.templates import FORMS
from runtime.http.views import shape_of
from runtime.operations import OPERATIONS, Operation
from runtime.operations.row import Command as Declared
from runtime.wire.schema import Field, fields_of
from runtime.wire.schema import Kind as FieldKind

_WORD: Final = re.compile(
    r"(?P<optional>\[)?(?P<dashes>--(?P<negatable>\[no-\])?)?(?P<name>[\w-]+)(?P<many>\.\.\.)?(?:=(?P<is_>\w+))?(?P<needed>!)?\]?"
)
"""A word of a usage: `PRIZE`, `[SEARCH=q]`, `CODES...=ids`, `--reason!`, `--since=won_from`, `--most=50`."""

_NUMBER: Final = re.compile(r"\+?,?(\.\d[f%])?")
"""Formats of numbers, besides FORMS."""

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
"""Suffixes of fields that hold a time."""

_REPEATED: Final = re.compile(
    r"^#+ Table of Contents\n(.*\n)*?(?=\*\*|#)|^\*\*Commands\*\*:\n\n(\* .*\n)+"
    r"|^\* `--(admin-url|token STR`: A token with a management|json)\b.*\n",
    re.MULTILINE,
)
"""Parts that the page on commands has only once: a list of commands, and the common options."""

_MOST: Final = 100
_KEY_HELP: Final = "An Idempotency-Key: repeating the command with the same key has no further effect."
_HELP: Final = {
    "campaign": "Only items of the campaign with this id.",
    "prize": "Only items of the prize with this id.",
    "player": "Only items of the player with this id.",
    "q": "Only items with this text in their name.",
    "most": "The maximum number of items.",
    "limit": "The maximum number of items.",
}
"""Help texts of the options of lists."""


def text() -> str:
    """The file's text."""
    made = [command_of(row, declared) for row in OPERATIONS for declared in row.commands]
    made.sort(key=lambda command: command.words)
    lines = [msgspec.json.encode(command).decode() for command in made]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def markdown() -> str:
    """The commands of `tombola --help` with their parameters, for docs/reference/commands.md."""
    from runtime.cli import app
    from runtime.commands import builder
    from runtime.commands.evidence import command as evidence
    from runtime.commands.groups import OPERATOR_COMMANDS, RUN, TOOLS, shown_under

    apps = {name: (app[name], RUN) for name in ("core", "consumer", "admin", "all", "worker", "migrate")}
    apps |= {name: (getattr(builder, name.replace("-", "_")), shown_under(name)) for name in OPERATOR_COMMANDS}
    apps |= {name: (app[name], TOOLS) for name in ("healthcheck", "settings")} | {
        "verify": (evidence.app, TOOLS),
        "dossier": (evidence.dossier, TOOLS),
    }
    of_group: dict[str, list[str]] = {}
    for name, (one, group) in sorted(apps.items(), key=lambda item: item[1][1].sort_key):
        text = one.generate_docs(heading_level=3, usage_name=f"tombola {name}")
        _, _, body = text.partition("\n")
        of_group.setdefault(group.name, []).append(f"### tombola {name}\n{body}")
    made = "\n\n".join(f"## {title}\n\n" + "\n\n".join(texts) for title, texts in of_group.items())
    # Cyclopts shows how this process was started.
    made = re.sub(r"^(tombola .*?) -m [\w.]+", r"\1", _REPEATED.sub("", made), flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", made).replace("```console", "```text") + "\n"


def command_of(row: Operation, declared: Declared) -> Command:
    """A row's command with what follows from its messages. Fails if the row refers to missing fields."""
    words = declared.usage.split()
    own = 1 if len(words) == 1 or words[1].startswith("--") else 2
    words_of = [*words[own:], *(["--key"] if row.keyed else [])]
    parameters = [_parameter(row, declared, word, index) for index, word in enumerate(words_of)]
    shown = _shown(row)
    columns = dict(_column(one) for one in declared.columns.split(", ") if one)
    named = {parameter.name for parameter in parameters}
    fields = {*shown, *(name for inner in shape_of(row).inner.values() for name in inner.also)}
    _check(row, fields, *columns.values())
    _check(row, fields | named, declared.outcome)
    _check(row, named, declared.confirm)
    if declared.failure:
        _check(row, fields_of(shown["kept"].type), declared.failure)
    assert not declared.unless or declared.unless in shown, f"{row.name} shows no {declared.unless!r}"
    return Command(
        " ".join(words[:own]),
        declared.about,
        row.verb,
        row.path,
        listed="items" in fields_of(row.reply) and not declared.one,
        one=declared.one,
        parameters=tuple(parameters),
        sends=dict(declared.sends),
        confirm=declared.confirm,
        columns=columns,
        outcome=declared.outcome,
        as_json=declared.as_json,
        unless=declared.unless,
        failure=declared.failure,
        enums={name: _prefix(field.type) for name, field in shown.items() if field.kind is FieldKind.ENUM},
    )


def _parameter(row: Operation, declared: Declared, word: str, index: int) -> Parameter:
    parts = _WORD.fullmatch(word)
    assert parts is not None, f"{row.name}: {word}"
    name, is_argument = parts["name"].lower().replace("-", "_"), not parts["dashes"]
    made = Parameter(
        name,
        _SPECIAL.get(name, Kind.TEXT),
        argument=is_argument,
        negatable=bool(parts["negatable"]),
        needed=bool(parts["needed"] or (is_argument and not (parts["optional"] or parts["many"]))),
        help=declared.help.get(name, "" if is_argument else _HELP.get(name, "")),
    )
    if name in ("most", "limit"):
        return msgspec.structs.replace(made, most=int(parts["is_"] or _MOST))
    if made.kind is Kind.KEY:
        return msgspec.structs.replace(made, help=_KEY_HELP)
    if made.kind is Kind.FILE and name not in declared.help:
        help = "The YAML (or JSON) file."
        if row.creates:
            shown = f"the fields shown by `tombola {row.resource}s show`"
            help = f"The YAML (or JSON) file of one {row.resource}, with {shown}."
        return msgspec.structs.replace(made, help=help)
    if made.kind is not Kind.TEXT or (index == 0 and (declared.one or "{id}" in row.path)):
        return made
    return _setting(row, made, parts["is_"] or name, is_helped=name in declared.help)


def _setting(row: Operation, made: Parameter, wanted: str, *, is_helped: bool) -> Parameter:
    """A parameter with what follows from the field that it sets."""
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
    # Without a value, a resource's field stays unchanged; a request's field is empty.
    unsaid = row.verb == "PUT" and bool(row.resource)
    choices: tuple[str, ...] = ()
    help = made.help
    if field.kind is FieldKind.ENUM:
        prefix = _prefix(field.type)
        choices = tuple(one.proto_name.removeprefix(prefix).lower() for one in field.type if one)
        if not is_helped:
            help = f"Only items with this {made.name}: {', '.join(choices)}."
        kind = Kind.CHOICE if unsaid else kind
    return msgspec.structs.replace(
        made, kind=kind, field=field.name, help=help, unsaid=unsaid, choices=choices if kind is Kind.CHOICE else ()
    )


def _column(declared: str) -> tuple[str, str]:
    title, _, text = declared.partition("=")
    text = text or title
    return title, text if "{" in text else f"{{{text}}}"


def _check(row: Operation, names: Collection[str], *texts: str) -> None:
    """Checks that the texts use only these fields and known forms."""
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
