"""Azurite, Microsoft's emulator of Azure Storage: installed once, run over HTTPS, reached with bearer tokens."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from entrabot_host.auth.provider import Token
from entrabot_host.security.clouds import Cloud, CloudSettings, resolve_cloud
from entrabot_host.storage.blob import BlobBackend
from entrabot_host.storage.blob_connection import Connection, Patience
from entrabot_host.storage.blob_credential import BlobAccess
from entrabot_host.storage.blob_log import Limits
from tests.packages import node_packages

HERE = Path(__file__).parent
ACCOUNT = "devstoreaccount1"
_START_SECONDS = 60.0
# Makes the emulator refuse blocks after as many as BLOCKS says: filling a blob with 50,000 takes minutes.
_FEWER_BLOCKS = """
const path = require("path");
const name = path.join(process.env.AZURITE_FOLDER, "dist", "src", "blob", "utils", "constants.js");
require(name).MAX_APPEND_BLOB_BLOCK_COUNT = Number(process.env.BLOCKS);
"""


def installed() -> Path:
    """The folder of the emulator."""
    return node_packages(HERE / "package.json") / "node_modules" / "azurite"


@dataclass(frozen=True)
class Azurite:
    """A running emulator. ca_bundle: the certificate to trust."""

    endpoint: str
    ca_bundle: str

    def backend(
        self, container: str, *, limits: Limits | None = None, patience: Patience | None = None, endpoint: str = ""
    ) -> BlobBackend:
        """A backend on a container of it; ``endpoint`` for one that stands before it."""
        access = lambda: BlobAccess(stand_in_cloud(), self.ca_bundle, token)  # noqa: E731
        return BlobBackend(Connection(endpoint or self.endpoint, container, access, patience=patience), limits)

    def settings(self, container: str, tenant_ca: str, folder: Path, endpoint: str = "") -> dict[str, str]:
        """A server's settings for it, beside a tenant: both certificates are trusted."""
        bundle = folder / "both.pem"
        bundle.write_bytes(Path(tenant_ca).read_bytes() + Path(self.ca_bundle).read_bytes())
        return {
            "ENTRABOT_CA_BUNDLE": str(bundle),
            "ENTRABOT_BLOB_ENDPOINT": endpoint or self.endpoint,
            "ENTRABOT_BLOB_CONTAINER": container,
        }

    async def make(self, container: str) -> str:
        """Make a container."""
        backend = self.backend(container)
        try:
            await backend._connection.call(lambda client: client.create_container())
        finally:
            await backend.aclose()
        return container


def stand_in_cloud() -> Cloud:
    """A cloud whose sign-in is not Microsoft's, so that its tokens may go to the emulator."""
    return resolve_cloud(
        CloudSettings(ENTRABOT_LOGIN_URL="https://127.0.0.1:1", ENTRABOT_GRAPH_URL="https://127.0.0.1:1")
    )


async def token(audience: str, *, rejected: str = "", claims: str = "") -> Token:
    """A token as the emulator wants it; it checks no signature."""
    now = int(time.time())
    issuer = "https://sts.windows.net/11111111-1111-1111-1111-111111111111/"
    payload = {"aud": audience, "iss": issuer, "nbf": now - 60, "iat": now - 60, "exp": now + 3600, "oid": "agent"}
    parts = [{"alg": "RS256", "typ": "JWT"}, payload]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return Token(".".join([*encoded, "c2ln"]), time.monotonic() + 3600)


@contextmanager
def running(folder: Path, blocks: int = 0) -> Iterator[Azurite]:
    """Run an emulator with an empty store. blocks: how many an append blob takes, where not 50,000."""
    package = installed()
    certificate, key = make_certificate(folder)
    (folder / "fewer.js").write_text(_FEWER_BLOCKS, encoding="utf-8")
    preload = ["--require", str(folder / "fewer.js")] if blocks else []
    command = ["node", *preload, str(package / "dist" / "src" / "blob" / "main.js"), "--inMemoryPersistence"]
    command += ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--oauth", "basic"]
    command += ["--cert", str(certificate), "--key", str(key), "--blobHost", "127.0.0.1", "--blobPort", "0"]
    environment = {**os.environ, "AZURITE_FOLDER": str(package), "BLOCKS": str(blocks)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, env=environment)
    try:
        yield Azurite(f"{_address(process)}/{ACCOUNT}", str(certificate))
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _address(process: subprocess.Popen[bytes]) -> str:
    watch = threading.Timer(_START_SECONDS, process.kill)
    watch.start()
    assert process.stdout is not None
    said = b""
    for line in process.stdout:
        said += line
        if found := re.search(rb"successfully listens on (https://\S+)", line):
            watch.cancel()
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return found[1].decode()
    watch.cancel()
    raise AssertionError(f"Azurite did not start: {said.decode()[-1000:]}")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key, as PEM files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths
