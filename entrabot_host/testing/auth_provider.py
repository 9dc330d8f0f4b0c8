"""A contract for auth providers: subclass it and give the provider, and its tests are yours."""

from __future__ import annotations

import asyncio

import pytest

from entrabot_host.auth.provider import Attribution, AuthProvider, Principal, Token
from entrabot_host.errors import AuthError


class AuthProviderContract:
    """Subclass with a ``provider`` fixture of a provider that can sign in, and the two audiences::

    class TestMine(AuthProviderContract):
        audience = "https://graph.microsoft.com"
        unknown_audience = "https://nowhere.example"

        @pytest.fixture
        def provider(self, entrabot_tenant):
            return MyProvider(...)
    """

    audience = "https://graph.microsoft.com"
    unknown_audience = "https://nowhere.example"

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run on asyncio."""
        return "asyncio"

    @pytest.mark.anyio
    async def test_it_is_a_provider(self, provider: AuthProvider) -> None:
        """It has a name, a priority, and can be used."""
        assert isinstance(provider, AuthProvider)
        assert provider.name.strip()
        assert isinstance(provider.priority, int)
        assert provider.unavailable() is None
        await provider.aclose()

    @pytest.mark.anyio
    async def test_it_says_who_is_signed_in(self, provider: AuthProvider) -> None:
        """`sign_in` names a user, a tenant and an attribution."""
        principal = await provider.sign_in()
        await provider.aclose()
        assert isinstance(principal, Principal)
        assert principal.user_id
        assert principal.tenant_id
        assert principal.attribution in (Attribution.AGENT, Attribution.DELEGATED_HUMAN)
        assert principal.provider == provider.name

    @pytest.mark.anyio
    async def test_tokens_are_shared_cached_and_never_shown(self, provider: AuthProvider) -> None:
        """Concurrent and later requests for one audience get one token."""
        await provider.sign_in()
        tokens = await asyncio.gather(*(provider.token(self.audience) for _ in range(5)))
        again = await provider.token(self.audience)
        await provider.aclose()
        assert {token.secret for token in tokens} == {again.secret}
        assert again.seconds_left > 0
        assert again.secret not in repr(again)

    @pytest.mark.anyio
    async def test_a_refused_token_is_not_handed_out_again(self, provider: AuthProvider) -> None:
        """`rejected` makes a new one."""
        await provider.sign_in()
        first = await provider.token(self.audience)
        second = await provider.token(self.audience, rejected=first.secret)
        third = await provider.token(self.audience)
        await provider.aclose()
        assert second.secret != first.secret
        assert third.secret == second.secret

    @pytest.mark.anyio
    async def test_failures_are_typed(self, provider: AuthProvider) -> None:
        """A token for an unknown audience is an `AuthError` with something to do; so may be an app-only token."""
        await provider.sign_in()
        with pytest.raises(AuthError) as refused:
            await provider.token(self.unknown_audience)
        assert refused.value.message
        try:
            app_only = await provider.app_token(self.audience)
        except AuthError:
            pass
        else:
            assert isinstance(app_only, Token)
        await provider.aclose()

    @pytest.mark.anyio
    async def test_closing_twice_is_no_error(self, provider: AuthProvider) -> None:
        """`aclose` may be called again."""
        await provider.aclose()
        await provider.aclose()
