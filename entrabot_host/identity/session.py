"""Who this session is: one identity, found once, by the first auth provider that succeeds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from entrabot_host.auth.provider import Attribution, AuthProvider, Principal, Prompting, SignInPrompt, Token
from entrabot_host.errors import AuthError, NotSignedIn

SIGN_IN_SECONDS = 300.0
RETRY_SECONDS = 15.0

_log = logging.getLogger(__name__)


class State(StrEnum):
    """Where a session stands. From ``AGENT_USER`` and ``DELEGATED`` there is no way back."""

    UNAUTHENTICATED = "unauthenticated"
    AUTHENTICATING = "authenticating"
    AGENT_USER = "agent-user"
    DELEGATED = "delegated"


@dataclass(frozen=True)
class Attempt:
    """A provider that was tried or passed over in the last sign-in. ``error`` is None where it succeeded."""

    provider: str
    error: AuthError | None


@dataclass(frozen=True)
class _SignedIn:
    provider: AuthProvider
    principal: Principal


class Session:
    """Signs in with the best provider that works and asks that one for tokens ever after.

    Providers are tried by falling priority. A failed sign-in leaves the session unauthenticated, and a later call
    tries again, at most every 15 seconds; whoever calls meanwhile waits for the same attempt. Once signed in, the
    identity never changes: a provider that fails later raises, and no other takes its place.

    While a provider waits for a person to sign in, nobody else waits: callers get a `NotSignedIn` that says what the
    person has to do, so that the model can pass it on.

    skip_reason: why nobody is to be signed in at all; then no provider is tried.
    """

    def __init__(
        self,
        providers: Sequence[AuthProvider],
        *,
        skip_reason: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._providers = sorted(providers, key=lambda provider: (-provider.priority, provider.name))
        self._skip_reason = skip_reason
        self._signed_in: _SignedIn | None = None
        self._running: asyncio.Task[_SignedIn] | None = None
        self._failure: AuthError | None = None
        self._failed_at = 0.0
        self._attempts: list[Attempt] = []
        self._passed_over: dict[str, str] = {}
        self._prompt: SignInPrompt | None = None
        self._asking = asyncio.Event()
        self._closed = False
        for provider in self._providers:
            if isinstance(provider, Prompting):
                provider.on_prompt(self._prompted)

    @property
    def state(self) -> State:
        """Where the session stands."""
        if self._signed_in:
            agent = self._signed_in.principal.attribution is Attribution.AGENT
            return State.AGENT_USER if agent else State.DELEGATED
        return State.AUTHENTICATING if self._running else State.UNAUTHENTICATED

    @property
    def attempts(self) -> list[Attempt]:
        """The providers tried in the last sign-in, in order, with their failures."""
        return list(self._attempts)

    @property
    def passed_over(self) -> dict[str, str]:
        """Providers that were not tried in the last sign-in, with the reasons."""
        return dict(self._passed_over)

    @property
    def prompt(self) -> SignInPrompt | None:
        """What a person is asked to do now, if anything."""
        return self._prompt

    @property
    def known_principal(self) -> Principal | None:
        """Who is signed in, without waiting."""
        return self._signed_in.principal if self._signed_in else None

    async def start(self) -> None:
        """Sign in. A failure is kept for `principal` to raise; it is no error here."""
        try:
            await self._sign_in()
        except AuthError as error:
            _log.warning("Nobody is signed in: %s %s", error.message, error.remedy)

    async def principal(self) -> Principal:
        """Return who is signed in, waiting for a sign-in that is under way. Raises the `AuthError` of the first try."""
        return (await self._sign_in()).principal

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        """Return a token of the signed-in identity for ``audience``. Raises `AuthError`."""
        provider = (await self._sign_in()).provider
        return await provider.token(audience, rejected=rejected, claims=claims)

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        """Return an app-only token of the agent identity for ``audience``. Raises `AuthError`."""
        provider = (await self._sign_in()).provider
        return await provider.app_token(audience, rejected=rejected)

    async def aclose(self) -> None:
        """Stop a sign-in that is under way and close all providers. No network."""
        self._closed = True
        if self._running:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=1.0)
        for provider in self._providers:
            try:
                await provider.aclose()
            except Exception:  # as in `_try`: one provider's bug must not leave the others open
                _log.exception("The auth provider %s could not be closed", provider.name)

    async def _sign_in(self) -> _SignedIn:
        if self._signed_in:
            return self._signed_in
        if self._closed:
            raise NotSignedIn("The session is closed.")
        task = self._running or self._begin()
        await self._done_or_asking(task)
        if not task.done():
            raise _person_asked(self._prompt)
        if task.cancelled():
            raise NotSignedIn("The session was closed while it signed in.")
        return task.result()

    async def _done_or_asking(self, task: asyncio.Task[_SignedIn]) -> None:
        asking = asyncio.create_task(self._asking.wait())
        try:
            await asyncio.wait({task, asking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asking.cancel()

    def _prompted(self, prompt: SignInPrompt | None) -> None:
        self._prompt = prompt
        if prompt is None:
            self._asking.clear()
        else:
            self._asking.set()

    def _begin(self) -> asyncio.Task[_SignedIn]:
        if self._failure and self._clock() - self._failed_at < RETRY_SECONDS:
            raise self._failure.with_traceback(None)
        self._running = asyncio.create_task(self._try_all())
        self._running.add_done_callback(self._ended)
        return self._running

    def _ended(self, task: asyncio.Task[_SignedIn]) -> None:
        self._running = None
        self._prompted(None)
        if task.cancelled():
            return
        error = task.exception()  # looked at even when nobody waits any more, so that it is not reported as lost
        if error is None:
            self._signed_in = task.result()
        elif isinstance(error, AuthError):
            self._failure, self._failed_at = error, self._clock()

    async def _try_all(self) -> _SignedIn:
        self._attempts, self._passed_over = [], {}
        if self._skip_reason:
            raise NotSignedIn(f"Nobody is signed in: {self._skip_reason}")
        for provider in self._providers:
            if reason := _reason_against(provider):
                self._passed_over[provider.name] = reason
                continue
            if principal := await self._try(provider):
                self._announce(principal)
                return _SignedIn(provider, principal)
        raise self._first_failure() or _nothing_configured(self._passed_over)

    async def _try(self, provider: AuthProvider) -> Principal | None:
        try:
            seconds = provider.patience if isinstance(provider, Prompting) else SIGN_IN_SECONDS
            async with asyncio.timeout(seconds):
                principal = await provider.sign_in()
            if principal.attribution is Attribution.NONE:
                raise AuthError(f"The provider {provider.name} does not say in whose name it acts.")
        except AuthError as error:
            self._attempts.append(Attempt(provider.name, error))
            return None
        except TimeoutError:
            self._attempts.append(Attempt(provider.name, AuthError(f"Signing in with {provider.name} took too long.")))
            return None
        except Exception as error:  # a provider may be anybody's code, and its bug must not keep the others from trying
            _log.exception("The auth provider %s failed unexpectedly", provider.name)
            failure = AuthError(f"The auth provider {provider.name} failed with {type(error).__name__}.")
            self._attempts.append(Attempt(provider.name, failure))
            return None
        self._attempts.append(Attempt(provider.name, None))
        return principal

    def _first_failure(self) -> AuthError | None:
        return next((attempt.error for attempt in self._attempts if attempt.error), None)

    def _announce(self, principal: Principal) -> None:
        who = principal.user_name or principal.user_id
        if principal.attribution is not Attribution.DELEGATED_HUMAN:
            _log.info("Signed in as %s (%s)", who, principal.attribution)
        elif failure := self._first_failure():
            _log.warning(
                "FALLING BACK TO A PERSON'S IDENTITY: this session acts as %s, in that person's own name, because "
                "signing in as the agent failed: %s %s",
                who,
                failure.message,
                failure.remedy,
            )
        else:
            _log.warning("This session acts as %s, in that person's own name. %s", who, _reasons(self._passed_over))


def _reasons(passed_over: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in passed_over.items())


def _person_asked(prompt: SignInPrompt | None) -> NotSignedIn:
    """Say to a caller what the person has to do, in a form that the model passes on."""
    error = NotSignedIn(
        "Nobody is signed in yet: a person has to sign in first.",
        hop="waiting for a person",
        remedy=f"Tell the person: {prompt.sentence} Then try again." if prompt else "Try again in a moment.",
    )
    if prompt and prompt.code:
        error.details["sign_in"] = {
            "url": prompt.url,
            "code": prompt.code,
            "expires_in_seconds": round(prompt.seconds_left),
        }
    return error


def _reason_against(provider: AuthProvider) -> str | None:
    try:
        return provider.unavailable()
    except Exception as error:  # as in `Session._try`
        _log.exception("The auth provider %s failed unexpectedly", provider.name)
        return f"it failed with {type(error).__name__}"


def _nothing_configured(passed_over: Mapping[str, str]) -> NotSignedIn:
    why = _reasons(passed_over) or "no auth provider is installed"
    return NotSignedIn(
        f"Nobody is signed in: no identity is configured ({why}).",
        remedy="Set the variables named here, in the environment or in the file named by --env-file.",
    )
