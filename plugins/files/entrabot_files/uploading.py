"""Bytes to a drive: one request for little, an upload session in fragments for much.

Until the last fragment has arrived nobody sees anything of a file. What was sent and not answered is looked up.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import anyio

from entrabot_files.errors import (
    FileNotFoundError,
    UploadFailedError,
    UploadOutcomeUnknownError,
    explained,
    typed,
)
from entrabot_files.params import Behaviour
from entrabot_files.sessions import Gone, SessionUpload
from entrabot_files.sources import Source
from entrabot_files.targets import Target
from entrabot_host import GraphResponse, GraphUnavailable, Host

SESSION_FROM = 5 * 1024 * 1024
TRIES = 3
BEHAVIOUR = "@microsoft.graph.conflictBehavior"

_PUT_SECONDS = 120.0
_CLOCK_SLACK = timedelta(seconds=3)
_FIELDS = "id,name,size,file,parentReference,webUrl,lastModifiedDateTime,lastModifiedBy"

Report = Callable[[int, int], Awaitable[None]]
"""Told the bytes that have arrived, and how many there are."""


class Uploads:
    """Uploads to Graph. Makes items, raises typed errors, leaves nothing half-visible."""

    def __init__(
        self, host: Host, ca_bundle: str = "", sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self._host = host
        self._ca_bundle = ca_bundle
        self._sleep = sleep

    async def upload(
        self, target: Target, source: Source, behaviour: Behaviour, report: Report
    ) -> tuple[dict[str, Any], bool]:
        """Store the bytes; return Graph's item and whether it is a new one.

        Raises `FileExistsError` (behaviour ``fail``), `UploadFailedError`, `UploadOutcomeUnknownError` and what
        `explained` raises.
        """
        started = time.monotonic()
        if source.size < SESSION_FROM:
            answer = await self._small(target, source, behaviour, started)
        else:
            answer = await self._large(target, source, behaviour, report, started)
        await report(source.size, source.size)
        return answer

    async def _small(
        self, target: Target, source: Source, behaviour: Behaviour, started: float
    ) -> tuple[dict[str, Any], bool]:
        content = await source.read(0, source.size)
        for tried in range(1, TRIES + 1):
            try:
                return _item_of(await self._put(target, content, behaviour))
            except GraphUnavailable as error:
                if error.outcome_unknown:
                    if found := await self._settled(target, started):
                        return found, True
                    if behaviour == "rename":
                        raise UploadOutcomeUnknownError(
                            "The file was sent and no answer came. It may be there, under a name with a number."
                        ) from None
                if tried == TRIES:
                    raise
            await self._sleep(2.0 ** (tried - 1))
        raise AssertionError("unreachable")

    async def _put(self, target: Target, content: bytes, behaviour: Behaviour) -> GraphResponse:
        with explained():
            return await self._host.graph.request(
                "PUT",
                target.verb("content"),
                params={BEHAVIOUR: behaviour},
                content=content,
                headers={"Content-Type": target.content_type},
                timeout=_PUT_SECONDS,
            )

    async def _large(
        self, target: Target, source: Source, behaviour: Behaviour, report: Report, started: float
    ) -> tuple[dict[str, Any], bool]:
        """Upload in a session; one that Microsoft lost is begun anew, once."""
        if behaviour == "fail":
            await self._check_free(target)
        for restart in (False, True):
            session = SessionUpload(self._host.graph, await self._open(target, behaviour), self._ca_bundle, self._sleep)
            try:
                return _item_of(await session.run(source, report))
            except Gone as gone:
                if gone.may_be_complete:
                    if found := await self._settled(target, started):
                        return found, True
                    if behaviour == "rename":
                        raise UploadOutcomeUnknownError(
                            "All of the file was sent and no answer came. It may be there, under a name with a number."
                        ) from None
                if restart:
                    raise UploadFailedError("Microsoft gave the upload up twice. Nothing of it is visible.") from None
        raise AssertionError("unreachable")

    async def _check_free(self, target: Target) -> None:
        """Raise `FileExistsError` early: a session would find out with its last fragment."""
        try:
            with explained():
                await self._host.graph.request("GET", target.item, params={"$select": "id"})
        except FileNotFoundError:
            return
        raise typed(409, "Something of this name exists already.", "nameAlreadyExists")

    async def _open(self, target: Target, behaviour: Behaviour) -> str:
        """Begin a session and return its address, which is a secret. Repeating it does no harm."""
        wish = {"item": {BEHAVIOUR: behaviour, "name": target.name}}
        for tried in range(1, TRIES + 1):
            try:
                with explained():
                    answer = await self._host.graph.request("POST", target.verb("createUploadSession"), json=wish)
            except GraphUnavailable:
                if tried == TRIES:
                    raise
            else:
                url = answer.body.get("uploadUrl") if isinstance(answer.body, dict) else None
                if isinstance(url, str) and url:
                    return url
                raise typed(answer.status, "Microsoft Graph gave no address for the upload.")
            await self._sleep(2.0 ** (tried - 1))
        raise AssertionError("unreachable")

    async def _settled(self, target: Target, started: float) -> dict[str, Any] | None:
        """Return the file if it was written by us since ``started``: then what got no answer was carried out."""
        began = time.monotonic()
        try:
            with explained():
                answer = await self._host.graph.request("GET", target.item, params={"$select": _FIELDS})
        except FileNotFoundError:
            return None
        item = answer.body if isinstance(answer.body, dict) else {}
        since = _served(answer.headers) - timedelta(seconds=began - started) - _CLOCK_SLACK
        editor = ((item.get("lastModifiedBy") or {}).get("user") or {}).get("id")
        me = await self._host.identity.me()
        ours = editor in (None, me.user_id)
        return item if ours and _moment(item.get("lastModifiedDateTime")) >= since else None


def _item_of(answer: GraphResponse) -> tuple[dict[str, Any], bool]:
    body = answer.body
    if not isinstance(body, dict) or not body.get("id"):
        raise UploadOutcomeUnknownError("Microsoft took the file, but its answer could not be read.")
    return body, answer.status == 201


def _served(headers: Mapping[str, str]) -> datetime:
    try:
        return parsedate_to_datetime(headers.get("date", "")).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)


def _moment(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
