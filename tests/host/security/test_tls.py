"""The same trust for httpx and for what MSAL uses, and no redirect for the latter."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import requests

from entrabot_host.errors import SettingsError
from entrabot_host.security.tls import requests_session, ssl_context
from tests.host.graph.server import Authority, Server, answer, make_authority, running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def server(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with running(authority) as found:
        yield found


async def post(server: Server, ca_file: str) -> requests.Response:
    with requests_session(ca_file) as session:
        return await asyncio.to_thread(session.post, f"{server.url}/t", data={"a": "b"})


async def test_the_extra_authority_is_trusted(server: Server, authority: Authority) -> None:
    assert (await post(server, authority.ca_file)).status_code == 200
    assert server.received[0].body == b"a=b"


async def test_others_are_not(server: Server) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        await post(server, "")
    assert not server.received


async def test_redirects_are_refused(server: Server, authority: Authority) -> None:
    server.script.append(answer(307, None, Location=f"{server.url}/elsewhere?secret=1"))
    with pytest.raises(requests.exceptions.TooManyRedirects) as caught:
        await post(server, authority.ca_file)
    assert "secret" not in str(caught.value)
    assert len(server.received) == 1


async def test_every_request_has_a_time_limit(
    server: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    original = requests.adapters.HTTPAdapter.send

    def send(self: object, request: object, **options: object) -> requests.Response:
        seen.append(options["timeout"])
        return original(self, request, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    with requests_session(authority.ca_file) as session:
        await asyncio.to_thread(session.get, server.url)
        await asyncio.to_thread(session.get, server.url, timeout=3)
    assert seen == [(10.0, 30.0), 3]


async def test_netrc_does_not_count(
    server: Server, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password hush\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    await post(server, authority.ca_file)
    assert "authorization" not in server.received[0].headers


def test_nothing_goes_in_the_clear() -> None:
    with requests_session("") as session, pytest.raises(requests.exceptions.InvalidSchema):
        session.get("http://127.0.0.1:1/")


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_an_unusable_bundle(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match="ENTRABOT_CA_BUNDLE"):
        ssl_context(str(path))


def test_verification_is_on() -> None:
    context = ssl_context("")
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
