"""The agent's sponsors: who they are, and which object ids prove them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from entrabot_host.auth.cache import boot_clock
from entrabot_host.auth.provider import Attribution, Principal
from entrabot_host.errors import AuthError, EntrabotError, GraphError, GraphForbidden, GraphNotFound
from entrabot_host.host import Graph, Sponsor
from entrabot_host.identity.addresses import normalise
from entrabot_host.identity.homes import Home, Pins, PinStore
from entrabot_host.identity.session import Session
from entrabot_host.identity.settings import SponsorSettings, parse_guid
from entrabot_host.identity.sponsor_sources import Known, Reading, from_directory, from_settings, with_settings

FRESH_SECONDS = 300.0
STALE_SECONDS = 3600.0
RETRY_SECONDS = 15.0

_log = logging.getLogger(__name__)


class SponsorDirectory:
    """Reads the sponsors, keeps them for five minutes, and tells whom an object id proves.

    The directory's list decides who is a sponsor. When it cannot be read, the last list counts for up to an hour.
    Where it can never be read (no ``ENTRABOT_AGENT_OBJECT_ID``, a person's identity, a permission that is missing),
    the sponsors named by ``ENTRABOT_HUMAN_*`` take its place, and `problems` says so. Otherwise the failure is
    raised: nobody is taken for a sponsor, or refused as a stranger, because of a bad connection.

    store: where learnt home identities are pinned, under ``sponsors.json``.
    """

    def __init__(
        self,
        session: Session,
        graph: Graph,
        settings: SponsorSettings,
        store: PinStore,
        *,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._session = session
        self._graph = graph
        self._settings = settings
        self._configured = from_settings(settings)
        self._pins = Pins(store)
        self._clock = clock
        self._lock = asyncio.Lock()
        self._reading: Reading | None = None
        self._read_at = 0.0
        self._failure: EntrabotError | None = None
        self._failed_at = 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the sponsors, in sentences for the operator; as of the last reading."""
        found = self._reading.problems if self._reading else ()
        failed = (f"The sponsors could not be read: {self._failure.message}",) if self._failure else ()
        pins = (self._pins.problem,) if self._pins.problem else ()
        return (*found, *failed, *pins)

    async def sponsors(self) -> Sequence[Sponsor]:
        """Return the sponsors. Raises `AuthError` or `GraphError` when they are not known."""
        return [self._with_home(known) for known in (await self._current()).known]

    async def named(self, address: str) -> Sequence[Sponsor]:
        """Return the sponsors whom this address names: none, one, or more where they share it."""
        form = normalise(address)
        return [sponsor for sponsor in await self.sponsors() if form and form in sponsor.addresses]

    async def sponsor_of(self, user_id: str, tenant_id: str = "") -> Sponsor | None:
        """Return the sponsor whom this object id in this tenant proves, or None. Raises as `sponsors`.

        An empty tenant id stands for the agent's own tenant, or the home of a sponsor whose home is known.
        """
        user_id, tenant_id = user_id.lower(), tenant_id.lower()
        if not user_id:
            return None
        own = (await self._session.principal()).tenant_id.lower()
        for known in (await self._current()).known:
            sponsor = self._with_home(known)
            if user_id == sponsor.object_id and tenant_id in {"", own, known.home_hint or own}:
                return sponsor
            if user_id == sponsor.home_id and tenant_id in {"", sponsor.home_tenant}:
                return sponsor
        return None

    async def learn_home(self, address: str, user_id: str, tenant_id: str) -> None:
        """Pin the home identity of the guest at ``address``; the first one stays. See `Identity.learn_home`.

        Where the sponsors are not known at the moment nothing is learnt, and a later call may.
        """
        try:
            home = Home(parse_guid(user_id), parse_guid(tenant_id))
        except ValueError:
            return
        try:
            own = (await self._session.principal()).tenant_id.lower()
            reading = await self._current()
        except (AuthError, GraphError) as error:
            _log.warning("A home identity could not be learnt now: %s", error.message)
            return
        matching = [known for known in reading.known if normalise(address) in known.sponsor.addresses]
        if not home.user_id or not home.tenant_id or home.tenant_id == own or len(matching) != 1:
            return
        known = matching[0]
        if known.guest and known.home_hint in ("", own, home.tenant_id) and not self._configured_home(known):
            await self._pins.add(known.sponsor.object_id, home)

    def _with_home(self, known: Known) -> Sponsor:
        home = self._configured_home(known) or self._pins.get(known.sponsor.object_id)
        return replace(known.sponsor, home_id=home.user_id, home_tenant=home.tenant_id) if home else known.sponsor

    def _configured_home(self, known: Known) -> Home | None:
        for entry in self._settings.home_ids:
            if normalise(entry.address) in known.sponsor.addresses:
                return Home(entry.user_id, entry.tenant_id)
        return None

    async def _current(self) -> Reading:
        async with self._lock:
            if not self._reading or self._clock() - self._read_at >= FRESH_SECONDS:
                await self._refresh()
            if self._reading and self._clock() - self._read_at < STALE_SECONDS:
                return self._reading
        raise (self._failure or AuthError("The agent's sponsors are not known.")).with_traceback(None)

    async def _refresh(self) -> None:
        """Read the sponsors anew; a failure is kept, and not tried again for some seconds."""
        if self._failure and self._clock() - self._failed_at < RETRY_SECONDS:
            return
        try:
            reading = await self._read(await self._session.principal())
        except (GraphError, AuthError) as error:
            self._failure, self._failed_at = error, self._clock()
            _log.warning("The sponsors could not be read: %s", error.message)
            return
        await self._pins.load()
        self._reading, self._read_at, self._failure = reading, self._clock(), None

    async def _read(self, principal: Principal) -> Reading:
        if principal.attribution is not Attribution.AGENT:
            return self._fallback("only the agent's own identity may ask the directory for them")
        if not self._settings.agent_object_id:
            return self._fallback("ENTRABOT_AGENT_OBJECT_ID is not set")
        try:
            reading = await from_directory(self._graph, self._settings.agent_object_id)
        except GraphNotFound:
            if self._has_recent():
                raise
            return self._fallback(
                "ENTRABOT_AGENT_OBJECT_ID names no agent identity of this tenant; "
                "it is the object id of the service principal, not the app id"
            )
        except (GraphForbidden, AuthError) as error:
            if self._has_recent() or (isinstance(error, AuthError) and error.code is None):
                raise
            return self._fallback(error.message)
        return with_settings(reading, self._configured)

    def _has_recent(self) -> bool:
        return self._reading is not None and self._clock() - self._read_at < STALE_SECONDS

    def _fallback(self, reason: str) -> Reading:
        whom = "those of ENTRABOT_HUMAN_USER_IDS count" if self._configured.known else "nobody counts as one"
        problem = f"The directory's list of sponsors cannot be read, so {whom}: {reason}."
        return replace(self._configured, problems=(*self._configured.problems, problem))
