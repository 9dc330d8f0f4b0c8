"""Identity as a whole, in a tenant: session, sponsors, federated homes, authorization; over TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.auth.provider import Attribution
from entrabot_host.errors import (
    AuthError,
    NoActiveSponsorChannelError,
    NotStarted,
    RequesterNotInChatError,
    RequesterNotSponsorError,
    SponsorChannelMismatchError,
    TokenAudienceError,
)
from entrabot_host.graph.client import GraphClient
from entrabot_host.host import Conversation
from entrabot_host.identity.authorization import Authorizer
from entrabot_host.identity.bindings import Bindings
from entrabot_host.identity.facet import IdentityFacet
from entrabot_host.identity.session import Session, State
from entrabot_host.identity.sponsors import SponsorDirectory
from entrabot_host.identity.tenants import TenantFinder
from tests.host.auth.tenant import GRAPH, Tenant, moment

from .fakes import MemoryStore, Seconds


class Agent:
    """The agent's side of the tenant."""

    def __init__(self, tenant: Tenant, **changes: str) -> None:
        self.cloud = cloud = tenant.cloud()
        self.tenant = tenant
        self.provider = AgentUserProvider(tenant.settings(**changes), cloud, tenant.ca_bundle)
        self.session = Session([self.provider])
        self.graph = GraphClient(cloud, self.session, ca_bundle=tenant.ca_bundle)
        self.store, self.clock = MemoryStore(), Seconds()
        settings = tenant.sponsor_settings(**changes)
        self.directory = SponsorDirectory(self.session, self.graph, settings, self.store, clock=self.clock)
        self.bindings = Bindings(600, self.graph.now)
        authorizer = Authorizer(self.session, self.directory, self.bindings, self.graph)
        self.tenants = TenantFinder(cloud, tenant.ca_bundle)
        self.identity = IdentityFacet(self.cloud, self.session, self.directory, authorizer, self.tenants)

    async def hear(self, message: dict[str, Any]) -> Conversation:
        """Do what delivery does with a message: find out whom it proves, and bind."""
        conversation = Conversation.chat(message["chatId"])
        sender = message["from"]["user"]
        sponsor = await self.identity.sponsor_of(sender["id"], sender.get("tenantId") or "")
        if sponsor:
            self.bindings.mint(sponsor, conversation, message["id"], moment(message))
        return conversation

    async def aclose(self) -> None:
        await self.session.aclose()
        await self.graph.aclose()
        await self.tenants.aclose()


@pytest.fixture
async def agent(tenant: Tenant) -> AsyncIterator[Agent]:
    agent = Agent(tenant)
    try:
        yield agent
    finally:
        await agent.aclose()


def mail(tenant: Tenant, person: str) -> str:
    return str(tenant.sandbox.people[person]["mail"])


async def learn_carol(agent: Agent) -> None:
    tenant = agent.tenant
    await agent.identity.learn_home(mail(tenant, "carol"), tenant.id_of("carol"), tenant.tenant_of("carol"))


async def test_me_and_tokens(agent: Agent) -> None:
    me = await agent.identity.me()
    assert (me.user_id, me.attribution) == (agent.tenant.id_of("agent"), Attribution.AGENT)
    url = f"{agent.tenant.cloud().graph_url}/v1.0/me"
    first = await agent.identity.token(GRAPH, url=url)
    assert first.startswith("eyJ")
    assert await agent.identity.token(GRAPH, url=url) == first
    assert await agent.identity.token(GRAPH, url=url, rejected=first) != first
    assert agent.session.state is State.AGENT_USER


@pytest.mark.parametrize("work_iq", [False, True])
async def test_a_token_for_another_place_is_not_even_asked_for(agent: Agent, work_iq: bool) -> None:
    await agent.identity.me()
    await agent.tenant.sandbox.clear_requests()
    graph = agent.tenant.cloud().graph_url
    for audience, url in ((GRAPH, "https://evil.example/"), ("https://vault.azure.net", graph), ("x", f"{graph}/x")):
        with pytest.raises(TokenAudienceError):
            await agent.identity.token(audience, url=url, work_iq=work_iq)
    if work_iq:
        with pytest.raises(TokenAudienceError):
            await agent.identity.token(GRAPH, url=f"{graph}/v1.0/me", work_iq=True)
    assert await agent.tenant.sandbox.counts() == {}


async def test_consent_given_later_ends_a_failed_sign_in(tenant: Tenant) -> None:
    await tenant.sandbox.grant("graph", scopes=None)
    agent = Agent(tenant)
    clock = Seconds()
    agent.session = Session([agent.provider], clock=clock)
    with pytest.raises(AuthError) as caught:
        await agent.session.principal()
    assert caught.value.code == 65001
    await tenant.sandbox.grant("graph", scopes=["User.Read"])
    clock.now += 16
    assert (await agent.session.principal()).attribution is Attribution.AGENT
    await agent.aclose()


async def test_sponsors_of_the_directory(agent: Agent) -> None:
    tenant = agent.tenant
    sponsors = {sponsor.display_name: sponsor for sponsor in await agent.identity.sponsors()}
    people = tenant.sandbox.people
    assert {sponsor.object_id for sponsor in sponsors.values()} == {people["alice"]["id"], people["carol"]["guest_id"]}
    alice = await agent.identity.sponsor_of(tenant.id_of("alice"), tenant.tenant_of("alice"))
    assert alice is not None
    assert mail(tenant, "alice") in alice.addresses
    carol = await agent.identity.sponsor_of(people["carol"]["guest_id"])
    assert carol is not None
    assert {mail(tenant, "carol"), people["carol"]["guest_upn"].lower()} <= carol.addresses
    assert agent.directory.problems == ()


async def test_group_sponsors_are_reported(agent: Agent) -> None:
    group = await agent.tenant.sandbox.add_group("Managers")
    await agent.tenant.sandbox.set_sponsors(["alice", group["id"]])
    assert [sponsor.object_id for sponsor in await agent.identity.sponsors()] == [agent.tenant.id_of("alice")]
    assert any(group["id"] in problem for problem in agent.directory.problems)


async def test_missing_role_leaves_the_settings(tenant: Tenant) -> None:
    await tenant.sandbox.grant("graph", roles=[])
    agent = Agent(tenant, ENTRABOT_HUMAN_USER_ID=tenant.id_of("bob"), ENTRABOT_HUMAN_UPN=mail(tenant, "bob"))
    assert [sponsor.object_id for sponsor in await agent.identity.sponsors()] == [tenant.id_of("bob")]
    assert any("ENTRABOT_HUMAN_USER_IDS" in problem for problem in agent.directory.problems)
    await agent.aclose()


async def test_revoked_tokens_do_not_lose_the_sponsors(agent: Agent) -> None:
    await agent.identity.sponsors()
    await agent.tenant.sandbox.expire_tokens(all=True)
    agent.clock.now += 301
    assert len(await agent.identity.sponsors()) == 2
    assert agent.directory.problems == ()


async def test_a_federated_sponsor_is_nobody_until_her_home_is_learnt(agent: Agent) -> None:
    tenant = agent.tenant
    message = await tenant.sandbox.say("carol", "please add bob")
    sender = message["from"]["user"]
    assert sender["id"] == tenant.id_of("carol")
    assert await agent.identity.sponsor_of(sender["id"], tenant.tenant_of("carol")) is None
    await learn_carol(agent)
    sponsor = await agent.identity.sponsor_of(sender["id"], tenant.tenant_of("carol"))
    assert sponsor is not None
    assert sponsor.object_id == tenant.sandbox.people["carol"]["guest_id"]
    conversation = await agent.hear(message)
    granted = await agent.identity.authorize(mail(tenant, "carol"), conversation, mail(tenant, "bob"))
    assert granted == sponsor


async def test_a_home_given_by_a_setting(tenant: Tenant) -> None:
    carol = f"{mail(tenant, 'carol')}={tenant.id_of('carol')}@{tenant.tenant_of('carol')}"
    agent = Agent(tenant, ENTRABOT_SPONSOR_HOME_IDS=carol)
    assert await agent.identity.sponsor_of(tenant.id_of("carol"), tenant.tenant_of("carol"))
    assert await agent.identity.sponsor_of(tenant.id_of("mallory"), tenant.tenant_of("mallory")) is None
    await agent.aclose()


async def test_a_sponsor_who_just_asked_may(agent: Agent) -> None:
    tenant = agent.tenant
    chat = await tenant.sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    conversation = await agent.hear(await tenant.sandbox.say("alice", "give bob the file", chat=chat["id"]))
    for address in (mail(tenant, "alice"), mail(tenant, "alice").upper()):
        sponsor = await agent.identity.authorize(address, conversation, mail(tenant, "bob"))
        assert sponsor.object_id == tenant.id_of("alice")


async def test_a_stranger_asking_for_himself(agent: Agent) -> None:
    tenant = agent.tenant
    chat = await tenant.sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    conversation = await agent.hear(await tenant.sandbox.say("alice", "good morning", chat=chat["id"]))
    await agent.hear(await tenant.sandbox.say("bob", "Alice says: give me the file", chat=chat["id"]))
    with pytest.raises(RequesterNotSponsorError):
        await agent.identity.authorize(mail(tenant, "bob"), conversation, mail(tenant, "bob"))
    with pytest.raises(NoActiveSponsorChannelError) as caught:
        await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))
    assert "confirm" in caught.value.remedy
    await agent.hear(await tenant.sandbox.say("alice", "yes, give it to bob", chat=chat["id"]))
    assert await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))


async def test_an_edit_of_an_older_message_counts_as_speaking(agent: Agent) -> None:
    tenant = agent.tenant
    chat = await tenant.sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    older = await tenant.sandbox.say("bob", "hello", chat=chat["id"])
    conversation = await agent.hear(await tenant.sandbox.say("alice", "hello all", chat=chat["id"]))
    assert await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))
    await tenant.sandbox.react("bob", chat["id"], older["id"])
    assert await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))
    await tenant.sandbox.edit("bob", chat["id"], older["id"], "give me the file")
    with pytest.raises(NoActiveSponsorChannelError):
        await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))


async def test_a_federated_stranger_may_be_anybody(agent: Agent) -> None:
    tenant = agent.tenant
    chat = await tenant.sandbox.create_chat("alice", ["agent", "mallory"], topic="Partners")
    conversation = await agent.hear(await tenant.sandbox.say("alice", "hello", chat=chat["id"]))
    assert await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))
    await tenant.sandbox.say("mallory", "bob should have it", chat=chat["id"])
    with pytest.raises(NoActiveSponsorChannelError):
        await agent.identity.authorize(mail(tenant, "alice"), conversation, mail(tenant, "bob"))


async def test_lookalikes(agent: Agent) -> None:
    tenant = agent.tenant
    twin = await tenant.sandbox.add_person("twin", "Alice Example", tenant="fabrikam", mail="alice@contoso.example.co")
    kin = await tenant.sandbox.add_person("kin", "Alice Example", mail="al1ce@contoso.example")
    chat = await tenant.sandbox.create_chat("twin", ["agent", "kin"], topic="Alice")
    for person in ("twin", "kin"):
        conversation = await agent.hear(await tenant.sandbox.say(person, "I am Alice", chat=chat["id"]))
    for address in (twin["mail"], twin["upn"], kin["mail"], kin["upn"]):
        with pytest.raises(RequesterNotSponsorError):
            await agent.identity.authorize(address, conversation)
    with pytest.raises(NoActiveSponsorChannelError):
        await agent.identity.authorize(mail(tenant, "alice"), conversation)
    await agent.hear(await tenant.sandbox.say("alice", "the real one, elsewhere"))
    with pytest.raises(SponsorChannelMismatchError):
        await agent.identity.authorize(mail(tenant, "alice"), conversation)


async def test_a_sponsor_who_left_the_chat(agent: Agent) -> None:
    tenant = agent.tenant
    chat = await tenant.sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    conversation = await agent.hear(await tenant.sandbox.say("alice", "bye", chat=chat["id"]))
    await tenant.sandbox.remove_member("alice", chat["id"], "alice")
    with pytest.raises(RequesterNotInChatError):
        await agent.identity.authorize(mail(tenant, "alice"), conversation)


async def test_a_binding_ends_on_the_services_clock(agent: Agent) -> None:
    tenant = agent.tenant
    conversation = await agent.hear(await tenant.sandbox.say("alice", "hello"))
    assert await agent.identity.authorize(mail(tenant, "alice"), conversation)
    await tenant.sandbox.set_clock(601)
    await agent.graph.request("GET", "/me")
    with pytest.raises(NoActiveSponsorChannelError):
        await agent.identity.authorize(mail(tenant, "alice"), conversation)


async def test_a_laptop_whose_clock_is_wrong_binds_all_the_same(agent: Agent) -> None:
    tenant = agent.tenant
    await agent.identity.sponsors()
    await tenant.sandbox.set_clock(3000)
    await agent.graph.request("GET", "/me")
    message = await tenant.sandbox.say("alice", "hello")
    assert (moment(message) - datetime.now(moment(message).tzinfo)).total_seconds() > 2900
    conversation = await agent.hear(message)
    assert await agent.identity.authorize(mail(tenant, "alice"), conversation)


async def test_the_tenant_of_a_domain(agent: Agent) -> None:
    tenant = agent.tenant
    assert await agent.identity.tenant_of("fabrikam.example") == tenant.tenant_of("mallory")
    assert await agent.identity.tenant_of("nobody.example") == ""


async def test_nothing_before_the_start(agent: Agent) -> None:
    authorizer = Authorizer(agent.session, agent.directory, agent.bindings, agent.graph)
    facet = IdentityFacet(agent.cloud, agent.session, agent.directory, authorizer, agent.tenants, started=lambda: False)
    for call in (
        facet.me(),
        facet.token(GRAPH, url=GRAPH),
        facet.sponsors(),
        facet.sponsor_of("x"),
        facet.learn_home("a", "b", "c"),
        facet.tenant_of("a.example"),
    ):
        with pytest.raises(NotStarted):
            await call
    with pytest.raises(NotStarted):
        await facet.authorize("a@b.example", Conversation.chat("c"))


def test_importing_identity_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    modules = "entrabot_host.identity.facet, entrabot_host.auth.agent_user, entrabot_host.identity.sponsors"
    heavy = "{'msal', 'requests', 'cryptography', 'keyring', 'httpx', 'jwt', 'mcp'}"
    code = f"import sys, {modules}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "[]"
