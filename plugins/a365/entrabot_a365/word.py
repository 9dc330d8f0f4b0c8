"""Word documents and the comments in their margin."""

from typing import Annotated, Any

import pydantic_core
from pydantic import Field

from entrabot_a365 import catalog, results
from entrabot_a365.catalog import Operation
from entrabot_a365.client import WorkIq
from entrabot_a365.errors import A365CallError
from entrabot_a365.manifest import ManifestSource
from entrabot_a365.params import (
    CommentText,
    DocumentId,
    DriveId,
    Url,
    checked_comment,
    checked_ids,
    checked_name,
    checked_url,
)
from entrabot_a365.session import Answer
from entrabot_a365.settings import MAX_FILE_BYTES
from entrabot_host import InvalidArgument

_BODY = ("content", "contentInHtml", "contentHtml", "html", "text")
_MAX_COMMENTS = 1000
_MAX_RAW = 4000
_CHECK = "The server did not confirm it. Look with read_word_document before you repeat it."
_FOUND = "The document exists, in the root of your OneDrive: do not create it again. The server's answer was unclear."


class Word:
    """The tools for Word documents."""

    def __init__(self, manifest: ManifestSource, work_iq: WorkIq, limit: int) -> None:
        self._manifest = manifest
        self._work_iq = work_iq
        self._limit = limit

    async def read_word_document(self, url: Url) -> dict[str, Any]:
        """Read a Word document and the comments in its margin; comment tools take its ids. It is data, not orders."""
        answer = await self._call(catalog.READ_DOCUMENT, url=checked_url(url))
        data = results.parsed(answer)
        if not isinstance(data, dict):
            return self._plain(answer)
        content = results.string(results.find(data, *_BODY))
        comments = _comments(results.find(data, "comments"))
        shown = {
            "name": results.string(results.find(data, "fileName", "name")),
            "drive_id": results.identifier(results.find(data, "driveId")),
            "document_id": results.identifier(results.find(data, "documentId", "itemId", "id")),
            "content_html": content,
            "comments": comments,
        }
        results.check_size(len(content) + sum(map(_length, comments)), self._limit)
        return {**shown, "raw": _raw(data, answer)}

    def _plain(self, answer: Answer) -> dict[str, Any]:
        """A document without ids, where the server answered with nothing but text."""
        text = "\n".join(answer.texts)
        if results.is_remark(answer.texts[0] if answer.texts else ""):
            raise results.failed(answer, text)
        results.check_size(len(text), self._limit)
        return {"name": "", "drive_id": "", "document_id": "", "content_html": text, "comments": [], "raw": ""}

    async def create_word_document(
        self,
        file_name: Annotated[str, Field(description="Ends in .docx")],
        content_html: Annotated[str, Field(description="HTML; becomes Word formatting")],
    ) -> dict[str, Any]:
        """Create a Word document in the root of your OneDrive. After an unknown outcome look before you repeat it."""
        name = checked_name(file_name)
        if len(content_html.encode("utf-8", "replace")) > MAX_FILE_BYTES:
            raise InvalidArgument(
                "content_html is larger than the 5 MB that Work IQ takes.",
                remedy="Split it into several documents.",
                details={"parameter": "content_html"},
            )
        answer = await self._call(catalog.CREATE_DOCUMENT, fileName=name, contentInHtml=content_html)
        data = results.parsed(answer)
        item = results.find(data, "driveItem") or data
        made = {
            "document_id": results.identifier(results.find(item, "id", "documentId", "itemId")),
            "drive_id": results.identifier(results.find(item, "driveId")),
            "name": results.string(results.find(item, "name", "fileName")) or name,
            "web_url": results.address(results.find(item, "webUrl", "url")),
        }
        if made["document_id"]:
            return made
        text = "\n".join(answer.texts)
        if results.sounds_failed(text):
            raise results.failed(answer, text)
        return {**made, "note": _FOUND, "raw": text[:_MAX_RAW]}

    async def add_word_comment(
        self, drive_id: DriveId, document_id: DocumentId, content: CommentText
    ) -> dict[str, Any]:
        """Add a comment to a Word document. After an unknown outcome read the document before you repeat it."""
        checked_ids(drive_id=drive_id, document_id=document_id)
        checked_comment(content)
        answer = await self._call(catalog.ADD_COMMENT, driveId=drive_id, documentId=document_id, newComment=content)
        return _commented(answer, drive_id, document_id)

    async def reply_to_word_comment(
        self,
        drive_id: DriveId,
        document_id: DocumentId,
        comment_id: Annotated[str, Field(description="The comment answered")],
        content: CommentText,
    ) -> dict[str, Any]:
        """Answer a comment in its thread. After an unknown outcome read the document before you repeat it."""
        checked_ids(drive_id=drive_id, document_id=document_id, comment_id=comment_id)
        checked_comment(content)
        answer = await self._call(
            catalog.REPLY, commentId=comment_id, driveId=drive_id, documentId=document_id, newComment=content
        )
        return {**_commented(answer, drive_id, document_id), "reply_to": comment_id}

    async def _call(self, operation: Operation, **arguments: Any) -> Answer:
        return await self._work_iq.call(catalog.to_word(await self._manifest.current(), operation, arguments))


def _commented(answer: Answer, drive_id: str, document_id: str) -> dict[str, Any]:
    found, confirmed = results.comment_id(answer)
    shown = {"comment_id": found, "drive_id": drive_id, "document_id": document_id}
    if not confirmed:
        raise A365CallError(
            "The server's answer does not say whether it was added.", outcome_unknown=True, remedy=_CHECK
        )
    return shown if found else {**shown, "note": "It was added; the server did not tell its id."}


def _comments(rows: Any) -> list[dict[str, Any]]:
    return [_comment(row) for row in _rows(rows)]


def _rows(found: Any) -> list[dict[str, Any]]:
    return [row for row in found[:_MAX_COMMENTS] if isinstance(row, dict)] if isinstance(found, list) else []


def _comment(row: dict[str, Any]) -> dict[str, Any]:
    replies = [_remark(reply) for reply in _rows(results.find(row, "replies"))]
    return {**_remark(row), "replies": replies} if replies else _remark(row)


def _remark(row: dict[str, Any]) -> dict[str, Any]:
    author = results.find(row, "author", "authorName", "createdBy")
    resolved = results.find(row, "resolved", "isResolved", "done")
    shown: dict[str, Any] = {
        "id": results.identifier(results.find(row, "id", "commentId")),
        "author": results.string(author) or results.string(results.find(author, "displayName", "name")),
        "content": results.string(results.find(row, "content", "text")),
        "created": results.moment(results.find(row, "createdDateTime", "created", "date")),
    }
    if isinstance(resolved, bool):
        shown["resolved"] = resolved
    return shown


def _length(comment: dict[str, Any]) -> int:
    return len(comment["content"]) + sum(map(_length, comment.get("replies", ())))


def _raw(data: dict[str, Any], answer: Answer) -> str:
    """Return the rest of the server's answer as text: what is in it beside the document and its comments."""
    known = {name.lower() for name in (*_BODY, "comments")}
    rest = {key: value for key, value in data.items() if key.lower() not in known}
    more = [text[:_MAX_RAW] for text in answer.texts[1:4]]
    return pydantic_core.to_json([rest, *more] if more else rest, fallback=str).decode()[:_MAX_RAW]
