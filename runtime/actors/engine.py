"""What every actor works with. One engine per process that holds Core."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from runtime.actors.committer import Committer
from runtime.actors.dispatcher import Dispatcher
from runtime.actors.mailbox import Key, Mailboxes, Request, State
from runtime.actors.starts import Starts
from runtime.settings import Settings
from runtime.stores.clock import Clock
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.keyring import Keyring
from runtime.stores.paging import Cursors
from runtime.stores.publisher import Publisher
from runtime.stores.rankings import Rankings


@dataclass(slots=True)
class Engine:
    """settings: as refused or accepted at start. database: the truth. ephemeral: the convenience.

    clock: the database's, its time. publisher: events and task ids, after a commit.
    catalog_versions: the newest version of each tenant's catalogue that this process has written or
    seen, so that a change made here is decided by at once (elsewhere the commit's guard finds out).
    keyring: the keys to sign and seal with. committer: writes what the actors decided. rankings: the live
    order of every leaderboard. dispatcher: tells integrations of events. starts: counts the games that are started.
    """

    settings: Settings
    database: Database
    ephemeral: Ephemeral
    publisher: Publisher
    catalog_versions: dict[str, int] = field(default_factory=dict)
    keyring: Keyring = field(init=False)
    committer: Committer = field(init=False)
    rankings: Rankings = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    starts: Starts = field(init=False)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.clock = self.database.clock
        self.keyring = Keyring(settings.server_keys, settings.code_keys)
        self.committer = Committer(
            self.database,
            mailbox_limit=settings.mailbox_limit,
            batch_limit=settings.batch_limit,
            idle_seconds=settings.idle_seconds,
        )
        self.rankings = Rankings(self.database, self.ephemeral)
        self.dispatcher = Dispatcher(settings, self.database)
        self.starts = Starts(self.database)

    @property
    def cursors(self) -> Cursors:
        """The pages of every list."""
        return Cursors(self.keyring.server)

    def catalog_changed(self, tenant_id: str, version: int) -> None:
        """Remembers that the tenant's catalogue is now at `version`."""
        if version > self.catalog_versions.get(tenant_id, 0):
            self.catalog_versions[tenant_id] = version


class Actors(Mailboxes[Key, Request, State]):
    """A kind of actor that does operations. Core makes one of each kind that the rows name."""

    def __init__(self, engine: Engine) -> None:
        settings = engine.settings
        super().__init__(
            limit=settings.mailbox_limit,
            batch_limit=settings.batch_limit,
            idle_seconds=settings.idle_seconds,
            answer_seconds=settings.answer_timeout_seconds,
        )
        self.engine = engine

    @staticmethod
    @abstractmethod
    def key_of(request: Request) -> Key:
        """Whose mailbox the request waits in."""

    def distrust(self) -> None:
        """Has each actor read anew all that it remembers."""
