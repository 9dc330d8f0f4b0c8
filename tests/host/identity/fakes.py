"""Stand-ins for what identity is built on: auth providers, Graph, a store, a clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from entrabot_host.auth.provider import Attribution, Principal, Token
from entrabot_host.errors import ConcurrencyError, GraphError, GraphNotFound
from entrabot_host.host import BatchRequest, Entry, GraphResponse

OWN = "00000000-0000-0000-0000-00000000000a"
ELSEWHERE = "00000000-0000-0000-0000-00000000000b"
AGENT = "00000000-0000-0000-0000-000000000001"
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def guid(number: int) -> str:
    return f"00000000-0000-0000-0001-{number:012d}"


def principal(attribution: Attribution = Attribution.AGENT, name: str = "fake") -> Principal:
    agent_id = guid(900) if attribution is Attribution.AGENT else ""
    return Principal(AGENT, "sati@contoso.example", OWN, agent_id, attribution, name)


class FakeProvider:
    """Signs in with a given outcome, after ``gate``."""

    def __init__(
        self,
        outcome: Principal | Exception,
        *,
        name: str = "fake",
        priority: int = 100,
        reason: str | None = None,
    ) -> None:
        self.outcome, self.name, self.priority, self.reason = outcome, name, priority, reason
        self.sign_ins = 0
        self.closed = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[tuple[str, ...]] = []

    def unavailable(self) -> str | None:
        return self.reason

    async def sign_in(self) -> Principal:
        self.sign_ins += 1
        await self.gate.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        self.asked.append(("token", audience, rejected, claims))
        return Token(f"{self.name} {audience}", time.monotonic() + 3600)

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        self.asked.append(("app", audience, rejected))
        return Token(f"{self.name} app {audience}", time.monotonic() + 3600)

    async def aclose(self) -> None:
        self.closed = True


class FakeGraph:
    """Answers from tables. A value that is an exception is raised; ``asked`` lists the requests in order."""

    def __init__(self) -> None:
        self.collections: dict[str, list[list[dict[str, Any]]] | Exception] = {}
        self.users: dict[str, dict[str, Any] | GraphError] = {}
        self.asked: list[str] = []

    async def pages(self, path: str, *, max_pages: int = 20, **options: Any) -> AsyncIterator[list[dict[str, Any]]]:
        self.asked.append(path)
        found = self.collections.get(path, GraphNotFound("no such collection", status=404))
        if isinstance(found, Exception):
            raise found
        for page in found[:max_pages]:
            yield page

    async def request(self, method: str, path: str, **options: Any) -> GraphResponse:
        self.asked.append(path)
        answer = self._user(path)
        if isinstance(answer, GraphError):
            raise answer
        return answer

    async def batch(self, requests: Sequence[BatchRequest]) -> list[GraphResponse | GraphError]:
        return [self._user(request.path) for request in requests]

    def _user(self, path: str) -> GraphResponse | GraphError:
        user_id = path.removeprefix("/users/").partition("?")[0]
        found = self.users.get(user_id, GraphNotFound("no such user", status=404))
        return found if isinstance(found, GraphError) else GraphResponse(200, {}, {"id": user_id, **found})


class MemoryStore:
    """Compare-and-swap over a dict. ``before_write`` runs once before the next write."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, str]] = {}
        self.failure: Exception | None = None
        self.before_write: Any = None
        self.writes = 0

    async def read(self, key: str) -> Entry | None:
        if self.failure:
            raise self.failure
        found = self.values.get(key)
        return Entry(found[0], found[1], 0.0) if found else None

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        if self.failure:
            raise self.failure
        if hook := self.before_write:
            self.before_write = None
            hook()
        present = self.values.get(key)
        if (if_absent and present) or (if_match and (not present or present[1] != if_match)):
            raise ConcurrencyError("another version")
        self.put(key, data)
        return self.values[key][1]

    def put(self, key: str, data: bytes) -> None:
        self.writes += 1
        self.values[key] = (data, f"etag-{self.writes}")


class Seconds:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ServiceTime:
    """The service's clock, moved by hand."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment

    def forward(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def message(sender: Mapping[str, Any] | None, created: datetime, **more: Any) -> dict[str, Any]:
    """A chatMessage. sender: what ``from`` holds."""
    at = created.isoformat().replace("+00:00", "Z")
    base = {"id": at, "messageType": "message", "createdDateTime": at, "lastModifiedDateTime": at, "from": sender}
    return {**base, "lastEditedDateTime": None, **more}


def user(user_id: str, tenant_id: str = OWN) -> dict[str, Any]:
    return {"application": None, "user": {"id": user_id, "tenantId": tenant_id, "displayName": "Somebody"}}
