"""People and sponsors, as Graph shows them."""

from __future__ import annotations

from typing import Any

from entrabot_sandbox.calls import Call
from entrabot_sandbox.directory import Group, User
from entrabot_sandbox.errors import GraphError, bad_request
from entrabot_sandbox.odata import Options, collection, words
from entrabot_sandbox.reply import Reply

Json = dict[str, Any]

_DEFAULT = words(
    "businessPhones displayName givenName jobTitle mail mobilePhone officeLocation preferredLanguage surname "
    "userPrincipalName id"
)
_BASIC = frozenset({"id", "displayName", "userPrincipalName", "mail", "givenName", "surname"})
_COLLECTIONS = frozenset(
    words(
        "assignedLicenses assignedPlans businessPhones identities imAddresses interests licenseAssignmentStates "
        "onPremisesProvisioningErrors otherMails pastProjects provisionedPlans proxyAddresses responsibilities "
        "schools serviceProvisioningErrors skills"
    )
)
_KNOWN = _COLLECTIONS.union(
    words(
        "aboutMe accountEnabled ageGroup authorizationInfo birthday city companyName consentProvidedForMinor country "
        "createdDateTime creationType customSecurityAttributes deletedDateTime department deviceEnrollmentLimit "
        "displayName employeeHireDate employeeId employeeLeaveDateTime employeeOrgData employeeType externalUserState "
        "externalUserStateChangeDateTime faxNumber givenName hireDate id identityParentId isManagementRestricted "
        "isResourceAccount jobTitle lastPasswordChangeDateTime legalAgeGroupClassification mail mailboxSettings "
        "mailNickname mobilePhone mySite officeLocation onPremisesDistinguishedName onPremisesDomainName "
        "onPremisesExtensionAttributes onPremisesImmutableId onPremisesLastSyncDateTime onPremisesSamAccountName "
        "onPremisesSecurityIdentifier onPremisesSyncEnabled onPremisesUserPrincipalName passwordPolicies "
        "passwordProfile postalCode preferredDataLocation preferredLanguage preferredName print securityIdentifier "
        "showInAddressList signInActivity signInSessionsValidFromDateTime state streetAddress surname usageLocation "
        "userPrincipalName userType"
    )
)


async def get_me(call: Call) -> Reply:
    """``GET /me``."""
    user = call.user()
    call.require("User.Read", "User.ReadWrite", "User.ReadBasic.All", "User.Read.All", "Directory.Read.All")
    return _user_reply(call, user, _KNOWN)


async def get_user(call: Call) -> Reply:
    """``GET /users/{id or UPN}``."""
    user = call.state.directory.user(call.principal.tenant, call.params["user"])
    readable = _readable(call, user)
    if user is None:
        raise not_found(call.params["user"])
    return _user_reply(call, user, readable)


async def list_sponsors(call: Call) -> Reply:
    """``GET /servicePrincipals/{id}/microsoft.graph.agentIdentity/sponsors``: application permission only."""
    if call.principal.user is not None or "AgentIdentity.ReadWrite.All" not in call.principal.roles:
        raise denied()
    options = Options.read(call.query, ("$top", "$select"))
    wanted = call.params["principal"].lower()
    agent = next((a for a in call.state.directory.agents if a.object_id == wanted), None)
    if agent is None or agent.tenant is not call.principal.tenant:
        raise not_found(wanted)
    top, start = options.top(999, 100), int(options.get("$skiptoken") or 0)
    rows = [_sponsor(sponsor) for sponsor in agent.sponsors[start : start + top]]
    more = start + top < len(agent.sponsors)
    link = f"{call.url}?$top={top}&$skiptoken={start + top}" if more else None
    return Reply(200, json=collection(call.context("directoryObjects"), rows, link))


def not_found(reference: str) -> GraphError:
    """404 as the directory part of Graph says it."""
    message = f"Resource '{reference}' does not exist or one of its queried reference-property objects are not present."
    return GraphError(404, "Request_ResourceNotFound", message)


def denied() -> GraphError:
    """403 as the directory part of Graph says it."""
    return GraphError(403, "Authorization_RequestDenied", "Insufficient privileges to complete the operation.")


def _readable(call: Call, user: User | None) -> frozenset[str]:
    rights = call.principal.scopes | call.principal.roles
    if rights & {"User.Read.All", "User.ReadWrite.All", "Directory.Read.All"}:
        return _KNOWN
    if user is not None and user is call.principal.user and "User.Read" in rights:
        return _KNOWN
    if "User.ReadBasic.All" in rights:
        return _BASIC
    raise denied()


def _user_reply(call: Call, user: User, readable: frozenset[str]) -> Reply:
    options = Options.read(call.query, ("$select",))
    names = [name.strip() for name in (options.get("$select") or ",".join(_DEFAULT)).split(",") if name.strip()]
    spelled = {name.lower(): name for name in _KNOWN}
    for name in names:
        if name.lower() not in spelled:
            raise bad_request(f"Could not find a property named '{name}' on type 'microsoft.graph.user'.")
    filled = _filled(user)
    row = {n: _value(n, filled, readable) for n in (spelled[name.lower()] for name in names)}
    return Reply(200, json={"@odata.context": call.context("users/$entity"), **row})


def _value(name: str, filled: Json, readable: frozenset[str]) -> Any:
    empty: list[str] | None = [] if name in _COLLECTIONS else None
    return filled.get(name, empty) if name in readable else empty


def _filled(user: User) -> Json:
    given, _, surname = user.name.partition(" ")
    return {
        "id": user.id,
        "displayName": user.name,
        "givenName": given,
        "surname": surname or None,
        "userPrincipalName": user.upn,
        "mail": user.mail,
        "mailNickname": user.upn.partition("@")[0],
        "accountEnabled": True,
        "userType": "Guest" if user.home else "Member",
        "externalUserState": "Accepted" if user.home else None,
        "creationType": "Invitation" if user.home else None,
        "otherMails": [user.home.mail] if user.home else [],
        "proxyAddresses": [f"SMTP:{(user.home or user).mail}"],
        "identities": _identities(user),
        "identityParentId": user.agent.object_id if user.agent else None,
    }


def _identities(user: User) -> list[Json]:
    issuer = user.tenant.initial_domain
    own = {"signInType": "userPrincipalName", "issuer": issuer, "issuerAssignedId": user.upn}
    if user.home is None:
        return [own]
    federated = {"signInType": "federated", "issuer": "ExternalAzureAD", "issuerAssignedId": user.home.upn}
    return [federated, own]


def _sponsor(sponsor: User | Group) -> Json:
    """A member of the collection: only the id is filled, whatever was selected."""
    if isinstance(sponsor, Group):
        return {"@odata.type": "#microsoft.graph.group", "id": sponsor.id, "deletedDateTime": None}
    empty = {name: _value(name, {}, _KNOWN) for name in _DEFAULT}
    return {"@odata.type": "#microsoft.graph.user", **empty, "id": sponsor.id}
