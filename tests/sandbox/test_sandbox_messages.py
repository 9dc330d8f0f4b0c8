"""Messages, by Graph's rules."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from entrabot_sandbox.client import Sandbox

from tests.sandbox.wire import Json, error

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ENUM = {"Prefer": "include-unknown-enum-members"}


@pytest.fixture
async def chat(sandbox: Sandbox) -> str:
    return str((await sandbox.create_chat("alice", ["agent"]))["id"])


def body(content: str, kind: str = "html", **more: Any) -> Json:
    return {"body": {"contentType": kind, "content": content}, **more}


def mention(sandbox: Sandbox, key: str, number: int = 0) -> Json:
    person = sandbox.people[key]
    user = {"id": person["id"], "displayName": person["name"], "userIdentityType": "aadUser"}
    return {"id": number, "mentionText": person["name"], "mentioned": {"user": user}}


def ids(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [message["id"] for message in response.json()["value"]]


async def test_a_message_is_sent_and_comes_back_whole(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    response = await graph.post(f"/chats/{chat}/messages", json={"body": {"content": "hello"}})
    assert response.status_code == 201
    sent = response.json()
    assert sent["body"] == {"contentType": "text", "content": "hello"}
    assert sent["id"] == sent["etag"]
    assert sent["id"].isdigit()
    assert sent["from"]["user"]["id"] == sandbox.people["agent"]["id"]
    assert sent["chatId"] == chat
    assert sent["createdDateTime"] == sent["lastModifiedDateTime"]
    for name in ("lastEditedDateTime", "deletedDateTime", "replyToId", "eventDetail"):
        assert sent[name] is None
    again = (await graph.get(f"/me/chats/{chat}/messages/{sent['id']}")).json()
    assert {k: v for k, v in again.items() if "@" not in k} == {k: v for k, v in sent.items() if "@" not in k}
    assert (await sandbox.messages(chat))[0]["id"] == sent["id"]


async def test_mentions_and_their_tags_belong_together(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    good = body('Hi <at id="0">Alice</at>', mentions=[mention(sandbox, "alice")])
    sent = (await graph.post(f"/chats/{chat}/messages", json=good)).json()
    mentioned = sent["mentions"][0]["mentioned"]
    assert mentioned["user"]["id"] == sandbox.people["alice"]["id"]
    assert (mentioned["application"], mentioned["device"], mentioned["conversation"]) == (None, None, None)
    wrong = [
        body('Hi <at id="0">Alice</at>'),
        body("Hi", mentions=[mention(sandbox, "alice")]),
        body('Hi <at id="1">Alice</at>', mentions=[mention(sandbox, "alice")]),
        body('Hi <at id="0">Alice</at>', "text", mentions=[mention(sandbox, "alice")]),
        body('<at id="0">A</at>', mentions=[mention(sandbox, "alice"), mention(sandbox, "bob")]),
        body('<at id="0">A</at>', mentions=[{**mention(sandbox, "alice"), "id": "0"}]),
        body('<at id="0">A</at>', mentions=[{"id": 0, "mentionText": "A"}]),
        body('<at id="0">A</at>', mentions=[{"id": 0, "mentionText": "A", "mentioned": {"user": {}}}]),
    ]
    for message in wrong:
        assert error(await graph.post(f"/chats/{chat}/messages", json=message)) == (400, "BadRequest"), message


async def test_attachments_and_their_tags_belong_together(graph: httpx.AsyncClient, chat: str) -> None:
    card = {
        "id": "one",
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": json.dumps({"type": "AdaptiveCard"}),
    }
    tag = '<attachment id="one"></attachment>'
    sent = (await graph.post(f"/chats/{chat}/messages", json=body(tag, attachments=[card]))).json()
    assert json.loads(sent["attachments"][0]["content"]) == {"type": "AdaptiveCard"}
    assert sent["attachments"][0]["contentUrl"] is None
    wrong = [
        body("no tag", attachments=[card]),
        body(tag),
        body(tag, attachments=[card, card]),
        body(tag, attachments=[{**card, "content": {"type": "AdaptiveCard"}}]),
        body(tag, attachments=[{**card, "contentUrl": "https://x.example"}]),
        body(tag, attachments=[{**card, "size": 1}]),
        body(tag, attachments=[{"id": "one"}]),
        body(tag, attachments="card"),
    ]
    for message in wrong:
        assert error(await graph.post(f"/chats/{chat}/messages", json=message)) == (400, "BadRequest"), message


async def test_messages_that_break_a_rule_are_refused(graph: httpx.AsyncClient, chat: str) -> None:
    wrong: list[Any] = [
        {},
        {"body": {}},
        {"body": "hello"},
        body("  ", "text"),
        body("x", "markdown"),
        body("x", importance="low"),
        body("x", colour="red"),
        [],
    ]
    for message in wrong:
        assert error(await graph.post(f"/chats/{chat}/messages", json=message)) == (400, "BadRequest"), message
    for size, status in ((28 * 1024, 201), (28 * 1024 + 1, 413)):
        assert (await graph.post(f"/chats/{chat}/messages", json=body("x" * size, "text"))).status_code == status
    headers = {"Content-Type": "application/json"}
    assert error(await graph.post(f"/chats/{chat}/messages", content=b"{", headers=headers)) == (400, "BadRequest")
    assert error(await graph.post(f"/chats/{chat}/messages", content=b"{}")) == (400, "BadRequest")
    headers = {"Content-Type": "text/plain"}
    assert error(await graph.post(f"/chats/{chat}/messages", content=b"{}", headers=headers))[0] == 415


async def test_html_is_stored_in_a_uniform_way(graph: httpx.AsyncClient, chat: str) -> None:
    html = "<p onclick='x()'>a &amp; b<br/><script>alert(1)</script><a href='javascript:x'>c</a></p>"
    sent = (await graph.post(f"/chats/{chat}/messages", json=body(html))).json()
    assert sent["body"]["content"] == "<p>a &amp; b<br><a>c</a></p>"


async def test_images_are_hosted(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    hosted = {
        "@microsoft.graph.temporaryId": "1",
        "contentBytes": base64.b64encode(PIXEL).decode(),
        "contentType": "image/png",
    }
    html = '<img src="../hostedContents/1/$value">'
    sent = (await graph.post(f"/chats/{chat}/messages", json=body(html, hostedContents=[hosted]))).json()
    source = sent["body"]["content"].split('"')[1]
    assert source.startswith(f"{sandbox.environment['ENTRABOT_GRAPH_URL']}/v1.0/chats/{chat}/messages/{sent['id']}/")
    picture = await graph.get(source)
    assert (picture.content, picture.headers["content-type"]) == (PIXEL, "image/png")
    meta = (await graph.get(source.removesuffix("/$value"))).json()
    assert (meta["contentBytes"], meta["contentType"]) == (None, None)
    listed = (await graph.get(f"/chats/{chat}/messages/{sent['id']}/hostedContents")).json()["value"]
    assert [row["id"] for row in listed] == [meta["id"]]
    assert error(await graph.get(f"{source}?$select=id")) == (400, "BadRequest")
    assert error(await graph.get(source.replace(meta["id"], "none"))) == (404, "NotFound")
    wrong = [
        body("no picture", hostedContents=[hosted]),
        body(html, hostedContents=[{**hosted, "contentBytes": "***"}]),
        body(html, hostedContents=[{**hosted, "contentBytes": ""}]),
        body(html, hostedContents=[{**hosted, "@microsoft.graph.temporaryId": "2"}]),
    ]
    for message in wrong:
        assert error(await graph.post(f"/chats/{chat}/messages", json=message)) == (400, "BadRequest")
    shown = await sandbox.say("alice", "look", chat=chat, image=PIXEL)
    theirs = shown["body"]["content"].split('"')[1]
    assert (await graph.get(theirs)).content == PIXEL


async def test_only_whom_it_belongs_changes_a_message(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    sent = (await graph.post(f"/chats/{chat}/messages", json=body("draft"))).json()
    path = f"/chats/{chat}/messages/{sent['id']}"
    response = await graph.patch(path, json={**body("final"), "from": {"user": None}})
    assert (response.status_code, response.content) == (204, b"")
    edited = (await graph.get(path)).json()
    assert edited["body"]["content"] == "final"
    assert edited["lastEditedDateTime"] == edited["lastModifiedDateTime"]
    modified, created = (datetime.fromisoformat(edited[name]) for name in ("lastModifiedDateTime", "createdDateTime"))
    assert modified > created
    assert edited["etag"] != edited["id"] == sent["id"]
    assert error(await graph.patch(path, json={"policyViolation": {"dlpAction": "none"}})) == (403, "Forbidden")
    assert error(await graph.patch(path, json={"colour": "red"})) == (400, "BadRequest")
    said = await sandbox.say("alice", "mine", chat=chat)
    assert error(await graph.patch(f"/chats/{chat}/messages/{said['id']}", json=body("no"))) == (403, "Forbidden")
    assert error(await graph.patch(f"/chats/{chat}/messages/1", json=body("no"))) == (404, "NotFound")


async def test_an_edit_keeps_mentions_only_when_they_are_sent_again(
    graph: httpx.AsyncClient, sandbox: Sandbox, chat: str
) -> None:
    first = body('<at id="0">Alice</at> hi', mentions=[mention(sandbox, "alice")])
    sent = (await graph.post(f"/chats/{chat}/messages", json=first)).json()
    path = f"/chats/{chat}/messages/{sent['id']}"
    assert error(await graph.patch(path, json=body('<at id="0">Alice</at> ho'))) == (400, "BadRequest")
    again = body('<at id="0">Alice</at> ho', mentions=[mention(sandbox, "alice")])
    assert (await graph.patch(path, json=again)).status_code == 204
    assert len((await graph.get(path)).json()["mentions"]) == 1
    assert (await graph.patch(path, json=body("plain"))).status_code == 204
    assert (await graph.get(path)).json()["mentions"] == []


async def test_a_deleted_message_stays_listed_without_its_words(
    graph: httpx.AsyncClient, sandbox: Sandbox, chat: str
) -> None:
    sent = (await graph.post(f"/chats/{chat}/messages", json=body("oops"))).json()
    message = f"chats/{chat}/messages/{sent['id']}"
    assert error(await graph.post(f"/{message}/softDelete")) == (405, "MethodNotAllowed")
    alice = sandbox.people["alice"]["id"]
    assert error(await graph.post(f"/users/{alice}/{message}/softDelete")) == (403, "Forbidden")
    response = await graph.post(f"/users/{sandbox.people['agent']['id']}/{message}/softDelete")
    assert (response.status_code, response.content) == (204, b"")
    (deleted,) = (await graph.get(f"/chats/{chat}/messages")).json()["value"]
    assert deleted["deletedDateTime"] == deleted["lastModifiedDateTime"]
    assert deleted["body"]["content"] == ""
    assert deleted["from"]["user"]["id"] == sandbox.people["agent"]["id"]
    assert (await graph.post(f"/me/{message}/undoSoftDelete")).status_code == 204
    assert (await graph.get(f"/{message}")).json()["body"]["content"] == "oops"
    assert (await graph.post(f"/me/{message}/softDelete")).status_code == 204
    said = await sandbox.say("alice", "mine", chat=chat)
    assert error(await graph.post(f"/me/chats/{chat}/messages/{said['id']}/softDelete")) == (403, "Forbidden")


async def test_the_default_order_is_by_modification(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    said = [(await sandbox.say("alice", str(n), chat=chat))["id"] for n in range(4)]
    await sandbox.react("alice", chat, said[0])
    await sandbox.edit("alice", chat, said[2], "two, edited")
    path = f"/chats/{chat}/messages"
    assert ids(await graph.get(path)) == [said[2], said[0], said[3], said[1]]
    created = await graph.get(path, params={"$orderby": "createdDateTime desc"})
    assert ids(created) == said[::-1]
    modified = await graph.get(path, params={"$orderby": "lastModifiedDateTime desc"})
    assert ids(modified) == [said[2], said[0], said[3], said[1]]


async def test_pages_follow_each_other_without_gaps(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    said = [(await sandbox.say("alice", str(n), chat=chat))["id"] for n in range(23)]
    response = await graph.get(f"/chats/{chat}/messages")
    assert ids(response) == said[:2:-1]
    body_ = response.json()
    assert body_["@odata.count"] == 20
    await sandbox.say("alice", "meanwhile", chat=chat)
    following = await graph.get(body_["@odata.nextLink"])
    assert ids(following) == said[2::-1]
    assert "@odata.nextLink" not in following.json()
    assert "@odata.nextLink" not in (await graph.get(f"/chats/{chat}/messages", params={"$top": 24})).json()
    encoded = await graph.get(f"/me/chats/{chat.replace(':', '%3A')}/messages", params={"$top": 7})
    assert "/me/chats/19%3A" in encoded.json()["@odata.nextLink"]
    assert len(ids(await graph.get(encoded.json()["@odata.nextLink"]))) == 7


async def test_filters_count_only_beside_their_own_order(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    said = [await sandbox.say("alice", str(n), chat=chat) for n in range(4)]
    path, names = f"/chats/{chat}/messages", [message["id"] for message in said]
    by_modified, by_created = "lastModifiedDateTime desc", "createdDateTime desc"
    late, early = said[1]["lastModifiedDateTime"], said[2]["createdDateTime"]

    async def found(order: str | None, text: str) -> list[str]:
        params = {"$filter": text} | ({"$orderby": order} if order else {})
        return ids(await graph.get(path, params=params))[::-1]

    assert await found(by_modified, f"lastModifiedDateTime gt {late}") == names[2:]
    both = f"lastModifiedDateTime gt {late} and lastModifiedDateTime lt {said[3]['lastModifiedDateTime']}"
    assert await found(by_modified, both) == [names[2]]
    assert await found(by_created, f"createdDateTime lt {early}") == names[:2]
    assert await found(by_created, f"lastModifiedDateTime gt {late}") == names
    assert await found(by_modified, f"createdDateTime lt {early}") == names
    assert await found(None, f"lastModifiedDateTime gt {late}") == names
    wrong = [
        (by_created, f"createdDateTime gt {early}"),
        (by_modified, f"lastModifiedDateTime ge {late}"),
        (by_modified, "lastModifiedDateTime gt yesterday"),
        (by_modified, "lastModifiedDateTime gt 2026-01-01T00:00:00"),
        (by_modified, "contains(body,'x')"),
    ]
    for order, text in wrong:
        response = await graph.get(path, params={"$filter": text, "$orderby": order})
        assert error(response) == (400, "BadRequest"), text


async def test_other_orders_and_options_are_refused(graph: httpx.AsyncClient, chat: str) -> None:
    for order in ("createdDateTime", "createdDateTime asc", "lastModifiedDateTime asc", "id desc"):
        assert error(await graph.get(f"/chats/{chat}/messages", params={"$orderby": order})) == (400, "BadRequest")
    options = [
        {"$top": "51"},
        {"$select": "id"},
        {"$skip": "1"},
        {"$search": "x"},
        {"$count": "true"},
        {"$expand": "x"},
    ]
    for option in options:
        assert error(await graph.get(f"/chats/{chat}/messages", params=option)) == (400, "BadRequest")
    assert (await graph.get(f"/chats/{chat}/messages", params={"$top": "50"})).status_code == 200


async def test_system_events_are_named_only_to_who_asks(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    group = (await sandbox.create_chat("alice", ["agent"], topic="Old"))["id"]
    await sandbox.rename("alice", group, "New")
    path = f"/chats/{group}/messages"
    unnamed = (await graph.get(path)).json()["value"]
    assert {m["messageType"] for m in unnamed} == {"unknownFutureValue"}
    named = (await graph.get(path, headers=ENUM)).json()["value"]
    assert {m["messageType"] for m in named} == {"systemEventMessage"}
    assert named[0]["eventDetail"]["@odata.type"] == "#microsoft.graph.chatRenamedEventMessageDetail"
    assert named[0]["eventDetail"]["chatDisplayName"] == "New"
    assert (await graph.get(f"/chats/{group}")).json()["topic"] == "New"
    preview = (await graph.get("/me/chats", params={"$expand": "lastMessagePreview"})).json()["value"][0]
    assert preview["lastMessagePreview"]["messageType"] == "unknownFutureValue"
    assert error(await graph.patch(f"{path}/{named[0]['id']}", json=body("x"))) == (403, "Forbidden")


async def test_a_quote_carries_its_source_as_a_string(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    source = (await graph.post(f"/chats/{chat}/messages", json=body("<p>Shall I?</p>"))).json()
    answer = await sandbox.say("alice", "yes", chat=chat, reply_to=source["id"])
    heard = (await graph.get(f"/chats/{chat}/messages/{answer['id']}")).json()
    assert heard["body"]["content"].startswith(f'<attachment id="{source["id"]}"></attachment>')
    (attachment,) = heard["attachments"]
    assert (attachment["id"], attachment["contentType"]) == (source["id"], "messageReference")
    quoted = json.loads(attachment["content"])
    assert (quoted["messageId"], quoted["messagePreview"]) == (source["id"], "Shall I?")
    assert quoted["messageSender"]["user"]["id"] == sandbox.people["agent"]["id"]
    assert heard["replyToId"] is None


async def test_a_late_message_shows_up_late(graph: httpx.AsyncClient, sandbox: Sandbox, chat: str) -> None:
    await sandbox.settings(visibility_delay=3600)
    hidden = await sandbox.say("alice", "later", chat=chat)
    assert ids(await graph.get(f"/chats/{chat}/messages")) == []
    assert error(await graph.get(f"/chats/{chat}/messages/{hidden['id']}")) == (404, "NotFound")
    shown = (await graph.get("/me/chats", params={"$expand": "lastMessagePreview"})).json()["value"][0]
    assert shown["lastMessagePreview"] is None
    await sandbox.settings(visibility_delay=0)
    seen = await sandbox.say("alice", "now", chat=chat)
    assert ids(await graph.get(f"/chats/{chat}/messages")) == [seen["id"]]
