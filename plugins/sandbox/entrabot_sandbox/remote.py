"""Speaking to a running sandbox from another terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from entrabot_sandbox.client import ControlClient, SandboxError
from entrabot_sandbox.rewriting import plain
from entrabot_sandbox.runtime import NoSandboxError, running


def say(port: int, person: str, chat: str | None, text: str) -> int:
    """Say something as a person. port: 0 for the only sandbox. Returns the exit status."""

    async def act(control: ControlClient) -> None:
        message = await control.say(person, text, chat=chat)
        print(f"{person} said it in {message['chatId']} (message {message['id']}).")

    return _run(port, act)


def chats(port: int, person: str | None) -> int:
    """Print the chats, each with its members and its last words. Returns the exit status."""

    async def act(control: ControlClient) -> None:
        for chat in await control.chats(person):
            names = ", ".join(member["displayName"] for member in chat["members"])
            print(f"{chat['id']}\n  {chat['topic'] or chat['chatType']}: {names}")
            messages = await control.messages(chat["id"])
            for message in messages[-3:]:
                print(f"  {_line(message)}")

    return _run(port, act)


def _line(message: dict[str, Any]) -> str:
    sender = message["from"]
    name = sender["user"]["displayName"] if sender else "(event)"
    words = plain(message["body"]["content"]) if sender else message["eventDetail"]["@odata.type"].rpartition(".")[2]
    return f"{name}: {words if message['deletedDateTime'] is None else '(deleted)'}"


def _run(port: int, act: Callable[[ControlClient], Awaitable[None]]) -> int:
    async def go() -> None:
        async with ControlClient.of(running(port)) as control:
            await act(control)

    try:
        asyncio.run(go())
    except (NoSandboxError, SandboxError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
