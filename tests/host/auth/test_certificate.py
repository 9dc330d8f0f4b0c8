"""The blueprint's certificate."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from entrabot_host.auth.certificate import KEYRING_NAME, KEYRING_SERVICE, Certificate, load_certificate
from entrabot_host.auth.failures import Hop
from entrabot_host.errors import AuthError
from entrabot_host.identity.settings import AgentUserSettings

from .certificates import cert_pem, certificate, key_pem, pfx, private_file, rsa_key


def settings(file: Path | None = None, password: str = "", thumbprint: str = "", sha1: str = "") -> AgentUserSettings:
    values = {
        "ENTRABOT_BLUEPRINT_CERT_FILE": file,
        "ENTRABOT_BLUEPRINT_CERT_PASSWORD": password,
        "ENTRABOT_BLUEPRINT_CERT_THUMBPRINT": thumbprint,
        "ENTRABOT_BLUEPRINT_CERT_SHA1": sha1,
    }
    return AgentUserSettings.model_validate(values)


def thumbprint_of(cert: object) -> bytes:
    return hashlib.sha256(cert.public_bytes(Encoding.DER)).digest()  # type: ignore[attr-defined]


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def refusal(chosen: AgentUserSettings) -> AuthError:
    with pytest.raises(AuthError) as caught:
        load_certificate(chosen)
    assert caught.value.hop == Hop.BLUEPRINT
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize("key_first", [True, False])
def test_pem_file_with_key_and_certificate(tmp_path: Path, key_first: bool) -> None:
    key, cert = rsa_key(), certificate(rsa_key())
    parts = [key_pem(key), cert_pem(cert)]
    file = private_file(tmp_path / "agent.pem", b"".join(parts if key_first else reversed(parts)))
    loaded = load_certificate(settings(file))
    assert loaded.thumbprint == base64url(thumbprint_of(cert))
    assert loaded.credential() == {"private_key": key_pem(key).decode(), "public_certificate": cert_pem(cert).decode()}
    assert "PRIVATE KEY" not in repr(loaded)


def test_the_certificate_that_belongs_to_the_key_is_chosen(tmp_path: Path) -> None:
    mine, other = certificate(rsa_key()), certificate(rsa_key(1))
    file = private_file(tmp_path / "chain.pem", cert_pem(other) + cert_pem(mine) + key_pem(rsa_key()))
    assert load_certificate(settings(file)).thumbprint == base64url(thumbprint_of(mine))


def test_encrypted_pem_and_pfx_need_their_password(tmp_path: Path) -> None:
    cert = certificate(rsa_key())
    pem = private_file(tmp_path / "agent.pem", key_pem(rsa_key(), b"secret-word") + cert_pem(cert))
    p12 = private_file(tmp_path / "agent.pfx", pfx(rsa_key(), cert, b"secret-word"))
    for file in (pem, p12):
        assert load_certificate(settings(file, password="secret-word")).thumbprint == base64url(thumbprint_of(cert))
        wrong = refusal(settings(file, password="another-word"))
        assert "ENTRABOT_BLUEPRINT_CERT_PASSWORD" in wrong.remedy
        assert "another-word" not in str(wrong.to_dict())
        assert "ENTRABOT_BLUEPRINT_CERT_PASSWORD" in refusal(settings(file)).remedy


def test_pfx_without_password(tmp_path: Path) -> None:
    cert = certificate(rsa_key())
    file = private_file(tmp_path / "agent.p12", pfx(rsa_key(), cert))
    assert load_certificate(settings(file)).thumbprint == base64url(thumbprint_of(cert))


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601])
def test_file_open_to_others_is_refused_before_it_is_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "agent.pem"
    file.write_bytes(b"not even a certificate")
    file.chmod(mode)
    error = refusal(settings(file))
    assert error.remedy == f"Run: chmod 600 {file}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda: cert_pem(certificate(rsa_key())), "no private key"),
        (lambda: key_pem(rsa_key()), "no certificate."),
        (lambda: key_pem(rsa_key()) + cert_pem(certificate(rsa_key(1))), "no certificate that belongs"),
        (lambda: key_pem(rsa_key()) + cert_pem(certificate(rsa_key(), start=-9, end=-2)), "expired on"),
        (lambda: key_pem(rsa_key()) + cert_pem(certificate(rsa_key(), start=2)), "valid only from"),
        (lambda: b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no PEM or PFX"),
        (lambda: b"\x30\x82 nonsense", "no PEM or PFX"),
        (lambda: b"", "no PEM or PFX"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: object, said: str) -> None:
    file = private_file(tmp_path / "agent.pem", content())  # type: ignore[operator]
    assert said in refusal(settings(file)).message


def test_only_rsa_keys(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    file = private_file(tmp_path / "agent.pem", key_pem(key) + cert_pem(certificate(key)))
    assert "not an RSA key" in refusal(settings(file)).message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert "No such file" in refusal(settings(tmp_path / "none.pem")).message
    assert refusal(settings(tmp_path)).message


def test_thumbprint_setting_must_fit(tmp_path: Path) -> None:
    cert = certificate(rsa_key())
    raw = thumbprint_of(cert)
    file = private_file(tmp_path / "agent.pem", key_pem(rsa_key()) + cert_pem(cert))
    for written in (base64url(raw), base64url(raw) + "=", raw.hex(), raw.hex(":").upper()):
        assert load_certificate(settings(file, thumbprint=written)).thumbprint == base64url(raw)
    other = base64url(hashlib.sha256(b"other").digest())
    assert "names another one" in refusal(settings(file, thumbprint=other)).message
    assert "not a SHA-256" in refusal(settings(file, thumbprint=hashlib.sha1(b"x").hexdigest())).message


class MemoryKeyring(keyring.backend.KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def __init__(self, entry: str | None, failure: Exception | None = None) -> None:
        super().__init__()
        self.entry, self.failure = entry, failure

    def get_password(self, service: str, username: str) -> str | None:
        if self.failure:
            raise self.failure
        return self.entry if (service, username) == (KEYRING_SERVICE, KEYRING_NAME) else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.fixture
def use_keyring(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def use(entry: str | None = None, failure: Exception | None = None) -> None:
        backend = MemoryKeyring(entry, failure)
        monkeypatch.setattr(keyring, "get_password", backend.get_password)

    return use


def test_key_from_the_keystore_with_thumbprint(use_keyring) -> None:  # type: ignore[no-untyped-def]
    use_keyring(key_pem(rsa_key()).decode())
    raw = hashlib.sha256(b"a certificate").digest()
    loaded = load_certificate(settings(thumbprint=base64url(raw)))
    assert loaded.certificate_pem == ""
    assert loaded.thumbprint == base64url(raw)
    assert header_of(loaded)["x5t#S256"].rstrip("=") == base64url(raw)


def header_of(loaded: Certificate) -> dict[str, str]:
    import jwt

    context = {"token_endpoint": "https://login.example/t/oauth2/v2.0/token", "client_id": "app"}
    assertion = loaded.credential()["client_assertion"](context)
    options = {"algorithms": ["PS256"], "audience": context["token_endpoint"], "issuer": "app"}
    assert jwt.decode(assertion, rsa_key().public_key(), **options)["sub"] == "app"  # type: ignore[arg-type]
    return dict(jwt.get_unverified_header(assertion))


def test_keystore_entry_may_hold_the_certificate_too(use_keyring) -> None:  # type: ignore[no-untyped-def]
    cert = certificate(rsa_key())
    use_keyring((key_pem(rsa_key()) + cert_pem(cert)).decode())
    assert load_certificate(settings()).thumbprint == base64url(thumbprint_of(cert))


def test_keystore_troubles(use_keyring) -> None:  # type: ignore[no-untyped-def]
    use_keyring(None)
    assert "ENTRABOT_BLUEPRINT_CERT_FILE" in refusal(settings()).remedy
    assert "CNG" in refusal(settings(sha1="0" * 40)).message
    use_keyring(failure=keyring.errors.KeyringLocked("locked"))
    assert "KeyringLocked" in refusal(settings()).message
    use_keyring(key_pem(rsa_key()).decode())
    assert "ENTRABOT_BLUEPRINT_CERT_THUMBPRINT" in refusal(settings()).remedy
    use_keyring("no pem")
    assert "no PEM private key" in refusal(settings()).message
