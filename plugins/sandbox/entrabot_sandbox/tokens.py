"""Tokens: issued with a key of this run, and read back with every check a service makes."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import AgentIdentity, PublicClient, Tenant, User

Claims = dict[str, Any]


class TokenInvalidError(Exception):
    """The token is not one of ours, or is no longer good; ``expired`` tells which."""

    def __init__(self, message: str, *, expired: bool = False) -> None:
        super().__init__(message)
        self.expired = expired


@dataclass
class Issuer:
    """Signs and verifies tokens for every tenant."""

    clock: Clock
    base: str
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048), repr=False)
    kid: str = field(default_factory=lambda: secrets.token_urlsafe(20))
    lifetime: int | None = None
    _alive: dict[str, bool] = field(default_factory=dict, repr=False)

    def expires_in(self) -> int:
        """Seconds a new token lives: random between 60 and 90 minutes unless a lifetime was set."""
        return random.randint(3600, 5400) if self.lifetime is None else self.lifetime

    def sign(self, claims: Claims, expires_in: int, **headers: str) -> str:
        """A signed token with its times and its unique id filled in."""
        now = int(self.clock.time())
        uti = secrets.token_urlsafe(16)
        self._alive[uti] = claims["ver"] == "1.0"
        times = {"iat": now, "nbf": now, "exp": now + expires_in, "uti": uti}
        return jwt.encode({**claims, **times}, self.key, "RS256", {"kid": self.kid, **headers})

    def read(self, token: str, leeway: int = 0) -> Claims:
        """The claims of a token of ours. Raises TokenInvalidError; the audience is the caller's to check."""
        try:
            claims: Claims = jwt.decode(token, self.key.public_key(), ["RS256"], options=_SIGNATURE_ONLY)
        except jwt.InvalidTokenError as error:
            raise TokenInvalidError("The token is malformed or its signature is invalid.") from error
        if claims["exp"] + leeway <= self.clock.time() or claims["uti"] not in self._alive:
            raise TokenInvalidError("The token has expired.", expired=True)
        if claims["nbf"] - 300 > self.clock.time():
            raise TokenInvalidError("The token is not yet valid.", expired=True)
        return claims

    def forget(self, *, everything: bool) -> None:
        """Make the access tokens issued so far, or really all tokens, expired ones."""
        self._alive = {} if everything else {uti: access for uti, access in self._alive.items() if not access}

    def jwks(self) -> dict[str, Any]:
        """The public key, in the form of a JSON Web Key Set."""
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**key, "kid": self.kid, "use": "sig"}]}

    def exchange_token(self, tenant: Tenant, audience: str, subject: str, app_id: str, expires_in: int) -> str:
        """T1 or T2: a token that is good only as an assertion at the token endpoint."""
        claims = {
            "aud": audience,
            "iss": f"{self.base}/{tenant.id}/v2.0",
            "sub": subject,
            "azp": app_id,
            "idtyp": "app",
            "tid": tenant.id,
            "ver": "2.0",
        }
        return self.sign(claims, expires_in)

    def app_token(
        self, tenant: Tenant, audience: str, app_id: str, object_id: str, expires_in: int, **claims: Any
    ) -> str:
        """An access token of an application for a resource, in the v1 format."""
        return self._access_token(
            tenant, audience, expires_in, appid=app_id, idtyp="app", oid=object_id, sub=object_id, **claims
        )

    def user_token(
        self, audience: str, client: AgentIdentity | PublicClient, user: User, scopes: list[str], expires_in: int
    ) -> str:
        """An access token of a user for a resource, in the v1 format: an agent's user, or a person who signed in."""
        return self._access_token(
            user.tenant,
            audience,
            expires_in,
            appid=client.app_id,
            idtyp="user",
            oid=user.id,
            sub=self._pairwise(audience, user),
            scp=" ".join(scopes),
            name=user.name,
            upn=user.upn,
            unique_name=user.upn,
            **(_agent_claims(client) if isinstance(client, AgentIdentity) else _PERSON_CLAIMS),
        )

    def id_token(self, app_id: str, user: User, expires_in: int, openid: Collection[str], nonce: str = "") -> str:
        """The OpenID Connect token that says who the user is, as far as the words of the scope (openid) go."""
        claims = {
            "aud": app_id,
            "iss": f"{self.base}/{user.tenant.id}/v2.0",
            "sub": self._pairwise(app_id, user),
            "tid": user.tenant.id,
            "ver": "2.0",
        }
        home = user.home or user
        if "profile" in openid:
            claims |= {"name": user.name, "oid": user.id, "preferred_username": home.upn}
        if "email" in openid and home.mail:
            claims["email"] = home.mail
        if home is not user:
            claims["idp"] = f"https://sts.windows.net/{home.tenant.id}/"
        if nonce:
            claims["nonce"] = nonce
        return self.sign(claims, expires_in)

    def _pairwise(self, audience: str, user: User) -> str:
        """What a user is called at one place: always the same there, something else elsewhere."""
        return _base64url(hashlib.sha256(f"{self.kid} {audience} {user.id}".encode()).digest())

    def _access_token(self, tenant: Tenant, audience: str, expires_in: int, **claims: Any) -> str:
        common = {
            "aud": audience,
            "iss": f"https://sts.windows.net/{tenant.id}/",
            "tid": tenant.id,
            "appidacr": "2",
            "ver": "1.0",
        }
        return self.sign({**common, **claims}, expires_in, nonce=str(uuid4()))


def client_info(user: User) -> str:
    """The ``client_info`` member: who signed in, as they are at home, base64url of a small JSON."""
    home = user.home or user
    return _base64url(json.dumps({"uid": home.id, "utid": home.tenant.id}).encode())


def _agent_claims(agent: AgentIdentity) -> Claims:
    return {
        "xms_act_fct": "3 11",
        "xms_sub_fct": "2 13",
        "xms_idrel": "1",
        "xms_par_app_azp": agent.blueprint.app_id,
    }


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


_PERSON_CLAIMS: Claims = {"appidacr": "0", "amr": ["pwd", "mfa"]}


_SIGNATURE_ONLY: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
