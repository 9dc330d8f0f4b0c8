"""The parts of a running server, each made when it is first needed: identity, Graph, storage, records, delivery.

Making a part touches no network. A part that is misconfigured raises its own reason to whoever needs it, every time;
the others work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from entrabot_host.assembly import Assembly
from entrabot_host.clock import Clock, SystemClock
from entrabot_host.config import Config
from entrabot_host.delivery.sleep import SleepWatch
from entrabot_host.discovery import HOST
from entrabot_host.errors import EntrabotError, NotStarted
from entrabot_host.folders import Folders
from entrabot_host.host import Identity, Inbox, Outcome, Records, Sponsor, Store
from entrabot_host.identity.settings import AgentUserSettings, BehaviourSettings, SponsorSettings
from entrabot_host.security.clouds import Cloud, CloudSettings, resolve_cloud
from entrabot_host.security.settings import EnvelopeSettings
from entrabot_host.shared import Shared
from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from entrabot_host.storage.settings import StorageSettings, open_backend

if TYPE_CHECKING:  # imported where they are first needed: none of it before the client has its first answers
    from entrabot_host.calls import Carrier
    from entrabot_host.delivery.inbox import ChannelSink, InboxService
    from entrabot_host.graph.client import GraphClient
    from entrabot_host.identity.authorization import Authorizer
    from entrabot_host.identity.bindings import Bindings
    from entrabot_host.identity.session import Session
    from entrabot_host.identity.sponsors import SponsorDirectory
    from entrabot_host.identity.tenants import TenantFinder
    from entrabot_host.records.audit import AuditLog
    from entrabot_host.records.interactions import InteractionLog
    from entrabot_host.records.recorder import Recorder
    from entrabot_host.storage.backend import MemoryBackend
    from entrabot_host.storage.blob_credential import BlobAccess


class Parts:
    """Owner of all that the plugins' facets stand on. Implements `entrabot_host.bound.Services`."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.sleep_watch = SleepWatch(self._woke)
        self.client_state: Callable[[], dict[str, Any]] = dict
        self._assembly: Assembly | None = None
        self._backend: Shared[MemoryBackend] = Shared(self._open_backend)
        self._owned = OwnedKeys()
        self._sink: ChannelSink | None = None

    # --- what the outside gives -------------------------------------------------------------------------------------

    def adopt(self, assembly: Assembly) -> None:
        """Assembly is over: facets may be used, and no more storage keys are given away."""
        for problem in assembly.problems:
            self._owned.release(problem.plugin.name)
        self._owned.freeze()
        self._assembly = assembly

    def connect(self, sink: ChannelSink, client_state: Callable[[], dict[str, Any]]) -> None:
        """Say how messages are pushed to the client, and how to describe the client."""
        self._sink = sink
        self.client_state = client_state

    @property
    def started(self) -> bool:
        """Whether assembly is over."""
        return self._assembly is not None

    @property
    def assembly(self) -> Assembly:
        """What was assembled. Raises `NotStarted` before that."""
        if self._assembly is None:
            raise NotStarted("This was used while plugins are being assembled.")
        return self._assembly

    # --- identity and Graph -----------------------------------------------------------------------------------------

    @cached_property
    def folders(self) -> Folders:
        """Where files are kept."""
        return self.config.load(Folders)

    @cached_property
    def cloud(self) -> Cloud:
        """The chosen Microsoft cloud. Raises `SettingsError`."""
        return resolve_cloud(self.config.load(CloudSettings))

    @cached_property
    def session(self) -> Session:
        """The signed-in identity, and its tokens."""
        from entrabot_host.identity.session import Session

        return Session([part.auth for part in self.assembly.contributions if part.auth is not None])

    @cached_property
    def graph(self) -> GraphClient:
        """The one Graph client. Raises `SettingsError`."""
        from entrabot_host.graph.client import GraphClient

        return GraphClient(self.cloud, self.session, ca_bundle=self._ca_bundle)

    @cached_property
    def sponsors(self) -> SponsorDirectory:
        """The agent's sponsors."""
        from entrabot_host.identity.sponsors import SponsorDirectory

        settings = self.config.load(SponsorSettings)
        return SponsorDirectory(self.session, self.graph, settings, self.store(HOST))

    @cached_property
    def bindings(self) -> Bindings:
        """Which sponsor spoke last in which conversation."""
        from entrabot_host.identity.bindings import Bindings

        return Bindings(self.config.load(BehaviourSettings).sponsor_binding_seconds, self.now)

    @cached_property
    def identity(self) -> Identity:
        """The identity facet, shared by all plugins."""
        from entrabot_host.identity.facet import IdentityFacet

        return IdentityFacet(self.cloud, self.session, self.sponsors, self._authorizer, self._tenants)

    @cached_property
    def _authorizer(self) -> Authorizer:
        from entrabot_host.identity.authorization import Authorizer

        return Authorizer(self.session, self.sponsors, self.bindings, self.graph, granted=self.recorder.granted)

    @cached_property
    def _tenants(self) -> TenantFinder:
        from entrabot_host.identity.tenants import TenantFinder

        return TenantFinder(self.cloud, self._ca_bundle)

    @property
    def _ca_bundle(self) -> str:
        return self.config.load(CloudSettings).ca_bundle

    def now(self) -> datetime:
        """Return the time on Graph's clock, or this machine's before the first answer."""
        return self.graph.now() if "graph" in self.__dict__ else self.clock.now()

    # --- storage and records ----------------------------------------------------------------------------------------

    async def backend(self) -> MemoryBackend:
        """Return the storage backend once it is known to work. Raises the reason why it does not."""
        if not self.started:
            raise NotStarted("host.store was used while plugins are being assembled.")
        return await self._backend.get()

    async def _open_backend(self) -> MemoryBackend:
        backend = open_backend(self.config.load(StorageSettings), self.folders.data, self.blob_access)
        try:
            await backend.check()
        except BaseException:
            await backend.aclose()
            raise
        return backend

    def blob_access(self) -> BlobAccess:
        """How Azure Blob Storage is reached as the agent. Raises `SettingsError`."""
        from entrabot_host.storage.blob_credential import BlobAccess

        return BlobAccess(self.cloud, self._ca_bundle, self.session.token)

    def store(self, plugin: str) -> Store:
        """The store of one plugin."""
        return StoreFacet(plugin, self.backend, self._owned)

    @cached_property
    def audit_log(self) -> AuditLog:
        """The audit log; always on this machine."""
        from entrabot_host.records.audit import AuditLog

        return AuditLog(self.folders.audit, self._agent_id)

    def _agent_id(self) -> str:
        """The id a deed is attributed to: of the session, else of the settings; empty means refuse."""
        me = self.session.known_principal
        if me is not None and (me.agent_id or me.user_id):
            return me.agent_id or me.user_id
        return self.config.load(AgentUserSettings).agent_id

    @cached_property
    def interactions(self) -> InteractionLog:
        """The interaction log."""
        from entrabot_host.records.interactions import InteractionLog

        return InteractionLog(self.backend)

    @cached_property
    def recorder(self) -> Recorder:
        """Writes down what is done and what is heard, in the name of whoever is signed in."""
        from entrabot_host.records.recorder import Recorder

        return Recorder(self.session, self.audit_log, self.interactions, lambda: self.bindings)

    async def write_audit(
        self, plugin: str, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any]
    ) -> str:
        """Write one audit line; return its event id. Raises `AttributionError`."""
        return await self.recorder.audit(plugin, action, resource, outcome, metadata)

    def records(self, plugin: str) -> Records:
        """The records facet of one plugin."""
        from entrabot_host.records.facet import RecordsFacet

        return RecordsFacet(plugin, self.recorder.audit, self.interactions)

    # --- delivery ---------------------------------------------------------------------------------------------------

    @cached_property
    def inbox_service(self) -> InboxService:
        """Delivery of people's messages to this session."""
        from entrabot_host.delivery.book import boot_clock
        from entrabot_host.delivery.capability import Capability
        from entrabot_host.delivery.inbox import InboxService
        from entrabot_host.delivery.settings import DeliverySettings

        delivery = self.config.load(DeliverySettings)
        return InboxService(
            backend_source=self.backend,
            data_folder=self.folders.data,
            now=self.now,
            sink=self._require_sink(),
            sponsor_of=self._sponsor_of,
            on_delivered=self.recorder.delivered,
            envelope=self.config.load(EnvelopeSettings).enabled,
            capability=Capability(delivery.push, self._client_name, boot_clock),
            rides=delivery.inbox == "on",
            awake=self.sleep_watch.check,
        )

    def inbox(self, plugin: str) -> Inbox:
        """The inbox facet of one plugin."""
        from entrabot_host.delivery.inbox import InboxFacet

        return InboxFacet(plugin, self.inbox_service)

    def carrier(self) -> Carrier | None:
        """What puts people's messages into results of calls; None while it cannot be had."""
        try:
            return self.inbox_service
        except EntrabotError:
            return None

    def _require_sink(self) -> ChannelSink:
        if self._sink is None:
            raise NotStarted("Messages cannot be delivered before a client is connected.")
        return self._sink

    def _client_name(self) -> str:
        return str(self.client_state().get("name", ""))

    async def _sponsor_of(self, user_id: str, tenant_id: str) -> Sponsor | None:
        return await self.sponsors.sponsor_of(user_id, tenant_id)

    # --- sleep and end ----------------------------------------------------------------------------------------------

    async def _woke(self) -> None:
        """The machine slept, or a clock jumped: trust nothing that was known before. Preferences are in the records."""
        if "bindings" in self.__dict__:
            self.bindings.drop_all()
        if "inbox_service" in self.__dict__:
            self.inbox_service.forget_records()
        if "graph" in self.__dict__:
            await self.graph.drop_connections()

    async def aclose(self) -> None:
        """Close what was made. Quick and without network; the caller bounds the time."""
        await self.sleep_watch.aclose()
        for part in ("inbox_service", "_tenants", "graph", "session", "audit_log"):
            if part in self.__dict__:
                await self.__dict__[part].aclose()
        if (backend := await self._backend.abandon()) is not None:
            await backend.aclose()
