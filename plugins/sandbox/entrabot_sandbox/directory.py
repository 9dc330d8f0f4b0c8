"""Tenants, people, groups, applications and what they have consented to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from cryptography import x509

GRAPH = "graph"
STORAGE = "storage"


@dataclass
class Tenant:
    """An organisation: the GUID, its initial domain, and every verified domain (the initial one included)."""

    key: str
    name: str
    id: str
    initial_domain: str
    domains: list[str]


@dataclass
class User:
    """A user object of one tenant. A guest object has ``home``, the same person's object at home."""

    id: str
    tenant: Tenant
    name: str
    upn: str
    mail: str | None
    key: str = ""
    home: User | None = None
    agent: AgentIdentity | None = None

    def is_called(self, reference: str) -> bool:
        """Whether the reference is this user's id, UPN or mail address, in any case."""
        wanted = reference.lower()
        return wanted in (self.id.lower(), self.upn.lower(), (self.mail or self.id).lower())


@dataclass
class Group:
    """A group of the agent's tenant."""

    id: str
    tenant: Tenant
    name: str


@dataclass
class Blueprint:
    """An agent identity blueprint: an application that signs in with certificates."""

    app_id: str
    object_id: str
    tenant: Tenant
    name: str
    certificates: list[x509.Certificate] = field(default_factory=list)


@dataclass
class AgentIdentity:
    """A child of a blueprint; ``app_id`` is its client id, ``object_id`` its service principal."""

    app_id: str
    object_id: str
    tenant: Tenant
    name: str
    blueprint: Blueprint
    sponsors: list[User | Group] = field(default_factory=list)


@dataclass
class PublicClient:
    """An application without credentials, that people of any organisation sign in to.

    ``registered`` has the scopes it declares, by resource: what ``.default`` stands for where nobody consented yet.
    """

    app_id: str
    tenant: Tenant
    name: str
    registered: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Grants:
    """What one application may do at one resource in its tenant; ``scopes`` None means nobody consented."""

    scopes: list[str] | None = None
    roles: list[str] = field(default_factory=list)


@dataclass
class Directory:
    """Everything Entra knows, over all tenants."""

    tenants: list[Tenant] = field(default_factory=list)
    users: list[User] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    blueprints: list[Blueprint] = field(default_factory=list)
    agents: list[AgentIdentity] = field(default_factory=list)
    clients: list[PublicClient] = field(default_factory=list)
    grants: dict[tuple[str, str], Grants] = field(default_factory=dict)
    consents: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    """What users consented to themselves, by application, user object and resource."""

    def tenant(self, reference: str) -> Tenant | None:
        """A tenant by its GUID or one of its verified domains."""
        wanted = reference.lower()
        return next((t for t in self.tenants if wanted == t.id or wanted in t.domains), None)

    def user(self, tenant: Tenant, reference: str) -> User | None:
        """A user object of that tenant by object id or user principal name."""
        wanted = reference.lower()
        return next((u for u in self.users_of(tenant) if wanted in (u.id, u.upn.lower())), None)

    def user_by_address(self, tenant: Tenant, reference: str) -> User | None:
        """A member of that tenant by object id, user principal name or mail address."""
        return next((u for u in self.users_of(tenant) if not u.home and u.is_called(reference)), None)

    def users_of(self, tenant: Tenant) -> Iterator[User]:
        """The user objects of one tenant, guests included."""
        return (user for user in self.users if user.tenant is tenant)

    def people(self) -> list[User]:
        """Everybody once: the objects in their home tenants."""
        return [user for user in self.users if not user.home]

    def guest(self, person: User, tenant: Tenant) -> User | None:
        """The guest object that stands for a person in another tenant."""
        return next((u for u in self.users_of(tenant) if u.home is person), None)

    def invite(self, person: User, tenant: Tenant, object_id: str) -> User:
        """Make a guest object for somebody of another tenant."""
        alias = (person.mail or person.upn).replace("@", "_")
        upn = f"{alias}#EXT#@{tenant.initial_domain}"
        guest = User(object_id, tenant, person.name, upn, None, home=person)
        self.users.append(guest)
        return guest

    def blueprint(self, tenant: Tenant, app_id: str) -> Blueprint | None:
        """A blueprint by its application id."""
        return next((b for b in self.blueprints if b.app_id == app_id.lower() and b.tenant is tenant), None)

    def agent(self, tenant: Tenant, app_id: str) -> AgentIdentity | None:
        """An agent identity by its application id."""
        return next((a for a in self.agents if a.app_id == app_id.lower() and a.tenant is tenant), None)

    def client(self, app_id: str) -> PublicClient | None:
        """A public client by its application id."""
        return next((c for c in self.clients if c.app_id == app_id.lower()), None)

    def people_of(self, tenant: Tenant | None) -> list[User]:
        """Who can sign in to a tenant, as objects of it; without one everybody, at home. Never an agent's user."""
        found = self.people() if tenant is None else self.users_of(tenant)
        return [user for user in found if user.agent is None]

    def granted(self, app_id: str, resource: str) -> Grants:
        """What an application may do at a resource; made empty when it was never granted anything."""
        return self.grants.setdefault((app_id, resource), Grants())


class Guids(dict[str, str]):
    """Random GUIDs that stay the same, name by name, as long as the process lives."""

    def __missing__(self, name: str) -> str:
        self[name] = str(uuid4())
        return self[name]
