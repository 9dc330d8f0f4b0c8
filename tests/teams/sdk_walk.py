"""Drives Teams chats with Microsoft's Python SDK and prints what its models did not know. Runs where the SDK is.

Arguments come on standard input as JSON: root, ca, token, tenant, me, alice, carol, image (base64).
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import httpx
from azure.core.credentials import AccessToken
from kiota_abstractions.base_request_configuration import RequestConfiguration
from kiota_authentication_azure.azure_identity_authentication_provider import AzureIdentityAuthenticationProvider
from msgraph import GraphRequestAdapter, GraphServiceClient
from msgraph.generated.chats.item.messages.messages_request_builder import MessagesRequestBuilder
from msgraph.generated.models.aad_user_conversation_member import AadUserConversationMember
from msgraph.generated.models.body_type import BodyType
from msgraph.generated.models.chat import Chat
from msgraph.generated.models.chat_message import ChatMessage
from msgraph.generated.models.chat_message_hosted_content import ChatMessageHostedContent
from msgraph.generated.models.chat_message_mention import ChatMessageMention
from msgraph.generated.models.chat_message_mentioned_identity_set import ChatMessageMentionedIdentitySet
from msgraph.generated.models.chat_type import ChatType
from msgraph.generated.models.identity import Identity
from msgraph.generated.models.item_body import ItemBody
from msgraph.generated.models.o_data_errors.o_data_error import ODataError
from msgraph.generated.users.item.chats.chats_request_builder import ChatsRequestBuilder
from msgraph.graph_request_adapter import options
from msgraph_core import GraphClientFactory

GIVEN = json.load(sys.stdin)
strange: list[str] = []
seen: dict[str, int] = {}


class Known:
    def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken(GIVEN["token"], 2_000_000_000)


def walk(thing: Any, where: str) -> Any:
    """Note every property that the SDK's model of an object does not know."""
    if isinstance(thing, list):
        for item in thing:
            walk(item, where)
    elif is_dataclass(thing) and hasattr(thing, "additional_data"):
        name = type(thing).__name__
        seen[name] = seen.get(name, 0) + 1
        strange.extend(f"{where}: {name}.{key}" for key in thing.additional_data if "@odata" not in key)
        for field in fields(thing):
            if field.name not in ("additional_data", "backing_store"):
                walk(getattr(thing, field.name), where)
    return thing


def member(user: str, tenant: str = "") -> AadUserConversationMember:
    found = AadUserConversationMember(odata_type="#microsoft.graph.aadUserConversationMember", roles=["owner"])
    found.additional_data = {"user@odata.bind": f"{GIVEN['root']}/v1.0/users('{user}')"}
    if tenant:
        found.tenant_id = tenant
    return found


async def main() -> None:
    provider = AzureIdentityAuthenticationProvider(Known(), scopes=["x"], allowed_hosts=[GIVEN["host"]])
    plain = httpx.AsyncClient(verify=GIVEN["ca"], trust_env=False)
    http = GraphClientFactory.create_with_default_middleware(client=plain, host=GIVEN["root"], options=options)
    adapter = GraphRequestAdapter(provider, client=http)
    adapter.base_url = f"{GIVEN['root']}/v1.0"
    graph = GraphServiceClient(request_adapter=adapter)

    chat = Chat(chat_type=ChatType.Group, topic="SDK", members=[member(GIVEN["me"]), member(GIVEN["alice"])])
    created = walk(await graph.chats.post(chat), "create chat")
    here = graph.chats.by_chat_id(created.id)
    html = ItemBody(
        content_type=BodyType.Html, content='<p><at id="0">Alice</at></p><img src="../hostedContents/1/$value">'
    )
    mention = ChatMessageMention(id=0, mention_text="Alice")
    mention.mentioned = ChatMessageMentionedIdentitySet(user=Identity(id=GIVEN["alice"], display_name="Alice"))
    image = ChatMessageHostedContent(content_bytes=base64.b64decode(GIVEN["image"]), content_type="image/png")
    image.additional_data = {"@microsoft.graph.temporaryId": "1"}
    message = ChatMessage(body=html, mentions=[mention], hosted_contents=[image])
    sent = walk(await here.messages.post(message), "send")
    one = here.messages.by_chat_message_id(sent.id)
    walk(await one.get(), "get message")
    await one.patch(ChatMessage(body=ItemBody(content_type=BodyType.Text, content="edited")))
    again = walk(await here.messages.post(ChatMessage(body=html, mentions=[mention], hosted_contents=[image])), "send")
    hosted = here.messages.by_chat_message_id(again.id).hosted_contents
    found = walk(await hosted.get(), "hosted contents")
    content = await hosted.by_chat_message_hosted_content_id(found.value[0].id).content.get()

    await here.members.post(member(GIVEN["carol"], GIVEN["carol_tenant"]))
    members = walk(await here.members.get(), "members")
    listing = MessagesRequestBuilder.MessagesRequestBuilderGetQueryParameters(top=2)
    page = walk(await here.messages.get(RequestConfiguration(query_parameters=listing)), "messages")
    while page.odata_next_link:
        page = walk(await here.messages.with_url(page.odata_next_link).get(), "messages")
    expand = ChatsRequestBuilder.ChatsRequestBuilderGetQueryParameters(
        expand=["members", "lastMessagePreview"], orderby=["lastMessagePreview/createdDateTime desc"], top=50
    )
    chats = walk(await graph.me.chats.get(RequestConfiguration(query_parameters=expand)), "chats")

    try:
        await one.soft_delete.post()
        refused = 0
    except ODataError as error:
        walk(error, "error")
        refused = error.response_status_code
    await (
        graph.users.by_user_id(GIVEN["me"])
        .chats.by_chat_id(created.id)
        .messages.by_chat_message_id(sent.id)
        .soft_delete.post()
    )
    gone = walk(await one.get(), "deleted message")
    result = {
        "strange": strange,
        "seen": seen,
        "image": base64.b64encode(content).decode(),
        "members": len(members.value),
        "chats": len(chats.value),
        "soft_delete_below_chats": refused,
        "deleted": gone.deleted_date_time is not None,
    }
    print(json.dumps(result))


asyncio.run(main())
