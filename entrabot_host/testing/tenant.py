"""A sandbox tenant for tests, and its people."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from entrabot_host.tenant_child import TenantChild

_SECONDS = 20.0


class Tenant:
    """A running sandbox tenant. ``environment``: a server's settings for it. ``people``: who lives there."""

    def __init__(self, child: TenantChild) -> None:
        description = child.describe()
        self._child = child
        self._control: Mapping[str, str] = description["control"]
        self.environment: dict[str, str] = {name: str(value) for name, value in description["environment"].items()}
        self.people: dict[str, dict[str, Any]] = description["people"]

    @classmethod
    def start(cls) -> Tenant:
        """Start one. Raises `SettingsError`."""
        child = TenantChild.start()
        tenant = cls(child)
        child.layer()  # takes loopback out of a proxy's reach, for this process too
        return tenant

    def stop(self) -> None:
        """End it."""
        self._child.stop()

    async def control(self, method: str, path: str, **more: Any) -> Any:
        """Call the control interface; see the sandbox's README. Raises httpx.HTTPStatusError."""
        async with httpx.AsyncClient(
            base_url=self._control["url"],
            headers={"Authorization": f"Bearer {self._control['token']}"},
            verify=ssl.create_default_context(cafile=self._control["ca_bundle"]),
            timeout=_SECONDS,
            trust_env=False,
        ) as http:
            answer = await http.request(method, path, **more)
            answer.raise_for_status()
            return answer.json() if answer.content else None

    async def say(self, person: str, text: str, chat: str = "") -> dict[str, Any]:
        """Send a message as ``person``; without a chat, in his 1:1 chat with the agent."""
        body = {"as": person, "text": text, **({"chat": chat} if chat else {})}
        return dict(await self.control("POST", "/say", json=body))

    async def create_group(self, person: str, members: list[str], topic: str) -> dict[str, Any]:
        """Create a group chat as ``person``."""
        body = {"as": person, "members": members, "topic": topic, "type": "group"}
        return dict(await self.control("POST", "/chats", json=body))

    async def message_from_agent(self, chat: str, containing: str) -> dict[str, Any]:
        """Wait until a message of the agent is in the chat. Raises `TimeoutError`."""
        async with asyncio.timeout(_SECONDS):
            while True:
                query = {"sender": "agent", "wait": "5"}
                found = await self.control("GET", f"/chats/{chat}/messages", params=query)
                for message in found["value"]:
                    if containing in message["body"]["content"]:
                        return dict(message)
                await asyncio.sleep(0.1)

    async def create_document(self, person: str, name: str, text: str) -> dict[str, Any]:
        """Write a Word document as ``person``, in a site that the agent can use.

        Returns its ``name``, ``drive_id``, ``item_id``, ``url`` (a sharing link) and ``web_url``.
        """
        body = {"as": person, "name": name, "text": text}
        return dict(await self.control("POST", "/documents", json=body))

    async def comment(self, person: str, document: dict[str, Any], text: str, reply_to: str = "") -> dict[str, Any]:
        """Comment on a Word document as ``person``, or reply to the comment with the id ``reply_to``."""
        body = {"as": person, "text": text, "reply_to": reply_to or None, **_ids(document)}
        return dict(await self.control("POST", "/comments", json=body))

    async def comments(self, document: dict[str, Any]) -> list[dict[str, Any]]:
        """The comments of a Word document, oldest first, each with its ``replies``."""
        return list((await self.control("GET", "/comments", params=_ids(document)))["value"])

    async def comment_from_agent(self, document: dict[str, Any], containing: str) -> dict[str, Any]:
        """Wait until a comment or reply of the agent is in a Word document. Raises `TimeoutError`."""
        query = {**_ids(document), "author": "agent", "wait": "5"}
        async with asyncio.timeout(_SECONDS):
            while True:
                for comment in (await self.control("GET", "/comments", params=query))["value"]:
                    if containing in comment["text"]:
                        return dict(comment)
                await asyncio.sleep(0.1)

    async def reset(self) -> None:
        """Bring it back to how it started."""
        await self.control("POST", "/reset")


def _ids(document: dict[str, Any]) -> dict[str, str]:
    return {name: str(document[name]) for name in ("drive_id", "item_id")}
