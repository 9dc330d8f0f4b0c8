"""Scopes of a token request: which resource is meant and what of it."""

from __future__ import annotations

from dataclasses import dataclass

from entrabot_sandbox.directory import GRAPH, STORAGE
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.work_iq_servers import APPLICATIONS

EXCHANGE = "exchange"
GRAPH_URL = "https://graph.microsoft.com"
GRAPH_APP_ID = "00000003-0000-0000-c000-000000000000"
_OPENID = frozenset({"openid", "profile", "offline_access", "email"})
_KNOWN = {
    GRAPH_URL: GRAPH,
    GRAPH_APP_ID: GRAPH,
    "https://storage.azure.com": STORAGE,
    "e406a681-f3d4-42a8-90b6-c2b029497af1": STORAGE,
    "api://azureadtokenexchange": EXCHANGE,
    **APPLICATIONS,
}
RESOURCES = tuple(dict.fromkeys(resource for resource in _KNOWN.values() if resource != EXCHANGE))


@dataclass(frozen=True)
class Requested:
    """A parsed ``scope``: the resource as the client wrote it, which one it is, the names asked for, OpenID's words."""

    uri: str
    resource: str
    names: tuple[str, ...]
    openid: frozenset[str]

    @property
    def is_default(self) -> bool:
        """Whether everything consented to was asked for."""
        return self.names == (".default",)


def parse(scope: str, base: str, tenant_name: str) -> Requested:
    """Read a scope string. Raises EntraError: 70011 for a malformed or mixed one, 500011 for an unknown resource."""
    words = scope.split()
    split = [_split(word) for word in words if word not in _OPENID]
    uris = {uri for uri, _ in split}
    names = tuple(name for _, name in split)
    if len(uris) != 1:
        raise invalid_scope(scope, "it must name exactly one resource")
    if ".default" in names and len(names) > 1:
        raise invalid_scope(scope, ".default can't be combined with other scopes of the resource")
    uri = uris.pop()
    return Requested(uri, _resource(uri, base, tenant_name), names, _OPENID.intersection(words))


def invalid_scope(scope: str, why: str) -> EntraError:
    """AADSTS70011."""
    message = f"The provided value for the input parameter 'scope' is not valid. The scope {scope}: {why}."
    return EntraError(400, "invalid_scope", 70011, message)


def _split(word: str) -> tuple[str, str]:
    uri, slash, name = word.rpartition("/")
    return (uri.rstrip("/"), name) if slash else (GRAPH_URL, name)


def _resource(uri: str, base: str, tenant_name: str) -> str:
    known = _KNOWN.get(uri.lower())
    if uri.lower() == base:
        known = GRAPH
    if known is None:
        message = f"The resource principal named {uri} was not found in the tenant named {tenant_name}."
        raise EntraError(400, "invalid_resource", 500011, message)
    return known
