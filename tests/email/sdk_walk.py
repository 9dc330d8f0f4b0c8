"""Drives mail with Microsoft's Python SDK and prints what it saw. Runs where the SDK is.

Arguments come on standard input as JSON: root, host, ca, token, mail (an immutable id), answer_to.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import httpx
from azure.core.credentials import AccessToken
from kiota_abstractions.base_request_configuration import RequestConfiguration
from kiota_authentication_azure.azure_identity_authentication_provider import AzureIdentityAuthenticationProvider
from msgraph import GraphRequestAdapter, GraphServiceClient
from msgraph.generated.models.body_type import BodyType
from msgraph.generated.models.email_address import EmailAddress
from msgraph.generated.models.file_attachment import FileAttachment
from msgraph.generated.models.internet_message_header import InternetMessageHeader
from msgraph.generated.models.item_body import ItemBody
from msgraph.generated.models.message import Message
from msgraph.generated.models.o_data_errors.o_data_error import ODataError
from msgraph.generated.models.recipient import Recipient
from msgraph.generated.users.item.mail_folders.item.messages.messages_request_builder import MessagesRequestBuilder
from msgraph.generated.users.item.messages.item.message_item_request_builder import MessageItemRequestBuilder
from msgraph.generated.users.item.messages.item.reply.reply_post_request_body import ReplyPostRequestBody
from msgraph.generated.users.item.send_mail.send_mail_post_request_body import SendMailPostRequestBody
from msgraph.graph_request_adapter import options
from msgraph_core import GraphClientFactory

GIVEN = json.load(sys.stdin)
IMMUTABLE = 'IdType="ImmutableId"'
MARK = "x-entrabot-send-id"
strange: list[str] = []
seen: dict[str, int] = {}
Query = MessagesRequestBuilder.MessagesRequestBuilderGetQueryParameters


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


def preferring(text: str, query: Any = None) -> RequestConfiguration[Any]:
    configuration: RequestConfiguration[Any] = RequestConfiguration(query_parameters=query)
    configuration.headers.add("Prefer", text)
    return configuration


def to(address: str) -> list[Recipient]:
    return [Recipient(email_address=EmailAddress(address=address))]


async def refused(request: Any) -> list[Any]:
    try:
        await request
    except ODataError as error:
        walk(error, "error")
        return [error.response_status_code, error.error.code]
    return []


async def main() -> None:
    provider = AzureIdentityAuthenticationProvider(Known(), scopes=["x"], allowed_hosts=[GIVEN["host"]])
    plain = httpx.AsyncClient(verify=GIVEN["ca"], trust_env=False)
    http = GraphClientFactory.create_with_default_middleware(client=plain, host=GIVEN["root"], options=options)
    adapter = GraphRequestAdapter(provider, client=http)
    adapter.base_url = f"{GIVEN['root']}/v1.0"
    me = GraphServiceClient(request_adapter=adapter).me
    result: dict[str, Any] = {"strange": strange, "seen": seen}

    folders = walk(await me.mail_folders.get(), "folders")
    result["folders"] = sorted(folder.display_name for folder in folders.value)
    inbox = me.mail_folders.by_mail_folder_id("inbox")
    result["inbox"] = walk(await inbox.get(), "inbox").total_item_count

    oldest = Query(
        filter="receivedDateTime ge 2020-01-01T00:00:00Z",
        orderby=["receivedDateTime"],
        top=2,
        select=["id", "subject", "from", "hasAttachments", "receivedDateTime", "bodyPreview"],
    )
    page = walk(await inbox.messages.get(preferring(IMMUTABLE, oldest)), "messages")
    listed = [*page.value]
    while page.odata_next_link:
        page = walk(await inbox.messages.with_url(page.odata_next_link).get(preferring(IMMUTABLE)), "messages")
        listed += page.value
    result["listed"] = [[mail.subject, mail.from_.email_address.name, mail.has_attachments] for mail in listed]
    result["ids_as_given"] = GIVEN["mail"] in [mail.id for mail in listed]
    result["times_with_zone"] = all(mail.received_date_time.tzinfo for mail in listed)
    wrong = Query(filter="isRead eq false", orderby=["receivedDateTime desc"])
    result["inefficient"] = await refused(inbox.messages.get(RequestConfiguration(query_parameters=wrong)))

    one = me.messages.by_message_id(GIVEN["mail"])
    read = walk(await one.get(preferring(f'{IMMUTABLE}, outlook.body-content-type="text"')), "message")
    result["read"] = [read.id == GIVEN["mail"], read.subject, read.body.content_type.value, read.body.content.strip()]
    whole = MessageItemRequestBuilder.MessageItemRequestBuilderGetQueryParameters(
        select=["id", "body", "uniqueBody", "internetMessageHeaders"]
    )
    other = walk(await one.get(RequestConfiguration(query_parameters=whole)), "message")
    result["without_preference"] = [other.id == GIVEN["mail"], other.body.content_type.value]
    result["has_headers"] = bool(other.internet_message_headers)
    files = walk(await one.attachments.get(), "attachments").value
    result["attachments"] = [[type(file).__name__, file.name, file.content_bytes.decode()] for file in files]
    result["unknown"] = await refused(me.messages.by_message_id(GIVEN["mail"][:-6] + "AAAAA=").get())

    answer = Message(
        to_recipients=to(GIVEN["answer_to"]), body=ItemBody(content_type=BodyType.Text, content="It is in.")
    )
    await one.reply.post(ReplyPostRequestBody(message=answer), preferring(IMMUTABLE))
    letter = Message(
        subject="From the SDK",
        body=ItemBody(content_type=BodyType.Html, content="<p>Hello</p>"),
        to_recipients=to(GIVEN["answer_to"]),
        internet_message_headers=[InternetMessageHeader(name=MARK, value="abc")],
        attachments=[FileAttachment(name="tide.txt", content_type="text/plain", content_bytes=b"high")],
    )
    await me.send_mail.post(SendMailPostRequestBody(message=letter, save_to_sent_items=True))
    newest = Query(orderby=["receivedDateTime desc"], select=["subject", "hasAttachments", "internetMessageHeaders"])
    sent = await me.mail_folders.by_mail_folder_id("sentitems").messages.get(
        RequestConfiguration(query_parameters=newest)
    )
    walk(sent, "sent items")
    result["sent"] = sorted([mail.subject, mail.has_attachments] for mail in sent.value)
    result["marked"] = [
        header.value for mail in sent.value for header in mail.internet_message_headers or () if header.name == MARK
    ]
    print(json.dumps(result))


asyncio.run(main())
