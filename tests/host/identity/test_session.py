"""The state machine of a session."""

from __future__ import annotations

import asyncio

import pytest

from entrabot_host.auth.provider import Attribution
from entrabot_host.errors import AuthError, NotSignedIn
from entrabot_host.identity import session as module
from entrabot_host.identity.session import Session, State

from .fakes import FakeProvider, Seconds, principal

HUMAN = principal(Attribution.DELEGATED_HUMAN, "delegated")


def agent(**changes: object) -> FakeProvider:
    return FakeProvider(principal(name="agent-user"), name="agent-user", priority=100, **changes)  # type: ignore[arg-type]


def failing_agent(error: Exception | None = None) -> FakeProvider:
    failure = error or AuthError("no consent", hop="hop 3: agent user", code=65001, remedy="Grant it.")
    return FakeProvider(failure, name="agent-user", priority=100)


def delegated(**changes: object) -> FakeProvider:
    return FakeProvider(HUMAN, name="delegated", priority=50, **changes)  # type: ignore[arg-type]


async def test_the_agent_is_tried_first_and_nobody_else() -> None:
    first, second = agent(), delegated()
    session = Session([second, first])
    assert session.state is State.UNAUTHENTICATED
    await session.start()
    assert session.state is State.AGENT_USER
    assert (await session.principal()).attribution is Attribution.AGENT
    assert second.sign_ins == 0
    assert [(attempt.provider, attempt.error) for attempt in session.attempts] == [("agent-user", None)]


async def test_while_signing_in_everybody_waits_for_the_one_attempt() -> None:
    provider = agent()
    provider.gate.clear()
    session = Session([provider])
    callers = [asyncio.create_task(session.principal()) for _ in range(5)]
    starting = asyncio.create_task(session.start())
    while provider.sign_ins == 0:
        await asyncio.sleep(0)
    assert session.state is State.AUTHENTICATING
    callers[0].cancel()
    provider.gate.set()
    await starting
    assert {who.provider for who in await asyncio.gather(*callers[1:])} == {"agent-user"}
    assert provider.sign_ins == 1


async def test_falling_back_to_a_person_is_said_loudly(caplog: pytest.LogCaptureFixture) -> None:
    session = Session([failing_agent(), delegated()])
    with caplog.at_level("WARNING"):
        await session.start()
    assert session.state is State.DELEGATED
    assert "FALLING BACK TO A PERSON'S IDENTITY" in caplog.text
    assert "no consent" in caplog.text
    assert [attempt.provider for attempt in session.attempts] == ["agent-user", "delegated"]
    assert isinstance(session.attempts[0].error, AuthError)


async def test_a_provider_that_is_not_configured_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    session = Session([agent(reason="not set: ENTRABOT_TENANT_ID"), delegated()])
    with caplog.at_level("WARNING"):
        await session.start()
    assert session.state is State.DELEGATED
    assert "FALLING BACK" not in caplog.text
    assert "acts as sati@contoso.example, in that person's own name. agent-user: not set" in caplog.text
    assert session.passed_over == {"agent-user": "not set: ENTRABOT_TENANT_ID"}


async def test_the_identity_never_changes_afterwards() -> None:
    first, second = agent(), delegated()
    session = Session([first, second])
    await session.start()
    first.outcome = AuthError("later trouble")

    async def fails(audience: str, **options: str) -> object:
        raise AuthError("later trouble")

    first.token = fails  # type: ignore[method-assign, assignment]
    with pytest.raises(AuthError, match="later trouble"):
        await session.token("https://graph.example")
    assert session.state is State.AGENT_USER
    assert (await session.principal()).provider == "agent-user"
    assert second.asked == []
    assert (first.sign_ins, second.sign_ins) == (1, 0)


async def test_tokens_come_from_the_provider_that_signed_in() -> None:
    first, second = failing_agent(), delegated()
    session = Session([first, second])
    assert (await session.token("aud", rejected="old", claims="{}")).secret == "delegated aud"
    assert (await session.app_token("aud")).secret == "delegated app aud"
    assert second.asked == [("token", "aud", "old", "{}"), ("app", "aud", "")]
    assert first.asked == []


async def test_failure_is_the_real_one_and_tried_again_after_a_while() -> None:
    clock = Seconds()
    provider = failing_agent()
    session = Session([provider], clock=clock)
    await session.start()
    assert session.state is State.UNAUTHENTICATED
    for _ in range(3):
        with pytest.raises(AuthError) as caught:
            await session.principal()
        assert caught.value is provider.outcome
    assert provider.sign_ins == 1
    clock.now += 14
    with pytest.raises(AuthError):
        await session.token("aud")
    assert provider.sign_ins == 1
    clock.now += 2
    provider.outcome = principal()
    assert await session.principal() == principal()
    assert session.state is State.AGENT_USER
    assert provider.sign_ins == 2


async def test_the_first_providers_failure_is_raised_when_all_fail() -> None:
    second = FakeProvider(AuthError("second"), name="delegated", priority=50)
    session = Session([failing_agent(AuthError("first", hop="hop 1: blueprint")), second])
    with pytest.raises(AuthError, match="first") as caught:
        await session.principal()
    assert caught.value.hop == "hop 1: blueprint"
    assert [str(attempt.error) for attempt in session.attempts] == ["first", "second"]


async def test_nothing_configured_names_what_is_missing() -> None:
    session = Session([agent(reason="not set: ENTRABOT_TENANT_ID"), delegated(reason="not set: ENTRABOT_CLIENT_ID")])
    with pytest.raises(NotSignedIn) as caught:
        await session.principal()
    assert "ENTRABOT_TENANT_ID" in caught.value.message
    assert "ENTRABOT_CLIENT_ID" in caught.value.message
    with pytest.raises(NotSignedIn):
        await Session([]).principal()


async def test_skipping_tries_nobody() -> None:
    provider = agent()
    session = Session([provider], skip_reason="this is a listing only")
    await session.start()
    with pytest.raises(NotSignedIn, match="a listing only"):
        await session.principal()
    assert provider.sign_ins == 0


async def test_a_providers_bug_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    session = Session([FakeProvider(KeyError("secret-detail"), name="broken", priority=200), agent()])
    await session.start()
    assert session.state is State.AGENT_USER
    failure = session.attempts[0].error
    assert failure is not None
    assert "KeyError" in failure.message
    assert "secret-detail" not in failure.message


async def test_a_provider_without_attribution_signs_nobody_in() -> None:
    session = Session([FakeProvider(principal(Attribution.NONE), name="odd")])
    with pytest.raises(AuthError, match="in whose name"):
        await session.principal()
    assert session.state is State.UNAUTHENTICATED


async def test_a_sign_in_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIGN_IN_SECONDS", 0.01)
    hanging = agent()
    hanging.gate.clear()
    session = Session([hanging, delegated()])
    await session.start()
    assert session.state is State.DELEGATED


async def test_closing_ends_the_sign_in_and_all_providers() -> None:
    first, second = agent(), delegated()
    first.gate.clear()
    session = Session([first, second])
    caller = asyncio.create_task(session.principal())
    while first.sign_ins == 0:
        await asyncio.sleep(0)
    await session.aclose()
    with pytest.raises(NotSignedIn):
        await caller
    with pytest.raises(NotSignedIn):
        await session.token("aud")
    assert first.closed
    assert second.closed


async def test_nobody_waiting_for_a_failure_loses_nothing() -> None:
    provider = failing_agent()
    provider.gate.clear()
    session = Session([provider])
    caller = asyncio.create_task(session.principal())
    while provider.sign_ins == 0:
        await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    provider.gate.set()
    while session.state is State.AUTHENTICATING:
        await asyncio.sleep(0)
    with pytest.raises(AuthError, match="no consent"):
        await session.principal()
    assert provider.sign_ins == 1
