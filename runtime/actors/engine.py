"""The shared dependencies of all actors. One engine per process that hosts Core."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from runtime.actors.committer import Committer
from runtime.actors.dispatcher import Dispatcher
from runtime.actors.mailbox import Key, Mailboxes, Request, State
from runtime.actors.starts import Starts
from runtime.outgoing.objects import Objects
from runtime.outgoing.sending import Sending
from runtime.settings import Settings
from runtime.settings.kinds import bucket_of
from runtime.stores.clock import Clock
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.keyring import Keyring
from runtime.stores.leases import Leases
from runtime.stores.paging import Cursors
from runtime.stores.publisher import Publisher
from runtime.stores.rankings import Rankings
from runtime.stores.single_flight import SingleFlight


@dataclass(slots=True)
class Engine:
    """database: the durable store, authoritative. ephemeral: a convenience that may lose data.

    clock: the database's time. publisher: events and task ids, after a commit. catalog_versions: the newest catalogue
    version of each tenant that this process has written or seen. A change made here applies at once; for changes made
    elsewhere, the commit's guard detects the stale version. keyring: the keys to sign and encrypt with. committer:
    writes the actors' decisions. rankings: the live leaderboards. dispatcher: delivers events to integrations. starts:
    counts game starts. leases: the background jobs that this process runs for all of them. log_passes: the passes over
    tenants' logs that requests wait for. sending: limits the sending of login codes. objects: the bucket of assets;
    None: they are in the database.
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
    leases: Leases = field(init=False)
    log_passes: SingleFlight = field(init=False, default_factory=SingleFlight)
    sending: Sending = field(init=False, default_factory=Sending)
    objects: Objects | None = field(init=False, default=None)
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
        self.dispatcher = Dispatcher(settings, self.database, self.keyring)
        self.starts = Starts(self.database)
        self.leases = Leases(self.database)
        if settings.assets_url:
            keys = (settings.assets_key_id, settings.assets_secret_key)
            self.objects = Objects(bucket_of(settings.assets_url), *keys, allow=settings.outbound_allow_cidrs)

    @property
    def cursors(self) -> Cursors:
        """Signs and verifies the cursors of every list."""
        return Cursors(self.keyring.server)

    def catalog_changed(self, tenant_id: str, version: int) -> None:
        """Records that the tenant's catalogue is now at `version`."""
        if version > self.catalog_versions.get(tenant_id, 0):
            self.catalog_versions[tenant_id] = version


class Actors(Mailboxes[Key, Request, State]):
    """A kind of actor that handles operations. Core creates one of each kind that the operations name."""

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
        """The key of the request's mailbox."""

    def distrust(self) -> None:
        """Makes each actor read all cached state again."""
