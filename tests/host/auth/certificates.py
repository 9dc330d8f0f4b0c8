"""Certificates for tests."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@functools.cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """A key, the same one for the same number."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def certificate(key: Key, *, start: int = -1, end: int = 30) -> x509.Certificate:
    """A certificate valid from ``start`` to ``end``, in days from now."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "blueprint")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now + timedelta(days=start)).not_valid_after(now + timedelta(days=end))
    return builder.sign(key, hashes.SHA256())


def key_pem(key: Key, password: bytes | None = None) -> bytes:
    encryption: KeySerializationEncryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def cert_pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(Encoding.PEM)


def pfx(key: rsa.RSAPrivateKey, cert: x509.Certificate, password: bytes | None = None) -> bytes:
    encryption: KeySerializationEncryption = BestAvailableEncryption(password) if password else NoEncryption()
    return pkcs12.serialize_key_and_certificates(b"blueprint", key, cert, None, encryption)


def private_file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path
