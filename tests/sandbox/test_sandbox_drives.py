"""Drives, items, content and sharing on the wire, refused where Microsoft refuses."""

from __future__ import annotations

import base64
import io
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_sandbox.drive_shapes import quick_xor
from pypdf import PdfReader

from tests.sandbox.test_sandbox_types import TYPES, declared
from tests.sandbox.wire import error

Json = dict[str, Any]
UNIT = 327_680


@pytest.fixture
async def drives(sandbox: Sandbox) -> dict[str, Json]:
    return {drive["key"]: drive for drive in (await sandbox.call("GET", "/drives"))["value"]}


@pytest.fixture
async def plain(sandbox: Sandbox, context: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token, for pre-signed addresses."""
    async with httpx.AsyncClient(verify=context, trust_env=False) as http:
        yield http


async def put(sandbox: Sandbox, drive: str, path: str, **content: Any) -> Json:
    return await sandbox.call("PUT", "/files", {"drive": drive, "path": path, **content})


def check(value: Any, kind: str, path: str) -> None:
    """Walk a value; fails at a property that Graph's metadata does not know."""
    kind = kind.removeprefix("Collection(").removesuffix(")")
    if isinstance(value, list):
        for part in value:
            check(part, kind, f"{path}[]")
    elif isinstance(value, dict) and kind in TYPES:
        known = declared(kind)
        for name, part in value.items():
            assert name in known or name.startswith(("@", "email")), f"{path}.{name}"
            check(part, known.get(name, "String"), f"{path}.{name}")


def share_id(url: str) -> str:
    return "u!" + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


async def test_drives_of_three_types(sandbox: Sandbox, graph: httpx.AsyncClient, drives: dict[str, Json]) -> None:
    own = (await graph.get("/me/drive")).json()
    assert own["driveType"] == "business"
    library = (await graph.get(f"/drives/{drives['marketing']['id']}")).json()
    assert library["driveType"] == "documentLibrary"
    assert library["sharePointIds"]["siteId"] == drives["marketing"]["siteId"].split(",")[1]
    for body in (own, library):
        check({k: v for k, v in body.items() if k != "@odata.context"}, "drive", "drive")
    assert error(await graph.get(f"/drives/{drives['mallory-onedrive']['id']}")) == (403, "accessDenied")
    assert drives["mallory-onedrive"]["driveType"] == "personal"
    assert drives["mallory-onedrive"]["siteId"] == ""
    assert error(await graph.get("/drives/b!nothing")) == (404, "itemNotFound")
    assert error(await graph.get("/drives/not-a-drive")) == (400, "invalidRequest")


async def test_one_item_by_all_its_addresses(
    sandbox: Sandbox, graph: httpx.AsyncClient, drives: dict[str, Json]
) -> None:
    made = await put(sandbox, "marketing", "/Plans/Größe 100%.txt", text="ü")
    drive = drives["marketing"]["id"]
    path = quote("Plans/Größe 100%.txt")
    for address in (
        f"/drives/{drive}/items/{made['id']}",
        f"/drives/{drive}/root:/{path}",
        f"/drives/{drive}/root:/{path}:",
        f"/drives/{drive}/items/root:/{path}:",
        f"/drives/{drive}/items/{made['parentReference']['id']}:/{path.rpartition('/')[2]}",
        f"/shares/{share_id(made['webUrl'])}/driveItem",
    ):
        found = (await graph.get(address)).json()
        assert found["id"] == made["id"], address
        assert found["parentReference"]["siteId"] == drives["marketing"]["siteId"]
    url = found.pop("@microsoft.graph.downloadUrl")
    found.pop("@odata.context")
    check(found, "driveItem", "driveItem")
    assert not url.startswith(sandbox.environment["ENTRABOT_GRAPH_URL"])
    some = (await graph.get(f"/drives/{drive}/items/{made['id']}", params={"$select": "size"})).json()
    assert set(some) == {"@odata.context", "id", "size"}


async def test_content_is_a_redirect_to_an_address_that_takes_no_token(
    sandbox: Sandbox, graph: httpx.AsyncClient, plain: httpx.AsyncClient
) -> None:
    await put(sandbox, "agent-onedrive", "/a.txt", text="abcdef")
    answer = await graph.get("/me/drive/root:/a.txt:/content")
    assert answer.status_code == 302
    assert answer.content == b""
    url = answer.headers["location"]
    assert (await plain.get(url)).content == b"abcdef"
    part = await plain.get(url, headers={"Range": "bytes=2-3"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (206, b"cd", "bytes 2-3/6")
    assert (await graph.get(url)).status_code == 401
    at_graph = sandbox.environment["ENTRABOT_GRAPH_URL"] + "/transfers" + url.partition("/transfers")[2]
    assert (await plain.get(at_graph)).status_code == 404
    await sandbox.set_clock(3600)
    assert (await plain.get(url)).status_code == 401
    await sandbox.set_clock(0)
    item = (await graph.get("/me/drive/root:/a.txt")).json()
    unchanged = await graph.get("/me/drive/root:/a.txt:/content", headers={"If-None-Match": item["cTag"]})
    assert unchanged.status_code == 304
    assert error(await graph.get("/me/drive/root/content")) == (400, "invalidRequest")


async def test_conversion_makes_a_real_pdf(
    sandbox: Sandbox, graph: httpx.AsyncClient, plain: httpx.AsyncClient
) -> None:
    text = "\n".join(["Grüße", "שלום", "Привет", *(f"line {number}" for number in range(120))])
    await put(sandbox, "agent-onedrive", "/a.docx", docx=text)
    answer = await graph.get("/me/drive/root:/a.docx:/content", params={"format": "pdf"})
    reader = PdfReader(io.BytesIO((await plain.get(answer.headers["location"])).content))
    assert len(reader.pages) == 3
    assert "".join(page.extract_text() for page in reader.pages).split() == text.split()
    await put(sandbox, "agent-onedrive", "/b.docx", text="no document")
    await put(sandbox, "agent-onedrive", "/c.png", text="x")
    for name in ("b.docx", "c.png"):
        refused = await graph.get(f"/me/drive/root:/{name}:/content", params={"format": "pdf"})
        assert error(refused) == (406, "notSupported")


async def test_put_and_its_conflicts(sandbox: Sandbox, graph: httpx.AsyncClient) -> None:
    address = "/me/drive/root:/New/Folder/a.txt:/content"
    behaviour = "@microsoft.graph.conflictBehavior"
    assert (await graph.put(address, content=b"1")).status_code == 201
    again = await graph.put(address, content=b"22")
    assert (again.status_code, again.json()["size"]) == (200, 2)
    assert error(await graph.put(address, content=b"3", params={behaviour: "fail"})) == (409, "nameAlreadyExists")
    renamed = await graph.put(address, content=b"3", params={behaviour: "rename"})
    assert (renamed.status_code, renamed.json()["name"]) == (201, "a 1.txt")
    stale = await graph.put(address, content=b"4", headers={"If-Match": '"old"'})
    assert error_with_inner(stale) == (412, "resourceModified", "entityTagDoesNotMatch")
    kept = await graph.put(address, content=b"4", headers={"If-Match": again.json()["eTag"]})
    assert kept.status_code == 200
    assert kept.json()["cTag"] != again.json()["cTag"]
    assert error(await graph.put(address, content=b"", params={behaviour: "maybe"})) == (400, "invalidRequest")


@pytest.mark.parametrize("name", ["a:b.txt", 'a"b', "con", "x_vti_y", "~$a.docx", " a", "a ", "a.", "a" * 256, ".lock"])
async def test_names_that_are_refused(graph: httpx.AsyncClient, sandbox: Sandbox, name: str) -> None:
    answer = await graph.put(f"/me/drive/root:/{quote(name, safe='')}:/content", content=b"x")
    assert error_with_inner(answer)[:2] == (400, "invalidRequest")
    assert error_with_inner(answer)[2] in ("invalidPath", "pathIsTooLong")


async def test_quota_and_lock(sandbox: Sandbox, graph: httpx.AsyncClient, drives: dict[str, Json]) -> None:
    await sandbox.call("PATCH", "/drives/agent-onedrive", {"quota": 10})
    assert error(await graph.put("/me/drive/root:/a.txt:/content", content=b"x" * 11)) == (507, "quotaLimitReached")
    await put(sandbox, "marketing", "/b.txt", text="x", locked=True)
    address = f"/drives/{drives['marketing']['id']}/root:/b.txt:/content"
    assert error(await graph.put(address, content=b"y")) == (423, "resourceLocked")


async def session(graph: httpx.AsyncClient, name: str, behaviour: str = "fail") -> str:
    body = {"item": {"@microsoft.graph.conflictBehavior": behaviour, "name": name}}
    answer = await graph.post(f"/me/drive/root:/{name}:/createUploadSession", json=body)
    assert answer.status_code == 200
    assert answer.json()["nextExpectedRanges"] == ["0-"]
    return str(answer.json()["uploadUrl"])


def span(start: int, end: int, total: int) -> dict[str, str]:
    return {"Content-Range": f"bytes {start}-{end}/{total}"}


async def test_upload_session_from_first_to_last(
    sandbox: Sandbox, graph: httpx.AsyncClient, plain: httpx.AsyncClient
) -> None:
    url, total = await session(graph, "big.bin"), UNIT + 10
    first = await plain.put(url, content=b"a" * UNIT, headers=span(0, UNIT - 1, total))
    assert (first.status_code, first.json()["nextExpectedRanges"]) == (202, [f"{UNIT}-{total - 1}"])
    overlap = await plain.put(url, content=b"a" * UNIT, headers=span(0, UNIT - 1, total))
    assert error_with_inner(overlap) == (416, "invalidRange", "fragmentOverlap")
    assert (await plain.get(url)).json()["nextExpectedRanges"] == [f"{UNIT}-{total - 1}"]
    ahead = await plain.put(url, content=b"a" * 5, headers=span(total - 5, total - 1, total))
    assert error_with_inner(ahead) == (416, "invalidRange", "fragmentOutOfOrder")
    wrong = await plain.put(url, content=b"a" * 5, headers=span(UNIT, UNIT + 4, total + 1))
    assert error_with_inner(wrong) == (400, "invalidRequest", "fragmentLengthMismatch")
    odd = await plain.put(url, content=b"a" * 5, headers=span(UNIT, UNIT + 4, total))
    assert odd.status_code == 400
    assert (await graph.put(url, content=b"b" * 10, headers=span(UNIT, total - 1, total))).status_code == 401
    assert error(await graph.get("/me/drive/root:/big.bin")) == (404, "itemNotFound")
    last = await plain.put(url, content=b"b" * 10, headers=span(UNIT, total - 1, total))
    assert (last.status_code, last.json()["size"]) == (201, total)
    assert (await plain.get(url)).status_code == 404
    again = await plain.put(url, content=b"b" * 10, headers=span(UNIT, total - 1, total))
    assert (again.status_code, again.json()["id"]) == (201, last.json()["id"])
    assert (await plain.put(url, content=b"a" * UNIT, headers=span(0, UNIT - 1, total))).status_code == 404
    shown = await sandbox.call("GET", "/files?drive=agent-onedrive&path=/big.bin&content=yes")
    assert base64.b64decode(shown["base64"]) == b"a" * UNIT + b"b" * 10


async def test_upload_session_conflict_is_found_at_the_end(
    sandbox: Sandbox, graph: httpx.AsyncClient, plain: httpx.AsyncClient
) -> None:
    await put(sandbox, "agent-onedrive", "/a.bin", text="old")
    url = await session(graph, "a.bin")
    for _ in range(2):
        answer = await plain.put(url, content=b"x", headers=span(0, 0, 1))
        assert error(answer) == (409, "nameAlreadyExists")
    assert (await plain.delete(url)).status_code == 204
    assert error_with_inner(await plain.get(url)) == (404, "itemNotFound", "uploadSessionNotFound")
    assert (await plain.put(await session(graph, "a.bin", "replace"), content=b"x", headers=span(0, 0, 1))).is_success
    renamed = await plain.put(await session(graph, "a.bin", "rename"), content=b"x", headers=span(0, 0, 1))
    assert renamed.json()["name"] == "a 1.bin"


async def test_upload_session_expires(sandbox: Sandbox, graph: httpx.AsyncClient, plain: httpx.AsyncClient) -> None:
    url = await session(graph, "a.bin")
    await sandbox.set_clock(7200)
    assert (await plain.put(url, content=b"x", headers=span(0, 0, 1))).status_code == 404
    await sandbox.set_clock(0)
    mismatch = {"item": {"name": "other.bin"}}
    assert (await graph.post("/me/drive/root:/a.bin:/createUploadSession", json=mismatch)).status_code == 400


async def test_sharing(sandbox: Sandbox, graph: httpx.AsyncClient) -> None:
    made = await put(sandbox, "agent-onedrive", "/a.txt", text="x")
    address = f"/me/drive/items/{made['id']}/invite"
    body = {"recipients": [{"email": "bob@contoso.example"}], "roles": ["read"], "requireSignIn": True}
    rows = (await graph.post(address, json={**body, "sendInvitation": True})).json()["value"]
    check(rows[0], "permission", "permission")
    assert rows[0]["grantedToV2"]["user"]["id"] == sandbox.people["bob"]["id"]
    again = (await graph.post(address, json=body)).json()["value"]
    assert again[0]["id"] == rows[0]["id"]
    assert error(await graph.post(address, json={**body, "requireSignIn": False})) == (400, "invalidRequest")
    assert error(await graph.post(address, json={**body, "roles": ["admin"]})) == (400, "invalidRequest")
    await sandbox.call("PUT", "/transfers", {"blocked_domains": ["evil.example"]})
    both = {**body, "recipients": [{"email": "x@evil.example"}, {"email": "alice@contoso.example"}]}
    answer = await graph.post(address, json=both)
    assert answer.status_code == 200
    assert [row.get("error", {}).get("code") for row in answer.json()["value"]] == ["accessDenied", None]
    listed = (await graph.get(f"/me/drive/items/{made['id']}/permissions")).json()["value"]
    assert [row["invitation"]["email"] for row in listed] == ["bob@contoso.example", "alice@contoso.example"]


async def test_shared_with_me_and_links(sandbox: Sandbox, graph: httpx.AsyncClient) -> None:
    made = await put(sandbox, "alice-onedrive", "/plan.txt", text="x")
    theirs = await put(sandbox, "mallory-onedrive", "/far.txt", text="x")
    link = (await sandbox.call("POST", "/files/link", {"drive": "alice-onedrive", "path": "/plan.txt"}))["url"]
    address = f"/shares/{share_id(link)}/driveItem"
    assert error(await graph.get(address)) == (403, "accessDenied")
    once = await graph.get(address, headers={"Prefer": "redeemSharingLinkIfNecessary"})
    assert once.json()["id"] == made["id"]
    assert error(await graph.get(address)) == (403, "accessDenied")
    assert (await graph.get(address, headers={"Prefer": "redeemSharingLink"})).is_success
    assert (await graph.get(address)).is_success
    await sandbox.call("POST", "/files/share", {"drive": "mallory-onedrive", "path": "/far.txt", "with": "agent"})
    rows = (await graph.get("/me/drive/sharedWithMe")).json()["value"]
    assert [row["remoteItem"]["id"] for row in rows] == [made["id"]]
    assert rows[0]["id"] != made["id"]
    check(rows[0], "driveItem", "driveItem")
    everybodys = (await graph.get("/me/drive/sharedWithMe", params={"allowexternal": "true"})).json()["value"]
    assert [row["remoteItem"]["id"] for row in everybodys] == [made["id"], theirs["id"]]
    assert error(await graph.get("/shares/u!%20/driveItem")) == (400, "invalidRequest")
    assert error(await graph.get(f"/shares/{share_id('https://x.example/y')}/driveItem")) == (404, "itemNotFound")


async def test_comments_are_not_there_unless_switched_on(
    sandbox: Sandbox, graph: httpx.AsyncClient, drives: dict[str, Json]
) -> None:
    made = await put(sandbox, "marketing", "/a.docx", docx="x")
    beta = str(graph.base_url).replace("/v1.0", "/beta")
    address = f"{beta}drives/{drives['marketing']['id']}/items/{made['id']}/comments"
    body = {"content": {"contentType": "text", "content": "Nice"}}
    assert error(await graph.post(address, json=body)) == (404, "itemNotFound")
    await sandbox.call("PATCH", "/drives/marketing", {"comments": True})
    assert (await graph.post(address, json=body)).status_code == 201


async def test_scopes_count(sandbox: Sandbox, graph: httpx.AsyncClient, entra: Any) -> None:
    await sandbox.grant(scopes=["Files.Read.All"])
    graph.headers["Authorization"] = f"Bearer {await entra.user_token()}"
    assert (await graph.get("/me/drive/root/children")).is_success
    assert (await graph.put("/me/drive/root:/a.txt:/content", content=b"x")).status_code == 403
    await sandbox.grant(scopes=["User.Read"])
    graph.headers["Authorization"] = f"Bearer {await entra.user_token()}"
    assert (await graph.get("/me/drive/root/children")).status_code == 403


async def test_faults_strike_uploads(sandbox: Sandbox, graph: httpx.AsyncClient, plain: httpx.AsyncClient) -> None:
    url = await session(graph, "a.bin")
    await sandbox.fault("status", method="PUT", path="/transfers/upload", status=503, retry_after=2, count=1)
    refused = await plain.put(url, content=b"x", headers=span(0, 0, 1))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
    await sandbox.fault("drop_after", method="PUT", path="/transfers/upload", count=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await plain.put(url, content=b"x", headers=span(0, 0, 1))
    assert (await plain.get(url)).status_code == 404
    noted = [entry for entry in await sandbox.requests() if entry["path"] == "/transfers/upload"]
    assert [entry["status"] for entry in noted] == [503, 0, 404]
    assert url.rpartition("/")[2].partition("?")[0] not in str(noted)


@pytest.mark.parametrize("size", [0, 1, 20, 159, 160, 161, 320, 1000, 4096])
def test_quick_xor_hash_of_any_length(size: int) -> None:
    """Against the plain loop of its definition."""
    content = bytes(number * 7 % 256 for number in range(size))
    ring = 0
    for number, byte in enumerate(content):
        for bit in range(8):
            ring ^= (byte >> bit & 1) << ((number * 11 + bit) % 160)
    ring ^= size << 96
    assert quick_xor(content) == base64.b64encode(ring.to_bytes(20, "little")).decode()


def error_with_inner(response: httpx.Response) -> tuple[int, str, str]:
    body = response.json()["error"]
    return response.status_code, body["code"], body["innerError"].get("code", "")
