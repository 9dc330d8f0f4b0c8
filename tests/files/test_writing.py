"""Writing small and large files, whatever the connection does to them."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

import pytest

from entrabot_host.testing.agent import Agent, ToolFailed
from tests.files.parts import People, opened, refused, upload

MIB = 1024 * 1024
LARGE = os.urandom(1000) * 11_700  # three fragments, the last a short one
UPLOAD = "/transfers/upload"


@pytest.fixture
def large() -> bytes:
    return LARGE


async def test_text_to_the_own_drive_and_to_a_library(agent: Agent, people: People, entrabot_audit: Any) -> None:
    text = {"file_name": "Größe 100% #1.md", "content": "# Grüße\n", "folder_path": "/A b/C"}
    made = await agent.call("write_text_file", target_type="onedrive", **text)
    assert made["created"]
    assert made["kind"] == "onedrive_business"
    assert await people.content("agent-onedrive", "/A b/C/Größe 100% #1.md") == "# Grüße\n".encode()
    library = await people.drive("marketing")
    where = {"target_type": "sharepoint", "drive_id": library["id"], "site_id": library["siteId"]}
    made = await agent.call("write_text_file", **where, **text)
    assert (made["kind"], made["site_id"]) == ("sharepoint", library["siteId"])
    assert await people.content("marketing", "/A b/C/Größe 100% #1.md") == "# Grüße\n".encode()
    (first, *_), lines = entrabot_audit(), entrabot_audit()
    assert first["action"] == "files.write_text"
    assert first["resource"] == "onedrive:/A b/C/Größe 100% #1.md"
    assert [line["outcome"] for line in lines] == ["pending", "success"] * 2


@pytest.mark.parametrize("size", [100, len(LARGE)])
async def test_conflicts(agent: Agent, people: People, size: int) -> None:
    await people.put("agent-onedrive", "/a.bin", text="old")
    content = LARGE[:size]
    async with refused("FileExistsError") as error:
        await upload(agent, content)
    assert error["status"] == 409
    assert "rename" in error["remedy"]
    assert await people.content("agent-onedrive", "/a.bin") == b"old"
    renamed = await upload(agent, content, conflict_behavior="rename")
    assert (renamed["name"], renamed["created"]) == ("a 1.bin", True)
    replaced = await upload(agent, content, conflict_behavior="replace")
    assert (replaced["name"], replaced["created"]) == ("a.bin", False)
    assert await people.content("agent-onedrive", "/a.bin") == content
    assert await people.content("agent-onedrive", "/a 1.bin") == content
    assert not (await people.drives())["uploads"]


async def test_arguments_are_checked_before_anything_is_sent(agent: Agent, people: People) -> None:
    library = await people.drive("marketing")
    ids = {"drive_id": library["id"], "site_id": library["siteId"]}
    for wrong in (
        {"file_name": "a:b"},
        {"file_name": "../a"},
        {"folder_path": "/A/../../B"},
        {"folder_path": "/" + "x" * 250 + "/" + "y" * 250},
        {"target_type": "sharepoint"},
        {"target_type": "sharepoint", "drive_id": library["id"]},
        {"target_type": "onedrive", **ids},
        {"target_type": "dropbox"},
        {"conflict_behavior": "overwrite"},
    ):
        async with refused("InvalidArgument"):
            await upload(agent, b"x", **{"name": wrong.pop("file_name", "a.bin"), **wrong})
    for text in ("a", "====", "Zm9v!A==", "data:text/plain;base64,Zm9v", "Zm9v-_=="):
        async with refused("InvalidArgument") as error:
            await agent.call("upload_file", target_type="onedrive", file_name="a.bin", content_base64=text)
        assert error["parameter"] == "content_base64"
        assert len(text) < 4 or text not in error["message"]
    assert not [one for one in await people.requests("/v1.0/") if "drive" in one["path"]]
    async with refused("InvalidArgument"):
        other = {**ids, "site_id": (await people.drive("board"))["siteId"]}
        await upload(agent, b"x", target_type="sharepoint", **other)


async def test_broken_base64_at_the_end_of_a_large_file_leaves_nothing(agent: Agent, people: People) -> None:
    text = base64.b64encode(LARGE).decode()
    async with refused("InvalidArgument"):
        await agent.call(
            "upload_file", target_type="onedrive", file_name="a.bin", content_base64=text[:-8] + "!!!!" + text[-4:]
        )
    shown = await people.drives()
    assert shown["uploads"] == []
    assert (await people.drive("agent-onedrive"))["paths"] == []


@pytest.mark.parametrize("size", [0, 1, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 10 * MIB])
async def test_sizes_around_the_switch(agent: Agent, people: People, size: int) -> None:
    content = (LARGE * 2)[:size]
    made = await upload(agent, content)
    assert made["size_bytes"] == size
    assert await people.content("agent-onedrive", "/a.bin") == content
    fragments = await people.requests(UPLOAD, "PUT")
    assert len(fragments) == (0 if size < 5 * MIB else -(-size // (5 * MIB)))
    assert {one["detail"]["authorization"] for one in fragments} <= {"no"}


async def test_line_breaks_in_base64_do_not_count(agent: Agent, people: People) -> None:
    text = base64.encodebytes(LARGE).decode()
    await agent.call("upload_file", target_type="onedrive", file_name="a.bin", content_base64=text)
    assert await people.content("agent-onedrive", "/a.bin") == LARGE


async def test_progress_grows_to_the_whole(agent: Agent, people: People) -> None:
    seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    arguments = {"target_type": "onedrive", "file_name": "a.bin", "content_base64": base64.b64encode(LARGE).decode()}
    result = await agent.client.call_tool("upload_file", arguments, progress_callback=note)
    assert not result.is_error
    assert [total for _, total in seen] == [len(LARGE)] * len(seen)
    assert [done for done, _ in seen] == [5 * MIB, 10 * MIB, len(LARGE)]


TROUBLES: list[dict[str, Any]] = [
    {"kind": "status", "status": 429, "retry_after": 0, "count": 2},
    {"kind": "status", "status": 503, "retry_after": 0, "count": 2},
    {"kind": "status", "status": 500, "count": 1},
    {"kind": "status", "status": 509, "retry_after": 0, "count": 1},
    {"kind": "drop_before", "count": 1},
    {"kind": "drop_after", "count": 1},
]


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: f"{one['kind']} {one.get('status', '')}")
async def test_a_fragment_in_trouble(agent: Agent, people: People, trouble: dict[str, Any], after: int) -> None:
    """The first, the second or the last: the file arrives whole, once."""
    await people.fault(method="PUT", path=UPLOAD, after=after, **trouble)
    made = await upload(agent, LARGE)
    assert made["size_bytes"] == len(LARGE)
    assert await people.content("agent-onedrive", "/a.bin") == LARGE
    assert (await people.drive("agent-onedrive"))["paths"] == ["/a.bin"]
    assert not (await people.drives())["uploads"]


@pytest.mark.parametrize("behaviour", ["fail", "replace", "rename"])
async def test_the_last_answer_is_lost(agent: Agent, people: People, behaviour: str) -> None:
    """The session is gone with it. What can be told from the drive is told, and nothing is uploaded twice."""
    if behaviour != "fail":
        await people.put("agent-onedrive", "/a.bin", text="old")
    await people.tenant.control("PUT", "/transfers", json={"remember_sessions": False})
    await people.fault("drop_after", method="PUT", path=UPLOAD, after=2, count=1)
    if behaviour == "rename":
        async with refused("UploadOutcomeUnknownError"):
            await upload(agent, LARGE, conflict_behavior=behaviour)
        assert (await people.drive("agent-onedrive"))["paths"] == ["/a 1.bin", "/a.bin"]
    else:
        assert (await upload(agent, LARGE, conflict_behavior=behaviour))["size_bytes"] == len(LARGE)
        assert await people.content("agent-onedrive", "/a.bin") == LARGE
    assert len(await people.requests(UPLOAD, "PUT")) == 3


@pytest.mark.parametrize(
    "trouble",
    [
        {"kind": "status", "status": 503, "retry_after": 0},
        {"kind": "status", "status": 429, "retry_after": 3600},
        {"kind": "status", "status": 507},
        {"kind": "status", "status": 403},
        {"kind": "status", "status": 413},
    ],
    ids=lambda one: str(one["status"]),
)
async def test_given_up_is_cancelled_and_nothing_is_visible(
    agent: Agent, people: People, trouble: dict[str, Any]
) -> None:
    await people.fault(method="PUT", path=UPLOAD, after=1, **trouble)
    with pytest.raises(ToolFailed) as failed:
        await upload(agent, LARGE)
    kinds = {
        503: "UploadFailedError",
        429: "UploadFailedError",
        507: "QuotaExceededError",
        403: "MissingPermissionError",
    }
    assert failed.value.error["type"] == kinds.get(trouble["status"], "GraphFilesError")
    assert "transfers" not in str(failed.value.error)
    assert len(await people.requests(UPLOAD, "PUT")) == (4 if trouble["status"] == 503 else 2)
    (cancelled,) = await people.requests(UPLOAD, "DELETE")
    assert (cancelled["status"], cancelled["detail"]["authorization"]) == (204, "no")
    assert (await people.drives())["uploads"] == []
    assert (await people.drive("agent-onedrive"))["paths"] == []


async def test_a_session_that_expired_is_begun_anew_once(agent: Agent, people: People) -> None:
    await people.fault("status", method="PUT", path=UPLOAD, after=1, status=404, code="itemNotFound", count=1)
    await upload(agent, LARGE)
    assert await people.content("agent-onedrive", "/a.bin") == LARGE
    assert len(await people.requests("/createUploadSession")) == 2
    await people.fault("status", method="PUT", path=UPLOAD, after=1, status=404, code="itemNotFound")
    async with refused("UploadFailedError"):
        await upload(agent, LARGE, "b.bin")
    assert (await people.drive("agent-onedrive"))["paths"] == ["/a.bin"]


async def test_a_full_drive(agent: Agent, people: People) -> None:
    await people.tenant.control("PATCH", "/drives/agent-onedrive", json={"quota": 6 * MIB})
    for content in (LARGE, LARGE[: 4 * MIB]):
        if content is not LARGE:
            await people.tenant.control("PATCH", "/drives/agent-onedrive", json={"quota": 10})
        async with refused("QuotaExceededError"):
            await upload(agent, content)
    assert (await people.drive("agent-onedrive"))["paths"] == []


async def test_a_locked_file(agent: Agent, people: People) -> None:
    await people.put("agent-onedrive", "/a.bin", text="old", locked=True)
    for content in (LARGE, b"x"):
        async with refused("FileLockedError"):
            await upload(agent, content, conflict_behavior="replace")
    assert await people.content("agent-onedrive", "/a.bin") == b"old"


@pytest.mark.parametrize("behaviour", ["fail", "replace"])
@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
async def test_a_small_file_whose_answer_is_lost(agent: Agent, people: People, kind: str, behaviour: str) -> None:
    await people.fault(kind, method="PUT", path="/v1.0/**/content", count=1)
    made = await upload(agent, b"small", conflict_behavior=behaviour)
    assert made["size_bytes"] == 5
    assert await people.content("agent-onedrive", "/a.bin") == b"small"
    assert (await people.drive("agent-onedrive"))["paths"] == ["/a.bin"]


async def test_what_was_there_is_never_taken_for_what_was_sent(agent: Agent, people: People) -> None:
    """The same agent wrote another version a moment ago, and the new one is lost on its way."""
    for content, older in ((b"new", b"old"), (LARGE, LARGE[::-1])):
        await upload(agent, older, conflict_behavior="replace")
        path = UPLOAD if content is LARGE else "/v1.0/**/content"
        await people.fault("drop_before", method="PUT", path=path, after=2 if content is LARGE else 0, count=1)
        await upload(agent, content, conflict_behavior="replace")
        assert await people.content("agent-onedrive", "/a.bin") == content
    await people.fault("drop_before", method="PUT", path="/v1.0/**/content", count=1)
    async with refused("FileExistsError"):
        await upload(agent, b"newer")
    assert await people.content("agent-onedrive", "/a.bin") == LARGE


async def test_a_small_file_in_trouble(agent: Agent, people: People) -> None:
    await people.fault("drop_after", method="PUT", path="/v1.0/**/content", count=1)
    async with refused("UploadOutcomeUnknownError"):
        await upload(agent, b"small", conflict_behavior="rename")
    await people.fault("status", method="PUT", path="/v1.0/**/content", status=503, retry_after=0, count=1)
    assert (await upload(agent, b"small", "b.bin"))["created"]
    assert (await people.drive("agent-onedrive"))["paths"] == ["/a.bin", "/b.bin"]


async def test_a_cancelled_upload_is_given_up(agent: Agent, people: People, entrabot_audit: Any) -> None:
    await people.fault("latency", method="PUT", path=UPLOAD, after=1, seconds=5)
    calling = asyncio.create_task(upload(agent, LARGE))
    async with asyncio.timeout(20):
        while not [one for one in (await people.drives())["uploads"] if one["received"]]:
            await asyncio.sleep(0.02)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    async with asyncio.timeout(20):
        while (await people.drives())["uploads"]:
            await asyncio.sleep(0.05)
    assert (await people.drive("agent-onedrive"))["paths"] == []
    async with asyncio.timeout(20):
        while entrabot_audit()[-1]["outcome"] != "failure":
            await asyncio.sleep(0.05)


async def test_from_this_machine(agent: Agent, people: People, tmp_path: Any) -> None:
    (tmp_path / "shared" / "sub").mkdir()
    (tmp_path / "shared" / "sub" / "big.bin").write_bytes(LARGE)
    made = await agent.call("upload_local_file", target_type="onedrive", local_path="sub/big.bin")
    assert made["name"] == "big.bin"
    assert await people.content("agent-onedrive", "/big.bin") == LARGE
    path = str(tmp_path / "shared" / "sub" / "big.bin")
    made = await agent.call(
        "upload_local_file", target_type="onedrive", local_path=path, file_name="small.bin", folder_path="X"
    )
    assert await people.content("agent-onedrive", "/X/small.bin") == LARGE


async def test_to_this_machine(agent: Agent, people: People, tmp_path: Any) -> None:
    item = await people.put("agent-onedrive", "/a.bin", raw=LARGE)
    ids = {"drive_id": item["parentReference"]["driveId"], "item_id": item["id"]}
    await people.fault("drop_before", method="GET", path="/transfers/content", count=1)
    done = await agent.call("download_file", local_path="a.bin", **ids)
    assert (done["size_bytes"], opened(done["name"])) == (len(LARGE), "a.bin")
    assert (tmp_path / "shared" / "a.bin").read_bytes() == LARGE
    async with refused("EntrabotError"):
        await agent.call("download_file", local_path="a.bin", **ids)
    (tmp_path / "shared" / "a.bin").write_bytes(b"old")
    await people.fault("status", path="/transfers/content", status=403)
    with pytest.raises(ToolFailed):
        await agent.call("download_file", local_path="a.bin", overwrite=True, **ids)
    assert (tmp_path / "shared" / "a.bin").read_bytes() == b"old"
    await people.tenant.control("DELETE", "/faults")
    await agent.call("download_file", local_path="a.bin", overwrite=True, **ids)
    assert (tmp_path / "shared" / "a.bin").read_bytes() == LARGE
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["a.bin"]
    folder = await people.put("agent-onedrive", "/F", folder=True)
    async with refused("UnsupportedReadFormatError"):
        await agent.call("download_file", local_path="f", drive_id=ids["drive_id"], item_id=folder["id"])
