"""May this be done on a sponsor's authority, here and now?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from entrabot_host.errors import (
    GraphNotFound,
    NoActiveSponsorChannelError,
    RequesterNotInChatError,
    RequesterNotSponsorError,
    SponsorChannelMismatchError,
)
from entrabot_host.host import Conversation, ConversationKind, Graph, Sponsor
from entrabot_host.identity.addresses import decode_guest, may_be_same
from entrabot_host.identity.bindings import Binding, Bindings
from entrabot_host.identity.session import Session
from entrabot_host.identity.speakers import Speaker, TooMuchToRead, addresses_of, is_member, speakers_since
from entrabot_host.identity.sponsors import SponsorDirectory

_MOMENT = 1.0
"""Seconds in which the binding of a message that was just pushed may still come."""


@dataclass(frozen=True)
class Grant:
    """What was granted: on whose authority, in which conversation, by which of the sponsor's messages."""

    sponsor: Sponsor
    conversation: Conversation
    message_id: str
    beneficiary: str


class Authorizer:
    """Makes the checks, in this order; whatever cannot be established refuses.

    1. The requester's address names a sponsor.
    2. The agent was handed a message of that sponsor lately, and the last one was in this conversation.
    3. The sponsor is a member of the chat, by object id.
    4. The beneficiary has not spoken there since: what looks like the sponsor's wish may be his own.

    granted: awaited with every grant before it counts; what it raises refuses.
    """

    def __init__(
        self,
        session: Session,
        directory: SponsorDirectory,
        bindings: Bindings,
        graph: Graph,
        *,
        granted: Callable[[Grant], Awaitable[object]] | None = None,
    ) -> None:
        self._session = session
        self._directory = directory
        self._bindings = bindings
        self._graph = graph
        self._granted = granted

    async def authorize(self, requester_email: str, conversation: Conversation, beneficiary: str = "") -> Grant:
        """Grant or raise: `AuthorizationError` with the reason, `AuthError` or `GraphError` when it stays unknown."""
        sponsors = await self._directory.named(requester_email)
        if not sponsors:
            raise RequesterNotSponsorError("The requester's address belongs to no sponsor of this agent.")
        sponsor, binding = await self._bound_in_a_moment(sponsors, conversation)
        await self._check_member(sponsor, conversation)
        if beneficiary.strip():
            await self._check_beneficiary(sponsor, binding, beneficiary)
        if self._bindings.live(sponsor.object_id) != binding:  # Graph's answers have just set the clock right
            raise NoActiveSponsorChannelError("The sponsor's message has meanwhile grown too old, or is not the last.")
        grant = Grant(sponsor, conversation, binding.message_id, beneficiary)
        if self._granted:
            await self._granted(grant)
        return grant

    async def _bound_in_a_moment(
        self, sponsors: Sequence[Sponsor], conversation: Conversation
    ) -> tuple[Sponsor, Binding]:
        try:
            return self._bound(sponsors, conversation)
        except (NoActiveSponsorChannelError, SponsorChannelMismatchError):
            await self._bindings.next(_MOMENT)
            return self._bound(sponsors, conversation)

    def _bound(self, sponsors: Sequence[Sponsor], conversation: Conversation) -> tuple[Sponsor, Binding]:
        """Choose among sponsors who share the address the one who spoke here."""
        if conversation.kind is not ConversationKind.CHAT:
            raise NoActiveSponsorChannelError(
                "Mail does not prove its sender, so nothing can be authorized in it.",
                remedy="Ask the sponsor to confirm in a Teams chat, and name that chat.",
            )
        live = [(sponsor, binding) for sponsor in sponsors if (binding := self._bindings.live(sponsor.object_id))]
        if not live:
            raise NoActiveSponsorChannelError("The sponsor has not written to the agent lately enough.")
        here = [(sponsor, binding) for sponsor, binding in live if binding.conversation == conversation]
        if not here:
            raise SponsorChannelMismatchError("The sponsor's last message to the agent came in another conversation.")
        return here[0]

    async def _check_member(self, sponsor: Sponsor, conversation: Conversation) -> None:
        own = (await self._session.principal()).tenant_id.lower()
        try:
            member = await is_member(self._graph, conversation.id, sponsor, own)
        except GraphNotFound:
            member = False
        if not member:
            raise RequesterNotInChatError(
                "The sponsor is not a member of this chat.", remedy="Ask the sponsor in a chat that both of you are in."
            )

    async def _check_beneficiary(self, sponsor: Sponsor, binding: Binding, beneficiary: str) -> None:
        try:
            speakers = await speakers_since(self._graph, binding.conversation.id, binding.created)
        except TooMuchToRead:
            raise NoActiveSponsorChannelError("Too much was said in this chat since the sponsor's message.") from None
        for speaker in speakers:
            if await self._may_be(speaker, sponsor, beneficiary):
                raise NoActiveSponsorChannelError(
                    "After the sponsor's message somebody spoke in this chat who is, or may be, the person who gains "
                    "by this.",
                    remedy="Ask the sponsor to confirm in this chat, naming that person, and try again afterwards.",
                )

    async def _may_be(self, speaker: Speaker, sponsor: Sponsor, beneficiary: str) -> bool:
        """Whether a later speaker may be the beneficiary. One whose addresses are unknown may be anybody."""
        if not speaker.user_id:
            return True
        me = await self._session.principal()
        own = me.tenant_id.lower()
        if speaker.user_id == me.user_id.lower() and speaker.tenant_id in {"", own}:
            return False
        if known := await self._directory.sponsor_of(speaker.user_id, speaker.tenant_id):
            if known.object_id == sponsor.object_id:
                return False
            forms = known.addresses
        elif speaker.tenant_id in {"", own}:
            forms = await addresses_of(self._graph, speaker.user_id)
        else:
            return True
        meant = [name for name in (beneficiary, decode_guest(beneficiary)) if name]
        return not forms or any(may_be_same(form, name) for form in (*forms, speaker.user_id) for name in meant)
