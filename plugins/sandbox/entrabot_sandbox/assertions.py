"""Client assertions: a blueprint's certificate-signed one, and T1, which speaks for an agent identity."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import AgentIdentity, Blueprint, Tenant
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.tokens import Claims, Issuer, TokenInvalidError

SKEW = 300
_ALGORITHMS = ("PS256", "RS256")


def check_certificate_assertion(assertion: str, blueprint: Blueprint, endpoints: set[str], clock: Clock) -> None:
    """Verify a blueprint's assertion: signature, audience, issuer and subject, times. Raises EntraError."""
    header = _header(assertion)
    key: Any = _signer(header, blueprint).public_key()
    try:
        claims = jwt.decode(assertion, key, list(_ALGORITHMS), options=_SIGNATURE_ONLY)
    except jwt.InvalidSignatureError as error:
        raise _bad_signature("The provided signature value did not match the expected signature value.") from error
    except jwt.InvalidTokenError as error:
        raise _malformed("The client assertion is malformed.") from error
    _check_parties(claims, blueprint.app_id, endpoints)
    _check_times(claims, clock)


def agent_subject(tenant: Tenant, blueprint: Blueprint, fmi_path: str) -> str:
    """The subject of a token that a blueprint obtained for one of its children."""
    return f"/eid1/c/pub/t/{_encoded(tenant.id)}/a/{_encoded(blueprint.app_id)}/{fmi_path}"


def check_agent_assertion(assertion: str, agent: AgentIdentity, issuer: Issuer) -> None:
    """Verify T1: ours, in time, issued to this agent identity's own blueprint for this identity. Raises EntraError."""
    try:
        claims = issuer.read(assertion, SKEW)
    except TokenInvalidError as error:
        if error.expired:
            raise _out_of_time() from error
        raise _bad_signature("The key was not found.") from error
    _check_issuer(claims, agent, issuer)
    subject = agent_subject(agent.tenant, agent.blueprint, agent.app_id)
    if claims["aud"] != agent.blueprint.app_id or claims["sub"] != subject:
        raise _no_record(700213, "subject", claims["sub"])


def check_user_credential(credential: str, agent: AgentIdentity, issuer: Issuer) -> None:
    """Verify T2: ours, in time, issued to this agent identity. Raises EntraError."""
    try:
        claims = issuer.read(credential, SKEW)
    except TokenInvalidError as error:
        if error.expired:
            raise EntraError(400, "invalid_grant", 500133, "Assertion is not within its valid time range.") from error
        raise EntraError(400, "invalid_grant", 50027, "JWT token is invalid or malformed.") from error
    _check_issuer(claims, agent, issuer)
    if claims["aud"] != agent.app_id or claims["sub"] != agent.object_id:
        raise _no_record(700213, "subject", claims["sub"])


def _header(assertion: str) -> dict[str, Any]:
    try:
        header = jwt.get_unverified_header(assertion)
    except jwt.InvalidTokenError as error:
        raise _malformed("The client assertion is not a JWT.") from error
    if header.get("alg") not in _ALGORITHMS:
        raise _malformed("The client assertion's signing algorithm is not supported.")
    return header


def _signer(header: dict[str, Any], blueprint: Blueprint) -> x509.Certificate:
    sha256, sha1 = header.get("x5t#S256"), header.get("x5t")
    if not isinstance(sha256 or sha1, str):
        raise _malformed("The client assertion names no certificate (x5t#S256 or x5t).")
    for certificate in blueprint.certificates:
        der = certificate.public_bytes(serialization.Encoding.DER)
        digest = hashlib.sha256(der).digest() if sha256 else certificate.fingerprint(hashes.SHA1())  # noqa: S303
        if _unpadded(digest) == str(sha256 or sha1).rstrip("="):
            return certificate
    raise _bad_signature("The key was not found.")


def _check_parties(claims: Claims, client_id: str, endpoints: set[str]) -> None:
    if claims.get("iss") != claims.get("sub"):
        raise EntraError(401, "invalid_client", 50048, "The subject of the client assertion must match its issuer.")
    if claims.get("iss") != client_id:
        raise _malformed("The client assertion's issuer is not the client.")
    if claims.get("aud") not in endpoints:
        raise _malformed("The client assertion's audience is not this tenant's token endpoint.")


def _check_times(claims: Claims, clock: Clock) -> None:
    expires, starts = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(expires, int | float) or not isinstance(starts, int | float):
        raise _malformed("The client assertion has no usable expiry.")
    if not starts - SKEW <= clock.time() <= expires + SKEW:
        raise _out_of_time()


def _check_issuer(claims: Claims, agent: AgentIdentity, issuer: Issuer) -> None:
    if claims["iss"] != f"{issuer.base}/{agent.tenant.id}/v2.0":
        raise _no_record(700211, "issuer", claims["iss"])


def _malformed(message: str) -> EntraError:
    return EntraError(401, "invalid_client", 50027, f"JWT token is invalid or malformed. {message}")


def _out_of_time() -> EntraError:
    return EntraError(401, "invalid_client", 700024, "Client assertion is not within its valid time range.")


def _bad_signature(reason: str) -> EntraError:
    message = f"Client assertion contains an invalid signature. [Reason - {reason}]"
    return EntraError(401, "invalid_client", 700027, message)


def _no_record(number: int, what: str, value: str) -> EntraError:
    message = f"No matching federated identity record found for presented assertion {what} '{value}'."
    return EntraError(401, "invalid_client", number, message)


def _unpadded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _encoded(guid: str) -> str:
    return _unpadded(bytes.fromhex(guid.replace("-", "")))


_SIGNATURE_ONLY: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
