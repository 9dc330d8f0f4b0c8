"""Finding files by address and among what was shared, on the wire."""

from __future__ import annotations

from typing import Any

import pytest

from entrabot_host.testing.agent import Agent
from tests.files.conftest import Serve
from tests.files.parts import People, ids, opened, refused


@pytest.mark.parametrize(
    ("drive", "kind"),
    [("marketing", "sharepoint"), ("alice-onedrive", "onedrive_business"), ("mallory-onedrive", "onedrive_personal")],
)
async def test_a_file_in_a_drive_of_each_type(agent: Agent, people: People, drive: str, kind: str) -> None:
    item = await people.put(drive, "/Plan.docx", docx="x")
    await people.share(drive, "/Plan.docx")
    found = await agent.call("resolve_file_url", url=item["webUrl"])
    assert found == {
        "drive_id": item["parentReference"]["driveId"],
        "item_id": item["id"],
        "name": found["name"],
        "kind": kind,
        "site_id": item["parentReference"].get("siteId", ""),
        "mime_type": item["file"]["mimeType"],
        "size_bytes": item["size"],
        "is_folder": False,
        "web_url": item["webUrl"],
    }
    assert opened(found["name"]) == "Plan.docx"


async def test_a_folder_and_a_link_to_the_organisation(agent: Agent, people: People) -> None:
    folder = await people.put("marketing", "/Plans", folder=True)
    assert (await agent.call("resolve_file_url", url=folder["webUrl"]))["is_folder"]
    item = await people.put("alice-onedrive", "/a.txt", text="x")
    found = await agent.call("resolve_file_url", url=await people.link("alice-onedrive", "/a.txt"))
    assert found["item_id"] == item["id"]
    assert (await people.show("alice-onedrive", "/a.txt"))["permissions"][0]["link"]
    assert len((await people.show("alice-onedrive", "/a.txt"))["permissions"]) == 1  # looking changes nothing


async def test_addresses_that_lead_nowhere(agent: Agent, people: People) -> None:
    item = await people.put("alice-onedrive", "/private.txt", text="x")
    async with refused("UrlNotResolvableError"):
        await agent.call("resolve_file_url", url="Plan.docx")
    async with refused("FileNotFoundError") as error:
        await agent.call("resolve_file_url", url="https://contoso.sharepoint.example/nothing")
    assert (error["status"], error["code"]) == (404, "itemNotFound")
    assert error["request_id"]
    async with refused("MissingPermissionError"):
        await agent.call("resolve_file_url", url=item["webUrl"])
    await people.fault("status", path="/v1.0/shares/**", status=400, count=1)
    async with refused("UrlNotResolvableError"):
        await agent.call("resolve_file_url", url=item["webUrl"])


async def test_shared_files_are_named_where_they_lie(agent: Agent, people: People) -> None:
    item = await people.put("alice-onedrive", "/a.txt", text="x")
    await people.share("alice-onedrive", "/a.txt")
    far = await people.put("mallory-onedrive", "/b.txt", text="x")
    await people.share("mallory-onedrive", "/b.txt")
    found = await agent.call("list_recent_files")
    assert found["denied_count"] == 0
    assert [file["item_id"] for file in found["files"]] == [item["id"], far["id"]]
    assert opened(found["files"][0]["name"]) == "a.txt"
    assert opened(found["files"][0]["shared_by"]) == "Alice Example"
    assert [file["kind"] for file in found["files"]] == ["onedrive_business", "onedrive_personal"]
    assert len((await agent.call("list_recent_files", limit=1))["files"]) == 1


async def test_denied_sites(serve: Serve, people: People, tmp_path: Any) -> None:
    """Every way to a file leads past the list, whatever the caller says about its site."""
    board, marketing = await people.drive("board"), await people.drive("marketing")
    secret = await people.put("board", "/secret.txt", text="x")
    await people.put("marketing", "/open.txt", text="x")
    for drive in ("board", "marketing"):
        await people.tenant.control("PATCH", f"/drives/{drive}", json={"members": ["alice"]})
        for path in ("/secret.txt", "/open.txt"):
            if (drive == "board") == (path == "/secret.txt"):
                await people.share(drive, path, role="write")
    web_id = board["siteId"].split(",")[2]
    settings = {"ENTRABOT_FILES_DENIED_SITES": f"other ; {web_id.upper()}", "ENTRABOT_FILES_LOCAL_ROOTS": str(tmp_path)}
    async with serve(**settings) as agent:
        found = await agent.call("list_recent_files")
        assert found["denied_count"] == 1
        assert [opened(file["name"]) for file in found["files"]] == ["open.txt"]
        lie = {**ids(secret), "site_id": marketing["siteId"], "kind": "onedrive_personal"}
        async with refused("SiteNotAllowedError"):
            await agent.call("resolve_file_url", url=secret["webUrl"])
        async with refused("SiteNotAllowedError"):
            await agent.call("read_file", **lie)
        async with refused("SiteNotAllowedError"):
            await agent.call("download_file", drive_id=lie["drive_id"], item_id=lie["item_id"], local_path="x")
        comment = {**ids(secret), "name": "a.docx", "site_id": marketing["siteId"]}
        async with refused("SiteNotAllowedError"):
            await agent.call("add_file_comment", content="x", **comment)
        for site in (marketing["siteId"], board["siteId"]):
            await people.tenant.control("PATCH", "/drives/board", json={"members": ["alice", "agent"]})
            target = {"target_type": "sharepoint", "drive_id": board["id"], "site_id": site}
            async with refused("SiteNotAllowedError"):
                await agent.call("write_text_file", file_name="a.txt", content="x", **target)
        assert (await people.drive("board"))["paths"] == ["/secret.txt"]
    assert not await people.requests("/content")
    assert not await people.requests("/comments")
