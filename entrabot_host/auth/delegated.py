"""A person's own sign-in: the agent acts in that person's name, where it has no identity of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from entrabot_host.auth.accounts import Account, account_in
from entrabot_host.auth.cache import TokenCache
from entrabot_host.auth.delegated_settings import CLIENT_ID, DelegatedSettings, sign_in_tenant
from entrabot_host.auth.entra import Entra, token_in
from entrabot_host.auth.failures import Attempt, Hop, refused, unreachable
from entrabot_host.auth.person_failures import LOG_IN
from entrabot_host.auth.prompting import (
    BROWSER_SECONDS,
    BrowserWindow,
    DeviceCode,
    NoBrowser,
    check_address,
    is_headless,
)
from entrabot_host.auth.provider import Attribution, AuthProvider, Principal, SignInPrompt, Token
from entrabot_host.auth.scopes import scopes_for
from entrabot_host.auth.token_store import TokenStore
from entrabot_host.errors import AuthError, NotSignedIn

if TYPE_CHECKING:
    import msal

    from entrabot_host.security.clouds import Cloud

NAME = "delegated"
TIMEOUT_SECONDS = 60.0
_CLOSE_SECONDS = 0.3
_BEGIN_SECONDS = 10.0
_PENDING = frozenset({"authorization_pending", "slow_down"})

_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class DelegatedProvider(AuthProvider):
    """Signs a person in: silently from the token store, else with a browser, else with a code for another device.

    Nobody is asked for anything before `begin` was called; `sign_in` waits ten seconds for that. permissions: called
    when scopes are needed, for what the tools take. While a code is waited for, a sign-in by another process on this
    machine counts as well.
    """

    name = NAME
    priority = 50
    patience = BROWSER_SECONDS + 1200.0

    def __init__(
        self,
        settings: DelegatedSettings,
        cloud: Cloud,
        store: TokenStore,
        *,
        tenant_id: str = "",
        ca_bundle: str = "",
        permissions: Callable[[], Iterable[str]] = tuple,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self._settings = settings
        self._cloud = cloud
        self.store = store
        self._permissions = permissions
        self._timeout = timeout
        self._entra = Entra(cloud.login_url, sign_in_tenant(settings, cloud, tenant_id), ca_bundle)
        self._cache = TokenCache()
        self._account: Account | None = None
        self._begun = asyncio.Event()
        self._browser_tried = False
        self._listeners: list[Callable[[SignInPrompt | None], None]] = []

    def unavailable(self) -> str | None:
        """Say that no app is configured."""
        return None if self._settings.client_id else f"not set: {CLIENT_ID}"

    def begin(self) -> None:
        """From now on people may be asked to sign in: the client has really begun."""
        self._begun.set()

    def on_prompt(self, listener: Callable[[SignInPrompt | None], None]) -> None:
        """Call ``listener`` when a person is asked for something."""
        self._listeners.append(listener)

    async def sign_in(self) -> Principal:
        """Sign in, asking a person if need be. Raises `AuthError`."""
        if (failure := await self.renewed()) is not None:
            try:
                async with asyncio.timeout(_BEGIN_SECONDS):
                    await self._begun.wait()
            except TimeoutError:  # a command that asks nobody
                raise failure from None
            await self._ask()
        return self._principal()

    async def sign_in_anew(self, *, device_code: bool = False) -> Principal:
        """Ask a person, whoever is signed in now. device_code: do not try a browser. Raises `AuthError`."""
        self._browser_tried = device_code
        self._account = None
        await self._ask()
        return self._principal()

    async def sign_in_silently(self) -> Principal:
        """Sign in from the token store, asking nobody. Raises `AuthError`, `NotSignedIn` when a person is needed."""
        await self.token(self._cloud.graph_audience)
        return self._principal()

    async def sign_out(self) -> Account | None:
        """Forget whoever is in the token store; return who that was."""
        account = await self._in_thread(Hop.SILENT, self._stored_account)
        await self._in_thread(Hop.SILENT, self.store.clear)
        return account

    async def account(self) -> Account | None:
        """Return who is in the token store. No network."""
        return await self._in_thread(Hop.SILENT, self._stored_account)

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        """Return a token of the person for ``audience``. Asks nobody: `NotSignedIn` when a person is needed."""
        mint = partial(self._mint, audience, rejected, claims)
        return await self._cache.get(audience, mint, rejected=rejected, claims=claims)

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        """A person has none. Raises `AuthError`."""
        raise AuthError(
            "A person's sign-in has no app-only tokens.", remedy="Configure the agent's own identity for what needs it."
        )

    async def aclose(self) -> None:
        """Stop what is under way; a refresh token that is being replaced is written first, if that is quick."""
        await self._cache.aclose()
        if self.store.kind is not None:
            await anyio.to_thread.run_sync(self.store.settled, _CLOSE_SECONDS, abandon_on_cancel=True)
        self._entra.close()

    # --- silently ---------------------------------------------------------------------------------------------------

    async def renewed(self) -> NotSignedIn | None:
        """Sign in from the token store; return why that takes a person. Raises other failures."""
        try:
            await self.token(self._cloud.graph_audience)
        except NotSignedIn as error:
            return error
        return None

    async def _mint(self, audience: str, rejected: str, claims: str) -> Token:
        work = partial(self._renew, audience, rejected, claims)
        token, account = await self._in_thread(Hop.SILENT, work, audience)
        self._account = self._account or account
        return token

    def _renew(self, audience: str, rejected: str, claims: str) -> tuple[Token, Account]:
        """Read, renew and write in one go, so that no other process uses the same refresh token."""
        attempt = self._attempt(Hop.SILENT, audience)
        with self.store.opened() as cache:
            account = account_in(cache, self._account)
            if account is None:
                raise self._nobody()

            def silently(app: msal.PublicClientApplication) -> Mapping[str, Any] | None:
                scopes = scopes_for(audience, self._cloud, self._permissions())
                found = next((one for one in app.get_accounts() if one["home_account_id"] == account.id), None)
                ask = partial(app.acquire_token_silent_with_error, scopes, found, claims_challenge=claims or None)
                result: Mapping[str, Any] | None = ask()
                if result and rejected and result.get("access_token") == rejected:
                    result = ask(force_refresh=True)
                return result

            result = self._entra.public(attempt, cache, silently)
            if not result:
                raise self._nobody()
            if "access_token" not in result:
                raise _person_needed(refused(attempt, result))
            return token_in(result), account_in(cache, account) or account

    def _nobody(self) -> NotSignedIn:
        who = f"{self._account.user_name} is no longer" if self._account else "No person is"
        return NotSignedIn(f"{who} signed in on this machine.", hop=Hop.SILENT, remedy=LOG_IN)

    def _stored_account(self) -> Account | None:
        with self.store.opened() as cache:
            return account_in(cache, None, self._cloud.graph_audience)

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        try:
            if not self._browser_tried and not is_headless(self._settings.headless):
                self._browser_tried = True  # a window that opens again and again helps nobody
                try:
                    await self._with_browser()
                except NoBrowser as why:
                    _log.warning("Signing in with a browser did not work, so a code takes its place: %s", why)
                else:
                    return
            await self._with_code()
        finally:
            self._tell(None)

    async def _with_browser(self) -> None:
        window = BrowserWindow()
        scopes = self._graph_scopes()
        attempt = self._attempt(Hop.BROWSER)
        cache = self.store.receiving()

        def begin(app: msal.PublicClientApplication) -> dict[str, Any]:
            flow: dict[str, Any] = app.initiate_auth_code_flow(
                scopes, redirect_uri=window.redirect_uri, response_mode="form_post", prompt="select_account"
            )
            return flow

        flow = dict(await self._public(Hop.BROWSER, cache, begin))
        check_address(flow["auth_uri"], self._cloud, Hop.BROWSER)
        self._tell(window.prompt())
        try:
            work = partial(window.answer, flow)
            answer = await self._in_thread(Hop.BROWSER, work, seconds=BROWSER_SECONDS + self._timeout)
        except asyncio.CancelledError:
            window.close()
            raise
        self._tell(None)

        def redeem(app: msal.PublicClientApplication) -> Mapping[str, Any]:
            result: Mapping[str, Any] = app.acquire_token_by_auth_code_flow(flow, dict(answer))
            return result

        self._check(attempt, await self._public(Hop.BROWSER, cache, redeem))
        await self._accept()

    async def _with_code(self) -> None:
        attempt = self._attempt(Hop.DEVICE_CODE)
        scopes = self._graph_scopes()
        flow = await self._public(Hop.DEVICE_CODE, self.store.receiving(), lambda app: app.initiate_device_flow(scopes))
        if "user_code" not in flow:
            raise refused(attempt, flow)
        code = DeviceCode(dict(flow), self._cloud)
        before = await self._in_thread(Hop.SILENT, self.store.text)
        self._tell(code.prompt())
        while time.monotonic() < code.deadline:
            await anyio.sleep(code.interval)
            if (now := await self._in_thread(Hop.SILENT, self.store.text)) != before:
                before = now
                if await self.renewed() is None:
                    return
            if await self._entered(code):
                await self._accept()
                return
        raise AuthError(
            "Nobody entered the code for signing in before it expired.",
            hop=Hop.DEVICE_CODE,
            remedy="Try again for a new code, or run `entrabot login` on this machine.",
        )

    async def _entered(self, code: DeviceCode) -> bool:
        """Ask once whether the code was entered. A bad connection says nothing about that. Raises `AuthError`."""

        def poll(app: msal.PublicClientApplication) -> Mapping[str, Any]:
            result: Mapping[str, Any] = app.acquire_token_by_device_flow(code.flow, exit_condition=lambda flow: True)
            return result

        try:
            result = await self._public(Hop.DEVICE_CODE, self.store.receiving(), poll)
        except AuthError as error:
            if error.code is not None:
                raise
            _log.info("asking whether the code was entered failed: %s", error.message)
            return False
        if result.get("error") in _PENDING:
            return False
        self._check(self._attempt(Hop.DEVICE_CODE), result)
        return True

    async def _accept(self) -> None:
        """Go on with whoever has just signed in and is in the token store by now."""
        if (failure := await self.renewed()) is not None:
            raise failure

    def _tell(self, prompt: SignInPrompt | None) -> None:
        if prompt is not None:
            _log.warning("SIGN IN: %s", prompt.sentence)
        for listener in self._listeners:
            listener(prompt)

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _principal(self) -> Principal:
        account = self._account
        if account is None or not account.user_id or not account.tenant_id:
            raise AuthError("The sign-in does not say who the person is.", hop=Hop.SILENT, remedy=LOG_IN)
        return Principal(
            user_id=account.user_id,
            user_name=account.user_name,
            tenant_id=account.tenant_id,
            agent_id="",
            attribution=Attribution.DELEGATED_HUMAN,
            provider=self.name,
            display_name=account.display_name,
        )

    def _graph_scopes(self) -> list[str]:
        return scopes_for(self._cloud.graph_audience, self._cloud, self._permissions())

    def _attempt(self, hop: Hop, audience: str = "") -> Attempt:
        return Attempt(hop, self._settings.client_id, audience or self._cloud.graph_audience)

    def _check(self, attempt: Attempt, result: Mapping[str, Any]) -> None:
        if "access_token" not in result:
            raise refused(attempt, result)

    async def _public(self, hop: Hop, cache: msal.TokenCache, call: Callable[[Any], Any]) -> Mapping[str, Any]:
        attempt = self._attempt(hop)
        result = await self._in_thread(hop, partial(self._entra.public, attempt, cache, call))
        return result or {}

    async def _in_thread(
        self, hop: Hop, blocking: Callable[[], Result], audience: str = "", seconds: float | None = None
    ) -> Result:
        try:
            with anyio.fail_after(seconds or self._timeout):
                return await anyio.to_thread.run_sync(blocking, abandon_on_cancel=True)
        except TimeoutError as error:
            raise unreachable(self._attempt(hop, audience), error) from None


def _person_needed(error: AuthError) -> NotSignedIn:
    """What Entra refuses to renew takes a person; what it does not answer to takes patience."""
    return NotSignedIn(error.message, hop=error.hop, code=error.code, remedy=error.remedy)
