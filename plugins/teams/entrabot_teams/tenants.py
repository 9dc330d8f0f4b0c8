"""Which tenant a person is at home in. A chat must name it: one bound to a guest object reaches nobody."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from entrabot_host import InvalidArgument
from entrabot_teams.ids import is_guid

_ADDRESS = re.compile(r"[A-Za-z0-9.'_+!^~&-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_GUEST = re.compile(r"(?P<name>.+)_(?P<domain>[^_@]+)#EXT#@.+", re.IGNORECASE)
_CONSUMERS = "9188040d-6c67-4c5b-b112-36a304b66dad"


def home_address(address: str) -> str:
    """Return the person's own address; a guest's name in our tenant holds it. Raises `InvalidArgument`."""
    address = address.strip()
    if guest := _GUEST.fullmatch(address):
        address = f"{guest['name']}@{guest['domain']}"
    if not _ADDRESS.fullmatch(address) or len(address) > 254:
        raise InvalidArgument(
            "target_email is not an e-mail address.", remedy="Give one person's address, like jane@partner.com."
        )
    return address


async def home_tenant(address: str, discover: Callable[[str], Awaitable[str]]) -> str:
    """Return the id of the tenant that the address belongs to, found by ``discover`` from its domain.

    Raises `InvalidArgument` when the domain belongs to no organisation with Microsoft Entra.
    """
    tenant = (await discover(address.rpartition("@")[2].lower())).lower()
    if not is_guid(tenant) or tenant == _CONSUMERS:
        raise InvalidArgument(
            "The domain of target_email belongs to no organisation that Teams can reach.",
            remedy="Check the spelling with whoever gave you the address; pass target_tenant_id if you know it.",
        )
    return tenant
