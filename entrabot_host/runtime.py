"""What lives while the server runs: identity, Graph, storage, records, delivery, background work.

Nothing here touches the network until `Runtime.warm_up`, which starts right after the first answers to the client;
and nothing that others can see happens before `Runtime.begin`. A part that is misconfigured raises its own reason to
whoever needs it; the rest works.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from entrabot_host.assembly import Assembly
from entrabot_host.auth.provider import Attribution
from entrabot_host.background import Supervisor
from entrabot_host.calls import Carrier
from entrabot_host.clock import Clock, SystemClock
from entrabot_host.config import Config
from entrabot_host.delivery.sleep import SleepWatch
from entrabot_host.discovery import HOST, STRICT, Installed, switch
from entrabot_host.errors import AttributionError, AuthError, EntrabotError, NotStarted, PluginError
from entrabot_host.failures import Failures
from entrabot_host.folders import Folders
from entrabot_host.host import (
    Conversation,
    ConversationKind,
    Direction,
    Identity,
    Inbox,
    Interaction,
    Message,
    Outcome,
    Records,
    Sponsor,
    Store,
)
from entrabot_host.identity.settings import AgentUserSettings, BehaviourSettings, SponsorSettings
from entrabot_host.security.clouds import Cloud, CloudSettings, resolve_cloud
from entrabot_host.security.settings import EnvelopeSettings
from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from entrabot_host.storage.settings import StorageSettings, open_backend
from entrabot_host.tasks import Gate, Health

if TYPE_CHECKING:  # imported where they are first needed: none of it before the client has its first answers
    from entrabot_host.delivery.inbox import ChannelSink, InboxService
    from entrabot_host.graph.client import GraphClient
    from entrabot_host.identity.authorization import Authorizer, Grant
    from entrabot_host.identity.bindings import Bindings
    from entrabot_host.identity.session import Session
    from entrabot_host.identity.sponsors import SponsorDirectory
    from entrabot_host.identity.tenants import TenantFinder
    from entrabot_host.records.audit import AuditLog
    from entrabot_host.records.interactions import InteractionLog
    from entrabot_host.storage.backend import MemoryBackend
    from entrabot_host.storage.blob_credential import BlobAccess

log = logging.getLogger(__name__)
T = TypeVar("T")
_LIFESPAN_SECONDS = 30.0
_SIGN_IN_SECONDS = 10.0
"""How long an audit line waits for a sign-in under way, to be attributed to the session rather than to the settings."""


class Shared(Generic[T]):
    """A value made once. Concurrent callers share an attempt; after a failure the next caller makes a new one."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._attempt: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the value. Cancelling one caller leaves the attempt to the others."""
        if self._attempt is None or (self._attempt.done() and _failed(self._attempt)):
            self._attempt = asyncio.create_task(self._run())
        return await asyncio.shield(self._attempt)

    async def abandon(self) -> T | None:
        """Stop an attempt under way; return the value if there is one."""
        if self._attempt is None:
            return None
        self._attempt.cancel()
        (outcome,) = await asyncio.gather(self._attempt, return_exceptions=True)
        return None if isinstance(outcome, BaseException) else outcome

    async def _run(self) -> T:
        return await self._make()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


class Runtime:
    """Owner of all that lives. Implements `entrabot_host.bound.Services`."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._strict = switch(config, STRICT)
        self._assembly: Assembly | None = None
        self._backend: Shared[MemoryBackend] = Shared(self._open_backend)
        self._hearing: Shared[None] = Shared(self._begin_to_hear)
        self._owned = OwnedKeys()
        self._lifespans = AsyncExitStack()
        self._starting: dict[str, asyncio.Event] = {}
        self._warming = False
        self._not_started: dict[str, PluginError] = {}
        self._sink: ChannelSink | None = None
        self.failures = Failures(self.backend)
        self.supervisor = Supervisor(self._open_gate, self.failures, self._clock)
        self._sleep_watch = SleepWatch(self._woke)
        self.client_state: Callable[[], dict[str, Any]] = dict

    # --- the parts, each made when it is first needed ---------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether assembly is over."""
        return self._assembly is not None

    @cached_property
    def folders(self) -> Folders:
        """Where files are kept."""
        return self._config.load(Folders)

    @cached_property
    def cloud(self) -> Cloud:
        """The chosen Microsoft cloud. Raises `SettingsError`."""
        return resolve_cloud(self._config.load(CloudSettings))

    @cached_property
    def session(self) -> Session:
        """The signed-in identity, and its tokens."""
        from entrabot_host.identity.session import Session

        if self._assembly is None:
            raise NotStarted("The session was used while plugins are being assembled.")
        return Session([part.auth for part in self._assembly.contributions if part.auth is not None])

    @cached_property
    def graph(self) -> GraphClient:
        """The one Graph client. Raises `SettingsError`."""
        from entrabot_host.graph.client import GraphClient

        return GraphClient(self.cloud, self.session, ca_bundle=self._config.load(CloudSettings).ca_bundle)

    @cached_property
    def sponsors(self) -> SponsorDirectory:
        """The agent's sponsors."""
        from entrabot_host.identity.sponsors import SponsorDirectory

        settings = self._config.load(SponsorSettings)
        return SponsorDirectory(self.session, self.graph, settings, self.store(HOST))

    @cached_property
    def bindings(self) -> Bindings:
        """Which sponsor spoke last in which conversation."""
        from entrabot_host.identity.bindings import Bindings

        return Bindings(self._config.load(BehaviourSettings).sponsor_binding_seconds, self.now)

    @cached_property
    def identity(self) -> Identity:
        """The identity facet, shared by all plugins."""
        from entrabot_host.identity.facet import IdentityFacet

        return IdentityFacet(self.session, self.sponsors, self._authorizer, self._tenants)

    @cached_property
    def _authorizer(self) -> Authorizer:
        from entrabot_host.identity.authorization import Authorizer

        return Authorizer(self.session, self.sponsors, self.bindings, self.graph, granted=self._granted)

    @cached_property
    def _tenants(self) -> TenantFinder:
        from entrabot_host.identity.tenants import TenantFinder

        return TenantFinder(self.cloud, self._config.load(CloudSettings).ca_bundle)

    @cached_property
    def audit_log(self) -> AuditLog:
        """The audit log; always on this machine."""
        from entrabot_host.records.audit import AuditLog

        return AuditLog(self.folders.audit, self._agent_id)

    @cached_property
    def interactions(self) -> InteractionLog:
        """The interaction log."""
        from entrabot_host.records.interactions import InteractionLog

        return InteractionLog(self.backend)

    @cached_property
    def inbox_service(self) -> InboxService:
        """Delivery of people's messages to this session."""
        from entrabot_host.delivery.book import boot_clock
        from entrabot_host.delivery.capability import Capability
        from entrabot_host.delivery.inbox import InboxService
        from entrabot_host.delivery.settings import DeliverySettings

        delivery = self._config.load(DeliverySettings)
        return InboxService(
            backend_source=self.backend,
            data_folder=self.folders.data,
            now=self.now,
            sink=self._require_sink(),
            sponsor_of=self._sponsor_of,
            on_delivered=self._delivered,
            envelope=self._config.load(EnvelopeSettings).enabled,
            capability=Capability(delivery.push, self._client_name, boot_clock),
            rides=delivery.inbox == "on",
            awake=self._sleep_watch.check,
        )

    def carrier(self) -> Carrier | None:
        """What puts people's messages into results of calls; None while it cannot be had."""
        try:
            return self.inbox_service
        except EntrabotError:
            return None

    def _client_name(self) -> str:
        return str(self.client_state().get("name", ""))

    def store(self, plugin: str) -> Store:
        """The store of one plugin."""
        return StoreFacet(plugin, self.backend, self._owned)

    def records(self, plugin: str) -> Records:
        """The records facet of one plugin."""
        from entrabot_host.records.facet import RecordsFacet

        return RecordsFacet(plugin, self.write_audit, self.interactions)

    def inbox(self, plugin: str) -> Inbox:
        """The inbox facet of one plugin."""
        from entrabot_host.delivery.inbox import InboxFacet

        return InboxFacet(plugin, self.inbox_service)

    async def backend(self) -> MemoryBackend:
        """Return the storage backend once it is known to work. Raises the reason why it does not."""
        if not self.started:
            raise NotStarted("host.store was used while plugins are being assembled.")
        return await self._backend.get()

    async def _open_backend(self) -> MemoryBackend:
        backend = open_backend(self._config.load(StorageSettings), self.folders.data, self.blob_access)
        try:
            await backend.check()
        except BaseException:
            await backend.aclose()
            raise
        return backend

    def blob_access(self) -> BlobAccess:
        """How Azure Blob Storage is reached as the agent. Raises `SettingsError`."""
        from entrabot_host.storage.blob_credential import BlobAccess

        return BlobAccess(self.cloud, self._config.load(CloudSettings).ca_bundle, self.session.token)

    def now(self) -> datetime:
        """Return the time on Graph's clock, or this machine's before the first answer."""
        return self.graph.now() if "graph" in self.__dict__ else self._clock.now()

    # --- lifecycle --------------------------------------------------------------------------------------------------

    def adopt(self, assembly: Assembly) -> None:
        """Assembly is over: facets may be used, and no more storage keys are given away."""
        for problem in assembly.problems:
            self._owned.release(problem.plugin.name)
        self._owned.freeze()
        self._starting = {part.name: asyncio.Event() for part in assembly.contributions if part.lifespan is not None}
        self._assembly = assembly

    def connect(self, sink: ChannelSink, client_state: Callable[[], dict[str, Any]]) -> None:
        """Say how messages are pushed to the client, and how to describe the client."""
        self._sink = sink
        self.client_state = client_state

    async def warm_up(self) -> None:
        """Sign in and open the storage, concurrently. A failure is logged, and told to whoever needs the part."""
        self._warming = True
        try:
            await asyncio.gather(
                self._attempted("storage", self.backend),
                self._attempted("signing in", self._sign_in_and_read_sponsors),
            )
        finally:
            self._warming = False

    @property
    def busy(self) -> bool:
        """Whether warming up or an iteration of background work is under way."""
        return self._warming or any(state.busy for state in self.supervisor.states)

    async def _sign_in_and_read_sponsors(self) -> None:
        await self._hearing.get()
        await self.sponsors.sponsors()

    async def _begin_to_hear(self) -> None:
        """From this moment on people are heard, on Graph's clock: the sponsors are asked for first, so it is known."""
        from entrabot_host.delivery.start import Beginnings

        await self.session.principal()
        with suppress(EntrabotError):
            await self.sponsors.sponsors()
        await Beginnings(self.now).first_run(await self.backend())

    async def _attempted(self, what: str, part: Callable[[], Awaitable[Any]]) -> None:
        try:
            await part()
        except EntrabotError as error:
            log.error("%s failed: %s %s", what, error.message, error.remedy)

    async def begin(self) -> None:
        """The client has really begun: enter the plugins' lifespans and start the background tasks."""
        if self._assembly is None:
            raise NotStarted("begin() comes after adopt().")
        tasks = []
        for part in self._assembly.contributions:
            if part.lifespan is not None:
                await self._enter(part.plugin.installed, part.lifespan)
            tasks += [(part.plugin.installed, task) for task in part.tasks]
        self.supervisor.start(tasks)
        self._sleep_watch.start()

    async def _enter(self, plugin: Installed, lifespan: AbstractAsyncContextManager[None]) -> None:
        """Enter one plugin's lifespan; its failure stays its own, unless the operator is strict."""
        try:
            async with asyncio.timeout(_LIFESPAN_SECONDS):
                await self._lifespans.enter_async_context(lifespan)
        except Exception as error:
            self._not_started[plugin.name] = PluginError(
                f"The plugin {plugin.name!r} could not start, so its tools do not work.",
                remedy="whoami shows the cause under plugins, failing; the server's log has more.",
            )
            await self.failures.note(plugin, "lifespan", error)
            if self._strict:
                raise PluginError(f"The lifespan of plugin {plugin.name!r} failed to start.") from error
        finally:
            self._starting[plugin.name].set()

    async def plugin_started(self, plugin: str) -> None:
        """Wait until a plugin's lifespan was entered, where it has one. Raises `PluginError` when that failed."""
        if (starting := self._starting.get(plugin)) is None:
            return
        async with asyncio.timeout(_LIFESPAN_SECONDS):
            await starting.wait()
        if plugin in self._not_started:
            raise self._not_started[plugin]

    async def aclose(self) -> None:
        """Stop everything. Quick and without network; the caller bounds the time."""
        await self.supervisor.aclose()
        await self._sleep_watch.aclose()
        try:
            await self._lifespans.aclose()
        except Exception as error:  # a plugin's failure stays its own
            log.error("a plugin's lifespan failed to end: %s: %s", type(error).__name__, error)
        for part in ("inbox_service", "_tenants", "graph", "session", "audit_log"):
            if part in self.__dict__:
                await self.__dict__[part].aclose()
        if (backend := await self._backend.abandon()) is not None:
            await backend.aclose()

    async def _woke(self) -> None:
        """The machine slept, or a clock jumped: trust nothing that was known before. Preferences are in the records."""
        if "bindings" in self.__dict__:
            self.bindings.drop_all()
        if "inbox_service" in self.__dict__:
            self.inbox_service.forget_records()
        if "graph" in self.__dict__:
            await self.graph.drop_connections()

    async def _open_gate(self, gate: Gate) -> str:
        """Say what a background task waits for, empty when it may run. Storage comes before polling."""
        if gate is Gate.ALWAYS:
            return ""
        try:
            await self.backend()
            me = await self.session.principal()
            await self._hearing.get()
        except EntrabotError as error:
            return f"{type(error).__name__}: {error.message}"
        if gate is Gate.AGENT_USER and me.attribution is not Attribution.AGENT:
            return "a session of the agent's own identity"
        return ""

    # --- records and delivery ---------------------------------------------------------------------------------------

    async def write_audit(
        self, plugin: str, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any]
    ) -> str:
        """Write one audit line in the name of whoever is signed in. Raises `AttributionError`."""
        failure: AuthError | None = None
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                await self.session.principal()
        except AuthError as error:
            failure = error
        except TimeoutError:
            log.debug("an audit line does not wait for signing in any longer")
        try:
            return await self.audit_log.write(
                action, resource, outcome, plugin=plugin, attribution=self._attribution(), metadata=metadata
            )
        except AttributionError as error:
            if failure is None:
                raise
            raise AttributionError(f"{error.message} {failure.message}", remedy=failure.remedy) from None

    def _attribution(self) -> Attribution:
        me = self.session.known_principal
        return me.attribution if me is not None else Attribution.NONE

    def _agent_id(self) -> str:
        """The id a deed is attributed to: of the session, else of the settings; empty means refuse."""
        me = self.session.known_principal
        if me is not None and (me.agent_id or me.user_id):
            return me.agent_id or me.user_id
        return self._config.load(AgentUserSettings).agent_id

    def _require_sink(self) -> ChannelSink:
        if self._sink is None:
            raise NotStarted("Messages cannot be delivered before a client is connected.")
        return self._sink

    async def _sponsor_of(self, user_id: str, tenant_id: str) -> Sponsor | None:
        return await self.sponsors.sponsor_of(user_id, tenant_id)

    async def _delivered(
        self, conversation: Conversation, message: Message, sponsor: Sponsor | None, live: bool
    ) -> None:
        """After the push: bind the sponsor to the conversation, if he spoke just now; and remember the message."""
        me = self.session.known_principal
        if sponsor is not None and live and me is not None and me.attribution is Attribution.AGENT:
            self.bindings.mint(sponsor, conversation, message.id, message.created)
        await self.interactions.append(
            Interaction(
                channel=_channel_of(conversation),
                direction=Direction.INBOUND,
                sender=message.sender_address or message.sender_name or message.sender_id,
                summary=message.text[:200],
                content_ref=message.id,
                metadata={"chat_id": conversation.id, "sender_id": message.sender_id, "sponsor": sponsor is not None},
            )
        )

    async def _granted(self, grant: Grant) -> None:
        """Record on whose word something is done before it counts."""
        metadata = {
            "message_id": grant.message_id,
            "beneficiary": grant.beneficiary,
            "sponsor": grant.sponsor.object_id,
        }
        await self.write_audit(HOST, "sponsor.authorize", grant.conversation.id, Outcome.SUCCESS, metadata)

    # --- health -----------------------------------------------------------------------------------------------------

    async def check_graph(self) -> Health:
        """Whether Graph answers for this identity."""
        await self.graph.request("GET", "/me", params={"$select": "id"}, timeout=15.0)
        return Health(True, f"Graph answers at {self.cloud.graph_url}")

    async def check_storage(self) -> Health:
        """Whether state can be stored."""
        backend = await self.backend()
        await backend.check()
        return Health(True, f"{backend.name}: {backend.location}")


def _channel_of(conversation: Conversation) -> str:
    """Name the channel as the interaction log does; ids of 1:1 chats end like that (Graph's documentation of chats)."""
    if conversation.kind is ConversationKind.MAIL:
        return "email"
    return "teams_dm" if conversation.id.endswith("@unq.gbl.spaces") else "teams_group"
