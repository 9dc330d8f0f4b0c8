"""Writes down what is done and what is heard, in the name of whoever is signed in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from entrabot_host.auth.provider import Attribution
from entrabot_host.discovery import HOST
from entrabot_host.errors import AttributionError, AuthError
from entrabot_host.host import Conversation, ConversationKind, Direction, Interaction, Message, Outcome, Sponsor

if TYPE_CHECKING:
    from entrabot_host.identity.authorization import Grant
    from entrabot_host.identity.bindings import Bindings
    from entrabot_host.identity.session import Session
    from entrabot_host.records.audit import AuditLog
    from entrabot_host.records.interactions import InteractionLog

log = logging.getLogger(__name__)
_SIGN_IN_SECONDS = 10.0
"""How long an audit line waits for a sign-in under way, to be attributed to the session rather than to the settings."""


class Recorder:
    """Audit lines, interactions, and the bindings that a sponsor's word makes.

    bindings: asked for when somebody has spoken, since they stand on a cloud that may be misconfigured.
    """

    def __init__(
        self,
        session: Session,
        audit_log: AuditLog,
        interactions: InteractionLog,
        bindings: Callable[[], Bindings],
    ) -> None:
        self._session = session
        self._audit_log = audit_log
        self._interactions = interactions
        self._bindings = bindings

    async def audit(
        self, plugin: str, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any]
    ) -> str:
        """Write one audit line; return its event id. Raises `AttributionError` when nobody can be named."""
        failure = await self._signed_in()
        me = self._session.known_principal
        attribution = me.attribution if me is not None else Attribution.NONE
        try:
            return await self._audit_log.write(
                action, resource, outcome, plugin=plugin, attribution=attribution, metadata=metadata
            )
        except AttributionError as error:
            if failure is None:
                raise
            raise AttributionError(f"{error.message} {failure.message}", remedy=failure.remedy) from None

    async def _signed_in(self) -> AuthError | None:
        """Wait a while for a sign-in under way; return why it failed, if it did."""
        try:
            async with asyncio.timeout(_SIGN_IN_SECONDS):
                await self._session.principal()
        except AuthError as error:
            return error
        except TimeoutError:
            log.debug("an audit line does not wait for signing in any longer")
        return None

    async def delivered(
        self, conversation: Conversation, message: Message, sponsor: Sponsor | None, live: bool
    ) -> None:
        """After the push: bind the sponsor to the conversation, if he spoke just now; and remember the message."""
        me = self._session.known_principal
        if sponsor is not None and live and me is not None and me.attribution is Attribution.AGENT:
            self._bindings().mint(sponsor, conversation, message.id, message.created)
        await self._interactions.append(
            Interaction(
                channel=_channel_of(conversation),
                direction=Direction.INBOUND,
                sender=message.sender_address or message.sender_name or message.sender_id,
                summary=message.text[:200],
                content_ref=message.id,
                metadata={"chat_id": conversation.id, "sender_id": message.sender_id, "sponsor": sponsor is not None},
            )
        )

    async def granted(self, grant: Grant) -> None:
        """Record on whose word something is done before it counts."""
        metadata = {
            "message_id": grant.message_id,
            "beneficiary": grant.beneficiary,
            "sponsor": grant.sponsor.object_id,
        }
        await self.audit(HOST, "sponsor.authorize", grant.conversation.id, Outcome.SUCCESS, metadata)


def _channel_of(conversation: Conversation) -> str:
    """Name the channel as the interaction log does; ids of 1:1 chats end like that (Graph's documentation of chats)."""
    if conversation.kind is ConversationKind.MAIL:
        return "email"
    return "teams_dm" if conversation.id.endswith("@unq.gbl.spaces") else "teams_group"
