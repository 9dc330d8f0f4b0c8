"""Certificates: a certification authority that can vouch for loopback only, and the blueprint's own."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_LOOPBACK = ("127.0.0.1", "::1")
_LIFETIME = timedelta(days=7)


@dataclass(frozen=True)
class Authority:
    """A certification authority whose key never leaves memory."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate, to be trusted by clients."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, hosts: list[str]) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        """Sign a server certificate for these IP addresses and names."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder("Entrabot sandbox", self.certificate.subject, key)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        builder = builder.add_extension(_authority_key(self.key), False)
        return builder.sign(self.key, hashes.SHA256()), key


def make_authority() -> Authority:
    """A fresh authority, constrained (critically) to 127.0.0.1, ::1 and localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Entrabot sandbox, loopback only")
    permitted: list[x509.GeneralName] = [x509.IPAddress(ip_network(address)) for address in _LOOPBACK]
    permitted.append(x509.DNSName("localhost"))
    builder = _builder("Entrabot sandbox, loopback only", name, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    builder = builder.add_extension(x509.NameConstraints(permitted, None), True)
    builder = builder.add_extension(_signing_usage(), True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def server_context(authority: Authority, folder: Path) -> ssl.SSLContext:
    """A TLS server context for loopback; the key passes through a file that is deleted at once."""
    certificate, key = authority.issue([*_LOOPBACK, "localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    path = folder / "server.pem"
    write_private(path, _private_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
    try:
        context.load_cert_chain(path)
    finally:
        path.unlink()
    return context


def make_blueprint_certificate(name: str) -> tuple[x509.Certificate, bytes]:
    """A self-signed RSA certificate, and a PEM holding the key and the certificate."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = _builder(name, _name(name), key).sign(key, hashes.SHA256())
    return certificate, _private_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; it must not exist yet."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _builder(subject: str, issuer: x509.Name, key: PrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _authority_key(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _signing_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
