"""Checks of the fields of a service's config. Each yields (path within the field, description) for each problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from runtime.outgoing.channels import URL_LENGTH_MAX, header_problems
from runtime.outgoing.connector import check_url
from runtime.outgoing.services.values import path_problem, placeholders
from runtime.outgoing.signing import secret_problem

Check = Callable[[Any], Iterable[tuple[str, str]]]

COLUMNS_MAX: Final = 50
FIELDS_MAX: Final = 50
TEXT_LENGTH_MAX: Final = 1_600
"""Twilio's limit of a message; services cut a longer one."""

TOKEN_LENGTH_MAX: Final = 500

_TARGET: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def url(value: Any) -> Iterable[tuple[str, str]]:
    if not isinstance(value, str) or not value or len(value) > URL_LENGTH_MAX:
        yield "", f"must be an http or https URL of at most {URL_LENGTH_MAX} characters"
    elif problem := check_url(value):
        yield "", problem


def one_of(*values: str) -> Check:
    def check(value: Any) -> Iterable[tuple[str, str]]:
        if value not in values:
            yield "", f"must be {' or '.join(values)}"

    return check


def matching(pattern: str, description: str) -> Check:
    """A text that matches a pattern entirely."""
    compiled = re.compile(pattern)

    def check(value: Any) -> Iterable[tuple[str, str]]:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            yield "", description

    return check


def template(value: Any) -> Iterable[tuple[str, str]]:
    """A text with placeholders such as {data.name}."""
    if not isinstance(value, str) or not value.strip() or len(value) > TEXT_LENGTH_MAX:
        yield "", f"must be a text of at most {TEXT_LENGTH_MAX} characters"
        return
    for path in placeholders(value):
        if problem := path_problem(path):
            yield "", f"has the unknown placeholder {{{path}}}: it {problem}"


def columns(value: Any) -> Iterable[tuple[str, str]]:
    """A list of paths."""
    if not isinstance(value, list) or not 1 <= len(value) <= COLUMNS_MAX:
        yield "", f"must be a list of 1 to {COLUMNS_MAX} paths"
        return
    yield from ((f"[{index}]", wrong) for index, one in enumerate(value) if (wrong := path_problem(one)))


def targets(*extra_paths: str) -> Check:
    """An object: the receiver's field -> a path, or one of `extra_paths`. Dots nest."""

    def check(value: Any) -> Iterable[tuple[str, str]]:
        if not isinstance(value, Mapping) or not 1 <= len(value) <= FIELDS_MAX:
            yield "", f"must be an object of 1 to {FIELDS_MAX} fields, each with a path"
            return
        for target, path in value.items():
            if len(target) > 100 or not _TARGET.fullmatch(target):
                yield f".{target}", "must be a name of letters, digits, _ and -; dots nest"
            elif any(other.startswith(f"{target}.") for other in value):
                yield f".{target}", "is also the parent of another field"
            elif path not in extra_paths and (wrong := path_problem(path)):
                yield f".{target}", wrong

    return check


def headers(value: Any) -> Iterable[tuple[str, str]]:
    yield from ((path.removeprefix("headers"), wrong) for path, wrong in header_problems(value))


def signing_secret(value: Any) -> Iterable[tuple[str, str]]:
    if problem := secret_problem(value):
        yield "", problem


def token(value: Any) -> Iterable[tuple[str, str]]:
    """A credential that is sent as it is, in a header."""
    usable = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
    if not usable or not 1 <= len(value) <= TOKEN_LENGTH_MAX:
        yield "", f"must be a token of at most {TOKEN_LENGTH_MAX} characters of printable ASCII"
