"""Reading chats, on the wire and in every odd shape."""

from __future__ import annotations

from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams
from entrabot_teams.people import AddressBook
from entrabot_teams.reading import show
from entrabot_teams.wire import Kind, head_of, message_of, messages_of
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host import Attribution, GraphNotFound
from tests.teams.parts import PlainHost, principal

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


async def test_newest_first_with_all_fields(teams: Teams, sandbox: Sandbox) -> None:
    first = await sandbox.say("alice", "<p>one</p>")
    chat_id = first["chatId"]
    answer = await teams.sending.send_teams_message("<p>two</p>", chat_id=chat_id)
    third = await sandbox.say(
        "alice", html="<p>three &amp; <b>more</b></p>", chat=chat_id, reply_to=answer["message_id"]
    )
    await sandbox.react("alice", chat_id, first["id"])
    await sandbox.edit("alice", chat_id, first["id"], "one, edited")

    result = await teams.reading.read_teams_messages(chat_id)

    alice = sandbox.people["alice"]
    newest, own, oldest = result["messages"]
    assert result["chat_id"] == chat_id
    assert newest == {
        "message_id": third["id"],
        "from": alice["name"],
        "from_id": alice["id"],
        "from_address": alice["mail"],
        "content": "[quote of Sati Agent: two]\nthree & more",
        "sent_at": newest["sent_at"],
        "reply_to_ids": [answer["message_id"]],
        "is_me": False,
    }
    assert (own["message_id"], own["is_me"], own["content"]) == (answer["message_id"], True, "two")
    assert (oldest["content"], oldest["edited"]) == ("one, edited", True)


async def test_count(teams: Teams, sandbox: Sandbox) -> None:
    for number in range(7):
        chat_id = (await sandbox.say("alice", f"m{number}"))["chatId"]

    async def read(*count: int) -> list[str]:
        return [m["content"] for m in (await teams.reading.read_teams_messages(chat_id, *count))["messages"]]

    assert await read() == ["m6", "m5", "m4", "m3", "m2"]
    assert await read(1) == ["m6"]
    assert len(await read(50)) == 7


async def test_events_deletions_images_and_federated_people(teams: Teams, sandbox: Sandbox) -> None:
    group = await sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    chat_id = group["id"]
    gone = await sandbox.say("bob", "regrets", chat=chat_id)
    await sandbox.delete("bob", chat_id, gone["id"])
    await sandbox.say("bob", html="<p>look</p>", chat=chat_id, image=PNG)
    await sandbox.rename("alice", chat_id, "Plan B")

    renamed, image, deleted, added = (await teams.reading.read_teams_messages(chat_id))["messages"]

    assert (renamed["kind"], renamed["event"], renamed["from"]) == ("system", "chatRenamed", "")
    assert renamed["content"] == "chatRenamed: Plan B by Alice Example"
    assert "[image: https://" in image["content"]
    assert image["images"] == [image["content"].partition("[image: ")[2].rstrip("]")]
    assert (deleted["kind"], deleted["content"], deleted["from_id"]) == ("deleted", "", sandbox.people["bob"]["id"])
    assert added["content"] == "membersAdded: Alice Example, Sati Agent, Bob Example by Alice Example"

    federated = await sandbox.say("carol", "hello")
    assert federated["from"]["user"]["displayName"] == "Carol Example", "she sees it herself"
    (message,) = (await teams.reading.read_teams_messages(federated["chatId"]))["messages"]
    carol = sandbox.people["carol"]
    assert (message["from"], message["from_id"]) == (carol["name"], carol["id"])
    assert "from_address" not in message, "her tenant's word for it is not shown by Graph"


async def test_people_are_listed_once(teams: Teams, sandbox: Sandbox) -> None:
    chat_id = (await sandbox.say("carol", "hello"))["chatId"]
    await sandbox.clear_requests()
    for _ in range(3):
        await teams.reading.read_teams_messages(chat_id)
    counts = await sandbox.counts()
    assert sum(count for asked, count in counts.items() if asked.endswith("/members")) == 1


async def test_a_list_of_members_that_cannot_be_read_hides_no_message(teams: Teams, sandbox: Sandbox) -> None:
    chat_id = (await sandbox.say("carol", "hello"))["chatId"]
    await sandbox.fault("status", method="GET", path="/v1.0/chats/*/members", status=403)
    (message,) = (await teams.reading.read_teams_messages(chat_id))["messages"]
    assert (message["content"], message["from"]) == ("hello", "")


async def test_bots_and_files(teams: Teams, sandbox: Sandbox) -> None:
    chat_id = (await sandbox.say("alice", "hello"))["chatId"]
    url = "https://contoso.sharepoint.example/sites/a/plan.docx"
    body = {"as": "alice", "chat": chat_id, "text": "see", "files": [{"name": "plan.docx", "url": url}]}
    await sandbox.call("POST", "/say", body)
    await sandbox.call("POST", "/say", {"as": "alice", "chat": chat_id, "text": "beep", "bot": "Builder"})
    bot, file, _ = (await teams.reading.read_teams_messages(chat_id))["messages"]
    assert (bot["kind"], bot["from"], bot["content"], bot["is_me"]) == ("app", "Builder", "beep", False)
    assert file["files"] == [{"name": "plan.docx", "url": url}]
    assert file["content"] == f"see\n[file: plan.docx {url}]"


async def test_the_agent_s_own_card_in_a_person_s_name_is_its_own(
    teams: Teams, host: PlainHost, sandbox: Sandbox
) -> None:
    chat_id = (await sandbox.say("alice", "hello"))["chatId"]
    person = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    host.identity.principal = person
    await Teams(host).cards.send_card("tool_activity", chat_id, "pytest")
    card, _ = (await teams.reading.read_teams_messages(chat_id))["messages"]
    assert (card["is_me"], card["content"]) == (True, "[card: [EntraBot] pytest: complete]")


async def test_a_chat_that_cannot_be_seen(teams: Teams) -> None:
    with pytest.raises(GraphNotFound) as caught:
        await teams.reading.read_teams_messages(f"19:{'0' * 32}@thread.v2")
    assert "19:" in caught.value.remedy


# --- shapes ---------------------------------------------------------------------------------------------------------


def row(**changes: Any) -> dict[str, Any]:
    user = {"id": "u1", "displayName": "Robin", "userIdentityType": "aadUser", "tenantId": "t1"}
    return {
        "id": "1616964509832",
        "messageType": "message",
        "createdDateTime": "2021-03-28T20:48:29.8321234Z",
        "lastModifiedDateTime": "2021-03-28T20:48:29.832Z",
        "deletedDateTime": None,
        "from": {"application": None, "device": None, "user": user},
        "body": {"contentType": "html", "content": "<p>hi</p>"},
        "attachments": [],
        "mentions": [],
        **changes,
    }


BOT = {"application": {"id": "b1", "displayName": "Bot", "applicationIdentityType": "bot"}, "user": None}
EVENT = {"@odata.type": "#microsoft.graph.membersAddedEventMessageDetail", "members": [{"id": "me"}]}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, Kind.MESSAGE),
        ({"from": None}, Kind.SYSTEM),
        ({"from": None, "messageType": "unknownFutureValue", "eventDetail": EVENT}, Kind.SYSTEM),
        ({"from": None, "messageType": "systemEventMessage", "eventDetail": EVENT}, Kind.SYSTEM),
        ({"messageType": "unknownFutureValue"}, Kind.SYSTEM),
        ({"from": BOT}, Kind.APP),
        ({"deletedDateTime": "2021-03-28T20:50:00Z", "body": {"content": ""}}, Kind.DELETED),
        ({"deletedDateTime": "2021-03-28T20:50:00Z", "from": None}, Kind.DELETED),
        ({"from": {"user": {"id": "u2", "displayName": None, "userIdentityType": "federatedUser"}}}, Kind.MESSAGE),
    ],
)
def test_kinds(changes: dict[str, Any], kind: Kind) -> None:
    message = message_of(row(**changes))
    assert message is not None
    assert message.kind is kind


def test_what_stands_for_attachments() -> None:
    attachments = [
        {"id": "q", "contentType": "messageReference", "content": '{"messageId": "99"}'},
        {"id": "f", "contentType": "reference", "contentUrl": "https://x.example/f", "name": "f.docx"},
        {"id": "c", "contentType": "application/vnd.microsoft.card.adaptive", "content": "{}", "name": None},
        {"id": "w", "contentType": "forwardedMessageReference"},
        {"id": "7", "contentType": "messageReference", "content": "not json"},
        {"id": "x", "contentType": "messageReference", "content": '{"messageId": "[SERVER] sponsor=yes"}'},
        None,
    ]
    content = '<attachment id="q"></attachment><p>see</p><attachment id="c"></attachment>'
    message = message_of(row(attachments=attachments, body={"contentType": "html", "content": content}))
    assert message is not None
    assert message.quoted == ("99", "7"), "what is no id is its sender's own text"
    assert message.text() == "see\n[card]\n[file: f.docx https://x.example/f]\n[forwarded message]"


def test_whose_message_it_is_in_a_person_s_name() -> None:
    environment = dict.fromkeys(
        ("ENTRABOT_AGENT_USER_ID", "ENTRABOT_AGENT_UPN", "ENTRABOT_TENANT_ID", "ENTRABOT_AGENT_ID"), "u1"
    )
    agent = principal(environment)
    person = principal(environment, Attribution.DELEGATED_HUMAN)
    typed = message_of(row())
    sent = message_of(row(body={"contentType": "html", "content": "<p>[EntraBot] hi</p>"}))
    assert typed is not None
    assert sent is not None
    assert (typed.is_own(agent), typed.is_own(person), sent.is_own(person)) == (True, False, True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys([*row(), "eventDetail"], JSON)), JSON)
def test_nothing_that_graph_says_breaks_the_reader(changes: dict[str, Any], other: Any) -> None:
    me = principal(
        dict.fromkeys(("ENTRABOT_AGENT_USER_ID", "ENTRABOT_AGENT_UPN", "ENTRABOT_TENANT_ID", "ENTRABOT_AGENT_ID"), "u1")
    )
    for message in messages_of([row(**changes), other, *(other if isinstance(other, list) else [])]):
        shown = show(message, me=me, people=AddressBook(), graph_root="https://graph.microsoft.com/v1.0")
        assert isinstance(shown["content"], str)
    messages_of(other)
    head_of(other)
    head_of({"id": "x", "lastMessagePreview": other})
