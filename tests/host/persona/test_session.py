"""Sessions with the persona's server: transports, refusals, bounds, and that nothing is said of the token."""

from __future__ import annotations

import logging

import pytest

from entrabot_host.persona.failure import RemoteFailed
from entrabot_host.persona.session import PersonaServer as Remote
from entrabot_host.persona.settings import PersonaSettings

from .server import SSE, STREAMABLE, TOKEN, PersonaServer, free_port

THE_SERVERS_OWN = ("mcp.server", "sse_starlette", "uvicorn")


def remote(url: str) -> Remote:
    return Remote(
        PersonaSettings.model_validate({"PERSONA_SATI_MCP_URL": url, "PERSONA_SATI_MCP_TOKEN_COMMAND": "true"}), ""
    )


@pytest.mark.parametrize(
    ("speaks", "address"),
    [
        ((*STREAMABLE, *SSE), "/mcp"),
        (STREAMABLE, "/mcp"),
        (SSE, "/sse"),
        (SSE, "/sse/"),
        (SSE, ""),
        (SSE, "/"),
    ],
)
async def test_a_prompt_comes_over_each_transport(
    persona: PersonaServer, speaks: tuple[str, ...], address: str
) -> None:
    persona.speaks = speaks
    persona.text = "You are Sati.\nYou are calm."
    asked = remote(f"http://127.0.0.1:{persona.port}{address}")

    assert await asked.prompt(TOKEN) == "You are Sati.\nYou are calm."
    await asked.check(TOKEN)

    assert persona.calls == 1
    assert {auth for _, _, auth in persona.seen} == {f"Bearer {TOKEN}"}


async def test_a_server_of_the_older_protocol_is_told_when_a_session_is_over(persona: PersonaServer) -> None:
    persona.behaviour = "legacy"
    assert await remote(persona.url).prompt(TOKEN) == persona.text
    assert [method for method, _, _ in persona.seen].count("DELETE") == 1
    assert {path for _, path, _ in persona.seen} == {"/mcp"}


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("401", "refused the token (status 401)"),
        ("403", "refused the token (status 403)"),
        ("404", "status 404"),
        ("429", "status 429"),
        ("500", "status 500"),
        ("302", "status 302"),
        ("garbage", "not as an MCP server does"),
        ("echo", "not as an MCP server does"),
        ("huge", "more than 1024 KiB"),
        ("packed", "packed"),
        ("tool error", "The tool get_system_prompt of the persona's server failed"),
    ],
)
@pytest.mark.parametrize("transport", ["url", "sse_url"])
async def test_refusals_are_told_in_our_own_words(
    persona: PersonaServer, behaviour: str, said: str, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    persona.behaviour = behaviour
    with caplog.at_level(logging.DEBUG), pytest.raises(RemoteFailed) as failed:
        await remote(getattr(persona, transport)).prompt(TOKEN)

    assert said in failed.value.message
    assert TOKEN not in str(failed.value.to_dict())
    logged = [record for record in caplog.records if not record.name.startswith(THE_SERVERS_OWN)]
    assert TOKEN not in "".join(record.getMessage() for record in logged)
    assert not [record.name for record in logged if record.name.startswith(("mcp", "httpx2", "httpcore2"))]
    if behaviour in ("401", "403", "429", "500"):
        assert len({path for _, path, _ in persona.seen}) == 1, "no other transport was tried"


async def test_a_text_that_is_none_is_a_failure(persona: PersonaServer) -> None:
    persona.text = " \n "
    with pytest.raises(RemoteFailed, match="returned no text"):
        await remote(persona.url).prompt(TOKEN)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_server_that_is_not_there(path: str) -> None:
    with pytest.raises(RemoteFailed, match="cannot be reached"):
        await remote(f"http://127.0.0.1:{free_port()}{path}").prompt(TOKEN)


@pytest.mark.parametrize("transport", ["url", "sse_url"])
async def test_a_server_that_hangs_is_given_up(
    persona: PersonaServer, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("entrabot_host.persona.session.SECONDS", 0.5)
    persona.behaviour = "hang"
    with pytest.raises(RemoteFailed, match=r"did not answer within 0\.5 seconds"):
        await remote(getattr(persona, transport)).prompt(TOKEN)


async def test_a_proxy_never_sees_what_goes_to_this_machine(
    persona: PersonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert await remote(persona.url).prompt(TOKEN) == persona.text


@pytest.mark.parametrize(
    "url",
    [
        "http://persona.example/mcp",
        "http://127.0.0.1.evil.example/mcp",
        "http://localhost@evil.example/",
        "ftp://127.0.0.1/",
        "persona.example",
        "https://user:secret@persona.example/",
        "http://127.0.0.1:99999/",
    ],
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="PERSONA_SATI_MCP_URL"):
        PersonaSettings.model_validate({"PERSONA_SATI_MCP_URL": url})


@pytest.mark.parametrize(
    "url", ["https://persona.example/sse?a=b", "http://localhost:8100/sse", "http://[::1]:8100/", "HTTP://127.0.0.1/"]
)
def test_addresses_that_are_taken(url: str) -> None:
    assert PersonaSettings.model_validate({"PERSONA_SATI_MCP_URL": url}).url == url
