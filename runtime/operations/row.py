"""A row of the table of operations: all that there is to say of one, said where its function is.

RPC, Core's REST, both edges, their OpenAPI documents, docs/reference/roles.md and the tests that try
every operation are loops over the rows. What is said of a field (required, read-only) is said in
game.proto; every other fact of an operation is an attribute here.
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
"""The roles of a tenant's staff (spec.md, "Authentication" 4)."""

PLATFORM: Final = "platform"
"""The role of who runs the service: makes tenants, and may act for any (contract.md, "Roles")."""

Run = Callable[[Engine, Any], Awaitable[Any]]


class Access(Enum):
    """Who may ask on the consumer edge. EITHER: a player, or nobody where the game or board is public."""

    EITHER = "public or player"
    PLAYER = "player"


class RoutePolicy(Enum):
    """How the consumer edge answers. CACHED: alike for everybody. ACT: once for each Idempotency-Key.

    RATED is ACT under the rate limits.
    """

    READ = "read"
    CACHED = "cached"
    ACT = "act"
    RATED = "rated"


class SessionUse(Enum):
    """What an operation does with a session of play."""

    NONE = "none"
    OPENS = "opens"
    PLAYS = "plays"


class TokenUse(Enum):
    """What an operation does with tokens of staff. ENDS: some are refused from then on."""

    NONE = "none"
    MAKES = "makes"
    ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Consumer:
    """That the consumer edge serves it: to whom, and how. setting: one without which what it asks for is unknown."""

    access: Access
    policy: RoutePolicy = RoutePolicy.READ
    setting: str = ""


@dataclass(frozen=True, slots=True)
class Admin:
    """That the admin edge serves it, and to which roles.

    writers: who, where ROLE_MATRIX is strict; else every role of MANAGEMENT, unless `always` says that these
    alone are meant in either matrix. signed: outside the role gate; a signature says who asks.
    """

    writers: frozenset[str] = MANAGEMENT
    always: bool = False
    signed: bool = False

    def roles(self, role_matrix: str) -> frozenset[str]:
        """The roles that open the route, under a setting of ROLE_MATRIX."""
        return self.writers if self.always or role_matrix == "strict" else MANAGEMENT


STAFF: Final = Admin()
"""Every role of the tenant's own staff: what only reads."""

ADMINS: Final = Admin(frozenset({"admin"}))
DESIGNERS: Final = Admin(frozenset({"admin", "designer"}))
"""Who makes what is played."""

REWARD_MANAGERS: Final = Admin(frozenset({"admin", "reward_manager"}))
"""Who moves what is won."""

PLATFORM_ALONE: Final = Admin(frozenset({PLATFORM}), always=True)
STAFF_OR_PLATFORM: Final = Admin(MANAGEMENT | {PLATFORM}, always=True)
SIGNED: Final = Admin(frozenset(), signed=True)


@dataclass(frozen=True, slots=True)
class Command:
    """How an operator asks for it at the command line, where nothing special is needed (`ops/commands.py`).

    usage: "prizes update PRIZE FILE", "players grant PLAYER --reason! --key": the group and the command's name, then
        its arguments and options. The first argument fills the path's {id}. A name is the field's that it sets, or
        its beginning (`--campaign` is campaign_id), or says which: `--since=won_from`. [Q] may be left out,
        `--reason!` may not, and CODES... is any number. FILE is a file with the fields of the row's resource, `--key`
        an Idempotency-Key, `--most=50` how many items of a list are shown at most.
    about: what the command does.
    help: what is to be said of its arguments and options, beside what is usual.
    one: of a list, show only the item whose id is the argument.
    sends: fields that the command itself sets.
    confirm: the question that is asked before anything is done.
    columns: "id, by=made_by": a table of a list's items, or lines about one thing: title and text.
    says: the line about what was done. Without it, and without columns: the reply as YAML.
    as_json: people are shown JSON, too.
    unless: a flag of the reply without which the command has failed.
    kept: what is said of each of the reply's `kept`: what could not be done, so that the command has failed.

    A text names fields of the reply, and parameters, in braces; `{created_at:day}` shows one in a form of
    `runtime/commands/forms.py`, and `{:left}` the whole item. A column that is one field alone needs no braces.
    """

    usage: str
    about: str
    help: Mapping[str, str] = field(default_factory=dict)
    one: bool = False
    sends: Mapping[str, Any] = field(default_factory=dict)
    confirm: str = ""
    columns: str = ""
    says: str = ""
    as_json: bool = False
    unless: str = ""
    kept: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One row.

    name: the RPC's. route: REST's verb and path, under /api/v1.
    run: the function that does it, whose docstring says what that is; or actor: whose mailbox its requests
        wait in, and about: what it does.
    resource: the request's field that wraps a resource ("game"), else empty.
    consumer, admin: how each edge serves it; None: not there.
    session: what it does with a session of play.
    tokens: what it does with tokens of staff.
    finds_codes: its field `code` finds what has a voucher code, so that an edge limits how often one of staff guesses.
    tenant_wide: not for the staff of one merchant; to be said of what no merchant's things are part of.
    unsuspended: done for who is suspended too.
    withheld: refused to who is suspended, though it only reads: it hands out much at once, or for long.
    confides: its answer may hold what its owner alone may see (a code), so no store keeps it for replays.
    bounded: strangers may ask for it as often as they like, so Core does few at once and plays find a connection.
    lengthy: it counts or copies much, moves all that a player has, or calls others, so only each of its steps is
        bounded. Whatever else takes longer than ANSWER_TIMEOUT_SECONDS is UNAVAILABLE.
    streamed: its body is read as it arrives, and may be lines of text.
    stales: what it changes is read by many, so cached answers of the tenant are old after it.
    refusals: its own reasons (runtime/http/docs/refusals.py), beside those that follow from the row.
    example: a body as the edges take it; None where it has none.
    shape: how the edges show its reply, where that does not follow from the message.
    command: how operators ask for it at the command line.

    subject follows from the path, what its {id} is the id of: "game" in /games/{id}/start; "" where it has none.
    What game.proto says of the RPC follows: service, request and reply (the messages' classes), and scoped:
    whether it is about a tenant (CreateTenant, say, is above any).
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
    finds_codes: bool = False
    tenant_wide: bool = False
    unsuspended: bool = False
    withheld: bool = False
    confides: bool = False
    bounded: bool = False
    lengthy: bool = False
    streamed: bool = False
    stales: bool = False
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
        assert (self.run is None) != (self.actor is None), f"{self.name} is a function's or an actor's"
        assert self.run is not None or self.about, f"{self.name} says nowhere what it does"
        assert (self.example is not None) == self.has_body, f"{self.name} has an example where it has a body"

    @property
    def commands(self) -> tuple[Command, ...]:
        """Its commands; most have one, if any."""
        return (self.command,) if isinstance(self.command, Command) else self.command

    @property
    def rpc_path(self) -> str:
        """gRPC's path: /game.v1.GameService/CreateGame."""
        return f"/game.v1.{self.service}/{self.name}"

    @property
    def has_body(self) -> bool:
        """Whether REST sends the request as a body, and not as query parameters."""
        return self.verb in ("POST", "PUT")

    @property
    def makes(self) -> bool:
        """Whether it makes a resource."""
        return self.verb == "POST" and bool(self.resource)

    @property
    def keyed(self) -> bool:
        """Whether it takes an Idempotency-Key."""
        return "idempotency_key" in fields_of(self.request)

    @property
    def suspends(self) -> bool:
        """Whether it is refused to who is suspended: whatever does something in a tenant, and what is withheld."""
        return self.withheld or (self.scoped and self.has_effect and not self.unsuspended)

    @property
    def has_effect(self) -> bool:
        """Whether it does something."""
        return self.verb != "GET"

    @property
    def of_player(self) -> bool:
        """Whether its request names a player: on the consumer edge, who asks."""
        return "player_id" in fields_of(self.request)
