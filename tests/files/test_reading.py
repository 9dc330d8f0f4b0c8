"""Reading files of all kinds, on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from entrabot_files.pdf import PdfReading
from entrabot_sandbox.drive_pdf import make_pdf

from entrabot_host import EntrabotError
from entrabot_host.testing.agent import Agent
from entrabot_host.testing.tenant import Tenant
from tests.files import documents
from tests.files.conftest import Serve
from tests.files.parts import Json, People, ids, opened, refused
from tests.host.graph.server import Received, Server, answer, make_authority, running

OWN = "agent-onedrive"


async def read(agent: Agent, item: Json, **more: Any) -> Json:
    return dict(await agent.call("read_file", **{**ids(item), **more}))


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("a.txt", "Grüße, 日本".encode(), "utf-8"),
        ("a.md", b"\xef\xbb\xbf# x", "utf-8"),
        ("a.HTML", "<p>שלום</p>".encode("utf-16"), "utf-16-le"),
        ("a.htm", b"", "utf-8"),
    ],
)
async def test_text(agent: Agent, people: People, name: str, content: bytes, encoding: str) -> None:
    item = await people.put(OWN, f"/{name}", raw=content)
    found = await read(agent, item)
    expected = content.decode("utf-16" if "16" in encoding else "utf-8-sig")
    assert (opened(found["text"]) if expected else found["text"]) == expected
    assert found["encoding"] == encoding
    assert found["page_count"] is None
    assert not found["truncated"]
    assert found["mime_type"] == item["file"]["mimeType"]
    assert "note" not in found


async def test_a_guess_is_said_to_be_one_and_binary_is_refused(agent: Agent, people: People) -> None:
    found = await read(agent, await people.put(OWN, "/a.txt", raw="Grüße".encode("cp1252")))
    assert opened(found["text"]) == "Grüße"
    assert "guess" in found["note"]
    async with refused("UnsupportedReadFormatError"):
        await read(agent, await people.put(OWN, "/b.txt", raw=b"MZ\0\0\x90"))


async def test_long_text_is_cut_and_not_all_of_it_is_fetched(agent: Agent, people: People) -> None:
    found = await read(agent, await people.put(OWN, "/a.txt", raw=("ä" * 2600).encode()))
    assert opened(found["text"]) == "ä" * 2500
    assert found["truncated"]
    huge = await read(agent, await people.put(OWN, "/b.txt", raw=b"x" * 3_000_000))
    assert opened(huge["text"]) == "x" * 5000
    assert huge["truncated"]


@pytest.mark.parametrize("name", ["a.xlsx", "a.xls", "a.xlsm", "a.pptx", "a.ppt", "a.png", "a", "a.docm", "pdf"])
async def test_other_kinds_are_refused_before_content_is_touched(agent: Agent, people: People, name: str) -> None:
    item = await people.put(OWN, f"/{name}", text="x")
    async with refused("UnsupportedReadFormatError"):
        await read(agent, item, name="a.txt")  # the service's word on the name counts, not the caller's
    assert not await people.requests("/content")


async def test_what_is_not_there_or_no_file(agent: Agent, people: People) -> None:
    folder = await people.put(OWN, "/F.txt", folder=True)
    async with refused("UnsupportedReadFormatError"):
        await read(agent, folder)
    async with refused("FileNotFoundError"):
        await read(agent, {**folder, "id": "01NOTHING"})
    private = await people.put("alice-onedrive", "/a.txt", text="x")
    async with refused("MissingPermissionError"):
        await read(agent, private)
    for wrong in ("", ".", "x" * 401):
        async with refused("InvalidArgument"):
            await read(agent, {**folder, "id": wrong})


async def test_word_documents_by_conversion(agent: Agent, people: People) -> None:
    item = await people.put("marketing", "/a.docx", docx="Grüße\nשלום עולם\nПривет")
    found = await read(agent, item)
    assert opened(found["text"]).split("\n")[:3] == ["Grüße", "שלום עולם", "Привет"]
    assert (found["page_count"], found["pages_read"]) == (1, 1)
    assert found["mime_type"].endswith("wordprocessingml.document")
    async with refused("DamagedFileError"):
        await read(agent, await people.put(OWN, "/b.docx", text="not a document"))


async def test_pdf_page_by_page_up_to_the_limit(agent: Agent, people: People) -> None:
    text = "\n".join(f"line {number} of a long document" for number in range(500))
    found = await read(agent, await people.put(OWN, "/a.pdf", pdf=text))
    assert found["page_count"] == 10
    assert found["truncated"]
    assert 3 <= found["pages_read"] < 10
    assert len(opened(found["text"]).encode()) <= 5000
    assert opened(found["text"]).startswith("line 0 of")
    assert "limit" in found["note"]
    exact = await read(agent, await people.put(OWN, "/b.pdf", pdf="short"))
    assert not exact["truncated"]


@pytest.mark.parametrize("name", ["a.pdf", "a.docx"])
async def test_size_is_limited_before_and_while_fetching(agent: Agent, people: People, name: str) -> None:
    """A converted document's size is not known before it is fetched."""
    if name == "a.pdf":
        item = await people.put(OWN, f"/{name}", raw=b"%PDF-1.4\n" + b"x" * 1_000_000)
    else:
        import random

        words = random.Random(1)
        item = await people.put(
            OWN, f"/{name}", docx="".join(chr(words.randrange(0x4E00, 0x9FFF)) for _ in range(500_000))
        )
    async with refused("FileTooLargeError"):
        await read(agent, item)
    assert len(await people.requests("/content")) == (0 if name == "a.pdf" else 2)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: documents.protected("word"), "EncryptedFileError"),
        (lambda: documents.protected("word", "RC4-128"), "EncryptedFileError"),
        (lambda: make_pdf("x" * 5000)[:700], "DamagedFileError"),
        (lambda: b"", "DamagedFileError"),
        (lambda: b"MZ\0 no PDF at all", "DamagedFileError"),
        (documents.scanned, "ScannedFileError"),
        (lambda: documents.bomb(), "TooComplexFileError"),
    ],
    ids=["password", "old password", "cut off", "empty", "no PDF", "scanned", "bomb"],
)
async def test_each_trouble_has_its_own_answer(agent: Agent, people: People, make: Any, kind: str) -> None:
    item = await people.put(OWN, "/a.pdf", raw=make())
    async with refused(kind):
        await read(agent, item)


async def test_an_owners_password_keeps_nobody_from_reading(agent: Agent, people: People) -> None:
    found = await read(agent, await people.put(OWN, "/a.pdf", raw=documents.protected("")))
    assert opened(found["text"]).strip() == "Secret plans"


async def test_pages_without_text_are_said_to_be(agent: Agent, people: People) -> None:
    found = await read(agent, await people.put(OWN, "/a.pdf", pdf=""))
    assert not found["text"].strip()
    assert "no text" in found["note"]


def workers() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "entrabot_files.pdf_worker" in child.cmdline():
                found.append(child)
        except psutil.Error:
            continue
    return found


async def test_a_hostile_file_is_stopped_in_time_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "endless.pdf"
    path.write_bytes(documents.endless())
    with path.open("rb") as file, pytest.raises(EntrabotError) as failed:
        await PdfReading(seconds=2).text(file, 1000)
    assert type(failed.value).__name__ == "TooComplexFileError"
    path.write_bytes(documents.bomb(60))
    with path.open("rb") as file, pytest.raises(EntrabotError) as failed:
        await PdfReading(memory=150_000_000).text(file, 1000)
    assert type(failed.value).__name__ == "TooComplexFileError"
    assert not workers()


async def test_others_are_answered_meanwhile_and_a_cancelled_call_leaves_no_process(
    agent: Agent, people: People
) -> None:
    item = await people.put(OWN, "/a.pdf", raw=documents.endless())
    reading = asyncio.create_task(read(agent, item))
    async with asyncio.timeout(20):
        while not workers():
            await asyncio.sleep(0.02)
    small = await people.put(OWN, "/b.txt", text="here")
    assert opened((await read(agent, small))["text"]) == "here"
    assert workers()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    async with asyncio.timeout(20):
        while workers():
            await asyncio.sleep(0.02)


async def test_a_worker_stands_by_while_the_file_comes_and_goes_with_it(agent: Agent, people: People) -> None:
    item = await people.put(OWN, "/a.pdf", pdf="late")
    await people.fault("latency", method="GET", path="/transfers/content", seconds=20)
    reading = asyncio.create_task(read(agent, item))
    async with asyncio.timeout(20):
        while not workers():
            await asyncio.sleep(0.02)
        assert not reading.done()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        while workers():
            await asyncio.sleep(0.02)
    await people.tenant.control("DELETE", "/faults")
    found = await asyncio.gather(*(read(agent, item) for _ in range(6)))
    assert {opened(one["text"]).strip() for one in found} == {"late"}
    assert not workers()


async def test_a_worker_ends_with_who_started_it(tmp_path: Path) -> None:
    import sys

    path = tmp_path / "endless.pdf"
    path.write_bytes(documents.endless())
    script = f"""
import asyncio
from entrabot_files.pdf import PdfReading
async def main():
    with open({str(path)!r}, "rb") as file:
        await PdfReading().text(file, 1000)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    async with asyncio.timeout(20):
        while not (found := workers()):
            await asyncio.sleep(0.02)
        parent.kill()
        await parent.wait()
        while any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in found):
            await asyncio.sleep(0.02)


async def test_a_broken_download_is_begun_anew(agent: Agent, people: People) -> None:
    item = await people.put(OWN, "/a.pdf", pdf="whole")
    await people.fault("drop_before", method="GET", path="/transfers/content", count=2)
    assert opened((await read(agent, item))["text"]).strip() == "whole"
    await people.fault("status", method="GET", path="/transfers/content", status=403)
    async with refused("MissingPermissionError"):
        await read(agent, item)


async def test_the_token_goes_to_graph_and_nowhere_else(agent: Agent, people: People) -> None:
    item = await people.put(OWN, "/a.txt", text="x")
    await read(agent, item)
    (fetched,) = await people.requests("/transfers/content")
    assert fetched["detail"]["authorization"] == "no"


@pytest.fixture
async def hostile(tmp_path: Path) -> AsyncIterator[tuple[Server, str]]:
    authority = make_authority(tmp_path)
    async with running(authority) as server:
        yield server, authority.ca_file


async def test_a_hostile_host_never_sees_the_token(
    hostile: tuple[Server, str], serve: Serve, people: People, tenant: Tenant, tmp_path: Path
) -> None:
    """Graph leads to a host that leads on, also back to Graph; no token goes along, and nothing is shown of it."""
    server, ca_file = hostile
    graph = tenant.environment["ENTRABOT_GRAPH_URL"]
    both = tmp_path / "both.pem"
    both.write_bytes(Path(ca_file).read_bytes() + Path(tenant.environment["ENTRABOT_CA_BUNDLE"]).read_bytes())

    def lead(request: Received) -> bytes:
        if request.target.startswith("/first"):
            return answer(302, location=f"{server.url}/second?secret=1")
        if request.target.startswith("/second"):
            return answer(302, location=f"{graph}/v1.0/me")
        return answer(200, b"stolen")

    server.default = lead
    await tenant.control("PUT", "/transfers", json={"redirect": f"{server.url}/first?secret=1"})
    item = await people.put(OWN, "/a.txt", text="x")
    async with serve(ENTRABOT_CA_BUNDLE=str(both)) as agent:
        await agent.call("whoami")
        await tenant.control("DELETE", "/requests")
        with pytest.raises(Exception, match="401") as failed:
            await read(agent, item)
        assert "secret" not in str(failed.value)
        (asked,) = await people.requests("/v1.0/me")
        assert asked["status"] == 401
        for location in ("http://127.0.0.1:1/plain", "file:///etc/passwd"):
            await tenant.control("PUT", "/transfers", json={"redirect": location})
            with pytest.raises(Exception, match="not used") as failed:
                await read(agent, item)
            assert location not in str(failed.value)
    assert len(server.received) == 2
    for request in server.received:
        assert not {"authorization", "cookie"} & set(request.headers)
        assert "Bearer" not in str(request.headers)


@pytest.mark.parametrize("path", documents.DEBIAN, ids=lambda path: path.name)
async def test_documents_of_debian_packages(path: Path) -> None:
    if not path.is_file():
        pytest.skip("this Debian package is not installed")
    with path.open("rb") as file:
        found = await PdfReading().text(file, 200_000)
    assert found.page_count > 10
    assert found.pages_read == found.page_count
    assert len(found.text.split()) > 3000


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_documents_of_a_python_package(tmp_path: Path) -> None:
    """About seventy that once made trouble: each is read, or refused with the error that fits."""
    outcomes: dict[str, str] = {}
    texts: dict[str, str] = {}
    paths = await asyncio.to_thread(documents.real_documents, tmp_path)
    assert len(paths) > 50
    reading = PdfReading()

    async def one(path: Path) -> None:
        with path.open("rb") as file:
            try:
                texts[path.name] = (await reading.text(file, 200_000)).text
                outcomes[path.name] = "read"
            except EntrabotError as error:
                outcomes[path.name] = type(error).__name__

    await asyncio.gather(*(one(path) for path in paths))
    assert set(outcomes.values()) == {"read", "EncryptedFileError", "ScannedFileError"}, json.dumps(outcomes, indent=1)
    for name, outcome in outcomes.items():
        if "user-password" in name and not name.startswith(("r5", "r6")):
            assert outcome == "EncryptedFileError", name
        if "empty-password" in name or "owner-password" in name:
            assert "pdf encryption test" in texts[name], name
    assert "مرحبا بالعالم" in texts["multilang.pdf"]
    assert outcomes["imagemagick-CCITTFaxDecode.pdf"] == "ScannedFileError"
