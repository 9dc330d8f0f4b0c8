"""Where sponsors are read from: the agent identity's sponsors in the directory, or the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from entrabot_host.errors import GraphError, GraphNotFound, GraphThrottled, GraphUnavailable
from entrabot_host.host import BatchRequest, Graph, GraphResponse, Sponsor
from entrabot_host.identity.addresses import address_forms, addresses, decode_guest, is_guest_name
from entrabot_host.identity.settings import SponsorSettings

USER_FIELDS = "id,displayName,userPrincipalName,mail,otherMails,proxyAddresses,identities,userType"
_GROUP = "#microsoft.graph.group"
_USER = "#microsoft.graph.user"
_MAX_PAGES = 10


@dataclass(frozen=True)
class Known:
    """A sponsor and what decides about proofs. home_hint: the tenant that the settings call this sponsor's home."""

    sponsor: Sponsor
    guest: bool = False
    home_hint: str = ""


@dataclass(frozen=True)
class Reading:
    """The sponsors of one source, and what is wrong with them, in sentences for the operator."""

    known: tuple[Known, ...]
    problems: tuple[str, ...] = ()


def from_settings(settings: SponsorSettings) -> Reading:
    """Return the sponsors that ``ENTRABOT_HUMAN_*`` name. Addresses that cannot be told apart are left out."""
    problems: list[str] = []
    upns = _belonging(settings.user_ids, settings.upns, "ENTRABOT_HUMAN_UPNS", problems)
    mails = _belonging(settings.user_ids, settings.mails, "ENTRABOT_HUMAN_USER_MAILS", problems)
    known = tuple(
        _configured(
            object_id, [*upns[place], *mails[place]], _at(settings.types, place), _at(settings.tenant_ids, place)
        )
        for place, object_id in enumerate(settings.user_ids)
    )
    return Reading(known, tuple(problems))


def _configured(object_id: str, named: Sequence[str], kind: str, tenant: str) -> Known:
    forms = addresses([*named, *map(decode_guest, named)])
    guest = kind.lower() == "guest" or any(map(is_guest_name, named))
    return Known(Sponsor(object_id, named[0] if named else object_id, forms), guest, tenant)


def _belonging(ids: Sequence[str], named: Sequence[str], variable: str, problems: list[str]) -> Sequence[Sequence[str]]:
    """Return the addresses of each id: all of them for a single one, by position when there are as many."""
    if len(ids) == 1:
        return [named]
    if len(ids) == len(named):
        return [[name] for name in named]
    if named:
        problems.append(f"{variable} has {len(named)} entries for {len(ids)} user ids, so it is not used.")
    return [[] for _ in ids]


def _at(values: Sequence[str], place: int) -> str:
    return values[place] if place < len(values) else ""


async def from_directory(graph: Graph, agent_object_id: str) -> Reading:
    """Return the sponsors that the directory names, with their addresses. Raises `GraphError`.

    The list is read app-only, each person with the signed-in identity's own permissions. Groups name nobody and
    are reported.
    """
    path = f"/servicePrincipals/{quote(agent_object_id, safe='')}/microsoft.graph.agentIdentity/sponsors"
    people: dict[str, Mapping[str, Any]] = {}
    problems: list[str] = []
    async for page in graph.pages(path, app_only=True, max_pages=_MAX_PAGES):
        for member in page:
            object_id = str(member.get("id") or "").lower()
            if member.get("@odata.type") in (None, _USER):
                people[object_id] = member
            else:
                problems.append(_no_person(object_id, str(member["@odata.type"])))
    people.pop("", None)
    known = await _enrich(graph, people, problems)
    return Reading(known, tuple(problems))


def _no_person(object_id: str, kind: str) -> str:
    what = "a group" if kind == _GROUP else "no person"
    return f"The sponsor {object_id} is {what}, which names nobody: make the people themselves sponsors."


async def _enrich(graph: Graph, people: Mapping[str, Mapping[str, Any]], problems: list[str]) -> tuple[Known, ...]:
    if not people:
        return ()
    requests = [BatchRequest(f"/users/{quote(object_id, safe='')}?$select={USER_FIELDS}") for object_id in people]
    answers = await graph.batch(requests)
    known = []
    for (object_id, member), answer in zip(people.items(), answers, strict=True):
        if isinstance(answer, GraphThrottled | GraphUnavailable):
            raise answer
        if isinstance(answer, GraphNotFound):
            problems.append(f"The sponsor {object_id} is no person of this tenant (a group, or deleted).")
            continue
        if isinstance(answer, GraphError):
            problems.append(f"The addresses of the sponsor {object_id} cannot be read: {answer.message}")
        known.append(_person(object_id, {**member, **_body(answer)}))
    return tuple(known)


def _body(answer: GraphResponse | GraphError) -> Mapping[str, Any]:
    return answer.body if isinstance(answer, GraphResponse) and isinstance(answer.body, Mapping) else {}


def _person(object_id: str, user: Mapping[str, Any]) -> Known:
    user_name = str(user.get("userPrincipalName") or "")
    name = str(user.get("displayName") or user_name or object_id)
    guest = is_guest_name(user_name) or str(user.get("userType") or "").lower() == "guest"
    return Known(Sponsor(object_id, name, address_forms(user)), guest)


def with_settings(reading: Reading, configured: Reading) -> Reading:
    """Add to the people of a reading the addresses and home tenants that the settings give for the same object ids."""
    extra = {known.sponsor.object_id: known for known in configured.known}
    return replace(reading, known=tuple(_merged(known, extra.get(known.sponsor.object_id)) for known in reading.known))


def _merged(known: Known, extra: Known | None) -> Known:
    if extra is None:
        return known
    sponsor = replace(known.sponsor, addresses=known.sponsor.addresses | extra.sponsor.addresses)
    return Known(sponsor, known.guest or extra.guest, extra.home_hint)
