"""The checks of an authorization, with messages and members that no tenant hands out on demand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from entrabot_host.errors import (
    AuthorizationError,
    EntrabotError,
    GraphError,
    GraphForbidden,
    GraphNotFound,
    GraphUnavailable,
    NoActiveSponsorChannelError,
    RequesterNotInChatError,
    RequesterNotSponsorError,
    SponsorChannelMismatchError,
)
from entrabot_host.host import Conversation, Sponsor
from entrabot_host.identity.authorization import Authorizer, Grant
from entrabot_host.identity.bindings import Bindings
from entrabot_host.identity.session import Session
from entrabot_host.identity.settings import SponsorSettings
from entrabot_host.identity.sponsors import SponsorDirectory

from .fakes import (
    AGENT,
    ELSEWHERE,
    OWN,
    START,
    FakeGraph,
    FakeProvider,
    MemoryStore,
    ServiceTime,
    guid,
    message,
    principal,
    user,
)

AGENT_OBJECT = guid(99)
LIST = f"/servicePrincipals/{AGENT_OBJECT}/microsoft.graph.agentIdentity/sponsors"
ALICE, CAROL, BOB, MALLORY = guid(1), guid(2), guid(3), guid(4)
CAROL_HOME = guid(22)
CHAT, OTHER = Conversation.chat("19:a@thread.v2"), Conversation.chat("19:b@thread.v2")
MEMBERS, MESSAGES = "/chats/19%3Aa%40thread.v2/members", "/chats/19%3Aa%40thread.v2/messages"


def directory_user(address: str, **more: Any) -> dict[str, Any]:
    return {"userPrincipalName": address, "mail": address, "proxyAddresses": [f"SMTP:{address}"], **more}


class World:
    def __init__(self) -> None:
        self.graph, self.now = FakeGraph(), ServiceTime(START + timedelta(seconds=30))
        sponsors = [{"id": who, "@odata.type": "#microsoft.graph.user"} for who in (ALICE, CAROL)]
        self.graph.collections = {LIST: [sponsors], MEMBERS: [[self.member(who) for who in (ALICE, BOB, AGENT)]]}
        self.graph.users = {
            ALICE: directory_user("alice@contoso.example"),
            BOB: directory_user("bob@contoso.example"),
            CAROL: directory_user("carol_fabrikam.example#EXT#@contoso.example"),
        }
        self.says(message(user(ALICE), START))
        values = {
            "ENTRABOT_AGENT_OBJECT_ID": AGENT_OBJECT,
            "ENTRABOT_SPONSOR_HOME_IDS": f"carol@fabrikam.example={CAROL_HOME}@{ELSEWHERE}",
        }
        session = Session([FakeProvider(principal())])
        settings = SponsorSettings.model_validate(values)
        directory = SponsorDirectory(session, self.graph, settings, MemoryStore())  # type: ignore[arg-type]
        self.bindings = Bindings(600, self.now)
        self.grants: list[Grant] = []
        self.authorizer = Authorizer(session, directory, self.bindings, self.graph, granted=self._note)  # type: ignore[arg-type]
        self.bind()

    async def _note(self, grant: Grant) -> None:
        self.grants.append(grant)

    def bind(self, who: str = ALICE, conversation: Conversation = CHAT, created: datetime = START) -> None:
        self.bindings.mint(Sponsor(who, who, frozenset()), conversation, "message-1", created)

    @staticmethod
    def member(user_id: str, tenant_id: str = OWN, **more: Any) -> dict[str, Any]:
        return {
            "userId": user_id,
            "tenantId": tenant_id,
            "email": "alice@contoso.example",
            "displayName": "Alice",
            **more,
        }

    def says(self, *messages: dict[str, Any]) -> None:
        self.graph.collections[MESSAGES] = [list(messages)]

    async def authorize(
        self, requester: str = "alice@contoso.example", conversation: Conversation = CHAT, beneficiary: str = ""
    ) -> str:
        grant = await self.authorizer.authorize(requester, conversation, beneficiary)
        assert self.grants[-1] == grant
        return grant.sponsor.object_id

    async def refusal(
        self, *arguments: Any, kind: type[EntrabotError] = AuthorizationError, **named: Any
    ) -> EntrabotError:
        with pytest.raises(kind) as caught:
            await self.authorize(*arguments, **named)
        assert self.grants == []
        return caught.value


async def test_granted_with_the_message_that_authorizes() -> None:
    world = World()
    assert await world.authorize() == ALICE
    assert world.grants[0].message_id == "message-1"
    assert world.grants[0].conversation == CHAT


async def test_a_grant_that_cannot_be_noted_is_none() -> None:
    world = World()

    async def fails(grant: Grant) -> None:
        raise GraphUnavailable("the audit log is full")

    world.authorizer._granted = fails
    with pytest.raises(GraphUnavailable):
        await world.authorizer.authorize("alice@contoso.example", CHAT)


# --- in this order --------------------------------------------------------------------------------------------------


async def test_first_the_requester_then_the_channel_then_membership() -> None:
    world = World()
    world.bindings.drop_all()
    world.graph.collections[MEMBERS] = [[]]
    assert isinstance(await world.refusal("bob@contoso.example"), RequesterNotSponsorError)
    assert isinstance(await world.refusal(), NoActiveSponsorChannelError)
    world.bind(conversation=OTHER)
    assert isinstance(await world.refusal(), SponsorChannelMismatchError)
    assert MEMBERS not in world.graph.asked
    world.bind()
    assert isinstance(await world.refusal(), RequesterNotInChatError)


@pytest.mark.parametrize(
    "requester",
    ["", " ", "Alice", "al\u0131ce@contoso.example", "\u0430lice@contoso.example", "alice@contoso.example.evil", ALICE],
)
async def test_whoever_only_looks_like_a_sponsor_is_none(requester: str) -> None:
    assert isinstance(await World().refusal(requester), RequesterNotSponsorError)


async def test_a_binding_ends() -> None:
    world = World()
    world.now.forward(569)
    assert await world.authorize() == ALICE
    world.grants.clear()
    world.now.forward(1)
    error = await world.refusal()
    assert isinstance(error, NoActiveSponsorChannelError)
    assert "confirm" in error.remedy


async def test_a_binding_that_ends_while_graph_is_asked() -> None:
    world = World()
    asked = world.graph.pages

    def pages(path: str, **options: Any) -> Any:
        world.now.forward(3600 if path == MEMBERS else 0)
        return asked(path, **options)

    world.graph.pages = pages  # type: ignore[method-assign, assignment]
    assert isinstance(await world.refusal(), NoActiveSponsorChannelError)


async def test_another_sponsors_binding_does_not_count() -> None:
    world = World()
    world.bindings.drop_all()
    world.bind(CAROL)
    assert isinstance(await world.refusal(), NoActiveSponsorChannelError)


async def test_mail_authorizes_nothing() -> None:
    world = World()
    error = await world.refusal(conversation=Conversation.mail("sati@contoso.example"))
    assert isinstance(error, NoActiveSponsorChannelError)
    assert "Mail" in error.message


async def test_two_sponsors_with_one_address_the_one_who_spoke_counts() -> None:
    world = World()
    world.graph.users[CAROL] = directory_user("carol@x.example", otherMails=["alice@contoso.example"])
    assert await world.authorize() == ALICE
    world.bindings.drop_all()
    world.bind(CAROL)
    world.graph.collections[MEMBERS] = [[world.member(CAROL)]]
    assert await world.authorize() == CAROL


# --- membership -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "members",
    [
        [],
        [World.member(MALLORY, displayName="Alice", email="alice@contoso.example")],
        [World.member(ALICE, ELSEWHERE)],
        [World.member("", email="alice@contoso.example")],
        [{"userId": None, "email": "alice@contoso.example"}],
    ],
)
async def test_names_and_addresses_make_no_member(members: list[dict[str, Any]]) -> None:
    world = World()
    world.graph.collections[MEMBERS] = [members]
    assert isinstance(await world.refusal(), RequesterNotInChatError)


@pytest.mark.parametrize("member", [(CAROL_HOME, ELSEWHERE), (CAROL_HOME, ""), (CAROL, OWN), (CAROL, ELSEWHERE)])
async def test_a_federated_sponsor_is_a_member_by_either_id(member: tuple[str, str]) -> None:
    world = World()
    world.bind(CAROL)
    world.graph.collections[MEMBERS] = [[world.member(BOB)], [world.member(*member, email="")]]
    assert await world.authorize("carol@fabrikam.example") == CAROL


async def test_a_chat_that_cannot_be_seen_has_no_sponsor_in_it() -> None:
    world = World()
    world.graph.collections[MEMBERS] = GraphNotFound("gone", status=404)
    assert isinstance(await world.refusal(), RequesterNotInChatError)
    for failure in (GraphUnavailable("down"), GraphForbidden("no", status=403)):
        world.graph.collections[MEMBERS] = failure
        assert await world.refusal(kind=GraphError) is failure


# --- the beneficiary ------------------------------------------------------------------------------------------------

LATER, BEFORE = START + timedelta(seconds=5), START - timedelta(seconds=5)


async def test_somebody_who_did_not_speak_since_may_gain() -> None:
    world = World()
    world.says(message(user(ALICE), START), message(user(BOB), BEFORE))
    assert await world.authorize(beneficiary="bob@contoso.example") == ALICE


async def test_somebody_else_who_spoke_does_not_matter() -> None:
    world = World()
    world.says(message(user(BOB), LATER), message(user(AGENT), LATER), message(user(ALICE), START))
    assert await world.authorize(beneficiary="dave@contoso.example") == ALICE


@pytest.mark.parametrize(
    "beneficiary",
    ["bob@contoso.example", "BOB@Contoso.Example", "bob+files@contoso.example", BOB, " bob@contoso.example "],
)
async def test_who_gains_may_not_have_spoken_since(beneficiary: str) -> None:
    world = World()
    world.says(message(user(BOB), LATER), message(user(ALICE), START))
    error = await world.refusal(beneficiary=beneficiary)
    assert isinstance(error, NoActiveSponsorChannelError)
    assert "Ask the sponsor to confirm" in error.remedy


async def test_a_confirmation_afterwards_helps() -> None:
    world = World()
    world.says(
        message(user(ALICE), LATER + timedelta(seconds=5)), message(user(BOB), LATER), message(user(ALICE), START)
    )
    await world.refusal(beneficiary="bob@contoso.example")
    world.bind(created=LATER + timedelta(seconds=5))
    assert await world.authorize(beneficiary="bob@contoso.example") == ALICE


@pytest.mark.parametrize(
    "sender",
    [
        user(MALLORY, ELSEWHERE),
        user(MALLORY, ""),
        user(BOB, ELSEWHERE),
        user(""),
        {"user": None, "application": {"id": guid(70), "displayName": "A bot"}},
        {"user": {"displayName": "No id"}},
        None,
        {},
    ],
)
async def test_a_later_speaker_whom_nobody_knows_may_be_anybody(sender: dict[str, Any] | None) -> None:
    world = World()
    world.says(message(sender, LATER), message(user(ALICE), START))
    assert isinstance(await world.refusal(beneficiary="dave@contoso.example"), NoActiveSponsorChannelError)
    assert "/users/" not in world.graph.asked
    assert await world.authorize() == ALICE  # with nobody who gains, nobody is in the way


async def test_what_the_chat_says_about_an_address_is_not_believed() -> None:
    world = World()
    innocent = world.member(MALLORY, ELSEWHERE, email="innocent@fabrikam.example")
    world.graph.collections[MEMBERS] = [[world.member(ALICE), innocent]]
    world.says(message(user(MALLORY, ELSEWHERE), LATER), message(user(ALICE), START))
    await world.refusal(beneficiary="mallory@fabrikam.example")


@pytest.mark.parametrize("hidden", [GraphForbidden("no", status=403), {"userPrincipalName": "bob@contoso.example"}])
async def test_addresses_that_are_not_shown_are_not_established(hidden: Any) -> None:
    world = World()
    world.graph.users[BOB] = hidden
    world.says(message(user(BOB), LATER))
    await world.refusal(beneficiary="bobs.alias@contoso.example")


async def test_another_sponsor_is_known_by_his_home_id() -> None:
    world = World()
    world.says(message(user(CAROL_HOME, ELSEWHERE), LATER))
    assert await world.authorize(beneficiary="dave@contoso.example") == ALICE
    world.grants.clear()
    for beneficiary in ("carol@fabrikam.example", "carol_fabrikam.example#EXT#@contoso.example"):
        await world.refusal(beneficiary=beneficiary)


@pytest.mark.parametrize(
    "trace",
    [
        {"lastEditedDateTime": LATER.isoformat(), "lastModifiedDateTime": LATER.isoformat()},
        {"createdDateTime": LATER.isoformat(), "deletedDateTime": LATER.isoformat()},
        {"createdDateTime": None},
        {"createdDateTime": "yesterday"},
        {"createdDateTime": START.isoformat()},
        {"lastEditedDateTime": "whenever"},
    ],
)
async def test_edits_deletions_and_odd_times_count_as_speaking(trace: dict[str, Any]) -> None:
    world = World()
    world.says(message(user(BOB), BEFORE, **trace))
    await world.refusal(beneficiary="bob@contoso.example")


async def test_reactions_and_events_are_not_speech() -> None:
    world = World()
    reacted = message(user(BOB), BEFORE, lastModifiedDateTime=LATER.isoformat())
    for kind in ("systemEventMessage", "unknownFutureValue"):
        world.says(reacted, message(None, LATER, messageType=kind))
        assert await world.authorize(beneficiary="bob@contoso.example") == ALICE


async def test_a_chat_that_moved_on_too_far_is_in_doubt() -> None:
    world = World()
    world.graph.collections[MESSAGES] = [[message(user(ALICE), LATER)] for _ in range(25)]
    error = await world.refusal(beneficiary="dave@contoso.example")
    assert "Too much" in error.message


async def test_a_filter_that_is_ignored_costs_no_doubt() -> None:
    world = World()
    old = [[message(user(MALLORY, ELSEWHERE), BEFORE)] for _ in range(25)]
    world.graph.collections[MESSAGES] = [[message(user(ALICE), START)], *old]
    assert await world.authorize(beneficiary="dave@contoso.example") == ALICE


async def test_messages_that_cannot_be_read_refuse() -> None:
    world = World()
    for failure in (GraphUnavailable("down"), GraphNotFound("gone", status=404)):
        world.graph.collections[MESSAGES] = failure
        assert await world.refusal(beneficiary="dave@contoso.example", kind=GraphError) is failure


async def test_an_answer_about_somebody_else_is_not_believed() -> None:
    world = World()
    world.graph.users[BOB] = {**directory_user("bob@contoso.example"), "id": MALLORY}
    world.says(message(user(BOB), LATER))
    await world.refusal(beneficiary="dave@contoso.example", kind=GraphError)
