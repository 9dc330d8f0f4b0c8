"""The people's side of the chats: what they would do in their own Teams clients."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any
from uuid import uuid4

from starlette.requests import Request

from entrabot_sandbox.conversations import ALL_HISTORY, Chat, Draft, Member, Message
from entrabot_sandbox.directory import User
from entrabot_sandbox.errors import ControlError
from entrabot_sandbox.messages import publish
from entrabot_sandbox.people import find_person
from entrabot_sandbox.rewriting import plain
from entrabot_sandbox.shapes import chat_object, member_object, message_object
from entrabot_sandbox.state import State

Json = dict[str, Any]
Action = Callable[[Json, Request], Awaitable[Any] | Any]

MAX_WAIT = 60.0
KINDS = ("oneOnOne", "group", "meeting")


class Speech:
    """Chats as people see and use them. A person must be a member to do anything in a chat."""

    def __init__(self, state: State) -> None:
        self._state = state

    def actions(self) -> list[tuple[str, str, Action, int]]:
        """The control API's calls that speak for people: method, path, action, status."""
        chat, message = "/chats/{chat}", "/chats/{chat}/messages/{message}"
        return [
            ("POST", "/say", self._say, 201),
            ("GET", "/chats", self._list_chats, 200),
            ("POST", "/chats", self._create_chat, 201),
            ("PATCH", chat, self._rename, 200),
            ("POST", f"{chat}/members", self._add_member, 201),
            ("DELETE", f"{chat}/members/{{person}}", self._remove_member, 200),
            ("GET", f"{chat}/messages", self._list_messages, 200),
            ("POST", f"{chat}/messages", self._say, 201),
            ("PATCH", message, self._edit, 200),
            ("DELETE", message, self._delete, 200),
            ("POST", f"{message}/reactions", self._react, 201),
            ("DELETE", f"{message}/reactions", self._unreact, 200),
        ]

    # Chats

    def _list_chats(self, body: Json, request: Request) -> Json:
        chats = list(self._state.conversations.chats.values())
        if "as" in request.query_params:
            person = find_person(self._state, request.query_params["as"])
            chats = self._state.conversations.of(person)
        return {"value": [_chat(chat) for chat in chats]}

    def _create_chat(self, body: Json, request: Request) -> Json:
        person = self._person(body, request)
        wanted = body.get("members")
        if not isinstance(wanted, list):
            raise ControlError(400, "members must be a list of people.")
        users = list(dict.fromkeys([person.key, *(find_person(self._state, name).key for name in wanted)]))
        people = [find_person(self._state, key) for key in users]
        if len(people) < 2:
            raise ControlError(400, "A chat needs somebody else.")
        kind = body.get("type") or ("oneOnOne" if len(people) == 2 and not body.get("topic") else "group")
        if kind not in KINDS or (kind == "oneOnOne" and (len(people) != 2 or body.get("topic"))):
            raise ControlError(400, "type must be oneOnOne (two people, no topic), group or meeting.")
        return _chat(self._make_chat(kind, people, body.get("topic")))

    def _make_chat(self, kind: str, people: list[User], topic: str | None = None) -> Chat:
        members = [Member(user, ["owner"]) for user in people]
        return self._state.conversations.create(kind, people[0], members, topic)

    def _rename(self, body: Json, request: Request) -> Json:
        chat, person = self._place(body, request)
        if chat.kind == "oneOnOne":
            raise ControlError(400, "A one-on-one chat has no topic.")
        self._state.conversations.rename(chat, person, body.get("topic"))
        return _chat(chat)

    def _add_member(self, body: Json, request: Request) -> Json:
        chat, person = self._place(body, request)
        newcomer = find_person(self._state, body.get("person"))
        if chat.kind == "oneOnOne":
            raise ControlError(400, "A one-on-one chat takes no further members.")
        if chat.member(newcomer):
            raise ControlError(400, f"{newcomer.key} is a member already.")
        since = ALL_HISTORY if body.get("history") else self._state.clock.now()
        self._state.conversations.add_member(chat, person, Member(newcomer, ["owner"], since))
        return _chat(chat)

    def _remove_member(self, body: Json, request: Request) -> Json:
        chat, person = self._place(body, request)
        leaver = find_person(self._state, request.path_params["person"])
        if chat.member(leaver) is None:
            raise ControlError(404, f"{leaver.key} is not a member.")
        if chat.kind == "oneOnOne":
            raise ControlError(400, "Nobody leaves a one-on-one chat.")
        self._state.conversations.remove_member(chat, person, leaver)
        return _chat(chat)

    # Messages

    def _say(self, body: Json, request: Request) -> Json:
        person = self._person(body, request)
        reference = request.path_params.get("chat") or body.get("chat")
        chat = self._chat(reference, person) if reference else self._chat_with_agent(person)
        draft = self._draft(body, chat)
        message = publish(self._state.conversations, chat, person, draft, self._state.base)
        return _message(message, chat)

    async def _list_messages(self, body: Json, request: Request) -> Json:
        query = request.query_params
        chat = self._chat(request.path_params["chat"], None)
        deadline = time.monotonic() + _seconds(query.get("wait", "0"))
        sender = find_person(self._state, query["sender"]) if "sender" in query else None
        while True:
            found = [m for m in chat.messages.values() if int(m.id) > int(query.get("after") or 0)]
            found = [m for m in found if sender is None or m.sender is sender]
            left = deadline - time.monotonic()
            if found or left <= 0 or not await self._state.conversations.next_change(left):
                return {"value": [_message(m, chat) for m in sorted(found, key=lambda m: int(m.id))]}

    def _edit(self, body: Json, request: Request) -> Json:
        chat, message = self._own_message(body, request)
        self._state.conversations.edit(chat, message, self._draft(body, chat))
        return _message(message, chat)

    def _delete(self, body: Json, request: Request) -> Json:
        chat, message = self._own_message(body, request)
        self._state.conversations.delete(chat, message)
        return _message(message, chat)

    def _react(self, body: Json, request: Request) -> Json:
        chat, person = self._place(body, request)
        message = _find(chat, request.path_params["message"])
        self._state.conversations.react(chat, message, person, str(body.get("reaction") or "like"))
        return _message(message, chat)

    def _unreact(self, body: Json, request: Request) -> Json:
        chat, person = self._place(body, request)
        message = _find(chat, request.path_params["message"])
        self._state.conversations.unreact(chat, message, person)
        return _message(message, chat)

    # Who and where

    def _person(self, body: Json, request: Request) -> User:
        reference = body.get("as") or request.query_params.get("as")
        if not reference:
            raise ControlError(400, "as must name the person who does this.")
        return find_person(self._state, reference)

    def _chat(self, chat_id: Any, person: User | None) -> Chat:
        chat = self._state.conversations.chats.get(str(chat_id))
        if chat is None:
            raise ControlError(404, f"There is no chat '{chat_id}'.")
        if person is not None and chat.member(person) is None:
            raise ControlError(404, f"{person.key} does not see this chat: not a member under the home identity.")
        return chat

    def _chat_with_agent(self, person: User) -> Chat:
        agent = self._state.agent_user
        if person is agent:
            raise ControlError(400, "chat is needed when the agent itself speaks.")
        return self._make_chat("oneOnOne", [person, agent])

    def _place(self, body: Json, request: Request) -> tuple[Chat, User]:
        person = self._person(body, request)
        return self._chat(request.path_params["chat"], person), person

    def _own_message(self, body: Json, request: Request) -> tuple[Chat, Message]:
        chat, person = self._place(body, request)
        message = _find(chat, request.path_params["message"])
        if message.sender is not person:
            raise ControlError(400, f"The message is not {person.key}'s own.")
        return chat, message

    # Content

    def _draft(self, body: Json, chat: Chat) -> Draft:
        draft = Draft(_html(body))
        self._mention(draft, body.get("mention") or [])
        _show_image(draft, body)
        if body.get("reply_to"):
            _quote(draft, _find(chat, str(body["reply_to"])))
        _attach(draft, body.get("files") or [])
        draft.application = str(body.get("bot") or "")
        return draft

    def _mention(self, draft: Draft, wanted: Any) -> None:
        if not isinstance(wanted, list):
            raise ControlError(400, "mention must be a list of people.")
        people = [find_person(self._state, reference) for reference in wanted]
        draft.mentions = [_mention(number, person) for number, person in enumerate(people)]
        tags = [f'<at id="{number}">{escape(person.name)}</at>&nbsp;' for number, person in enumerate(people)]
        if tags:
            draft.content = f"<p>{''.join(tags)}</p>{draft.content}"


def _html(body: Json) -> str:
    words, html = body.get("text"), body.get("html")
    if (words is None) == (html is None) or not isinstance(words or html or "", str):
        raise ControlError(400, "Give either text or html, a string.")
    if html is not None:
        return str(html)
    return "".join(f"<p>{escape(line, quote=False) or '&nbsp;'}</p>" for line in str(words).split("\n"))


def _mention(number: int, person: User) -> Json:
    user = {
        "@odata.type": "#microsoft.graph.teamworkUserIdentity",
        "id": person.id,
        "displayName": person.name,
        "userIdentityType": "aadUser",
        "tenantId": person.tenant.id,
    }
    mentioned = {"application": None, "device": None, "conversation": None, "user": user}
    return {"id": number, "mentionText": person.name, "mentioned": mentioned}


def _show_image(draft: Draft, body: Json) -> None:
    if not body.get("image"):
        return
    try:
        content = base64.b64decode(body["image"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ControlError(400, "image must be base64.") from error
    draft.hosted = {"1": (str(body.get("image_type") or "image/png"), content)}
    draft.content += '<p><img src="../hostedContents/1/$value" alt="image" itemid="1"></p>'


def _attach(draft: Draft, wanted: Any) -> None:
    """Attach files by name and address, as Teams does after it has put them into a drive."""
    if not isinstance(wanted, list) or not all(isinstance(file, dict) for file in wanted):
        raise ControlError(400, "files must be a list of objects with name and url.")
    for file in wanted:
        attachment = {
            "id": str(uuid4()),
            "contentType": "reference",
            "contentUrl": str(file.get("url") or ""),
            "content": None,
            "name": str(file.get("name") or ""),
            "thumbnailUrl": None,
            "teamsAppId": None,
        }
        draft.attachments.append(attachment)
        draft.content += f'<attachment id="{attachment["id"]}"></attachment>'


def _quote(draft: Draft, source: Message) -> None:
    sender = source.sender
    user = {"userIdentityType": "aadUser", "id": sender.id, "displayName": sender.name} if sender else None
    content = {
        "messageId": source.id,
        "messagePreview": plain(source.draft.content)[:200],
        "messageSender": {"application": None, "device": None, "user": user},
    }
    attachment = {
        "id": source.id,
        "contentType": "messageReference",
        "contentUrl": None,
        "content": json.dumps(content, ensure_ascii=False),
        "name": None,
        "thumbnailUrl": None,
        "teamsAppId": None,
    }
    draft.attachments.append(attachment)
    draft.content = f'<attachment id="{source.id}"></attachment>\n{draft.content}'


def _find(chat: Chat, message_id: str) -> Message:
    if message_id not in chat.messages:
        raise ControlError(404, f"There is no message '{message_id}' in this chat.")
    return chat.messages[message_id]


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError as error:
        raise ControlError(400, "wait must be a number of seconds.") from error
    return max(0.0, min(seconds, MAX_WAIT))


def _chat(chat: Chat) -> Json:
    return {**chat_object(chat), "members": [member_object(m, m.user, federated_addresses=True) for m in chat.members]}


def _message(message: Message, chat: Chat) -> Json:
    viewer = message.sender or chat.members[0].user
    return message_object(message, chat, viewer, unknown_members=True)
