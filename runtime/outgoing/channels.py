"""Delivery channels of the catalogue: a prize's `fulfillment.channel` is one of these names.

An instant channel needs no worker: the statement that makes its task due also delivers it.
Workers deliver the other channels; this module only validates their config.
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
"""(path within the config, description) for each problem of a config; "" is the config itself."""


def no_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """For a channel without config: every field is a problem."""
    return ((str(name), "is not a field of this channel's config") for name in config)


def receiver_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """`{url, secret?, previous_secret?, headers?}`: url is http(s); secrets and headers are strings.

    Both secrets sign during a rotation.
    """
    yield from _url_problems(config.get("url"))
    yield from ((name, problem) for name in SECRET_FIELDS if (problem := secret_problem(config.get(name, ""))))
    yield from header_problems(config.get("headers", {}))
    yield from ((str(name), "unknown field") for name in config if name not in ("url", "headers", *SECRET_FIELDS))


def workflow_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """As `receiver_config`, plus `callback_seconds?`: the callback timeout, overriding CALLBACK_SECONDS."""
    seconds = config.get("callback_seconds", CALLBACK_SECONDS_MIN)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not CALLBACK_SECONDS_MIN <= seconds <= CALLBACK_SECONDS_MAX:
        yield "callback_seconds", f"must be a number from {CALLBACK_SECONDS_MIN} to {CALLBACK_SECONDS_MAX}"
    yield from receiver_config({name: value for name, value in config.items() if name != "callback_seconds"})


INCLUDED: Final = ("contact", "entry")
"""What the bodies of an integration may carry about an event's player."""

CONSENT_LENGTH_MAX: Final = 64


def integration_config(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """As `receiver_config`, plus `include?` and `consent?`."""
    yield from include_problems(config)
    yield from receiver_config({name: value for name, value in config.items() if name not in ("include", "consent")})


def include_problems(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Of `include?`, some of INCLUDED, and `consent`, the consent that permits it."""
    include, consent = config.get("include", []), config.get("consent", "")
    if not isinstance(include, list) or len(include) > len(INCLUDED) or any(one not in INCLUDED for one in include):
        yield "include", f"must be a list of {' and '.join(INCLUDED)}"
    elif not isinstance(consent, str) or len(consent) > CONSENT_LENGTH_MAX:
        yield "consent", "must be the id of a consent of the entry form"
    elif include and not consent:
        yield "consent", "is required with include: set the id of the entry form's consent that permits it"
    elif consent and not include:
        yield "consent", "has no effect without include: remove it, or set include"


def leaked_secrets(before: Mapping[str, Any], config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """(field, description) of each secret and header of the stored config `before` that `config` would send to another
    receiver.

    An editor cannot read stored secrets. Changing the URL while keeping them would leak signatures, header values or,
    through a plugin's provider, the secrets to a receiver of the editor's choice. Secrets in the request, "" for none,
    are exempt.
    """
    if _receiver(before) == _receiver(config):
        return
    kept = [name for name in SECRET_FIELDS if before.get(name) and name not in config]
    stored, requested = before.get("headers"), config.get("headers")
    if isinstance(stored, Mapping) and stored:
        if "headers" not in config:
            kept.append("headers")
        elif isinstance(requested, Mapping):
            kept += [f"headers.{name}" for name, value in requested.items() if value == MASKED and name in stored]
    for name in kept:
        yield name, "must be sent again, since the receiver is another one"


def with_headers(before: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with header values of the stored config `before`: the masked ones, or all if `headers` is omitted. An
    empty object removes all headers. A masked header that is not stored stays masked, and validation rejects it.
    """
    stored = before.get("headers")
    requested = config.get("headers", stored)
    if not config or not isinstance(stored, Mapping) or not isinstance(requested, Mapping):
        return dict(config)
    headers = {name: stored.get(name, value) if value == MASKED else value for name, value in requested.items()}
    return {**config, "headers": headers}


def with_stored(before: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """A sealed `config` with the header values and omitted secrets of the stored config `before`. An empty secret is
    removed.
    """
    kept = {name: before[name] for name in SECRET_FIELDS if before.get(name) and name not in config}
    found = {**with_headers(before, config), **kept}
    return {name: value for name, value in found.items() if value or name not in SECRET_FIELDS}


OUTPUT_ONLY: Final = frozenset({"secret_set", "secret_once"})
"""Output-only fields of a config; they are ignored when a client sends them back."""


def as_input(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """`config` without its output-only fields."""
    return {name: value for name, value in (config or {}).items() if name not in OUTPUT_ONLY}


def with_secret(config: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """`config` with a generated secret if neither it nor the stored config `before` has one. The second value shows the
    new secret in `secret_once`, in this response only.
    """
    if SECRET_FIELDS[0] in config or before.get(SECRET_FIELDS[0]):
        return dict(config), {}
    secret = make_secret()
    return {**config, SECRET_FIELDS[0]: secret}, {"secret_once": secret}


def for_validation(before: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` as validated: kept headers of `before` are present, but with empty values, as theirs are sealed."""
    headers = before.get("headers")
    return with_headers({"headers": dict.fromkeys(headers, "")} if isinstance(headers, Mapping) else {}, config)


CONTENT: Final = ("columns", "fields", "format", "from", "method", "sheet", "text", "to")
"""Fields of a service's config that do not change who receives its secrets."""


def _receiver(config: Mapping[str, Any]) -> Any:
    """The receiver of a config: its URL, plus all unknown fields, since a plugin may route by them. The path counts,
    too: hosts such as hooks.zapier.com serve many receivers.
    """
    url = config.get("url")
    # Do not parse overlong values: host normalization takes quadratic time.
    readable = isinstance(url, str) and len(url) <= URL_LENGTH_MAX
    try:
        parts = URL(str(url)) if readable else None  # The connector's parser, so that both see the same host.
    except ValueError:
        parts = None
    target = url if parts is None else (parts.scheme, parts.host, parts.port, parts.raw_path_qs)
    known = ("url", "headers", "callback_seconds", "include", "consent", *CONTENT, *OUTPUT_ONLY, *SECRET_FIELDS)
    return target, {name: value for name, value in config.items() if name not in known}


def _url_problems(url: Any) -> Iterable[tuple[str, str]]:
    if url is None or url == "":
        yield "url", "is required"
        return
    if not isinstance(url, str) or len(url) > URL_LENGTH_MAX:
        yield "url", f"must be an http or https URL of at most {URL_LENGTH_MAX} characters"
    elif problem := check_url(url):  # The connector applies the same rule.
        yield "url", problem


def header_problems(headers: Any) -> Iterable[tuple[str, str]]:
    """The problems of a config's headers. Checked for every channel, since header values are sealed at rest."""
    if not isinstance(headers, Mapping) or len(headers) > HEADERS_MAX:
        yield "headers", f"must be an object of at most {HEADERS_MAX} strings"
        return
    for name, value in headers.items():
        # Refuse headers that cannot be sent as written, or that would inject another line.
        token = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not token or not isinstance(value, str) or not value.isascii() or not value.isprintable():
            yield f"headers.{name}", "must be a header name with a value of printable ASCII"
        elif value == MASKED:
            yield f"headers.{name}", "is masked but has no stored value: send the value"


@dataclass(frozen=True, slots=True)
class Channel:
    """instant: delivered by the statement that makes it due. config_problems: validates a prize's `fulfillment.config`.
    signed: its secret signs requests; one is generated if omitted.
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
