"""Letting somebody into a chat, on a sponsor's authority."""

from typing import Annotated, Any

from pydantic import Field

from entrabot_host import Conversation, GraphError, GraphUnavailable, Host, InvalidArgument
from entrabot_teams.api import ChatApi
from entrabot_teams.ids import check_chat_id, is_one_on_one
from entrabot_teams.tenants import foreign_tenant, home_address

_REFUSED = {
    400: "Teams knows no such person there, or he is in the chat already (list_chat_members). Check the address.",
    403: "The agent is no member of this chat, or its ChatMember.ReadWrite permission is missing (see whoami).",
    404: "There is no such person in that organisation, or no such chat. Check the address; give the sign-in name.",
}


class Membership:
    """The tool that lets people in."""

    def __init__(self, host: Host, api: ChatApi) -> None:
        self._host = host
        self._api = api

    async def add_teams_member(
        self,
        email: Annotated[str, Field(description="Whom to add")],
        chat_id: Annotated[str, Field(description="The group chat, where the sponsor asks")],
        requester_email: Annotated[str, Field(description="The sponsor who asks")],
        tenant_id: Annotated[str, Field(description="Only if email's tenant cannot be found")] = "",
    ) -> dict[str, Any]:
        """Add a person to a Teams group chat because a sponsor asked for it in that very chat.

        Who is added sees what is written from then on.
        """
        check_chat_id(chat_id)
        address = home_address(email, "email")
        if is_one_on_one(chat_id):
            raise InvalidArgument("A 1:1 chat takes no third person.", remedy="Name a group chat.")
        await self._host.identity.authorize(requester_email, Conversation.chat(chat_id), beneficiary=address)
        me = await self._host.identity.me()
        tenant = await foreign_tenant(address, tenant_id, me, self._host.identity.tenant_of, "email", "tenant_id")
        await self._add(chat_id, address, tenant)
        return {"chat_id": chat_id, "email": address, "added": True}

    async def _add(self, chat_id: str, address: str, tenant: str) -> None:
        try:
            await self._api.add_member(chat_id, address, tenant)
        except GraphUnavailable as error:
            if error.outcome_unknown:
                error.remedy = "Whether the person was added is not known: look with list_chat_members."
            raise
        except GraphError as error:
            error.remedy = _REFUSED.get(error.status, error.remedy)
            raise
