"""People putting files into a sandbox tenant, and what tests say about tools' answers."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from entrabot_host.testing.agent import Agent, ToolFailed
from entrabot_host.testing.tenant import Tenant

Json = dict[str, Any]
_ENVELOPE = re.compile(r"<external-content-envelope [^>]*>\n(.*)\n</external-content-envelope [0-9a-f]+>", re.DOTALL)


class People:
    """The other side of files."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant

    async def put(self, drive: str, path: str, **content: Any) -> Json:
        if isinstance(content.get("raw"), bytes):
            content["base64"] = base64.b64encode(content.pop("raw")).decode()
        return dict(await self.tenant.control("PUT", "/files", json={"drive": drive, "path": path, **content}))

    async def show(self, drive: str, path: str) -> Json:
        params = {"drive": drive, "path": path, "content": "yes"}
        return dict(await self.tenant.control("GET", "/files", params=params))

    async def content(self, drive: str, path: str) -> bytes:
        return base64.b64decode((await self.show(drive, path))["base64"])

    async def drive(self, key: str) -> Json:
        return next(d for d in (await self.drives())["value"] if d["key"] == key)

    async def drives(self) -> Json:
        return dict(await self.tenant.control("GET", "/drives"))

    async def share(self, drive: str, path: str, person: str = "agent", role: str = "read") -> None:
        body = {"drive": drive, "path": path, "with": person, "role": role}
        await self.tenant.control("POST", "/files/share", json=body)

    async def link(self, drive: str, path: str) -> str:
        return str((await self.tenant.control("POST", "/files/link", json={"drive": drive, "path": path}))["url"])

    async def fault(self, kind: str, **more: Any) -> None:
        await self.tenant.control("POST", "/faults", json={"kind": kind, **more})

    async def requests(self, path: str, method: str = "") -> list[Json]:
        noted = (await self.tenant.control("GET", "/requests"))["requests"]
        return [one for one in noted if path in one["path"] and method in ("", one["method"])]


def ids(item: Json) -> Json:
    """What every tool wants to know about a file."""
    return {"drive_id": item["parentReference"]["driveId"], "item_id": item["id"], "name": item["name"]}


def opened(text: str) -> str:
    """What lies in an envelope; fails when there is none."""
    found = _ENVELOPE.fullmatch(text)
    assert found, text
    return found[1]


@asynccontextmanager
async def refused(kind: str) -> AsyncIterator[Json]:
    """Expect a tool to fail with this type; the error is filled in for a closer look."""
    error: Json = {}
    with pytest.raises(ToolFailed) as failed:
        yield error
    error.update(failed.value.error)
    assert error["type"] == kind, error
    assert error["message"]
    assert error["remedy"], error


async def upload(agent: Agent, content: bytes, name: str = "a.bin", **more: Any) -> Json:
    text = base64.b64encode(content).decode()
    more = {"target_type": "onedrive", **more}
    return dict(await agent.call("upload_file", file_name=name, content_base64=text, **more))
