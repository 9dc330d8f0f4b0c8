"""Several processes with one token store, over TLS, against a service that uses up each refresh token."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.host.auth.delegated_entra import CLIENT, TENANT, PeopleEntra

_RENEW = """
import asyncio, sys
from entrabot_host.application import Application
from entrabot_host.config import load_config

async def main():
    provider = Application(load_config({})).delegated.provider
    await provider.sign_in_silently()
    token = await provider.token("https://graph.microsoft.com")
    for number in range(int(sys.argv[1])):
        token = await provider.token("https://graph.microsoft.com", rejected=token.secret)
        await provider.token("api://one", claims="{}")
        print(number, flush=True)
    await provider.aclose()

asyncio.run(main())
"""


def certificate(folder: Path) -> Path:
    """A key and its certificate for 127.0.0.1, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "people")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "people.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *form) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    entra: PeopleEntra

    def do_GET(self) -> None:
        self._send(self.entra.get(f"https://{self.headers['Host']}{self.path}"))

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        data = {name: values[0] for name, values in parse_qs(text).items()}
        self._send(self.entra.post(self.path, data))

    def _send(self, answer: Any) -> None:
        self.send_response(answer.status_code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def entra() -> PeopleEntra:
    return PeopleEntra()


@pytest.fixture
def environment(entra: PeopleEntra, tmp_path: Path) -> Iterator[dict[str, str]]:
    pem = certificate(tmp_path)
    handler = type("Bound", (Handler,), {"entra": entra})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    entra.verification_uri = f"{url}/deviceauth"
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    yield {
        **kept,
        "HOME": str(tmp_path),
        "ENTRABOT_DATA_DIR": str(tmp_path / "data"),
        "ENTRABOT_AUDIT_DIR": str(tmp_path / "audit"),
        "ENTRABOT_PLUGINS": "none",
        "ENTRABOT_LOGIN_URL": url,
        "ENTRABOT_GRAPH_URL": url,
        "ENTRABOT_CA_BUNDLE": str(pem),
        "ENTRABOT_CLIENT_ID": CLIENT,
        "ENTRABOT_TENANT_ID": TENANT,
        "ENTRABOT_HEADLESS": "true",
        "NO_PROXY": "127.0.0.1",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }
    server.shutdown()
    server.server_close()
    thread.join(5)


async def start(environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def entrabot(environment: dict[str, str], *arguments: str) -> tuple[int | None, list[Any]]:
    """Run a command with --json; return its status and the objects that it prints."""
    process = await start(environment, "-m", "entrabot_host.cli.main", *arguments, "--json")
    async with asyncio.timeout(60):
        out, errors = await process.communicate()
    assert b"Traceback" not in errors, errors.decode()
    text = out.decode()
    return process.returncode, [json.loads(line) for line in text.splitlines()] if "login" in arguments else [
        json.loads(text)
    ]


async def log_in(entra: PeopleEntra, environment: dict[str, str]) -> None:
    entra.entered = True
    status, lines = await entrabot(environment, "login", "--device-code")
    assert status == 0
    assert lines[0]["sign_in"]["code"] == "ABCD-1234"
    assert lines[-1]["account"]["user_name"] == "alice@contoso.example"


async def test_none_of_several_processes_is_ever_locked_out(entra: PeopleEntra, environment: dict[str, str]) -> None:
    await log_in(entra, environment)
    processes = [await start(environment, "-c", _RENEW, "15") for _ in range(3)]
    async with asyncio.timeout(100):
        ends = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0], ends
    assert entra.used == set()
    assert len(entra.asked("refresh_token")) >= 45
    status, (report,) = await entrabot(environment, "status")
    assert (status, report["identity"]["user_name"]) == (0, "alice@contoso.example")


async def test_a_process_that_is_killed_holds_nobody_up(entra: PeopleEntra, environment: dict[str, str]) -> None:
    await log_in(entra, environment)
    process = await start(environment, "-c", _RENEW, "100000")
    assert process.stdout
    async with asyncio.timeout(30):
        for _ in range(3):
            await process.stdout.readline()
    process.kill()
    await process.communicate()
    # What the service had used up when the process died cannot be known; a lock that was left would fail here.
    status, (report,) = await entrabot(environment, "status")
    assert status in (0, 1)
    assert "Another process" not in json.dumps(report)


async def test_login_status_and_logout(entra: PeopleEntra, environment: dict[str, str]) -> None:
    status, (report,) = await entrabot(environment, "status")
    assert (status, report["identity"]) == (1, None)
    await log_in(entra, environment)
    status, (report,) = await entrabot(environment, "status")
    assert status == 0
    entry = report["providers"][-1]
    assert (entry["state"], entry["token_cache"]) == ("ready", "file")
    assert "not encrypted" in entry["problem"]
    assert entry["account"]["expires_in"] > 3000
    status, (report,) = await entrabot(environment, "logout")
    assert (status, report["signed_out"]["user_name"]) == (0, "alice@contoso.example")
    assert (await entrabot(environment, "status"))[0] == 1


async def test_for_people_without_colours(entra: PeopleEntra, environment: dict[str, str]) -> None:
    await log_in(entra, environment)
    process = await start({**environment, "NO_COLOR": "1"}, "-m", "entrabot_host.cli.main", "status")
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert "A server that starts now would be: alice@contoso.example (delegated-human)" in out.decode()
    assert b"\x1b" not in out
