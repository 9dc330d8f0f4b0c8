"""A small HTTPS server that answers as a test says, down to dropping the connection."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DROP = object()
"""In place of an answer: read the request, then cut the connection."""

HANG = object()
"""In place of an answer: read the request, then say nothing."""


@dataclass(frozen=True)
class Authority:
    """Files of a certificate authority and of a server certificate it issued for this machine."""

    ca_file: str
    chain_file: str


def make_authority(folder: Path) -> Authority:
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def builder(name: x509.Name, public: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    usage = dict.fromkeys(("content_commitment", "data_encipherment", "encipher_only", "decipher_only"), False)
    usage |= {"key_encipherment": False, "key_agreement": False}
    ca = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    leaf = (
        builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), key.public_key())
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    ca_file, chain_file = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(ca.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain_file.write_bytes(secret + leaf.public_bytes(pem))
    return Authority(str(ca_file), str(chain_file))


@dataclass
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(status: int = 200, body: Any = None, **headers: str) -> bytes:
    """An answer in wire form; underscores in header names stand for hyphens."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    fields = {"content-length": str(len(raw))}
    if raw and not isinstance(body, bytes):
        fields["content-type"] = "application/json"
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + raw


def failure(status: int, code: str = "Trouble", message: str = "It did not work.", **headers: str) -> bytes:
    inner = {"request-id": "11111111-2222-3333-4444-555555555555"}
    return answer(status, {"error": {"code": code, "message": message, "innerError": inner}}, **headers)


@dataclass
class Server:
    """Answers with what ``script`` holds, in order, then with what ``default`` makes of a request."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    script: deque[Any] = field(default_factory=deque)
    default: Callable[[Received], Any] = lambda _: answer(200, {"value": []})
    connections: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, ssl.SSLError):
            while True:
                request = await read_request(reader)
                self.received.append(request)
                reply = self.script.popleft() if self.script else self.default(request)
                if reply is DROP:
                    break
                if reply is HANG:
                    await reader.read()
                    break
                writer.write(reply)
                await writer.drain()
                if b"connection: close" in reply:
                    break
        self.writers.discard(writer)
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = b""
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    return Received(method, target, headers, body)


@asynccontextmanager
async def running(authority: Authority) -> AsyncIterator[Server]:
    server = Server()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.chain_file)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for writer in list(server.writers):
            writer.transport.abort()
        await asyncio.sleep(0)


@dataclass
class Proxy:
    """A proxy that tunnels, and remembers to where."""

    url: str = ""
    tunnels: list[str] = field(default_factory=list)
    refuse: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            await self._tunnel(head.split(" ")[1], reader, writer)
        writer.transport.abort()

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tunnels.append(target)
        if self.refuse:
            writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.write_eof()
            await reader.read()
            return
        host, _, port = target.rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def proxy_running() -> AsyncIterator[Proxy]:
    proxy = Proxy()
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listener.close()
        await asyncio.sleep(0)
