"""Opening chats, and who is in them."""

from typing import Annotated, Any

from pydantic import Field

from entrabot_host import EntrabotError, GraphError, GraphUnavailable, Host, Principal
from entrabot_teams.api import ChatApi, explained
from entrabot_teams.ids import check_chat_id
from entrabot_teams.tenants import foreign_tenant, home_address
from entrabot_teams.watching import WatchedChats

_REFUSED = {
    400: "Teams knows no such person in that organisation, or does not allow a chat with it. Check the address.",
    403: "Teams' external access or the agent's Chat.Create permission does not allow this chat (see whoami).",
    404: "There is no such person in that organisation. Check the address; give the sign-in name.",
}


class Chats:
    """The tools around chats themselves."""

    def __init__(self, host: Host, api: ChatApi, watched: WatchedChats) -> None:
        self._host = host
        self._api = api
        self._watched = watched

    async def create_chat(
        self,
        target_email: Annotated[str, Field(description="One person's e-mail address")],
        target_tenant_id: Annotated[
            str, Field(description="Only if the address's tenant cannot be found: its GUID")
        ] = "",
    ) -> dict[str, Any]:
        """Open the 1:1 Teams chat with a person, of any organisation, or return the one that exists.

        Replies are watched for from then on. Use the returned chat_id in every later call.
        """
        address = home_address(target_email)
        me = await self._host.identity.me()
        discover = self._host.identity.tenant_of
        tenant = await foreign_tenant(address, target_tenant_id, me, discover, "target_email", "target_tenant_id")
        chat = await self._open(me, address, tenant)
        chat_id = str(chat["id"])
        await self._watched.add([chat_id])
        await self._learn(chat_id, address, tenant, me)
        return {
            "chat_id": chat_id,
            "chat_type": str(chat.get("chatType") or "oneOnOne"),
            "target": address,
            "watched": True,
        }

    async def _open(self, me: Principal, address: str, tenant: str) -> dict[str, Any]:
        """Create the chat; Graph returns the existing one, so repeating after a broken connection is safe."""
        try:
            try:
                chat = await self._api.create_one_on_one(me.user_id, address, tenant)
            except GraphUnavailable as error:
                if not error.outcome_unknown:
                    raise
                chat = await self._api.create_one_on_one(me.user_id, address, tenant)
        except GraphError as error:
            error.remedy = _REFUSED.get(error.status, error.remedy)
            raise
        if not chat.get("id"):
            raise GraphError("Graph created a chat without an id.", remedy="Call create_chat again: it is safe.")
        return chat

    async def _learn(self, chat_id: str, address: str, tenant: str, me: Principal) -> None:
        """Tell the host a federated sponsor's home id, which this chat proves.

        It does so only if discovery itself says that the address belongs to that tenant: anybody can set any address
        in a tenant of his own. The chat is open either way, so that failures are logged only. tenant: empty for ours.
        """
        if not tenant:
            return
        try:
            if not await self._is_sponsor(address) or await self._host.identity.tenant_of(_domain(address)) != tenant:
                return
            others = [row for row in await self._api.members(chat_id) if row.get("userId") not in (None, me.user_id)]
            if len(others) == 1 and str(others[0].get("tenantId") or "").lower() == tenant:
                await self._host.identity.learn_home(address, str(others[0]["userId"]), tenant)
        except EntrabotError as error:
            self._host.log.warning("a sponsor's home identity could not be learnt: %s", error.message)

    async def _is_sponsor(self, address: str) -> bool:
        return any(address.lower() in sponsor.addresses for sponsor in await self._host.identity.sponsors())

    async def list_chat_members(
        self, chat_id: Annotated[str, Field(description="Which chat to list")]
    ) -> dict[str, Any]:
        """List who is in a Teams chat; user_id is what mentions need. Names and addresses prove nobody's identity."""
        check_chat_id(chat_id)
        me = await self._host.identity.me()
        with explained():
            rows = await self._api.members(chat_id)
        return {"chat_id": chat_id, "members": [_member(row, me) for row in rows]}


def _domain(address: str) -> str:
    return address.rpartition("@")[2].lower()


def _member(row: dict[str, Any], me: Principal) -> dict[str, Any]:
    return {
        "user_id": row.get("userId") or "",
        "name": row.get("displayName") or "",
        "email": row.get("email") or "",
        "roles": row.get("roles") or [],
        "tenant_id": row.get("tenantId") or "",
        "is_me": row.get("userId") == me.user_id,
    }
