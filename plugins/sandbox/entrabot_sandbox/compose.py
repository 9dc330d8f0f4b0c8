"""What Graph demands of a message that is sent or edited."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from entrabot_sandbox.conversations import Draft
from entrabot_sandbox.errors import GraphError, bad_request, forbidden
from entrabot_sandbox.odata import words
from entrabot_sandbox.rewriting import stored

MAX_BYTES = 28 * 1024
MAX_IMAGE_BYTES = 4 * 1024 * 1024
IMPORTANCES = ("normal", "high", "urgent")

_PROPERTIES = frozenset(
    words(
        "attachments body channelIdentity chatId createdDateTime deletedDateTime etag eventDetail from hostedContents "
        "id importance lastEditedDateTime lastModifiedDateTime locale mentions messageHistory messageType "
        "policyViolation reactions replies replyToId subject summary webUrl"
    )
)
_ATTACHMENT = frozenset(["content", "contentType", "contentUrl", "id", "name", "teamsAppId", "thumbnailUrl"])
_IDENTITY = {
    "application": ("id", "displayName", "applicationIdentityType"),
    "device": ("id", "displayName"),
    "user": ("id", "displayName", "userIdentityType", "tenantId"),
    "conversation": ("id", "displayName", "conversationIdentityType"),
}
_MENTIONED = tuple(_IDENTITY)
_HOSTED_SOURCE = re.compile(r"^(?:\.\./)?hostedContents/([^/]+)/\$value$")

Json = dict[str, Any]


def new_draft(payload: Any) -> Draft:
    """The content of a POST. Raises GraphError where Graph refuses it."""
    _check_properties(payload)
    if "body" not in payload:
        raise bad_request("Missing body content.")
    return _draft(payload, Draft(""))


def edited_draft(payload: Any, before: Draft) -> Draft:
    """The content of a message after a PATCH. Raises GraphError where Graph refuses it."""
    _check_properties(payload)
    if payload.get("policyViolation") is not None:
        raise forbidden("policyViolation can't be updated in delegated context.")
    return _draft(payload, before)


def image_sources(draft: Draft) -> list[str]:
    """The temporary ids of hosted content that the body shows, in order."""
    sources = [attributes.get("src", "") for tag, attributes in _tags(draft) if tag == "img"]
    return [match[1] for match in map(_HOSTED_SOURCE.match, sources) if match]


def _draft(payload: Json, before: Draft) -> Draft:
    content, content_type = _body(payload["body"]) if "body" in payload else (before.content, before.content_type)
    draft = Draft(
        content,
        content_type,
        [_mention(m) for m in _objects(payload, "mentions")] if "mentions" in payload else _kept(payload, before),
        [_attachment(a) for a in _objects(payload, "attachments")] if "attachments" in payload else before.attachments,
        dict(_hosted(item) for item in _objects(payload, "hostedContents")) or before.hosted,
        payload.get("importance") or before.importance,
        payload.get("subject", before.subject),
    )
    if "attachments" not in payload:
        referenced = {a.get("id") for tag, a in _tags(draft) if tag == "attachment"}
        draft.attachments = [a for a in draft.attachments if a["id"] in referenced]
    if draft.importance not in IMPORTANCES:
        raise bad_request("importance is not one of its enumeration's members.")
    if not isinstance(draft.subject, str | None):
        raise bad_request("subject must be a string.")
    _check_references(draft, new_images="hostedContents" in payload)
    _check_size(draft)
    if draft.content_type == "html" and "body" in payload:
        draft.content = stored(draft.content)
    return draft


def _kept(payload: Json, before: Draft) -> list[Json]:
    return [] if "body" in payload else before.mentions


def _check_properties(payload: Any) -> None:
    if not isinstance(payload, dict):
        raise bad_request("The request body is not a chatMessage.")
    for name in payload:
        if not name.startswith("@") and "@odata" not in name and name not in _PROPERTIES:
            raise bad_request(f"The property '{name}' does not exist on type 'microsoft.graph.chatMessage'.")


def _body(body: Any) -> tuple[str, str]:
    if not isinstance(body, dict) or not isinstance(body.get("content"), str):
        raise bad_request("Missing body content.")
    content_type = body.get("contentType") or "text"
    if content_type not in ("text", "html"):
        raise bad_request("contentType must be text or html.")
    return body["content"], content_type


def _objects(payload: Json, name: str) -> list[Json]:
    items = payload.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise bad_request(f"{name} must be a collection of objects.")
    return items


def _mention(mention: Json) -> Json:
    mentioned = mention.get("mentioned")
    if type(mention.get("id")) is not int or not isinstance(mention.get("mentionText"), str):
        raise bad_request("A mention needs an integer id and a mentionText.")
    if not isinstance(mentioned, dict) or sum(bool(mentioned.get(kind)) for kind in _MENTIONED) != 1:
        raise bad_request("A mention must name exactly one identity.")
    identities = {kind: _identity(kind, mentioned.get(kind)) for kind in _MENTIONED}
    return {"id": mention["id"], "mentionText": mention["mentionText"], "mentioned": identities}


def _identity(kind: str, identity: Any) -> Json | None:
    if not identity:
        return None
    names = _IDENTITY[kind]
    if not isinstance(identity, dict) or not isinstance(identity.get("id"), str) or not identity["id"]:
        raise bad_request("The mentioned identity has no id.")
    if any(name not in names and "@odata" not in name for name in identity):
        raise bad_request("The mentioned identity has a property that its type does not know.")
    given = {name: identity.get(name) for name in names if name != "tenantId" or name in identity}
    if kind == "user":
        given["userIdentityType"] = given["userIdentityType"] or "aadUser"
        given["@odata.type"] = "#microsoft.graph.teamworkUserIdentity"
    return given


def _attachment(attachment: Json) -> Json:
    unknown = [name for name in attachment if name not in _ATTACHMENT and "@odata" not in name]
    if unknown:
        raise bad_request(f"The property '{unknown[0]}' does not exist on 'microsoft.graph.chatMessageAttachment'.")
    if not isinstance(attachment.get("id"), str) or not isinstance(attachment.get("contentType"), str):
        raise bad_request("An attachment needs an id and a contentType.")
    if attachment.get("content") is not None and attachment.get("contentUrl") is not None:
        raise bad_request("An attachment has either content or contentUrl.")
    if not isinstance(attachment.get("content"), str | None):
        raise bad_request("An attachment's content must be a string.")
    names = ("id", "contentType", "contentUrl", "content", "name", "thumbnailUrl", "teamsAppId")
    return {name: attachment.get(name) for name in names}


def _hosted(item: Json) -> tuple[str, tuple[str, bytes]]:
    name, content_type = item.get("@microsoft.graph.temporaryId"), item.get("contentType")
    if not isinstance(name, str) or not isinstance(content_type, str):
        raise bad_request("Hosted content needs @microsoft.graph.temporaryId and contentType.")
    try:
        content = base64.b64decode(item.get("contentBytes") or "", validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request("contentBytes is not base64.") from error
    if not content:
        raise bad_request("Hosted content needs contentBytes.")
    if len(content) > MAX_IMAGE_BYTES:
        raise _too_large("Hosted content is too large.")
    return name, (content_type, content)


def _check_references(draft: Draft, *, new_images: bool) -> None:
    tags = list(_tags(draft))
    _check_same("mention", [str(m["id"]) for m in draft.mentions], [a.get("id", "") for tag, a in tags if tag == "at"])
    referenced = [a.get("id", "") for tag, a in tags if tag == "attachment"]
    _check_same("attachment", [a["id"] for a in draft.attachments], referenced)
    if new_images:
        _check_same("hosted content", list(draft.hosted), image_sources(draft))
    if not draft.content.strip() and not draft.attachments:
        raise bad_request("Missing body content.")


def _check_same(what: str, declared: list[str], used: list[str]) -> None:
    if len(set(declared)) != len(declared):
        raise bad_request(f"Every {what} needs an id of its own.")
    if set(declared) != set(used):
        raise bad_request(f"Every {what} must be referenced in the body, and every reference needs its {what}.")


def _check_size(draft: Draft) -> None:
    texts: Iterable[str] = [draft.content, *(a["content"] or "" for a in draft.attachments)]
    if sum(len(text.encode()) for text in texts) > MAX_BYTES:
        raise _too_large("The message is too large.")


def _too_large(message: str) -> GraphError:
    return GraphError(413, "RequestEntityTooLarge", message)


def _tags(draft: Draft) -> list[tuple[str, dict[str, str]]]:
    if draft.content_type != "html":
        return []
    collector = _TagCollector()
    collector.feed(draft.content)
    collector.close()
    return collector.tags


class _TagCollector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
