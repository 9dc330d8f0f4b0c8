"""Which tenant a person is at home in. A chat must name it: one bound to a guest object reaches nobody."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from entrabot_host import InvalidArgument, Principal
from entrabot_teams.ids import is_guid

_ADDRESS = re.compile(r"[A-Za-z0-9.'_+!^~&-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_GUEST = re.compile(r"(?P<name>.+)_(?P<domain>[^_@]+)#EXT#@.+", re.IGNORECASE)
_CONSUMERS = "9188040d-6c67-4c5b-b112-36a304b66dad"


def home_address(address: str, argument: str = "target_email") -> str:
    """Return the person's own address; a guest's name in our tenant holds it.

    argument: the name under which it was given. Raises `InvalidArgument`.
    """
    address = address.strip()
    if guest := _GUEST.fullmatch(address):
        address = f"{guest['name']}@{guest['domain']}"
    if not _ADDRESS.fullmatch(address) or len(address) > 254:
        raise InvalidArgument(
            f"{argument} is not an e-mail address.", remedy="Give one person's address, like jane@partner.com."
        )
    return address


async def foreign_tenant(
    address: str,
    given: str,
    me: Principal,
    discover: Callable[[str], Awaitable[str]],
    argument: str,
    tenant_argument: str,
) -> str:
    """Return the tenant that must be named beside a person's address, empty when he is at home in ours.

    given: the caller's word for it, which counts unless it is our own tenant: whoever has an address elsewhere is a
    guest here at most, and a chat with a guest object reaches nobody. Raises `InvalidArgument`.
    """
    if given and not is_guid(given):
        raise InvalidArgument(f"{tenant_argument} must be a tenant's GUID.", remedy="Leave it out; it is found.")
    own = me.tenant_id.lower()
    domain, own_domain = (name.rpartition("@")[2].lower() for name in (address, me.user_name))
    if given and given.lower() != own:
        return given.lower()
    tenant = own if domain == own_domain else (await discover(domain)).lower()
    if not is_guid(tenant) or tenant == _CONSUMERS:
        raise InvalidArgument(
            f"The domain of {argument} belongs to no organisation that Teams can reach.",
            remedy=f"Check the spelling with whoever gave you the address; pass {tenant_argument} if you know it.",
        )
    return "" if tenant == own else tenant
