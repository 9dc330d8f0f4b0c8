"""The sponsor directory: sources, proofs, caching, failing closed."""

from __future__ import annotations

from typing import Any

import pytest

from entrabot_host.auth.provider import Attribution
from entrabot_host.errors import AuthError, GraphError, GraphForbidden, GraphNotFound, GraphThrottled, GraphUnavailable
from entrabot_host.identity.session import Session
from entrabot_host.identity.settings import SponsorSettings
from entrabot_host.identity.sponsors import FRESH_SECONDS, STALE_SECONDS, SponsorDirectory

from .fakes import ELSEWHERE, OWN, FakeGraph, FakeProvider, MemoryStore, Seconds, guid, principal

AGENT_OBJECT = guid(99)
LIST = f"/servicePrincipals/{AGENT_OBJECT}/microsoft.graph.agentIdentity/sponsors"
ALICE, CAROL, GROUP = guid(1), guid(2), guid(3)
CAROL_HOME = guid(22)
ALICE_USER = {"displayName": "Alice", "userPrincipalName": "alice@contoso.example", "mail": "alice@contoso.example"}
CAROL_USER = {"displayName": "Carol", "userPrincipalName": "carol_fabrikam.example#EXT#@contoso.example"}


class World:
    def __init__(self, attribution: Attribution = Attribution.AGENT, **settings: str) -> None:
        self.graph, self.store, self.clock = FakeGraph(), MemoryStore(), Seconds()
        self.graph.collections[LIST] = [[member(ALICE), member(CAROL)]]
        self.graph.users = {ALICE: ALICE_USER, CAROL: CAROL_USER}
        values = {"ENTRABOT_AGENT_OBJECT_ID": AGENT_OBJECT, **settings}
        self.settings = SponsorSettings.model_validate({name: value for name, value in values.items() if value})
        self.session = Session([FakeProvider(principal(attribution))])
        self.directory = self.new_directory()

    def new_directory(self) -> SponsorDirectory:
        return SponsorDirectory(self.session, self.graph, self.settings, self.store, clock=self.clock)  # type: ignore[arg-type]

    @property
    def reads(self) -> int:
        return self.graph.asked.count(LIST)

    async def ids(self) -> set[str]:
        return {sponsor.object_id for sponsor in await self.directory.sponsors()}

    async def proved(self, user_id: str, tenant_id: str = "") -> str:
        sponsor = await self.directory.sponsor_of(user_id, tenant_id)
        return sponsor.object_id if sponsor else ""


def member(object_id: str, kind: str | None = "#microsoft.graph.user") -> dict[str, Any]:
    return {"id": object_id, "displayName": None, **({"@odata.type": kind} if kind else {})}


# --- who they are ---------------------------------------------------------------------------------------------------


async def test_directory_lists_people_with_all_their_addresses() -> None:
    world = World()
    alice, carol = await world.directory.sponsors()
    assert (alice.object_id, alice.display_name) == (ALICE, "Alice")
    assert alice.addresses == {"alice@contoso.example"}
    assert carol.addresses == {"carol@fabrikam.example", "carol_fabrikam.example#ext#@contoso.example"}
    assert world.directory.problems == ()


async def test_an_address_names_its_sponsor_in_any_case() -> None:
    world = World()
    for address in ("ALICE@contoso.example", " alice@contoso.example "):
        assert [sponsor.object_id for sponsor in await world.directory.named(address)] == [ALICE]
    for address in (
        "",
        "alice",
        "Alice",
        "alice@contoso.example.evil",
        "mallory@fabrikam.example",
        "al\u0131ce@x.example",
    ):
        assert await world.directory.named(address) == []


async def test_groups_name_nobody_and_are_reported() -> None:
    world = World()
    world.graph.collections[LIST] = [
        [member(ALICE)],
        [member(GROUP, "#microsoft.graph.group"), member(guid(4), "#x.device")],
    ]
    assert await world.ids() == {ALICE}
    assert any(GROUP in problem and "group" in problem for problem in world.directory.problems)
    assert await world.proved(GROUP) == ""


async def test_a_member_of_unknown_kind_counts_when_it_is_a_user() -> None:
    world = World()
    world.graph.collections[LIST] = [[member(ALICE, None), member(GROUP, None)]]
    assert await world.ids() == {ALICE}
    assert any(GROUP in problem for problem in world.directory.problems)


async def test_a_sponsor_whose_addresses_are_hidden_is_still_proved_by_his_id() -> None:
    world = World(ENTRABOT_HUMAN_USER_ID=ALICE, ENTRABOT_HUMAN_UPN="Alice@contoso.example")
    world.graph.users[ALICE] = GraphForbidden("Insufficient privileges", status=403)
    assert await world.proved(ALICE, OWN) == ALICE
    assert [sponsor.object_id for sponsor in await world.directory.named("alice@contoso.example")] == [ALICE]
    assert any("Insufficient privileges" in problem for problem in world.directory.problems)


# --- the settings stand in ------------------------------------------------------------------------------------------

CONFIGURED = {
    "ENTRABOT_HUMAN_USER_IDS": f"{ALICE},{CAROL}",
    "ENTRABOT_HUMAN_UPNS": "alice@contoso.example,carol_fabrikam.example#EXT#@contoso.example",
    "ENTRABOT_HUMAN_USER_MAILS": "alice.mail@contoso.example,carol@fabrikam.example",
    "ENTRABOT_HUMAN_USER_TENANT_IDS": f",{ELSEWHERE}",
    "ENTRABOT_HUMAN_USER_TYPES": ",Guest",
}


@pytest.mark.parametrize("why", ["no object id", "a person", "forbidden", "refused by entra", "no such agent"])
async def test_settings_stand_in_where_the_directory_cannot_be_asked(why: str) -> None:
    attribution = Attribution.DELEGATED_HUMAN if why == "a person" else Attribution.AGENT
    world = World(attribution, **CONFIGURED, **({"ENTRABOT_AGENT_OBJECT_ID": ""} if why == "no object id" else {}))
    failures = {
        "forbidden": GraphForbidden("no", status=403),
        "refused by entra": AuthError("no", code=65001),
        "no such agent": GraphNotFound("no", status=404),
    }
    if why in failures:
        world.graph.collections[LIST] = failures[why]
    alice, carol = await world.directory.sponsors()
    assert alice.addresses == {"alice@contoso.example", "alice.mail@contoso.example"}
    assert "carol@fabrikam.example" in carol.addresses
    assert any("ENTRABOT_HUMAN_USER_IDS" in problem for problem in world.directory.problems)
    named = any("ENTRABOT_AGENT_OBJECT_ID" in problem for problem in world.directory.problems)
    assert named is (why in ("no object id", "no such agent"))
    assert await world.proved(ALICE, OWN) == ALICE
    assert await world.proved(ALICE, ELSEWHERE) == ""
    assert await world.proved(CAROL, ELSEWHERE) == CAROL
    assert await world.proved(CAROL, guid(77)) == ""


async def test_the_directory_wins_over_the_settings() -> None:
    world = World(**CONFIGURED)
    world.graph.collections[LIST] = [[member(ALICE)]]
    assert await world.ids() == {ALICE}
    assert "alice.mail@contoso.example" in (await world.directory.sponsors())[0].addresses
    assert await world.proved(CAROL) == ""


async def test_addresses_that_cannot_be_told_apart_are_not_used() -> None:
    values = {"ENTRABOT_HUMAN_USER_IDS": f"{ALICE},{CAROL}", "ENTRABOT_HUMAN_UPNS": "alice@contoso.example"}
    world = World(ENTRABOT_AGENT_OBJECT_ID="", **values)
    assert await world.directory.named("alice@contoso.example") == []
    assert any("ENTRABOT_HUMAN_UPNS" in problem for problem in world.directory.problems)
    single = World(
        ENTRABOT_AGENT_OBJECT_ID="", ENTRABOT_HUMAN_USER_ID=ALICE, ENTRABOT_HUMAN_UPNS="a@x.example,b@x.example"
    )
    assert [sponsor.addresses for sponsor in await single.directory.sponsors()] == [{"a@x.example", "b@x.example"}]


async def test_nobody_anywhere_is_nobody() -> None:
    world = World(ENTRABOT_AGENT_OBJECT_ID="")
    assert await world.directory.sponsors() == []
    assert any("nobody counts" in problem for problem in world.directory.problems)


# --- proofs ---------------------------------------------------------------------------------------------------------


async def test_an_object_id_proves_only_in_its_tenant() -> None:
    world = World()
    assert await world.proved(ALICE) == ALICE
    assert await world.proved(ALICE.upper(), OWN.upper()) == ALICE
    assert await world.proved(ALICE, ELSEWHERE) == ""
    assert await world.proved("") == ""
    assert await world.proved("", OWN) == ""
    assert await world.proved(CAROL_HOME, ELSEWHERE) == ""


async def test_a_home_that_was_learnt_proves() -> None:
    world = World()
    await world.directory.learn_home("Carol@fabrikam.example", CAROL_HOME, ELSEWHERE)
    assert await world.proved(CAROL_HOME, ELSEWHERE) == CAROL
    assert await world.proved(CAROL_HOME) == CAROL
    assert await world.proved(CAROL_HOME, OWN) == ""
    assert await world.proved(CAROL_HOME, guid(77)) == ""
    sponsor = (await world.directory.named("carol@fabrikam.example"))[0]
    assert (sponsor.home_id, sponsor.home_tenant) == (CAROL_HOME, ELSEWHERE)
    world.directory = world.new_directory()
    assert await world.proved(CAROL_HOME, ELSEWHERE) == CAROL


async def test_another_home_is_not_learnt_afterwards() -> None:
    world = World()
    await world.directory.learn_home("carol@fabrikam.example", CAROL_HOME, ELSEWHERE)
    await world.directory.learn_home("carol@fabrikam.example", guid(66), ELSEWHERE)
    assert await world.proved(guid(66), ELSEWHERE) == ""
    assert await world.proved(CAROL_HOME, ELSEWHERE) == CAROL


@pytest.mark.parametrize(
    ("address", "user_id", "tenant_id"),
    [
        ("stranger@fabrikam.example", CAROL_HOME, ELSEWHERE),
        ("alice@contoso.example", CAROL_HOME, ELSEWHERE),
        ("carol@fabrikam.example", CAROL_HOME, OWN),
        ("carol@fabrikam.example", CAROL_HOME, ""),
        ("carol@fabrikam.example", "", ELSEWHERE),
        ("carol@fabrikam.example", "not-a-guid", ELSEWHERE),
        ("", CAROL_HOME, ELSEWHERE),
    ],
)
async def test_what_is_not_learnt(address: str, user_id: str, tenant_id: str) -> None:
    world = World()
    await world.directory.learn_home(address, user_id, tenant_id)
    assert world.store.values == {}
    assert await world.proved(CAROL_HOME, ELSEWHERE) == ""


async def test_a_home_given_by_a_setting_wins() -> None:
    world = World(ENTRABOT_SPONSOR_HOME_IDS=f"carol@fabrikam.example={CAROL_HOME}@{ELSEWHERE}")
    await world.directory.learn_home("carol@fabrikam.example", guid(66), ELSEWHERE)
    assert await world.proved(CAROL_HOME, ELSEWHERE) == CAROL
    assert await world.proved(guid(66), ELSEWHERE) == ""
    assert world.store.values == {}


async def test_a_home_in_another_tenant_than_the_settings_say_is_not_learnt() -> None:
    world = World(**CONFIGURED)
    await world.directory.learn_home("carol@fabrikam.example", CAROL_HOME, guid(77))
    assert await world.proved(CAROL_HOME, guid(77)) == ""
    await world.directory.learn_home("carol@fabrikam.example", CAROL_HOME, ELSEWHERE)
    assert await world.proved(CAROL_HOME, ELSEWHERE) == CAROL


# --- time and failure -----------------------------------------------------------------------------------------------


async def test_the_list_is_kept_for_five_minutes() -> None:
    world = World()
    await world.ids()
    world.graph.collections[LIST] = [[member(ALICE)]]
    world.clock.now += FRESH_SECONDS - 1
    assert await world.ids() == {ALICE, CAROL}
    assert world.reads == 1
    world.clock.now += 2
    assert await world.ids() == {ALICE}


@pytest.mark.parametrize(
    "failure", [GraphUnavailable("down"), GraphThrottled("slow"), GraphForbidden("no", status=403), AuthError("no net")]
)
async def test_an_old_list_counts_for_an_hour(failure: Exception) -> None:
    world = World(**CONFIGURED)
    world.graph.collections[LIST] = [[member(ALICE)]]
    await world.ids()
    world.graph.collections[LIST] = failure
    world.clock.now += FRESH_SECONDS + 1
    assert await world.ids() == {ALICE}
    assert any("could not be read" in problem for problem in world.directory.problems)
    reads = world.reads
    world.clock.now += 5
    assert await world.ids() == {ALICE}
    assert world.reads == reads
    world.clock.now = 1000.0 + STALE_SECONDS + 30
    if isinstance(failure, GraphForbidden):
        assert await world.ids() == {ALICE, CAROL}  # the settings take its place now
        return
    with pytest.raises(type(failure)):
        await world.directory.sponsors()


@pytest.mark.parametrize("failure", [GraphUnavailable("down"), GraphThrottled("slow"), GraphError("odd", status=400)])
async def test_a_first_reading_that_fails_is_raised_not_empty(failure: GraphError) -> None:
    world = World(**CONFIGURED)
    world.graph.collections[LIST] = failure
    for call in (
        world.directory.sponsors(),
        world.directory.named("alice@contoso.example"),
        world.directory.sponsor_of(ALICE),
    ):
        with pytest.raises(type(failure)):
            await call
    assert world.reads == 1
    world.graph.collections[LIST] = [[member(ALICE)]]
    world.clock.now += 16
    assert await world.ids() == {ALICE}
    assert world.directory.problems == ()


async def test_a_person_who_cannot_be_read_now_spoils_the_reading() -> None:
    world = World()
    world.graph.users[CAROL] = GraphUnavailable("down")
    with pytest.raises(GraphUnavailable):
        await world.directory.sponsors()


async def test_nothing_is_learnt_while_the_sponsors_are_unknown() -> None:
    world = World()
    world.graph.collections[LIST] = GraphUnavailable("down")
    await world.directory.learn_home("carol@fabrikam.example", CAROL_HOME, ELSEWHERE)
    assert world.store.values == {}


async def test_nobody_signed_in_is_raised() -> None:
    world = World()
    world.session = Session([FakeProvider(AuthError("no consent", code=65001))])
    world.directory = world.new_directory()
    with pytest.raises(AuthError, match="no consent"):
        await world.directory.sponsors()
