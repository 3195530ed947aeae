"""A row of the operation table: the declaration of one operation, next to its function.

RPC, Core's REST, both edges, their OpenAPI documents, docs/reference/roles.md and the tests of every
operation iterate over the rows. Facts about fields (required, read-only) are in game.proto; every other
fact of an operation is an attribute here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from runtime import messages
from runtime.actors.engine import Actors, Engine
from runtime.messages.behavior import RPCS
from runtime.wire.schema import fields_of
from runtime.wire.shape import Shape

MANAGEMENT: Final = frozenset({"admin", "designer", "reward_manager"})
"""The roles of a tenant's staff."""

PLATFORM: Final = "platform"
"""The role of the service's operator: creates tenants, and may act for any."""

Run = Callable[[Engine, Any], Awaitable[Any]]


class Access(Enum):
    """Who may call on the consumer edge. EITHER: a player, or an anonymous caller if the game or board is public."""

    EITHER = "public or player"
    PLAYER = "player"


class RoutePolicy(Enum):
    """How the consumer edge responds. CACHED: the same for every caller. ACT: once per Idempotency-Key. RATED: ACT with
    rate limits. BEACON: a count, to which visitors can object.
    """

    READ = "read"
    CACHED = "cached"
    ACT = "act"
    RATED = "rated"
    BEACON = "beacon"


class SessionUse(Enum):
    NONE = "none"
    OPENS = "opens"
    PLAYS = "plays"


class TokenUse(Enum):
    """What an operation does with staff tokens. ENDS: revokes some of them."""

    NONE = "none"
    MAKES = "makes"
    ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Consumer:
    """The consumer edge serves the operation: to whom, and how. setting: if it is off, the resource is unknown.
    withholds: if the setting is off, only this text of the reply is empty.
    marks: a field of the request that the edge sets, if the admin edge serves the operation too.
    """

    access: Access
    policy: RoutePolicy = RoutePolicy.READ
    setting: str = ""
    withholds: str = ""
    marks: str = ""


@dataclass(frozen=True, slots=True)
class Admin:
    """The admin edge serves the operation, to these roles.

    writers: the roles if ROLE_MATRIX is strict; otherwise every role of MANAGEMENT is allowed. always: only `writers`,
    under either matrix. signed: no role check; a signature authenticates the caller.
    """

    writers: frozenset[str] = MANAGEMENT
    always: bool = False
    signed: bool = False

    def roles(self, role_matrix: str) -> frozenset[str]:
        return self.writers if self.always or role_matrix == "strict" else MANAGEMENT


STAFF: Final = Admin()
"""Every role of the tenant's staff. For reads."""

ADMINS: Final = Admin(frozenset({"admin"}))
DESIGNERS: Final = Admin(frozenset({"admin", "designer"}))
"""For changes of games and their setup."""

REWARD_MANAGERS: Final = Admin(frozenset({"admin", "reward_manager"}))
"""For changes of rewards and wallets."""

PLATFORM_ALONE: Final = Admin(frozenset({PLATFORM}), always=True)
STAFF_OR_PLATFORM: Final = Admin(MANAGEMENT | {PLATFORM}, always=True)
SIGNED: Final = Admin(frozenset(), signed=True)


@dataclass(frozen=True, slots=True)
class Command:
    """The command-line form of an operation without special logic (`ops/commands.py`).

    usage: "prizes update PRIZE FILE", "players grant PLAYER --reason!": the group and name of the command, then
        its arguments and options. The first argument fills the path's {id}. A name is that of the field it sets, or a
        prefix (`--campaign` is campaign_id), or maps to it: `--since=won_from`. [Q] is optional, `--reason!` is
        required, CODES... takes any number. FILE is a file with the fields of the row's resource, `--most=50`
        the most items of a list to show. An operation with an Idempotency-Key has `--key` in addition.
    about: the description of the command.
    help: descriptions of arguments and options that override the usual ones.
    one: of a list, show only the item with the id in the argument.
    sends: fields that the command sets itself.
    confirm: the confirmation prompt.
    columns: "id, by=made_by": a table of a list's items, or lines about one item: title and text.
    outcome: the success message. Without it and without columns, the reply is shown as YAML.
    as_json: show people JSON too.
    unless: a flag of the reply; if it is false, the command has failed.
    failure: the message for each of the reply's `kept` (what could not be done); any of them fails the command.

    A text may contain fields of the reply, and parameters, in braces. `{created_at:day}` uses a format of
    `runtime/commands/templates.py`; `{:remaining}` formats the whole item. A column with one field needs no braces.
    """

    usage: str
    about: str
    help: Mapping[str, str] = field(default_factory=dict)
    one: bool = False
    sends: Mapping[str, Any] = field(default_factory=dict)
    confirm: str = ""
    columns: str = ""
    outcome: str = ""
    as_json: bool = False
    unless: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One row.

    name: the RPC's. route: the REST verb and path, under /api/v1.
    run: the function, whose docstring describes the operation; or actor: the actor that gets the requests, with the
        description in `about`.
    resource: the request's field that contains a resource ("game"), else empty.
    consumer, admin: how each edge serves it; None: not served.
    session: what it does with a play session.
    tokens: what it does with staff tokens.
    searches_codes: its field `code` searches voucher codes, so an edge limits how often a staff member may guess.
    tenant_wide: not for a merchant's staff, since it concerns the whole tenant.
    while_suspended: allowed even if the tenant, merchant or player is suspended.
    not_while_suspended: refused when suspended although it only reads: it exports much data, or streams for long.
    confidential: its reply may contain a secret of the player (a code), so it is never stored for replays.
    bounded: anonymous callers may call it freely, so Core limits its concurrency to leave connections for plays.
    rest: the part of a bounded operation that calls other services. It gets the reply of `run` and is not counted.
        Of an actor's operation: what completes its reply, which may be a Replay.
    lengthy: it counts or copies much, moves a player's whole data, or calls other services, so only each step has a
        timeout. Any other operation that exceeds ANSWER_TIMEOUT_SECONDS is UNAVAILABLE.
    streamed: its body is read as it arrives, and may be lines of text.
    upload: the field with a file in base64; over HTTP, the body may be the file itself.
    invalidates_cache: it invalidates the tenant's cached responses.
    refusals: its specific reasons (runtime/http/docs/refusals.py), besides those that follow from the row.
    example: a body as the edges accept it; None if it has none.
    shape: how the edges show its reply, if that differs from the message.
    command: its form at the command line.

    subject: the resource of the path's {id}, such as "game" in /games/{id}/start; "" without one.
    service, request, reply (the message classes) and scoped (whether it concerns a tenant; CreateTenant does not) are
    derived from game.proto.
    """

    name: str
    route: str
    run: Run | None = None
    actor: type[Actors[Any, Any, Any]] | None = None
    about: str = ""
    resource: str = ""
    consumer: Consumer | None = None
    admin: Admin | None = None
    session: SessionUse = SessionUse.NONE
    tokens: TokenUse = TokenUse.NONE
    searches_codes: bool = False
    tenant_wide: bool = False
    while_suspended: bool = False
    not_while_suspended: bool = False
    confidential: bool = False
    bounded: bool = False
    rest: Run | None = None
    lengthy: bool = False
    streamed: bool = False
    upload: str = ""
    invalidates_cache: bool = False
    refusals: tuple[str, ...] = ()
    example: Mapping[str, Any] | None = None
    shape: Shape | None = None
    command: Command | tuple[Command, ...] = ()

    verb: str = field(init=False)
    path: str = field(init=False)
    subject: str = field(init=False)
    service: str = field(init=False)
    request: type[Any] = field(init=False)
    reply: type[Any] = field(init=False)
    scoped: bool = field(init=False)

    def __post_init__(self) -> None:
        verb, _, path = self.route.partition(" ")
        service, request, reply = RPCS[self.name]
        before, found, _ = path.partition("/{id}")
        subject = before.rpartition("/")[2].removesuffix("s") if found else ""
        derived = {"verb": verb, "path": path, "subject": subject, "service": service}
        derived |= {"request": getattr(messages, request), "reply": getattr(messages, reply)}
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "scoped", fields_of(self.request)["scope"].required)
        assert (self.run is None) != (self.actor is None), f"{self.name} must have either run or actor"
        assert self.run is not None or self.about, f"{self.name} must have a description"
        assert (self.example is not None) == self.has_body, f"{self.name} must have an example exactly if it has a body"

    @property
    def commands(self) -> tuple[Command, ...]:
        return (self.command,) if isinstance(self.command, Command) else self.command

    @property
    def rpc_path(self) -> str:
        """The gRPC path: /game.v1.GameService/CreateGame."""
        return f"/game.v1.{self.service}/{self.name}"

    @property
    def has_body(self) -> bool:
        """Whether REST sends the request as a body, not as query parameters."""
        return self.verb in ("POST", "PUT")

    @property
    def creates(self) -> bool:
        return self.verb == "POST" and bool(self.resource)

    @property
    def keyed(self) -> bool:
        return "idempotency_key" in fields_of(self.request)

    @property
    def refused_while_suspended(self) -> bool:
        """Whether it is refused during a suspension: every write in a tenant, and reads marked not_while_suspended."""
        return self.not_while_suspended or (self.scoped and self.has_effect and not self.while_suspended)

    @property
    def has_effect(self) -> bool:
        return self.verb != "GET"

    @property
    def of_player(self) -> bool:
        """Whether its request has a player: on the consumer edge, the caller."""
        return "player_id" in fields_of(self.request)
