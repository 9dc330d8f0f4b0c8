"""Looking at images: on the wire, and which addresses the token never goes to."""

from __future__ import annotations

from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams
from entrabot_teams.images import MAX_BYTES, image_path, is_image_url, media_type_of
from hypothesis import given, settings
from hypothesis import strategies as st

from entrabot_host import GraphError, GraphNotFound, GraphResponse, InvalidArgument, ToolResult
from entrabot_host.security.clouds import CLOUDS
from tests.teams.parts import PlainHost

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
GIF = b"GIF89a" + b"0" * 20
JPEG = b"\xff\xd8\xff\xe0" + b"0" * 20
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8 " + b"0" * 20
ROOT = "https://graph.microsoft.com/v1.0"
PATH = "/chats/19:a_b@unq.gbl.spaces/messages/1616964509832/hostedContents/aWQ9eF8wLQ==/$value"


async def address(teams: Teams, sandbox: Sandbox, image: bytes, kind: str = "image/png") -> str:
    said = await sandbox.say("alice", "look", image=image, image_type=kind)
    (message,) = (await teams.reading.read_teams_messages(said["chatId"], 1))["messages"]
    (url,) = message["images"]
    return str(url)


@pytest.mark.parametrize(
    ("image", "kind"), [(PNG, "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")]
)
async def test_an_image_is_shown(teams: Teams, sandbox: Sandbox, image: bytes, kind: str) -> None:
    shown = await teams.images.view_image(await address(teams, sandbox, image, "image/x-claimed"))
    assert isinstance(shown, ToolResult)
    assert shown.data == {"media_type": kind, "bytes": len(image)}
    assert [(one.data, one.media_type) for one in shown.images] == [(image, kind)]


@pytest.mark.parametrize("content", [b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%PDF-1.7", b"RIFF1234WAVE", b"MZ"])
async def test_what_only_claims_to_be_an_image(teams: Teams, sandbox: Sandbox, content: bytes) -> None:
    url = await address(teams, sandbox, content)
    with pytest.raises(InvalidArgument, match="no image"):
        await teams.images.view_image(url)


async def test_too_large(teams: Teams, sandbox: Sandbox) -> None:
    url = await address(teams, sandbox, PNG.ljust(MAX_BYTES + 1, b"0"))
    with pytest.raises(InvalidArgument, match=str(MAX_BYTES)):
        await teams.images.view_image(url)


async def test_an_image_that_is_gone(teams: Teams, sandbox: Sandbox) -> None:
    said = await sandbox.say("alice", "look", image=PNG)
    (message,) = (await teams.reading.read_teams_messages(said["chatId"], 1))["messages"]
    await sandbox.delete("alice", said["chatId"], said["id"])
    with pytest.raises(GraphNotFound) as caught:
        await teams.images.view_image(message["images"][0])
    assert "gone" in caught.value.remedy


async def test_an_image_in_a_chat_of_others(teams: Teams, sandbox: Sandbox) -> None:
    chat = await sandbox.create_chat("alice", ["bob"])
    said = await sandbox.say("alice", "look", image=PNG, chat=chat["id"])
    url = said["body"]["content"].partition('src="')[2].partition('"')[0]
    with pytest.raises(GraphError) as caught:
        await teams.images.view_image(url)
    assert caught.value.status in (403, 404)


async def test_a_redirect_is_not_followed(host: PlainHost) -> None:
    asked: list[str] = []

    class Redirecting:
        root = ROOT

        async def request(self, method: str, path: str, **_: Any) -> GraphResponse:
            asked.append(path)
            return GraphResponse(302, {"location": "https://evil.example/x"}, None, PNG)

    host.graph = Redirecting()
    with pytest.raises(GraphError, match="redirect"):
        await Teams(host).images.view_image(f"{ROOT}{PATH}")
    assert len(asked) == 1


FOREIGN = [
    "",
    "x",
    "/chats/a/messages/1/hostedContents/b/$value",
    f"http://graph.microsoft.com/v1.0{PATH}",
    f"https://evil.example/v1.0{PATH}",
    f"https://graph.microsoft.com.evil.example/v1.0{PATH}",
    f"https://graph.microsoft.com@evil.example/v1.0{PATH}",
    f"https://x@graph.microsoft.com/v1.0{PATH}",
    f"https://graph.microsoft.com:8443/v1.0{PATH}",
    f"https://graph.microsoft.com\\@evil.example/v1.0{PATH}",
    f"https://graph.microsoft.us/v1.0{PATH}",
    f"https://graph.microsoft.com/v1.0{PATH}?x=1",
    f"https://graph.microsoft.com/v1.0{PATH}#x",
    f"https://graph.microsoft.com/v1.0/me/drive/root/content{PATH}",
    "https://graph.microsoft.com/v1.0/me/messages",
    "https://graph.microsoft.com/v1.0/me/photo/$value",
    "https://graph.microsoft.com/v1.0/chats/a/messages/1/hostedContents/../$value",
    "https://graph.microsoft.com/v1.0/chats/%2e%2e/messages/1/hostedContents/a/$value",
    "https://graph.microsoft.com/v1.0/chats/a%2Fb/messages/1/hostedContents/a/$value",
    "https://graph.microsoft.com/v1.0/chats/a%0d%0ab/messages/1/hostedContents/a/$value",
    "https://graph.microsoft.com/v2.0/chats/a/messages/1/hostedContents/a/$value",
    "https://[::1",
    "file:///etc/passwd",
]


@pytest.mark.parametrize("url", FOREIGN)
async def test_other_addresses_are_refused_before_anything_is_sent(
    teams: Teams, sandbox: Sandbox, host: PlainHost, url: str
) -> None:
    assert not is_image_url(url, ROOT)
    own = host.graph.root.removesuffix("/v1.0")
    with pytest.raises(InvalidArgument):
        await teams.images.view_image(url.replace("https://graph.microsoft.com/v2.0", f"{own}/v2.0"))
    assert await sandbox.requests() == []


@pytest.mark.parametrize("cloud", list(CLOUDS.values()), ids=lambda cloud: cloud.name)
def test_each_cloud_takes_its_own_addresses_alone(cloud: Any) -> None:
    for other in CLOUDS.values():
        assert is_image_url(f"{other.graph_url}/v1.0{PATH}", f"{cloud.graph_url}/v1.0") is (other is cloud)


@pytest.mark.parametrize(
    "path",
    [
        PATH,
        f"/me{PATH}",
        f"/users/8b081ef6-4792-4def-b2c9-c363a1bf41d5{PATH}",
        "/teams/8b081ef6/channels/19:x@thread.tacv2/messages/1/hostedContents/a/$value",
        "/teams/8b081ef6/channels/19:x@thread.tacv2/messages/1/replies/2/hostedContents/a/$value",
        PATH.replace(":", "%3A").replace("@", "%40").replace("=", "%3D").replace("$", "%24"),
    ],
)
@pytest.mark.parametrize("version", ["v1.0", "beta"])
def test_forms_of_addresses(path: str, version: str) -> None:
    found, beta = image_path(f"https://graph.microsoft.com/{version}{path}", ROOT)
    assert beta is (version == "beta")
    assert found.endswith("/$value")
    assert set(found) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%/$")


@settings(deadline=None)
@given(
    st.text(max_size=80)
    | st.text(max_size=30).map(lambda text: f"{ROOT}/chats/{text}/messages/1/hostedContents/a/$value")
)
def test_no_address_breaks_the_check(url: str) -> None:
    try:
        path, _ = image_path(url, ROOT)
    except InvalidArgument:
        return
    assert path.count("/") == 7
    assert path.endswith("/messages/1/hostedContents/a/$value")


@settings(deadline=None)
@given(st.binary(max_size=30))
def test_types_are_proved_by_bytes(content: bytes) -> None:
    assert media_type_of(content) in ("", "image/png", "image/jpeg", "image/gif", "image/webp")
