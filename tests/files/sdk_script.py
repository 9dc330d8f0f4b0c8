"""Run with Microsoft's Graph SDK installed: drives a tenant's files as its documentation shows. Prints JSON.

Arguments: the version root, a CA file, an access token.
"""

from __future__ import annotations

import asyncio
import io
import json
import ssl
import sys
from typing import Any
from urllib.parse import urlsplit

import httpx
from kiota_abstractions.authentication import AccessTokenProvider, AllowedHostsValidator
from kiota_abstractions.authentication.base_bearer_token_authentication_provider import (
    BaseBearerTokenAuthenticationProvider,
)
from msgraph import GraphServiceClient
from msgraph.generated.drives.item.items.item.create_upload_session.create_upload_session_post_request_body import (
    CreateUploadSessionPostRequestBody,
)
from msgraph.generated.drives.item.items.item.invite.invite_post_request_body import InvitePostRequestBody
from msgraph.generated.models.drive_item import DriveItem
from msgraph.generated.models.drive_item_uploadable_properties import DriveItemUploadableProperties
from msgraph.generated.models.drive_recipient import DriveRecipient
from msgraph.graph_request_adapter import GraphRequestAdapter, options
from msgraph_core import GraphClientFactory
from msgraph_core.tasks import LargeFileUploadTask

CONTENT = bytes(range(256)) * 60_000
CHUNK = 5 * 1024 * 1024


class Token(AccessTokenProvider):
    def __init__(self, secret: str, host: str) -> None:
        self._secret = secret
        self._validator = AllowedHostsValidator([host])

    async def get_authorization_token(self, uri: str, additional_authentication_context: Any = None) -> str:
        return self._secret if self._validator.is_url_host_valid(uri) else ""

    def get_allowed_hosts_validator(self) -> AllowedHostsValidator:
        return self._validator


def client(root: str, ca_file: str, secret: str) -> tuple[GraphServiceClient, GraphRequestAdapter]:
    http = httpx.AsyncClient(verify=ssl.create_default_context(cafile=ca_file), trust_env=False, timeout=60)
    http = GraphClientFactory.create_with_default_middleware(options=options, client=http)
    provider = BaseBearerTokenAuthenticationProvider(Token(secret, urlsplit(root).hostname or ""))
    adapter = GraphRequestAdapter(provider, http)
    adapter.base_url = root
    return GraphServiceClient(request_adapter=adapter), adapter


async def main() -> dict[str, Any]:
    graph, adapter = client(*sys.argv[1:4])
    seen: dict[str, Any] = {}
    drive = await graph.me.drive.get()
    seen["drive_type"] = drive.drive_type
    items = graph.drives.by_drive_id(drive.id).items
    small = await items.by_drive_item_id("root:/A/small.txt:").content.put(b"small")
    seen["small"] = (small.name, small.size, small.parent_reference.drive_id == drive.id)
    seen["content"] = (await items.by_drive_item_id(small.id).content.get()).decode()
    seen["children"] = [item.name for item in (await items.by_drive_item_id("root").children.get()).value]
    wish = DriveItemUploadableProperties(additional_data={"@microsoft.graph.conflictBehavior": "replace"})
    session = await items.by_drive_item_id("root:/large.bin:").create_upload_session.post(
        CreateUploadSessionPostRequestBody(item=wish)
    )
    steps: list[Any] = []
    task = LargeFileUploadTask(session, adapter, io.BytesIO(CONTENT), DriveItem, CHUNK)
    done = await task.upload(steps.append)
    seen["large"] = (done.item_response.name, done.item_response.size)
    body = InvitePostRequestBody(
        recipients=[DriveRecipient(email="bob@contoso.example")],
        roles=["read"],
        require_sign_in=True,
        send_invitation=True,
    )
    rows = await items.by_drive_item_id(small.id).invite.post(body)
    seen["invited"] = [row.granted_to_v2.user.display_name for row in rows.value]
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
