"""The people of the sandbox tenant, played through its control interface."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httpx

_SECONDS = 20.0


class Humans:
    """Speaks as a person of the tenant, and looks at what that person sees."""

    def __init__(self, description: dict[str, Any]) -> None:
        control = description["control"]
        self.people: dict[str, dict[str, Any]] = description["people"]
        self._http = httpx.AsyncClient(
            base_url=control["url"],
            headers={"Authorization": f"Bearer {control['token']}"},
            verify=ssl.create_default_context(cafile=control["ca_bundle"]),
            timeout=_SECONDS,
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Hang up."""
        await self._http.aclose()

    async def say(self, person: str, text: str, chat: str = "") -> dict[str, Any]:
        """Send a message as ``person``; without a chat, in his 1:1 chat with the agent."""
        return await self._post("/say", {"as": person, "text": text, **({"chat": chat} if chat else {})})

    async def create_group(self, person: str, members: list[str], topic: str) -> dict[str, Any]:
        """Create a group chat as ``person``."""
        return await self._post("/chats", {"as": person, "members": members, "topic": topic, "type": "group"})

    async def message_from_agent(self, chat: str, containing: str) -> dict[str, Any]:
        """Wait until the agent's message is in the chat."""
        async with asyncio.timeout(_SECONDS):
            while True:
                answer = await self._http.get(f"/chats/{chat}/messages", params={"sender": "agent", "wait": "5"})
                answer.raise_for_status()
                for message in answer.json()["value"]:
                    if containing in message["body"]["content"]:
                        return dict(message)
                await asyncio.sleep(0.1)

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._http.post(path, json=body)
        answer.raise_for_status()
        return dict(answer.json())
