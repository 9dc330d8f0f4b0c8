"""Bytes to a drive: one request for little, an upload session in fragments for much.

Until the last fragment has arrived nobody sees anything of a file. What was sent and not answered is looked up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from entrabot_files.errors import (
    FileExistsError,
    FileNotFoundError,
    UploadFailedError,
    UploadOutcomeUnknownError,
    explained,
    typed,
)
from entrabot_files.fetching import Fetching
from entrabot_files.params import Behaviour
from entrabot_files.sessions import Gone, SessionUpload
from entrabot_files.sources import Source
from entrabot_files.targets import Target
from entrabot_host import GraphResponse, GraphUnavailable, Host

SESSION_FROM = 5 * 1024 * 1024
TRIES = 3
BEHAVIOUR = "@microsoft.graph.conflictBehavior"

_PUT_SECONDS = 120.0
_FIELDS = "id,name,size,file,folder,eTag,parentReference,webUrl,lastModifiedBy"

Report = Callable[[int, int], Awaitable[None]]
"""Told the bytes that have arrived, and how many there are."""


class Uploads:
    """Uploads to Graph. Makes items, raises typed errors, leaves nothing half-visible."""

    def __init__(
        self,
        host: Host,
        fetching: Fetching,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._host = host
        self._fetching = fetching
        self._sleep = sleep

    async def upload(
        self, target: Target, source: Source, behaviour: Behaviour, report: Report
    ) -> tuple[dict[str, Any], bool]:
        """Store the bytes; return Graph's item and whether it is a new one.

        Raises `FileExistsError` (behaviour ``fail``), `UploadFailedError`, `UploadOutcomeUnknownError` and what
        `explained` raises.
        """
        if source.size < SESSION_FROM:
            answer = await self._small(target, source, behaviour)
        else:
            answer = await self._large(target, source, behaviour, report)
        await report(source.size, source.size)
        return answer

    async def _small(self, target: Target, source: Source, behaviour: Behaviour) -> tuple[dict[str, Any], bool]:
        """Send all at once; again when no answer came, except where that might make a second file."""
        content = await source.read(0, source.size)
        unknown = False
        for tried in range(1, TRIES + 1):
            try:
                return _item_of(await self._put(target, content, behaviour))
            except FileExistsError:
                if unknown and await self._holds(target, content):
                    return await self._item(target), True
                raise
            except GraphUnavailable as error:
                unknown = unknown or error.outcome_unknown
                if unknown and behaviour == "rename":
                    raise _maybe_there() from None
                if tried == TRIES:
                    raise
            await self._sleep(2.0 ** (tried - 1))
        raise AssertionError("unreachable")

    async def _holds(self, target: Target, content: bytes) -> bool:
        """Whether the file that is there is the one that was sent."""
        found, more = await self._fetching.head(target.verb("content"), len(content))
        return found == content and not more

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
        self, target: Target, source: Source, behaviour: Behaviour, report: Report
    ) -> tuple[dict[str, Any], bool]:
        """Upload in a session; one that Microsoft lost is begun anew, once."""
        before = "" if behaviour == "rename" else await self._etag(target)
        if before and behaviour == "fail":  # a session would find out with its last fragment
            raise typed(409, "Something of this name exists already.", "nameAlreadyExists")
        for restart in (False, True):
            session = SessionUpload(self._host.graph, await self._open(target, behaviour), self._sleep)
            try:
                return _item_of(await session.run(source, report))
            except Gone as gone:
                if gone.may_be_complete and behaviour == "rename":
                    raise _maybe_there() from None
                if gone.may_be_complete and await self._is_ours(target, before):
                    return await self._item(target), not before
                if restart:
                    raise UploadFailedError("Microsoft gave the upload up twice. Nothing of it is visible.") from None
        raise AssertionError("unreachable")

    async def _etag(self, target: Target) -> str:
        """Return the version of the file that is there, empty when there is none."""
        try:
            return str((await self._item(target)).get("eTag") or "*")
        except FileNotFoundError:
            return ""

    async def _is_ours(self, target: Target, before: str) -> bool:
        """Whether the file came to be, or was changed, since it was looked at, and by us."""
        try:
            item = await self._item(target)
        except FileNotFoundError:
            return False
        editor = ((item.get("lastModifiedBy") or {}).get("user") or {}).get("id")
        me = await self._host.identity.me()
        return item.get("eTag") != before and editor in (None, me.user_id)

    async def _item(self, target: Target) -> dict[str, Any]:
        with explained():
            answer = await self._host.graph.request("GET", target.item, params={"$select": _FIELDS})
        return answer.body if isinstance(answer.body, dict) else {}

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


def _item_of(answer: GraphResponse) -> tuple[dict[str, Any], bool]:
    body = answer.body
    if not isinstance(body, dict) or not body.get("id"):
        raise UploadOutcomeUnknownError("Microsoft took the file, but its answer could not be read.")
    return body, answer.status == 201


def _maybe_there() -> UploadOutcomeUnknownError:
    return UploadOutcomeUnknownError(
        "The file was sent and no answer came. It may be there, under a name with a number."
    )
