"""The Work IQ servers, driven by the MCP SDK's own client; what they refuse, by hand."""

from __future__ import annotations

import base64
import io
import json
import re
import ssl
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import httpx2
import pytest
from entrabot_sandbox.client import Sandbox, SandboxError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from entrabot_host.testing.tenant import Tenant
from tests.sandbox.wire import Entra, token

Json = dict[str, Any]
WORD, SHAREPOINT, ONEDRIVE, ODSP = (
    f"mcp_{name}" for name in ("WordServer", "SharePointRemoteServer", "OneDriveRemoteServer", "ODSPRemoteServer")
)
BOTH = "application/json, text/event-stream"
SHARED = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
LIST: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE: Json = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


class Agent:
    """The agent at the servers, with tokens for the audiences that the manifest names."""

    def __init__(self, sandbox: Sandbox, context: ssl.SSLContext, entra: Entra) -> None:
        manifest = Path(sandbox.environment["ENTRABOT_A365_TOOLING_MANIFEST"]).read_text(encoding="utf-8")
        self.entries = {entry["mcpServerName"]: entry for entry in json.loads(manifest)["mcpServers"]}
        self.sandbox, self.context, self.entra = sandbox, context, entra

    async def token(self, server: str) -> str:
        return await self.entra.user_token(scope=f"{self.entries[server]['audience']}/.default")

    @asynccontextmanager
    async def client(self, server: str, mode: str = "auto") -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {await self.token(server)}"}
        async with httpx2.AsyncClient(headers=headers, verify=self.context, trust_env=False) as http:
            transport = streamable_http_client(self.entries[server]["url"], http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client

    async def call(self, server: str, tool: str, **arguments: str) -> tuple[list[str], bool]:
        """The texts of a tool's result, and whether it is an error."""
        async with self.client(server) as client:
            result = await client.call_tool(tool, arguments)
        return [block.text for block in result.content if block.type == "text"], bool(result.is_error)

    async def answer(self, server: str, tool: str, **arguments: str) -> Json:
        """The document that a tool answers with."""
        texts, failed = await self.call(server, tool, **arguments)
        assert not failed, texts
        return dict(json.loads(texts[0]))

    async def failure(self, server: str, tool: str, **arguments: str) -> str:
        texts, failed = await self.call(server, tool, **arguments)
        assert failed, texts
        return texts[0]

    async def post(
        self, message: Json, server: str = WORD, *, bearer: str | None = None, **more: str
    ) -> httpx.Response:
        """A bare request; ``url`` replaces the server's."""
        url = more.pop("url", self.entries[server]["url"])
        bearer = await self.token(server) if bearer is None else bearer
        headers = {"Authorization": f"Bearer {bearer}", "Accept": BOTH, **more} if bearer else {"Accept": BOTH}
        return await self.entra.http.post(url, json=message, headers=headers)


@pytest.fixture
def agent(sandbox: Sandbox, context: ssl.SSLContext, entra: Entra) -> Agent:
    return Agent(sandbox, context, entra)


@pytest.fixture
async def document(sandbox: Sandbox) -> Json:
    return await sandbox.create_document("alice", "Plan.docx", html="<h1>Plan</h1><p>First &amp; <b>last</b></p>")


def reply(response: httpx.Response) -> Json:
    """The JSON-RPC message of a reply in either form."""
    assert response.status_code == 200, response.text
    if response.headers["content-type"].startswith("application/json"):
        return dict(response.json())
    data = [line[5:] for line in response.text.splitlines() if line.startswith("data:")]
    assert len(data) == 1
    return dict(json.loads(data[0]))


def call(tool: str, **arguments: str) -> Json:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def ids(document: Json) -> dict[str, str]:
    return {"driveId": document["drive_id"], "documentId": document["item_id"]}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("replies", ["json", "sse"])
async def test_the_sdk_lists_and_calls_in_every_era_and_form(
    sandbox: Sandbox, agent: Agent, document: Json, mode: str, replies: str
) -> None:
    await sandbox.work_iq(replies=replies)
    async with agent.client(WORD, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        result = await client.call_tool("WordGetDocumentContent", {"url": document["url"]})
    assert tools["WordReplyToComment"].input_schema["required"] == ["commentId", "driveId", "documentId", "newComment"]
    assert json.loads(result.content[0].text)["content"] == "Plan\nFirst & last"  # type: ignore[union-attr]


async def test_two_generations_of_names(sandbox: Sandbox, agent: Agent) -> None:
    listed = reply(await agent.post(LIST))["result"]["tools"]
    assert listed[0]["name"] == "WordGetDocumentContent"
    await sandbox.work_iq(tool_names="original")
    listed = reply(await agent.post(LIST))["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["GetDocumentContent", "CreateDocument", "AddComment", "ReplyToComment"]
    assert reply(await agent.post(call("WordGetDocumentContent", url="x")))["error"]["code"] == -32602


async def test_a_thread_between_a_person_and_the_agent(sandbox: Sandbox, agent: Agent, document: Json) -> None:
    question = await sandbox.comment("alice", document, "Who owns this?")
    read = await agent.answer(WORD, "WordGetDocumentContent", url=document["url"])
    assert (read["fileName"], read["driveId"], read["documentId"]) == ("Plan.docx", *ids(document).values())
    assert read["size"] > 500
    assert [(c["id"], c["content"], c["author"]) for c in read["comments"]] == [
        (question["id"], "Who owns this?", "Alice Example")
    ]
    texts, _ = await agent.call(
        WORD, "WordReplyToComment", commentId=question["id"], newComment="Bob [ops]\ndoes.", **ids(document)
    )
    told = re.fullmatch(r"WordCommentInfo \[CommentId=([0-9A-F]{8}), Content=(.*)\]", texts[0], re.DOTALL)
    assert told is not None
    assert told[2] == "Bob [ops]\ndoes."
    assert re.fullmatch(r"CorrelationId: [0-9a-f-]{36}, TimeStamp: \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", texts[1])
    answer = await sandbox.wait_for_comment(document, after=question["id"])
    assert (answer["id"], answer["author"], answer["reply_to"]) == (told[1], "agent", question["id"])
    assert (await sandbox.call("GET", "/files?drive=marketing&path=/Plan.docx"))["eTag"].endswith(',3"')
    thanks = await sandbox.comment("alice", document, "Thanks", reply_to=answer["id"])
    assert thanks["reply_to"] == question["id"]
    (thread,) = await sandbox.comments(document)
    assert [one["text"] for one in thread["replies"]] == ["Bob [ops]\ndoes.", "Thanks"]
    (seen,) = (await agent.answer(WORD, "WordGetDocumentContent", url=document["web_url"]))["comments"]
    assert [one["author"] for one in seen["replies"]] == ["Sati Agent", "Alice Example"]


async def test_a_comment_without_an_id(sandbox: Sandbox, agent: Agent, document: Json) -> None:
    await sandbox.work_iq(comment_ids=False)
    texts, failed = await agent.call(WORD, "WordCreateNewComment", newComment="Good", **ids(document))
    assert (texts, failed) == (["Comment added successfully."], False)
    assert [comment["text"] for comment in await sandbox.comments(document)] == ["Good"]
    with pytest.raises(SandboxError, match="No comment of bob"):
        await sandbox.wait_for_comment(document, author="bob", timeout=0)


async def test_created_documents_are_genuine(sandbox: Sandbox, agent: Agent, graph: httpx.AsyncClient) -> None:
    html = "<h2>Über &lt;uns&gt;</h2><ul><li>eins<br>zwei</li></ul><script>no</script><p><i>drei</i> <b> vier</b></p>"
    made = await agent.answer(WORD, "WordCreateNewDocument", fileName="Notes", contentInHtml=html)
    item = made["driveItem"]
    assert (item["Name"], made["sharedWith"]) == ("Notes.docx", None)
    found = (await graph.get(f"/drives/{item['ParentReference']['DriveId']}/items/{item['Id']}")).json()
    assert (found["name"], found["webUrl"]) == ("Notes.docx", item["WebUrl"])
    assert found["parentReference"]["driveId"] == (await graph.get("/me/drive")).json()["id"]
    content = (await graph.get("/me/drive/root:/Notes.docx:/content", follow_redirects=True)).content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            ElementTree.fromstring(archive.read(name))
        assert {"[Content_Types].xml", "_rels/.rels", "word/document.xml", "word/styles.xml"} <= set(archive.namelist())
        assert b'w:val="Heading2"' in archive.read("word/document.xml")
    read = await agent.answer(WORD, "WordGetDocumentContent", url=item["WebUrl"])
    assert read["content"] == "Über <uns>\neins\nzwei\ndrei vier"
    again = await agent.answer(WORD, "WordCreateNewDocument", fileName="Notes.docx", contentInHtml="a\nb < c & d")
    assert again["driveItem"]["Name"] == "Notes 1.docx"
    text = (await agent.answer(WORD, "WordGetDocumentContent", url=again["driveItem"]["WebUrl"]))["content"]
    assert text == "a\nb < c & d"
    unnamed = await agent.answer(WORD, "WordCreateNewDocument", fileName="", contentInHtml="")
    assert re.fullmatch(r"Document_\d{8}_\d{6}\.docx", unnamed["driveItem"]["Name"])


async def test_word_refuses_as_text(sandbox: Sandbox, agent: Agent, document: Json) -> None:
    await sandbox.call("PUT", "/files", {"drive": "marketing", "path": "/a.txt", "text": "x"})
    await sandbox.call("PUT", "/files", {"drive": "marketing", "path": "/old.docx", "text": "no zip"})
    library = document["web_url"].rpartition("/")[0]
    failures = {
        f"{library}/a.txt": "'a.txt' is not a .docx file.",
        f"{library}/old.docx": "The file is not a Word document.",
        f"{library}/none.docx": "itemNotFound: The sharing link no longer exists",
        "https://elsewhere.example/x": "itemNotFound:",
    }
    for url, text in failures.items():
        assert (await agent.failure(WORD, "WordGetDocumentContent", url=url)).startswith(text)
    wrong = await agent.failure(WORD, "WordReplyToComment", commentId="0BAD0BAD", newComment="x", **ids(document))
    assert wrong == "Comment with id 0BAD0BAD was not found in the document."
    assert "newComment" in await agent.failure(WORD, "WordCreateNewComment", **ids(document))
    assert "invalidRequest" in await agent.failure(
        WORD, "WordCreateNewComment", driveId="..", documentId="a/b", newComment="x"
    )
    assert "invalidRequest" in await agent.failure(WORD, "WordCreateNewDocument", fileName="a:b", contentInHtml="x")
    await sandbox.work_iq(failures="text")
    assert await agent.call(WORD, "WordGetDocumentContent", url=f"{library}/a.txt") == (
        ["'a.txt' is not a .docx file."],
        False,
    )


async def test_documents_are_the_users_as_far_as_they_were_shared(sandbox: Sandbox, agent: Agent) -> None:
    private = await sandbox.create_document("alice", "Private.docx", text="secret", drive="alice-onedrive")
    denied = await agent.failure(WORD, "WordGetDocumentContent", url=private["web_url"])
    assert denied.startswith("accessDenied")
    assert "secret" not in denied
    read = await agent.answer(WORD, "WordGetDocumentContent", url=private["url"])
    assert read["content"] == "secret"
    comment = {"newComment": "x", **ids(private)}
    assert (await agent.failure(WORD, "WordCreateNewComment", **comment)).startswith("accessDenied")
    shared = await sandbox.create_document(
        "alice", "Shared.docx", text="both", drive="alice-onedrive", share_with=["agent"]
    )
    await agent.call(WORD, "WordCreateNewComment", newComment="Mine", **ids(shared))
    assert [one["author"] for one in (await sandbox.document(shared))["comments"]] == ["agent"]
    with pytest.raises(SandboxError, match="can't write"):
        await sandbox.comment("bob", shared, "x")


async def test_files_by_url_and_by_id(sandbox: Sandbox, agent: Agent) -> None:
    put = {"drive": "marketing", "path": "/Docs/a.txt", "text": "grüße"}
    made = await sandbox.call("PUT", "/files", put)
    drive, item = made["parentReference"]["driveId"], made["id"]
    for server in (ODSP, SHAREPOINT):
        pascal = await agent.answer(server, "getFileOrFolderMetadataByUrl", fileOrFolderUrl=made["webUrl"])
        assert (pascal["Id"], pascal["Name"], pascal["ParentReference"]["DriveId"]) == (item, "a.txt", drive)
        text = await agent.answer(server, "readSmallTextFile", documentLibraryId=drive, fileId=item)
        assert text == {"content": "grüße"}
        binary = await agent.answer(server, "readSmallBinaryFile", documentLibraryId=drive, fileId=item)
        assert binary == {"content": base64.b64encode("grüße".encode()).decode(), "encoding": "base64"}
        listed = await agent.answer(server, "getFolderChildren", documentLibraryId=drive)
        assert [one["Name"] for one in listed["Value"]] == ["Docs"]
    await sandbox.work_iq(metadata_keys="camel")
    camel = await agent.answer(ODSP, "getFileOrFolderMetadata", documentLibraryId=drive, fileOrFolderId=item)
    assert (camel["id"], camel["parentReference"]["driveId"]) == (item, drive)


async def test_the_own_onedrive(sandbox: Sandbox, agent: Agent) -> None:
    made = await sandbox.call("PUT", "/files", {"drive": "agent-onedrive", "path": "/n.bin", "base64": "//4="})
    item, drive = made["id"], made["parentReference"]["driveId"]
    own = await agent.answer(ONEDRIVE, "readSmallBinaryFileFromMyOnedrive", fileId=item)
    assert own["content"] == "//4="
    assert (await agent.answer(ODSP, "readSmallBinaryFile", documentLibraryId="me", fileId=item)) == own
    assert "text file" in await agent.failure(ONEDRIVE, "readSmallTextFileFromMyOnedrive", fileId=item)
    for library in ("me", drive):
        failure = await agent.failure(SHAREPOINT, "readSmallBinaryFile", documentLibraryId=library, fileId=item)
        assert failure.startswith("itemNotFound")


async def test_no_file_above_5_mb_is_read(sandbox: Sandbox, agent: Agent) -> None:
    for size, refused in ((5 * 1024 * 1024, False), (5 * 1024 * 1024 + 1, True)):
        content = base64.b64encode(b"x" * size).decode()
        made = await sandbox.call("PUT", "/files", {"drive": "agent-onedrive", "path": "/big", "base64": content})
        texts, failed = await agent.call(ONEDRIVE, "readSmallTextFileFromMyOnedrive", fileId=made["id"])
        assert failed is refused
        assert not failed or "5 MB" in texts[0]


async def test_tokens_that_are_not_for_the_server(sandbox: Sandbox, agent: Agent, entra: Entra) -> None:
    for bearer in ("", "nonsense", await entra.user_token(), await agent.token(ODSP)):
        response = await agent.post(LIST, bearer=bearer)
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Bearer ")
    good = await agent.token(WORD)
    assert reply(await agent.post(LIST, bearer=good))["result"]
    await sandbox.expire_tokens()
    response = await agent.post(LIST, bearer=good)
    assert (response.status_code, 'error="invalid_token"' in response.headers["www-authenticate"]) == (401, True)
    audience = agent.entries[WORD]["audience"]
    for scope in (f"api://{audience}/.default", f"{audience}/Tools.ListInvoke.All", f"{SHARED}/.default"):
        assert reply(await agent.post(LIST, bearer=await entra.user_token(scope=scope)))["result"]
    t1 = await entra.t1()
    app_only = token(await entra.hop2(t1, scope=f"{audience}/.default"))
    assert (await agent.post(LIST, bearer=app_only)).status_code == 403


async def test_consent(sandbox: Sandbox, agent: Agent, entra: Entra) -> None:
    audience = agent.entries[WORD]["audience"]
    await sandbox.grant("word", scopes=None)
    t1 = await entra.t1()
    refused = await entra.hop3(t1, token(await entra.hop2(t1)), scope=f"{audience}/.default")
    assert refused.json()["error_codes"] == [65001]
    await sandbox.grant("word", scopes=["Something.Else"])
    assert (await agent.post(LIST)).status_code == 403
    await sandbox.grant("agent365", scopes=["McpServers.OneDriveSharepoint.All"])
    shared = await entra.user_token(scope=f"{SHARED}/.default")
    assert (await agent.post(LIST, bearer=shared)).status_code == 403
    assert (await agent.post(LIST, ODSP, bearer=shared)).status_code == 200


async def test_addresses(sandbox: Sandbox, agent: Agent) -> None:
    base, tenant = sandbox.environment["ENTRABOT_GRAPH_URL"], sandbox.environment["ENTRABOT_TENANT_ID"]
    url = f"{base}/agents/tenants/{tenant}/servers/{WORD}"
    assert reply(await agent.post(LIST, url=url))["result"]
    for wrong in (f"{base}/agents/servers/mcp_Nothing", url.replace(tenant, "other")):
        assert (await agent.post(LIST, url=wrong)).status_code == 404


async def test_the_transports_rules(sandbox: Sandbox, agent: Agent) -> None:
    for accept in ("application/json", "text/event-stream", "text/html"):
        assert (await agent.post(LIST, Accept=accept)).status_code == 406
    assert (await agent.post(LIST, Accept="*/*")).status_code == 200
    unknown = reply(await agent.post({"jsonrpc": "2.0", "id": 3, "method": "no/such"}))
    assert (unknown["id"], unknown["error"]["code"]) == (3, -32601)
    headers = {"Authorization": f"Bearer {await agent.token(WORD)}", "Accept": "text/event-stream"}
    assert (await agent.entra.http.get(agent.entries[WORD]["url"], headers=headers)).status_code == 405


async def test_sessions(sandbox: Sandbox, agent: Agent) -> None:
    opened = await agent.post(INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    assert reply(opened)["result"]["serverInfo"]["name"] == WORD
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await agent.post(initialized, **session)).status_code == 202
    assert reply(await agent.post(LIST, **session))["result"]["tools"]
    assert (await agent.post(LIST, **{"Mcp-Session-Id": "made-up"})).status_code == 404
    headers = {"Authorization": f"Bearer {await agent.token(WORD)}", **session}
    assert (await agent.entra.http.delete(agent.entries[WORD]["url"], headers=headers)).status_code == 200
    assert (await agent.post(LIST, **session)).status_code == 404
    await sandbox.work_iq(sessions=False)
    opened = await agent.post(INITIALIZE)
    assert "mcp-session-id" not in opened.headers
    assert reply(opened)["result"]["protocolVersion"] == "2025-06-18"


async def test_either_form_of_reply(sandbox: Sandbox, agent: Agent) -> None:
    bearer = await agent.token(WORD)
    kinds = {(await agent.post(LIST, bearer=bearer)).headers["content-type"].split(";")[0] for _ in range(40)}
    assert kinds == {"application/json", "text/event-stream"}


async def test_faults(sandbox: Sandbox, agent: Agent, document: Json) -> None:
    bearer, path = await agent.token(WORD), f"/agents/servers/{WORD}"
    await sandbox.fault("status", method="POST", path=path, status=429, retry_after=3, count=1)
    throttled = await agent.post(LIST, bearer=bearer)
    assert (throttled.status_code, throttled.headers["retry-after"]) == (429, "3")
    await sandbox.fault("status", path="/agents/**", status=503, count=1)
    down = await agent.post(LIST, bearer=bearer)
    assert (down.status_code, down.headers["content-type"]) == (503, "text/plain")
    await sandbox.fault("drop_after", path=path, count=1)
    comment = call("WordCreateNewComment", newComment="Once", **ids(document))
    with pytest.raises(httpx.RemoteProtocolError):
        await agent.post(comment, bearer=bearer)
    assert [one["text"] for one in await sandbox.comments(document)] == ["Once"]
    noted = [entry for entry in await sandbox.requests() if entry["path"] == path]
    assert noted[-1]["detail"] == {"rpc": "tools/call", "tool": "WordCreateNewComment"}
    assert noted[-1]["status"] == 0


async def test_an_unknown_tool_is_an_error_of_the_protocol(agent: Agent) -> None:
    async with agent.client(WORD, "legacy") as client:
        with pytest.raises(MCPError, match="Unknown tool: 'Nothing'"):
            await client.call_tool("Nothing", {})


def test_the_sdk_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, entrabot_sandbox.server; sys.exit(any(name in sys.modules for name in ('mcp', 'mcp_types')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_test_kits_tenant_has_documents() -> None:
    tenant = Tenant.start()
    try:
        document = await tenant.create_document("alice", "Plan.docx", "First")
        question = await tenant.comment("alice", document, "Why?")
        await tenant.comment("agent", document, "Because.", question["id"])
        answer = await tenant.comment_from_agent(document, "Because")
        assert answer["reply_to"] == question["id"]
        (thread,) = await tenant.comments(document)
        assert (thread["id"], [one["id"] for one in thread["replies"]]) == (question["id"], [answer["id"]])
    finally:
        tenant.stop()


async def test_settings_are_checked_and_start_over(sandbox: Sandbox) -> None:
    for wrong in ({"replies": "xml"}, {"sessions": 1}, {"nothing": True}):
        with pytest.raises(SandboxError, match=r"must be|no setting"):
            await sandbox.work_iq(**wrong)
    assert (await sandbox.work_iq(tool_names="original"))["tool_names"] == "original"
    await sandbox.reset()
    shown = await sandbox.call("GET", "/work-iq")
    assert (shown["tool_names"], shown["manifest"]) == (
        "reference",
        sandbox.environment["ENTRABOT_A365_TOOLING_MANIFEST"],
    )
    assert [server["name"] for server in shown["servers"]] == [WORD, SHAREPOINT, ONEDRIVE, ODSP]
