"""Sharing a file on a sponsor's word."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from entrabot_files.api import FilesApi
from entrabot_files.errors import ShareFailedError
from entrabot_files.params import DriveId, ItemId, Kind, MimeType, Name, SiteId
from entrabot_files.refs import kind_of
from entrabot_files.sites import Denylist
from entrabot_host import Conversation, Host, InvalidArgument

AUDIT_ACTION = "files.share"
_ADDRESS = re.compile(r"[^\s@<>\"'(),:;\\]{1,64}@[^\s@<>\"'(),:;\\]{1,190}\.[^\s@<>\"'(),:;\\.]{2,60}")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What Python counts as printable and nobody sees: an address with such a character reaches whom it does not show."""


class Sharing:
    """The tool that shares."""

    def __init__(self, host: Host, api: FilesApi, denylist: Denylist) -> None:
        self._host = host
        self._api = api
        self._denylist = denylist

    async def share_file(
        self,
        drive_id: DriveId,
        item_id: ItemId,
        name: Name,
        recipient_email: Annotated[str, Field(description="Who gets it")],
        requester_email: Annotated[str, Field(description="The sponsor who asked")],
        chat_id: Annotated[str, Field(description="Chat in which the sponsor asked")],
        role: Annotated[Literal["read", "write"], Field(description="Their right")] = "read",
        mime_type: MimeType = "application/octet-stream",
        kind: Kind = "sharepoint",
        site_id: SiteId = "",
    ) -> dict[str, Any]:
        """Share a file, only when a sponsor asked for it in chat_id just now."""
        recipient = recipient_email.strip()
        if not _ADDRESS.fullmatch(recipient) or not recipient.isprintable() or _UNSEEN.search(recipient):
            raise InvalidArgument(
                "recipient_email is not a mail address.",
                remedy="Pass one address, without a name.",
                details={"parameter": "recipient_email"},
            )
        self._denylist.check(site_id)
        chat = Conversation.chat(chat_id)
        sponsor = await self._host.identity.authorize(requester_email, chat, beneficiary=recipient)
        item = await self._api.item(drive_id, item_id)
        self._denylist.check_item(item)
        rows = await self._api.invite(drive_id, item_id, recipient, role)
        return {
            "shared": True,
            "drive_id": drive_id,
            "item_id": item_id,
            "name": str(item.get("name") or ""),
            "kind": kind_of(item),
            "recipient": recipient,
            "role": role,
            "permission_ids": _granted(rows, role),
            "on_behalf_of": sponsor.display_name,
        }


def _granted(rows: list[dict[str, Any]], role: str) -> list[str]:
    """Return the ids of the permissions. Raises `ShareFailedError` unless every row says that it was granted."""
    failed = [row["error"] for row in rows if isinstance(row.get("error"), dict)]
    if failed or not rows:
        code = re.sub(r"[^A-Za-z0-9]", "", str(failed[0].get("code") or ""))[:60] if failed else ""
        raise ShareFailedError(
            "Microsoft answered the invitation and did not share the file with the recipient.",
            remedy="The organisation may forbid sharing with this address. Ask its administrator, or name another one.",
            details={"code": code, "failed": len(failed), "granted": len(rows) - len(failed)},
        )
    if not any(role in (row.get("roles") or []) or "owner" in (row.get("roles") or []) for row in rows):
        raise ShareFailedError(
            "Microsoft shared the file, but not with the role that was asked for.",
            remedy="Look at the file's permissions; the recipient may have another role already.",
            details={"roles": [str(r)[:20] for row in rows for r in (row.get("roles") or [])][:5]},
        )
    return [str(row.get("id") or "") for row in rows]
