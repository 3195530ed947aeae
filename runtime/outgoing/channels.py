"""Delivery channels as the catalogue knows them: a prize's `fulfillment.channel` is one of these names.

An instant channel has nothing to wait for: its task is delivered in the statement that makes it due.
How an asynchronous one delivers is the workers' matter; here is only what its config must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from yarl import URL

from runtime.outgoing.connector import check_url
from runtime.outgoing.signing import make_secret, secret_problem
from runtime.outgoing.vault import MASKED, SECRET_FIELDS
from runtime.registry import Registry

URL_LENGTH_MAX: Final = 2048
HEADERS_MAX: Final = 20
BY_STAFF: Final = "manual"
"""The channel whose deliveries await staff: no worker attempts them."""
CALLBACK_SECONDS_MIN: Final = 60
CALLBACK_SECONDS_MAX: Final = 366 * 86_400

CheckConfig = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""(path within the config, what is wrong) for each problem of a config; "" is the config itself."""


def no_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """For a channel that takes no config: any field is a mistake."""
    return ((str(name), "is not a field of this channel's config") for name in config)


def receiver_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """`{url, secret?, previous_secret?, headers?}`: url is http(s); secrets and headers are texts.

    Both secrets sign while one is being replaced by the other.
    """
    yield from _url_problems(config.get("url"))
    yield from ((name, problem) for name in SECRET_FIELDS if (problem := secret_problem(config.get(name, ""))))
    yield from header_problems(config.get("headers", {}))
    yield from ((str(name), "unknown field") for name in config if name not in ("url", "headers", *SECRET_FIELDS))


def workflow_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """As `receiver_config`, with `callback_seconds?`: how long its callback is awaited, instead of CALLBACK_SECONDS."""
    seconds = config.get("callback_seconds", CALLBACK_SECONDS_MIN)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not CALLBACK_SECONDS_MIN <= seconds <= CALLBACK_SECONDS_MAX:
        yield "callback_seconds", f"must be a number from {CALLBACK_SECONDS_MIN} to {CALLBACK_SECONDS_MAX}"
    yield from receiver_config({name: value for name, value in config.items() if name != "callback_seconds"})


def moved_secrets(before: Mapping[str, Any], config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """(field, what is wrong) of each secret of the stored config `before` that `config` would keep for somebody else,
    and of each header.

    Whoever may edit a config may not read its secrets: nor may they have another host sent what the secrets sign, or
    what a header carries, or a plugin's provider give them away there. A secret that is given, "" for none, is the
    editor's own.
    """
    if _receiver(before) == _receiver(config):
        return
    kept = [name for name in SECRET_FIELDS if before.get(name) and name not in config]
    had, given = before.get("headers"), config.get("headers")
    if isinstance(had, Mapping) and had:
        if "headers" not in config:
            kept.append("headers")
        elif isinstance(given, Mapping):
            kept += [f"headers.{name}" for name, value in given.items() if value == MASKED and name in had]
    for name in kept:
        yield name, "must be given anew: it was given for another receiver"


def with_headers(before: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with what headers of the stored config `before` carry: of those that it has masked, and of all where it
    says nothing of headers. An empty object is none. One that is masked and was not there is left so, and refused.
    """
    had = before.get("headers")
    given = config.get("headers", had)
    if not config or not isinstance(had, Mapping) or not isinstance(given, Mapping):
        return dict(config)
    headers = {name: had.get(name, value) if value == MASKED else value for name, value in given.items()}
    return {**config, "headers": headers}


def with_kept(before: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """A sealed `config` with all that it keeps of the stored one `before`: its secrets, too, where it leaves them out.
    One that is empty is none.
    """
    kept = {name: before[name] for name in SECRET_FIELDS if before.get(name) and name not in config}
    found = {**with_headers(before, config), **kept}
    return {name: value for name, value in found.items() if value or name not in SECRET_FIELDS}


READ_ALONE: Final = frozenset({"secret_set", "secret_once"})
"""Names of what a config says of its secret when it is read; one that is sent back is passed over."""


def as_given(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """`config` without what it only says when it is read."""
    return {name: value for name, value in (config or {}).items() if name not in READ_ALONE}


def with_secret(config: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """`config` with a new secret where it says nothing of one, and the stored config `before` has none to keep; and the
    fields that show it, this once: `secret_once`.
    """
    if SECRET_FIELDS[0] in config or before.get(SECRET_FIELDS[0]):
        return dict(config), {}
    secret = make_secret()
    return {**config, SECRET_FIELDS[0]: secret}, {"secret_once": secret}


def to_check(before: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with what it keeps of `before`, as it is to be checked: of what headers carry nothing is known."""
    headers = before.get("headers")
    return with_headers({"headers": dict.fromkeys(headers, "")} if isinstance(headers, Mapping) else {}, config)


def _receiver(config: Mapping[str, Any]) -> Any:
    """Who a config sends to: the origin of its url, and, of a plugin's, all that nobody here knows the meaning of."""
    url = config.get("url")
    # What is too long to be one is not read: a host is normalized, in the square of the time of its length.
    readable = isinstance(url, str) and len(url) <= URL_LENGTH_MAX
    try:
        parts = URL(str(url)) if readable else None  # As the connector reads it, so that both mean one host.
    except ValueError:
        parts = None
    origin = url if parts is None else (parts.scheme, parts.host, parts.port)
    known = ("url", "headers", "callback_seconds", *READ_ALONE, *SECRET_FIELDS)
    return origin, {name: value for name, value in config.items() if name not in known}


def _url_problems(url: Any) -> Iterable[tuple[str, str]]:
    if url is None or url == "":
        yield "url", "is required"
        return
    if not isinstance(url, str) or len(url) > URL_LENGTH_MAX:
        yield "url", f"must be an http or https URL of at most {URL_LENGTH_MAX} characters"
    elif problem := check_url(url):  # By the rule that it is sent by.
        yield "url", problem


def header_problems(headers: Any) -> Iterable[tuple[str, str]]:
    """What is wrong with what headers carry, which is sealed at rest: so of any config, whoever it is for."""
    if not isinstance(headers, Mapping) or len(headers) > HEADERS_MAX:
        yield "headers", f"must be an object of at most {HEADERS_MAX} texts"
        return
    for name, value in headers.items():
        # A header that could not be sent as written, or that would begin another line.
        token = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not token or not isinstance(value, str) or not value.isascii() or not value.isprintable():
            yield f"headers.{name}", "must be a header's name with a text of printable ASCII"
        elif value == MASKED:
            yield f"headers.{name}", "is masked, and nothing is kept under this name: give what it carries"


@dataclass(frozen=True, slots=True)
class Channel:
    """instant: delivered where it falls due. config_problems: what a prize's `fulfillment.config` must hold.
    signed: whether its secret signs what is sent, so that one is made where none is given.
    """

    instant: bool
    config_problems: CheckConfig
    signed: bool = False


CHANNELS: Final[Registry[Channel]] = Registry("channel")
CHANNELS.register("none", Channel(instant=True, config_problems=no_config))
CHANNELS.register("voucher_code", Channel(instant=True, config_problems=no_config))
CHANNELS.register("webhook", Channel(instant=False, config_problems=receiver_config, signed=True))
CHANNELS.register("workflow", Channel(instant=False, config_problems=workflow_config, signed=True))
CHANNELS.register(BY_STAFF, Channel(instant=False, config_problems=no_config))
