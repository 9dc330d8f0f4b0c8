"""The requests to Graph that mail needs, in one place: paths, queries, preferences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from entrabot_email.wire import Mail, http_moment, iso, mail_of, mails_of
from entrabot_host import GraphError, GraphForbidden, GraphNotFound, Host

PAGE = 50
ID_REMEDY = "Take the message_id from a mail's push or from read_interactions (content_ref) exactly as it stands there."
_PREFER = {"Prefer": 'IdType="ImmutableId", outlook.body-content-type="text"'}
_LISTED = (
    "id,subject,from,sender,toRecipients,ccRecipients,replyTo,receivedDateTime,hasAttachments,bodyPreview,importance,"
    "conversationId,isDraft,internetMessageHeaders"
)
_WHOLE = f"{_LISTED},bccRecipients,sentDateTime,isRead,body"


@dataclass(frozen=True)
class Page:
    """One page of mail. served: when, on Graph's clock in whole seconds; None when the answer has no date."""

    mails: list[Mail]
    next: str
    served: datetime | None


class MailApi:
    """The agent's mailbox over the host's Graph facet. Methods raise `GraphError` and its kinds."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def service_time(self) -> datetime | None:
        """Return the time on Graph's clock, by asking for the inbox itself."""
        answer = await self._host.graph.request("GET", "/me/mailFolders/inbox", params={"$select": "id"})
        return http_moment(answer.headers.get("date", ""))

    async def inbox_since(self, since: datetime) -> Page:
        """Return what came into the inbox in the second of ``since`` or later, oldest first."""
        params = {
            "$filter": f"receivedDateTime ge {iso(since)}",
            "$orderby": "receivedDateTime",
            "$top": str(PAGE),
            "$select": _LISTED,
        }
        return await self._page("/me/mailFolders/inbox/messages", params)

    async def newest_sent(self) -> Page:
        """Return the newest mails in Sent Items, with their headers."""
        params = {"$orderby": "receivedDateTime desc", "$top": str(PAGE), "$select": _LISTED}
        return await self._page("/me/mailFolders/sentitems/messages", params)

    async def next_page(self, link: str) -> Page:
        """Follow a page's ``next``."""
        return await self._page(link, None)

    async def _page(self, path: str, params: dict[str, str] | None) -> Page:
        answer = await self._host.graph.request("GET", path, params=params, headers=_PREFER)
        body = answer.body if isinstance(answer.body, dict) else {}
        link = body.get("@odata.nextLink")
        served = http_moment(answer.headers.get("date", ""))
        return Page(mails_of(body.get("value")), link if isinstance(link, str) else "", served)

    async def read(self, message_id: str, mailbox: str = "") -> Mail:
        """Return one mail, its body as text. mailbox: a shared one's address, empty for the agent's own."""
        path = f"{_root(mailbox)}/messages/{quote(message_id, safe='')}"
        answer = await self._host.graph.request("GET", path, params={"$select": _WHOLE}, headers=_PREFER)
        mail = mail_of(answer.body)
        if mail is None:
            raise GraphError("Microsoft Graph's answer holds no mail.", remedy="Try again later.")
        return mail

    async def attachments(self, message_id: str, mailbox: str = "") -> list[dict[str, Any]]:
        """Return the attachments of a mail, without their contents."""
        path = f"{_root(mailbox)}/messages/{quote(message_id, safe='')}/attachments"
        answer = await self._host.graph.request("GET", path, params={"$select": "id,name,contentType,size,isInline"})
        rows = answer.body.get("value") if isinstance(answer.body, dict) else None
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    async def send(self, message: dict[str, Any]) -> None:
        """Send a new mail; Graph accepts it without telling an id."""
        await self._host.graph.request("POST", "/me/sendMail", json={"message": message})

    async def reply(self, message_id: str, message: dict[str, Any]) -> None:
        """Answer a mail in its thread."""
        path = f"/me/messages/{quote(message_id, safe='')}/reply"
        await self._host.graph.request("POST", path, json={"message": message}, headers=_PREFER)


def _root(mailbox: str) -> str:
    return f"/users/{quote(mailbox, safe='')}" if mailbox else "/me"


@contextmanager
def explained(*, shared: bool = False) -> Iterator[None]:
    """Give Graph's refusals a remedy that fits. shared: another mailbox than the agent's own was meant."""
    try:
        yield
    except GraphNotFound as error:
        if error.code == "ErrorInvalidUser" or "Mailbox" in error.code:
            error.remedy = "There is no such mailbox, or it has no Exchange licence. Check the address with its owner."
        else:
            error.remedy = f"It was deleted, or is in another mailbox (name a shared one in mailbox). {ID_REMEDY}"
        raise
    except GraphForbidden as error:
        error.remedy = (
            "The mailbox is not shared with the agent, or the permission Mail.Read.Shared is missing."
            if shared
            else "A mail permission of the agent is missing (whoami shows which), or its mailbox refuses it."
        )
        raise
    except GraphError as error:
        if error.code == "ErrorInvalidIdMalformed":
            error.remedy = f"This is not the id of a mail. {ID_REMEDY}"
        elif error.code == "ErrorInvalidRecipients":
            error.remedy = "Exchange does not take one of the addresses. Check them; nothing was sent."
        raise
