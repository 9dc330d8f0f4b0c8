"""The tenancy at start: Contoso with its agent, and Fabrikam, its partner."""

from __future__ import annotations

from cryptography import x509

from entrabot_sandbox.directory import (
    GRAPH,
    STORAGE,
    AgentIdentity,
    Blueprint,
    Directory,
    Grants,
    Guids,
    PublicClient,
    Tenant,
    User,
)
from entrabot_sandbox.work_iq_servers import usual_grants

SCOPES = (
    "Chat.Create",
    "Chat.ReadWrite",
    "ChatMember.ReadWrite",
    "ChatMessage.Send",
    "Files.ReadWrite.All",
    "Mail.Read.Shared",
    "Mail.ReadWrite",
    "Mail.Send",
    "Sites.ReadWrite.All",
    "User.Read",
    "User.Read.All",
)
ROLES = ["AgentIdentity.ReadWrite.All"]
PERSONA = "You are Sati. You answer briefly, and you say so when you do not know."


def build(guids: Guids, certificate: x509.Certificate) -> Directory:
    """The tenancy that every sandbox starts with."""
    directory = Directory()
    contoso = add_tenant(directory, guids, "contoso", "Contoso", "contoso.example")
    fabrikam = add_tenant(directory, guids, "fabrikam", "Fabrikam", "fabrikam.example")
    agent = add_agent(directory, guids, contoso, "Sati", certificate)
    add_agent_user(directory, guids, agent, "agent", "Sati Agent", "sati.agent")
    alice = add_person(directory, guids, contoso, "alice", "Alice Example")
    add_person(directory, guids, contoso, "bob", "Bob Example")
    carol = add_person(directory, guids, fabrikam, "carol", "Carol Example")
    add_person(directory, guids, fabrikam, "mallory", "Mallory Example")
    add_public_client(directory, guids, contoso)
    agent.sponsors = [alice, directory.invite(carol, contoso, guids["carol as a guest"])]
    return directory


def add_tenant(directory: Directory, guids: Guids, key: str, name: str, domain: str) -> Tenant:
    """A tenant with one verified domain beside its initial one."""
    initial = f"{key}.onmicrosoft.example"
    tenant = Tenant(key, name, guids[f"tenant {key}"], initial, [initial, domain.lower()])
    directory.tenants.append(tenant)
    return tenant


def add_person(
    directory: Directory, guids: Guids, tenant: Tenant, key: str, name: str, mail: str | None = None
) -> User:
    """A member of a tenant; the address is ``key@domain`` unless given."""
    upn = f"{key}@{tenant.domains[-1]}"
    person = User(guids[f"person {key}"], tenant, name, upn, mail or upn, key)
    directory.users.append(person)
    return person


def add_agent(
    directory: Directory, guids: Guids, tenant: Tenant, name: str, certificate: x509.Certificate
) -> AgentIdentity:
    """A blueprint with a certificate, and one agent identity under it that has the usual grants."""
    blueprint = Blueprint(
        guids[f"blueprint {name}"], guids[f"blueprint object {name}"], tenant, f"{name} Blueprint", [certificate]
    )
    agent = AgentIdentity(guids[f"agent {name}"], guids[f"agent object {name}"], tenant, f"{name} Identity", blueprint)
    directory.blueprints.append(blueprint)
    directory.agents.append(agent)
    directory.grants[agent.app_id, GRAPH] = Grants(list(SCOPES), list(ROLES))
    directory.grants[agent.app_id, STORAGE] = Grants(["user_impersonation"])
    for resource, scopes in usual_grants().items():
        directory.grants[agent.app_id, resource] = Grants(scopes)
    return agent


def add_public_client(directory: Directory, guids: Guids, tenant: Tenant) -> PublicClient:
    """The application that people sign in to themselves; its tenant consented to what the agent has, too."""
    registered = {GRAPH: list(SCOPES), STORAGE: ["user_impersonation"], **usual_grants()}
    client = PublicClient(guids["public client"], tenant, "Entrabot (delegated)", registered)
    directory.clients.append(client)
    for resource, scopes in registered.items():
        directory.grants[client.app_id, resource] = Grants(list(scopes))
    return client


def add_agent_user(directory: Directory, guids: Guids, agent: AgentIdentity, key: str, name: str, alias: str) -> User:
    """The user account that an agent identity, and it alone, may act as."""
    upn = f"{alias}@{agent.tenant.domains[-1]}"
    user = User(guids[f"person {key}"], agent.tenant, name, upn, upn, key, agent=agent)
    directory.users.append(user)
    return user
