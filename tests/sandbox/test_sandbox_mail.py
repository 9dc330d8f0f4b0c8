"""Mail: folders, orders, filters, refusals, sending and replying."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from entrabot_sandbox.client import Sandbox, SandboxError

from tests.sandbox.test_sandbox_types import check_object, check_whole
from tests.sandbox.wire import error

Json = dict[str, Any]
IMMUTABLE = {"Prefer": 'IdType="ImmutableId"'}
INBOX = "/me/mailFolders/inbox/messages"
LISTED = {"$filter": "receivedDateTime ge 2020-01-01T00:00:00Z", "$orderby": "receivedDateTime"}


async def write(sandbox: Sandbox, person: str, subject: str, **more: Any) -> Json:
    body = {"as": person, "subject": subject, "text": "Hello", **more}
    return dict(await sandbox.call("POST", "/mail", body))


async def inbox_of(sandbox: Sandbox, person: str, **query: Any) -> list[Json]:
    return list((await sandbox.call("GET", "/mail", of=person, **query))["value"])


def to(*addresses: str) -> list[Json]:
    return [{"emailAddress": {"address": address}} for address in addresses]


async def test_what_somebody_writes_is_in_the_inbox(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    written = await write(sandbox, "alice", "Hi", cc=["bob"], html="<p>How are you?</p>", text=None, importance="high")
    (row,) = (await graph.get(INBOX, headers=IMMUTABLE)).json()["value"]
    assert row["id"] == written["id"]
    assert row["from"] == {"emailAddress": {"name": "Alice Example", "address": "alice@contoso.example"}}
    assert row["toRecipients"][0]["emailAddress"]["address"] == "sati.agent@contoso.example"
    assert row["ccRecipients"][0]["emailAddress"]["address"] == "bob@contoso.example"
    assert (row["bodyPreview"], row["body"]["contentType"], row["importance"]) == ("How are you?", "html", "high")
    assert row["receivedDateTime"].endswith("Z")
    assert "." not in row["receivedDateTime"]
    assert "internetMessageHeaders" not in row
    assert [mail["subject"] for mail in await inbox_of(sandbox, "bob")] == ["Hi"]


async def test_objects_are_those_of_the_metadata(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    written = await write(sandbox, "alice", "Hi", attachments=[{"name": "a.txt", "text": "x"}])
    path = f"/me/messages/{quote(written['id'], safe='')}"
    row = (await graph.get(path)).json()
    check_object(row, "message", "message")
    every = "internetMessageHeaders,uniqueBody," + ",".join(name for name in row if "@" not in name)
    check_whole((await graph.get(path, params={"$select": every})).json(), "message")
    (attachment,) = (await graph.get(f"{path}/attachments")).json()["value"]
    check_whole(attachment, "fileAttachment")
    folders = (await graph.get("/me/mailFolders", params={"$top": "50"})).json()["value"]
    for folder in folders:
        check_whole(folder, "mailFolder")
    assert {folder["displayName"] for folder in folders} >= {"Inbox", "Sent Items", "Drafts", "Deleted Items"}
    inbox = next(folder for folder in folders if folder["displayName"] == "Inbox")
    assert (inbox["totalItemCount"], inbox["unreadItemCount"]) == (1, 1)
    assert len((await graph.get(f"/me/mailFolders/{inbox['id']}/messages")).json()["value"]) == 1


async def test_all_folders_and_one(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await write(sandbox, "alice", "in")
    message = {"subject": "out", "toRecipients": to("bob@contoso.example"), "body": {"content": "x"}}
    assert (await graph.post("/me/sendMail", json={"message": message})).status_code == 202
    subjects = [row["subject"] for row in (await graph.get("/me/messages")).json()["value"]]
    assert sorted(subjects) == ["in", "out"]
    assert [row["subject"] for row in (await graph.get(INBOX)).json()["value"]] == ["in"]
    sent = await graph.get("/me/mailFolders/SentItems/messages")
    assert [row["subject"] for row in sent.json()["value"]] == ["out"]
    assert error(await graph.get("/me/mailFolders/nowhere/messages")) == (400, "ErrorInvalidIdMalformed")


async def test_filters_orders_and_pages(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    for number in range(5):
        await write(sandbox, "alice", str(number), received=f"2026-01-0{number + 1}T00:00:00Z")
    params = {"$filter": "receivedDateTime ge 2026-01-02T00:00:00Z", "$orderby": "receivedDateTime", "$top": "3"}
    first = (await graph.get(INBOX, params=params)).json()
    assert [row["subject"] for row in first["value"]] == ["1", "2", "3"]
    assert "$skip=3" in first["@odata.nextLink"]
    second = (await graph.get(first["@odata.nextLink"])).json()
    assert [row["subject"] for row in second["value"]] == ["4"]
    assert "@odata.nextLink" not in second
    newest = (await graph.get(INBOX, params={"$orderby": "receivedDateTime desc", "$top": "1"})).json()["value"]
    assert newest[0]["subject"] == "4"
    found = await graph.get(INBOX, params={"$filter": "subject eq '2' and isRead eq false"})
    assert [row["subject"] for row in found.json()["value"]] == ["2"]
    assert len((await graph.get(INBOX)).json()["value"]) == 5


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"$filter": "isRead eq false", "$orderby": "receivedDateTime"}, (400, "InefficientFilter")),
        (
            {"$filter": "isRead eq false and receivedDateTime ge 2020-01-01T00:00:00Z", "$orderby": "receivedDateTime"},
            (400, "InefficientFilter"),
        ),
        ({"$orderby": "bodyPreview"}, (400, "ErrorInvalidUrlQuery")),
        ({"$filter": "receivedDateTime ge yesterday"}, (400, "BadRequest")),
        ({"$filter": "nothing eq 'x'"}, (400, "RequestBroker--ParseUri")),
        ({"$select": "nothing"}, (400, "RequestBroker--ParseUri")),
        ({"$top": "1001"}, (400, "BadRequest")),
        ({"$expand": "extensions"}, (400, "BadRequest")),
    ],
)
async def test_refused_queries(
    graph: httpx.AsyncClient, sandbox: Sandbox, params: dict[str, str], expected: tuple[int, str]
) -> None:
    await write(sandbox, "alice", "Hi")
    assert error(await graph.get(INBOX, params=params)) == expected
    ordered = {
        "$filter": "receivedDateTime ge 2020-01-01T00:00:00Z and isRead eq false",
        "$orderby": "receivedDateTime",
    }
    assert (await graph.get(INBOX, params=ordered)).status_code == 200


async def test_preferences(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await write(sandbox, "alice", "Hi", html="<p>a &amp; <b>b</b></p>", text=None)
    prefer = {"Prefer": 'IdType="ImmutableId", outlook.body-content-type="text"'}
    answer = await graph.get(INBOX, headers=prefer)
    (row,) = answer.json()["value"]
    assert row["body"] == {"contentType": "text", "content": "a & b"}
    assert answer.headers["preference-applied"] == 'IdType="ImmutableId", outlook.body-content-type="text"'
    (regular,) = (await graph.get(INBOX)).json()["value"]
    assert regular["id"] != row["id"]
    moved = await graph.post(f"/me/messages/{row['id']}/move", json={"destinationId": "archive"}, headers=IMMUTABLE)
    assert (moved.status_code, moved.json()["id"]) == (201, row["id"])
    assert error(await graph.get(f"/me/messages/{regular['id']}")) == (404, "ErrorItemNotFound")
    assert (await graph.get(f"/me/messages/{row['id']}")).status_code == 200
    assert error(await graph.get(f"/me/messages/{row['id'].swapcase()}")) == (400, "ErrorInvalidIdMalformed")


async def test_unknown_and_malformed_ids(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    unknown = "AAMk" + "x" * 80 + "="
    assert error(await graph.get(f"/me/messages/{unknown}")) == (404, "ErrorItemNotFound")
    for bad in ("123", "not-an-id", unknown[:30]):
        assert error(await graph.get(f"/me/messages/{bad}")) == (400, "ErrorInvalidIdMalformed")


async def test_sending(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    message = {
        "subject": "Hi",
        "body": {"contentType": "HTML", "content": "<p>x</p>"},
        "toRecipients": to("alice@contoso.example", "carol@fabrikam.example"),
        "bccRecipients": to("bob@contoso.example"),
        "internetMessageHeaders": [{"name": "x-entrabot-id", "value": "7"}],
    }
    answer = await graph.post("/me/sendMail", json={"Message": message, "SaveToSentItems": True})
    assert (answer.status_code, answer.content) == (202, b"")
    (received,) = await inbox_of(sandbox, "alice")
    assert received["from"]["emailAddress"]["address"] == "sati.agent@contoso.example"
    assert received["bccRecipients"] == []
    assert {"name": "x-entrabot-id", "value": "7"} in received["internetMessageHeaders"]
    assert len(await inbox_of(sandbox, "carol")) == len(await inbox_of(sandbox, "bob")) == 1
    await graph.post("/me/sendMail", json={"message": message, "saveToSentItems": False})
    assert len(await inbox_of(sandbox, "agent", folder="sentitems")) == 1


async def test_what_sending_refuses(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    async def sent(**message: Any) -> tuple[int, str]:
        return error(await graph.post("/me/sendMail", json={"message": message}))

    assert await sent(subject="x") == (400, "ErrorInvalidRecipients")
    assert await sent(toRecipients=to("nobody")) == (400, "ErrorInvalidRecipients")
    assert await sent(toRecipients=[{"address": "a@b.example"}]) == (400, "RequestBodyRead")
    assert await sent(toRecipients=to("a@b.example"), nonsense=1) == (400, "RequestBodyRead")
    headers = [{"name": "In-Reply-To", "value": "x"}]
    assert await sent(toRecipients=to("a@b.example"), internetMessageHeaders=headers) == (
        400,
        "InvalidInternetMessageHeader",
    )
    many = [{"name": f"x-{number}", "value": "x"} for number in range(6)]
    assert await sent(toRecipients=to("a@b.example"), internetMessageHeaders=many) == (
        400,
        "InvalidInternetMessageHeaderCollection",
    )
    assert error(await graph.post("/me/sendMail", json={})) == (400, "RequestBodyRead")


async def test_an_unknown_address_bounces_later(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    message = {"subject": "Hi", "toRecipients": to("nobody@contoso.example"), "body": {"content": "x"}}
    assert (await graph.post("/me/sendMail", json={"message": message})).status_code == 202
    (bounce,) = await inbox_of(sandbox, "agent")
    assert bounce["subject"] == "Undeliverable: Hi"
    assert any("multipart/report" in str(header["value"]) for header in bounce["internetMessageHeaders"])


async def test_a_reply_stays_in_its_thread(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    written = await write(sandbox, "alice", "Question", cc=["bob"])
    path = f"/me/messages/{written['id']}"
    answer = await graph.post(f"{path}/reply", json={"comment": "Yes & no"})
    assert (answer.status_code, answer.content) == (202, b"")
    (received,) = await inbox_of(sandbox, "alice")
    assert (received["subject"], received["conversationId"]) == ("RE: Question", written["conversationId"])
    assert "Yes &amp; no" in received["body"]["content"]
    assert "Hello" in received["body"]["content"]
    headers = {header["name"]: header["value"] for header in received["internetMessageHeaders"]}
    assert headers["In-Reply-To"] == headers["References"] == written["internetMessageId"]
    assert len(await inbox_of(sandbox, "bob")) == 1
    await graph.post(f"{path}/replyAll", json={"message": {"body": {"contentType": "html", "content": "<p>all</p>"}}})
    assert [mail["body"]["content"] for mail in await inbox_of(sandbox, "bob")][1:] == ["<p>all</p>"]
    both = {"comment": "x", "message": {"body": {"content": "y"}}}
    assert error(await graph.post(f"{path}/reply", json=both)) == (400, "ErrorInvalidRequest")


@pytest.mark.parametrize("replaces", [False, True])
async def test_recipients_given_with_a_reply(graph: httpx.AsyncClient, sandbox: Sandbox, replaces: bool) -> None:
    await sandbox.call("PUT", "/mail/settings", {"replaces_recipients": replaces})
    written = await write(sandbox, "alice", "Q", reply_to_address=["carol"])
    message = {"toRecipients": to("bob@contoso.example"), "body": {"content": "x"}}
    await graph.post(f"/me/messages/{written['id']}/reply", json={"message": message})
    assert len(await inbox_of(sandbox, "bob")) == 1
    assert len(await inbox_of(sandbox, "carol")) == (0 if replaces else 1)
    assert await inbox_of(sandbox, "alice") == []


async def test_a_draft_is_made_changed_and_sent(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    written = await write(sandbox, "alice", "Question")
    draft = (await graph.post(f"/me/messages/{written['id']}/createReply", json={}, headers=IMMUTABLE)).json()
    assert (draft["isDraft"], draft["from"], draft["subject"]) == (True, None, "RE: Question")
    path = f"/me/messages/{draft['id']}"
    assert (await graph.patch(path, json={"body": {"contentType": "text", "content": "Yes."}})).status_code == 200
    assert (await graph.post(f"{path}/send")).status_code == 202
    assert [mail["bodyPreview"] for mail in await inbox_of(sandbox, "alice")] == ["Yes."]
    assert (await graph.get(path, headers=IMMUTABLE)).json()["id"] == draft["id"]
    assert error(await graph.post(f"{path}/send")) == (400, "ErrorInvalidRequest")
    new = await graph.post("/me/messages", json={"subject": "later"})
    assert (new.status_code, new.json()["isDraft"]) == (201, True)
    assert (await graph.delete(f"/me/messages/{new.json()['id']}")).status_code == 204
    deleted = (await graph.get("/me/mailFolders/deleteditems/messages")).json()["value"]
    assert (await graph.delete(f"/me/messages/{deleted[0]['id']}")).status_code == 204
    assert (await graph.get("/me/mailFolders/deleteditems/messages")).json()["value"] == []


async def test_attachments(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    inline = {"name": "logo.png", "text": "x", "inline": True, "content_id": "logo"}
    only_inline = await write(sandbox, "alice", "Logo", html='<img src="cid:logo">', text=None, attachments=[inline])
    assert not only_inline["hasAttachments"]
    both = await write(sandbox, "alice", "Both", attachments=[inline, {"name": "a.txt", "text": "abc"}])
    assert both["hasAttachments"]
    path = f"/me/messages/{both['id']}/attachments"
    rows = (await graph.get(path, params={"$select": "id,name,contentType,size,isInline"})).json()["value"]
    assert [(row["name"], row["size"], row["isInline"]) for row in rows] == [("logo.png", 1, True), ("a.txt", 3, False)]
    assert all("contentBytes" not in row for row in rows)
    whole = (await graph.get(f"{path}/{quote(rows[1]['id'], safe='')}")).json()
    assert whole["contentBytes"] == "YWJj"
    assert error(await graph.get(f"{path}/nothing")) == (404, "ErrorItemNotFound")


async def test_protected_mail_shows_nothing_of_itself(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await write(sandbox, "alice", "Secret", text="the plan", encrypted=True)
    params = {"$select": "subject,bodyPreview,body,hasAttachments,internetMessageHeaders"}
    (row,) = (await graph.get(INBOX, params=params)).json()["value"]
    assert "the plan" not in str(row)
    assert "protectedmessage" in row["body"]["content"]
    assert {"name": "Content-Class", "value": "rpmsg.message"} in row["internetMessageHeaders"]


async def test_shared_mailboxes(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    address = "help@contoso.example"
    await sandbox.call("POST", "/mail/shared", {"address": address, "name": "Help", "readers": ["agent"]})
    written = await write(sandbox, "mallory", "Broken", to=[address])
    (row,) = (await graph.get(f"/users/{address}/messages", headers=IMMUTABLE)).json()["value"]
    assert row["id"] == written["id"]
    assert error(await graph.get(f"/me/messages/{row['id']}")) == (404, "ErrorItemNotFound")
    assert error(await graph.get("/users/alice@contoso.example/messages")) == (403, "ErrorAccessDenied")
    assert error(await graph.get("/users/nobody@contoso.example/messages")) == (404, "ErrorInvalidUser")
    assert error(await graph.post(f"/users/{address}/sendMail", json={"message": {}})) == (403, "ErrorAccessDenied")
    mine = await graph.get(f"/users/{sandbox.people['agent']['id']}/messages")
    assert mine.json()["value"] == []


async def test_rights_are_needed(graph: httpx.AsyncClient, sandbox: Sandbox, entra: Any) -> None:
    written = await write(sandbox, "alice", "Hi")
    await sandbox.grant(scopes=["User.Read", "Mail.ReadBasic"])
    graph.headers["Authorization"] = f"Bearer {await entra.user_token()}"
    row = (await graph.get(f"/me/messages/{written['id']}")).json()
    assert row["subject"] == "Hi"
    assert "body" not in row
    assert error(await graph.post("/me/sendMail", json={"message": {}})) == (403, "ErrorAccessDenied")
    assert error(await graph.post(f"/me/messages/{written['id']}/createReply")) == (403, "ErrorAccessDenied")
    await sandbox.grant(scopes=["User.Read"])
    graph.headers["Authorization"] = f"Bearer {await entra.user_token()}"
    assert error(await graph.get(INBOX)) == (403, "ErrorAccessDenied")


async def test_four_at_a_time(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.settings(throttling=True)
    await sandbox.call("PUT", "/mail/settings", {"delay": 1.0})
    answers = await asyncio.gather(*(graph.get(INBOX) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 429, 429]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert error(refused) == (429, "ApplicationThrottled")
    assert refused.headers["retry-after"] == "1"


async def test_strangers_answers_and_waiting(sandbox: Sandbox) -> None:
    waiting = asyncio.create_task(inbox_of(sandbox, "agent", wait=20))
    first = await write(sandbox, "Shop <news@shop.example>", "Sale", headers={"List-Unsubscribe": "<x>"})
    assert [mail["subject"] for mail in await waiting] == ["Sale"]
    assert first["from"]["emailAddress"] == {"name": "Shop", "address": "news@shop.example"}
    answer = await write(sandbox, "alice", "ignored", reply_to=first["id"])
    assert answer["conversationId"] == first["conversationId"]
    invite = await write(sandbox, "bob", "Lunch", kind="eventMessageRequest")
    assert invite["@odata.type"] == "#microsoft.graph.eventMessageRequest"
    for nonsense in ({"to": ["a@far.example"]}, {"reply_to": "x"}, {"received": "x"}, {"as": "nobody"}, {"html": "x"}):
        with pytest.raises(SandboxError):
            await sandbox.call("POST", "/mail", {"as": "alice", "text": "x", **nonsense})


async def test_a_reset_empties_it(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await write(sandbox, "alice", "Hi")
    await sandbox.reset()
    assert (await graph.get("/me/messages")).json()["value"] == []
