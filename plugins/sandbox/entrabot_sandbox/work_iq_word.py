"""The tools of ``mcp_WordServer``: documents and the comments in their margin."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote
from uuid import uuid4

from entrabot_sandbox.clock import iso
from entrabot_sandbox.drive_shapes import item_object
from entrabot_sandbox.drives import Item
from entrabot_sandbox.word_comments import Comment
from entrabot_sandbox.word_documents import make_word_document, read_word_document
from entrabot_sandbox.work_iq_calls import Caller, Json, Tool, ToolFailure, as_text, pascal

Arguments = Mapping[str, str]
_ENDING = ".docx"


async def _read(caller: Caller, given: Arguments) -> list[str]:
    drive, item = await caller.by_url(given["url"])
    content = item.content or b""
    text = _document_text(item)
    document = {
        "fileName": item.name,
        "size": len(content),
        "driveId": drive.id,
        "documentId": item.id,
        "content": text,
        "comments": [_thread(first, replies) for first, replies in caller.state.comments.threads(item)],
    }
    return as_text(document)


async def _create(caller: Caller, given: Arguments) -> list[str]:
    name = given["fileName"].strip() or caller.state.clock.now().strftime("Document_%Y%m%d_%H%M%S.docx")
    name = name if name.lower().endswith(_ENDING) else name + _ENDING
    content = make_word_document(given["contentInHtml"])
    path = f"/me/drive/root:/{quote(name, safe='')}:/content"
    made = await caller.graph("PUT", path, "@microsoft.graph.conflictBehavior=rename", content)
    return as_text({"driveItem": pascal(item_object(*caller.located(made))), "sharedWith": None})


async def _comment(caller: Caller, given: Arguments) -> list[str]:
    item = await _commentable(caller, given)
    return _told(caller, caller.state.comments.add(item, caller.user, given["newComment"]), "Comment added")


async def _reply(caller: Caller, given: Arguments) -> list[str]:
    item = await _commentable(caller, given)
    comment = caller.state.comments.find(item, given["commentId"])
    if comment is None:
        raise ToolFailure(f"Comment with id {given['commentId']} was not found in the document.")
    return _told(caller, caller.state.comments.add(item, caller.user, given["newComment"], comment), "Reply added")


async def _commentable(caller: Caller, given: Arguments) -> Item:
    drive, item = await caller.by_id(given["driveId"], given["documentId"])
    _document_text(item)
    if "write" not in caller.state.drives.rights(drive, item, caller.user):
        raise ToolFailure("accessDenied: Access denied")
    if item.locked:
        raise ToolFailure("resourceLocked: The resource you are attempting to access is locked.")
    if not given["newComment"].strip():
        raise ToolFailure("invalidRequest: The comment is empty.")
    return item


def _document_text(item: Item) -> str:
    if item.content is None or not item.name.lower().endswith(_ENDING):
        raise ToolFailure(f"'{item.name}' is not a .docx file.")
    try:
        return read_word_document(item.content)
    except ValueError as error:
        raise ToolFailure(str(error)) from error


def _told(caller: Caller, comment: Comment, done: str) -> list[str]:
    """What the server says of a new comment: no JSON, and in an earlier form not even its id."""
    if not caller.state.work_iq.comment_ids:
        return [f"{done} successfully."]
    stamp = caller.state.clock.now().strftime("%Y-%m-%d_%H:%M:%S")
    return [
        f"WordCommentInfo [CommentId={comment.id}, Content={comment.text}]",
        f"CorrelationId: {uuid4()}, TimeStamp: {stamp}",
    ]


def _thread(first: Comment, replies: list[Comment]) -> Json:
    return {**_shown(first), "replies": [_shown(reply) for reply in replies]}


def _shown(comment: Comment) -> Json:
    return {
        "id": comment.id,
        "content": comment.text,
        "author": comment.author.name,
        "createdDateTime": iso(comment.created),
    }


_DOCUMENT = {"driveId": "The drive's id.", "documentId": "The document's id."}

TOOLS = (
    Tool(
        "WordGetDocumentContent",
        "Get the text of a Word document and all comments in it.",
        {"url": "The sharing URL of the document, in SharePoint or OneDrive."},
        _read,
        "GetDocumentContent",
    ),
    Tool(
        "WordCreateNewDocument",
        "Create a Word document in the root of the user's OneDrive.",
        {"fileName": "The file's name; may be empty.", "contentInHtml": "The content, HTML or plain text."},
        _create,
        "CreateDocument",
    ),
    Tool(
        "WordCreateNewComment",
        "Add a comment to a Word document.",
        {**_DOCUMENT, "newComment": "The comment."},
        _comment,
        "AddComment",
    ),
    Tool(
        "WordReplyToComment",
        "Reply to a comment in a Word document.",
        {"commentId": "The comment's id.", **_DOCUMENT, "newComment": "The reply."},
        _reply,
        "ReplyToComment",
    ),
)
