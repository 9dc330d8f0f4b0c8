"""Who has signed in, as MSAL's cache tells it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msal


@dataclass(frozen=True)
class Account:
    """Who is in the token store. id: MSAL's home account id. expires_in: seconds the Graph token is still good for."""

    id: str
    user_id: str
    user_name: str
    display_name: str
    tenant_id: str
    expires_in: float = 0.0


def account_in(cache: msal.SerializableTokenCache, wanted: Account | None, audience: str = "") -> Account | None:
    """Return who is in the cache. wanted: that account or none. audience: whose token's life is told."""
    kinds = cache.CredentialType
    for row in cache.search(kinds.ACCOUNT):
        home_id = str(row.get("home_account_id") or "")
        if home_id and (wanted is None or home_id == wanted.id):
            mine = {"home_account_id": home_id}
            claims: Mapping[str, Any] = {}
            for id_token in cache.search(kinds.ID_TOKEN, query=mine):
                claims = _claims(str(id_token.get("secret", "")))
            tokens = [one for one in cache.search(kinds.ACCESS_TOKEN, query=mine) if audience in one.get("target", "")]
            ends = max((float(one.get("expires_on") or 0) for one in tokens), default=0.0)
            return Account(
                id=home_id,
                user_id=str(claims.get("oid") or row.get("local_account_id") or ""),
                user_name=str(claims.get("preferred_username") or row.get("username") or ""),
                display_name=str(claims.get("name") or ""),
                tenant_id=str(claims.get("tid") or home_id.partition(".")[2]),
                expires_in=max(0.0, ends - time.time()),
            )
    return None


def _claims(id_token: str) -> Mapping[str, Any]:
    """Read an id token that this machine kept; Entra gave it to MSAL over TLS."""
    try:
        payload = id_token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}
