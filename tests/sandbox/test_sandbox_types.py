"""Every object has only properties that Graph's metadata knows, and all that Graph always sends."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import httpx
from entrabot_sandbox.client import Sandbox

from tests.sandbox.wire import Bindings

METADATA = json.loads((Path(__file__).parents[1] / "data" / "graph-types.json").read_text(encoding="utf-8"))
TYPES, ENUMS = METADATA["types"], METADATA["enums"]
# Not in the metadata, but in payloads: a sender's tenant.
UNDECLARED = {"teamworkUserIdentity": {"tenantId": "String"}}
# Declared, but seldom sent.
SELDOM = {"chat": {"migrationMode", "originalCreatedDateTime"}}
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z$")
PRIMITIVES = {"String": str, "Boolean": bool, "Int32": int, "Guid": str, "Binary": str}


def declared(kind: str) -> dict[str, str]:
    if kind == "entity":
        return {"id": "String"}
    entry = TYPES[kind]
    base = declared(entry["base"]) if entry["base"] else {}
    return {**base, **entry["properties"], **entry.get("navigation", {}), **UNDECLARED.get(kind, {})}


def always(kind: str) -> set[str]:
    entry = TYPES.get(kind, {"base": "", "properties": {}})
    base = always(entry["base"]) if entry["base"] else set()
    return base | set(entry["properties"]) - SELDOM.get(kind, set())


def check(value: Any, kind: str, path: str) -> None:
    """Walk a value; fails at the first thing the metadata does not know."""
    if kind.startswith("Collection("):
        assert isinstance(value, list), path
        for item in value:
            check(item, kind[11:-1], f"{path}[]")
    elif value is None:
        return
    elif kind in ENUMS:
        assert value in ENUMS[kind], path
    elif kind == "DateTimeOffset":
        assert TIME.match(value), path
    elif kind in PRIMITIVES:
        assert type(value) is PRIMITIVES[kind], path
    else:
        check_object(value, kind, path)


def check_object(value: dict[str, Any], kind: str, path: str) -> None:
    kind = value.get("@odata.type", f"#microsoft.graph.{kind}").removeprefix("#microsoft.graph.")
    kind = "identitySet" if kind == "chatMessageReactionIdentitySet" else kind
    known = declared(kind)
    for name, part in value.items():
        if "@" not in name:
            assert name in known, f"{path}.{name} is not a property of {kind}"
            check(part, known[name], f"{path}.{name}")


def check_whole(value: dict[str, Any], kind: str) -> None:
    check_object(value, kind, kind)
    missing = always(kind) - set(value)
    assert not missing, f"{kind} lacks {missing}"


async def test_chats_and_members(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.say("carol", "hello")
    await sandbox.create_chat("alice", ["agent", "mallory"], topic="x")
    rows = (await graph.get("/me/chats", params={"$expand": "members,lastMessagePreview"})).json()["value"]
    assert len(rows) == 2
    for row in rows:
        check_whole(row, "chat")
        check_whole(row["lastMessagePreview"], "chatMessageInfo")
        for member in row["members"]:
            check_whole(member, "aadUserConversationMember")
    check_whole((await graph.get(f"/chats/{rows[0]['id']}")).json(), "chat")


async def test_messages(graph: httpx.AsyncClient, sandbox: Sandbox, bind: Bindings) -> None:
    chat = (await sandbox.create_chat("alice", ["agent", "carol"], topic="x"))["id"]
    path = f"/chats/{chat}/messages"
    said = await sandbox.say("alice", "hello", chat=chat, mention=["agent"], image=b"x")
    await sandbox.say("carol", "yes", chat=chat, reply_to=said["id"])
    await sandbox.react("carol", chat, said["id"])
    await sandbox.rename("alice", chat, "y")
    await sandbox.add_member("alice", chat, "bob")
    await sandbox.remove_member("alice", chat, "bob")
    gone = await sandbox.say("alice", "gone", chat=chat)
    await sandbox.delete("alice", chat, gone["id"])
    card = {"id": "1", "contentType": "application/vnd.microsoft.card.adaptive", "content": "{}"}
    hosted = {
        "@microsoft.graph.temporaryId": "2",
        "contentBytes": base64.b64encode(b"x").decode(),
        "contentType": "image/png",
    }
    user = {"id": bind.people["alice"]["id"], "displayName": "A", "userIdentityType": "aadUser"}
    sent = {
        "body": {
            "contentType": "html",
            "content": '<at id="0">A</at><attachment id="1"></attachment><img src="../hostedContents/2/$value">',
        },
        "attachments": [card],
        "hostedContents": [hosted],
        "mentions": [{"id": 0, "mentionText": "A", "mentioned": {"user": user}}],
    }
    answer = (await graph.post(path, json=sent)).json()
    check_whole(answer, "chatMessage")
    assert (await graph.patch(f"{path}/{answer['id']}", json={"importance": "high"})).status_code == 204
    rows = (await graph.get(path, headers={"Prefer": "include-unknown-enum-members"})).json()["value"]
    assert len(rows) == 8
    for row in rows:
        check_whole(row, "chatMessage")
        for name, kind in (("attachments", "chatMessageAttachment"), ("mentions", "chatMessageMention")):
            for part in row[name]:
                check_whole(part, kind)
        for reaction in row["reactions"]:
            check_whole(reaction, "chatMessageReaction")
        if row["eventDetail"]:
            check_whole(row["eventDetail"], row["eventDetail"]["@odata.type"].removeprefix("#microsoft.graph."))
    for row in (await graph.get(f"{path}/{answer['id']}/hostedContents")).json()["value"]:
        check_whole(row, "chatMessageHostedContent")


async def test_people(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    every = ",".join(declared("user"))
    for reference in ("agent", "alice"):
        person = (await graph.get(f"/users/{sandbox.people[reference]['id']}", params={"$select": every})).json()
        check_whole(person, "user")
    guest = (await graph.get(f"/users/{sandbox.people['carol']['guest_id']}", params={"$select": every})).json()
    check_whole(guest, "user")
    for identity in guest["identities"]:
        check_whole(identity, "objectIdentity")
