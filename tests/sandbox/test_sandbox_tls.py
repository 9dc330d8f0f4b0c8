"""TLS: the certification authority is good for loopback and nothing else."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from entrabot_sandbox.certificates import Authority, make_authority
from entrabot_sandbox.client import Sandbox


async def test_only_who_trusts_the_authority_can_connect(sandbox: Sandbox, context: ssl.SSLContext) -> None:
    url = sandbox.environment["ENTRABOT_GRAPH_URL"] + "/v1.0/me"
    async with httpx.AsyncClient(verify=context, trust_env=False) as http:
        assert (await http.get(url)).status_code == 401
        assert (await http.get(url.replace("127.0.0.1", "localhost"))).status_code == 401
    async with httpx.AsyncClient(trust_env=False) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(url)


def handshake(authority: Authority, host: str, folder: Path) -> None:
    """A client that trusts the authority meets a server that shows its certificate for the host."""
    certificate, key = authority.issue([host])
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(path)
    client_side = ssl.create_default_context(cadata=authority.pem.decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(up, down, server_side=True)
    client = client_side.wrap_bio(down, up, server_hostname=host)
    for end in (client, server, client):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()


@pytest.mark.parametrize(
    ("host", "accepted"),
    [("localhost", True), ("127.0.0.1", True), ("graph.microsoft.com", False), ("10.0.0.1", False)],
)
def test_the_name_constraint_is_honoured(host: str, accepted: bool, tmp_path: Path) -> None:
    authority = make_authority()
    if accepted:
        handshake(authority, host, tmp_path)
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match="subtree"):
            handshake(authority, host, tmp_path)
