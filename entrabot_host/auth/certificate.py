"""The blueprint's certificate: from a PEM or PFX file, or its key from the operating system's keystore."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrabot_host.auth.failures import Hop
from entrabot_host.errors import AuthError
from entrabot_host.identity.settings import CERT_FILE, CERT_PASSWORD, CERT_THUMBPRINT, AgentUserSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import Certificate as X509

KEYRING_SERVICE = "entrabot"
KEYRING_NAME = "blueprint-private-key"

_PEM_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \1-----", re.DOTALL)
_MAX_FILE = 1 << 20


@dataclass(frozen=True)
class Certificate:
    """A key that signs for the blueprint.

    key_pem: PKCS#8 PEM without encryption. certificate_pem: empty when only its thumbprint is known.
    thumbprint: SHA-256 of the certificate's DER form, base64url without padding.
    """

    key_pem: str = field(repr=False)
    certificate_pem: str = field(repr=False)
    thumbprint: str

    def credential(self) -> dict[str, Any]:
        """Return it in the form that MSAL takes."""
        if self.certificate_pem:
            return {"private_key": self.key_pem, "public_certificate": self.certificate_pem}
        return {"client_assertion": self._sign}

    def _sign(self, context: Mapping[str, Any]) -> bytes:
        from msal.oauth2cli import JwtAssertionCreator

        digest = base64.urlsafe_b64decode(self.thumbprint + "=").hex()
        creator = JwtAssertionCreator(self.key_pem, algorithm="PS256", sha256_thumbprint=digest)
        signed: bytes = creator.create_normal_assertion(audience=context["token_endpoint"], issuer=context["client_id"])
        return signed


def load_certificate(settings: AgentUserSettings) -> Certificate:
    """Read the certificate that the settings name. Blocks. Raises `AuthError` saying what is wrong with it."""
    if settings.cert_file is not None:
        return _from_file(settings.cert_file.expanduser(), settings)
    return _from_keyring(settings)


def _from_file(path: Path, settings: AgentUserSettings) -> Certificate:
    data = _read_private(path)
    password = settings.cert_password.get_secret_value().encode() or None
    if b"-----BEGIN" in data:
        key, certificates = _parse_pem(data, password, f"The file {path}")
    else:
        key, certificates = _parse_pfx(data, password, path)
    if key is None:
        raise _error(f"The file {path} holds no private key.", f"Let {CERT_FILE} name a file with key and certificate.")
    certificate = _matching(key, certificates)
    if certificate is None:
        lacks = "no certificate" if not certificates else "no certificate that belongs to its private key"
        raise _error(f"The file {path} holds {lacks}.", "Put the certificate and its private key into one file.")
    _check_time(certificate)
    return _checked(key, certificate, settings.cert_thumbprint)


def _read_private(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            _check_private(path, os.fstat(file.fileno()))
            return file.read(_MAX_FILE)
    except OSError as error:
        raise _error(
            f"The certificate file {path} cannot be read: {error.strerror}.",
            f"Let {CERT_FILE} name a readable file.",
        ) from None


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _error(f"{path} is not a file.", f"Let {CERT_FILE} name the certificate file.")
    if os.name == "posix" and status.st_mode & 0o077:
        raise _error(
            f"The certificate file {path} is open to other users of this machine, so it is not used.",
            f"Run: chmod 600 {path}",
        )


def _parse_pem(data: bytes, password: bytes | None, where: str) -> tuple[RSAPrivateKey | None, list[X509]]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = _PEM_KEY.search(data)
    try:
        key = load_pem_private_key(found[0], password) if found else None
        certificates = x509.load_pem_x509_certificates(data) if b"-----BEGIN CERTIFICATE-----" in data else []
    except (ValueError, TypeError):
        raise _undecodable(where, password) from None
    return _rsa(key), certificates


def _parse_pfx(data: bytes, password: bytes | None, path: Path) -> tuple[RSAPrivateKey | None, list[X509]]:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        key, certificate, more = pkcs12.load_key_and_certificates(data, password)
    except (ValueError, TypeError):
        raise _undecodable(f"The file {path}", password) from None
    return _rsa(key), [*([certificate] if certificate else []), *more]


def _undecodable(where: str, password: bytes | None) -> AuthError:
    if password:
        return _error(
            f"{where} cannot be opened with the password given, or is damaged.",
            f"Check {CERT_PASSWORD}; unset it when the file has no password.",
        )
    return _error(
        f"{where} is no PEM or PFX that can be read without a password.",
        f"Set {CERT_PASSWORD} when it has one; otherwise write it anew.",
    )


def _rsa(key: object) -> RSAPrivateKey | None:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    if key is not None and not isinstance(key, RSAPrivateKey):
        raise _error("The blueprint's private key is not an RSA key.", "Entra takes RSA keys; register an RSA key.")
    return key


def _matching(key: RSAPrivateKey, certificates: list[X509]) -> X509 | None:
    public = key.public_key()
    return next((certificate for certificate in certificates if certificate.public_key() == public), None)


def _check_time(certificate: X509) -> None:
    now = datetime.now(UTC)
    if now < certificate.not_valid_before_utc:
        raise _error(
            f"The blueprint's certificate is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC.",
            "Check this machine's clock, or use a certificate that is valid today.",
        )
    if now > certificate.not_valid_after_utc:
        raise _error(
            f"The blueprint's certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d}.",
            f"Register a new certificate with the blueprint and let {CERT_FILE} name it.",
        )


def _checked(key: RSAPrivateKey, certificate: X509, expected: str) -> Certificate:
    from cryptography.hazmat.primitives.serialization import Encoding

    thumbprint = _encode(hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest())
    if expected and _parse_thumbprint(expected) != thumbprint:
        raise _error(
            f"The certificate's thumbprint is {thumbprint}, but {CERT_THUMBPRINT} names another one.",
            f"Unset {CERT_THUMBPRINT}, or let {CERT_FILE} name the certificate that was meant.",
        )
    return Certificate(_key_pem(key), certificate.public_bytes(Encoding.PEM).decode(), thumbprint)


def _key_pem(key: RSAPrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _parse_thumbprint(text: str) -> str:
    """Return a SHA-256 thumbprint, given as base64url or hex, as base64url without padding. Raises `AuthError`."""
    compact = text.replace(":", "").replace(" ", "").rstrip("=")
    try:
        raw = bytes.fromhex(compact) if len(compact) == 64 else base64.urlsafe_b64decode(compact + "=")
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise _error(
            f"{CERT_THUMBPRINT} is not a SHA-256 thumbprint.",
            "Write it as base64url (43 characters) or hex (64 digits); the portal's shorter one is SHA-1.",
        )
    return _encode(raw)


def _encode(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _from_keyring(settings: AgentUserSettings) -> Certificate:
    stored = _keyring_entry()
    if not stored:
        raise _no_key(settings)
    key, certificates = _parse_pem(stored.encode(), None, "The key in the keystore")
    if key is None:
        raise _error("The keystore's entry for the blueprint is no PEM private key.", f"Set {CERT_FILE} instead.")
    certificate = _matching(key, certificates)
    if certificate is not None:
        _check_time(certificate)
        return _checked(key, certificate, settings.cert_thumbprint)
    if not settings.cert_thumbprint:
        raise _error(
            "The blueprint's key is in the keystore, but its certificate is not known.",
            f"Set {CERT_THUMBPRINT}, or {CERT_FILE} to a file with both.",
        )
    return Certificate(_key_pem(key), "", _parse_thumbprint(settings.cert_thumbprint))


def _keyring_entry() -> str | None:
    import keyring
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(KEYRING_SERVICE, KEYRING_NAME)
    except KeyringError as error:
        raise _error(
            f"The operating system's keystore cannot be used ({type(error).__name__}).",
            f"Unlock it, or let {CERT_FILE} name a file with key and certificate.",
        ) from None


def _no_key(settings: AgentUserSettings) -> AuthError:
    if settings.cert_sha1 or sys.platform == "win32":
        return _error(
            "The blueprint's key seems to be a Windows CNG key, which cannot be used yet.",
            f"Register a certificate whose key can be exported, and let {CERT_FILE} name its PFX or PEM file.",
        )
    return _error(
        f"The operating system's keystore has no entry {KEYRING_NAME!r} for {KEYRING_SERVICE!r}.",
        f"Let {CERT_FILE} name a file with key and certificate.",
    )


def _error(message: str, remedy: str) -> AuthError:
    return AuthError(message, hop=Hop.BLUEPRINT, remedy=remedy)
