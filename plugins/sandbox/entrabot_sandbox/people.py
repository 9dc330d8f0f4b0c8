"""People as the control API names and shows them."""

from __future__ import annotations

from typing import Any

from entrabot_sandbox.directory import User
from entrabot_sandbox.errors import ControlError
from entrabot_sandbox.state import State


def find_person(state: State, reference: Any) -> User:
    """Somebody by key, UPN, mail address or object id (a guest's id leads home). Raises ControlError (404)."""
    wanted = str(reference).lower()
    for user in state.directory.users:
        if user.is_called(wanted) or (user.key and user.key.lower() == wanted):
            return user.home or user
    keys = ", ".join(user.key for user in state.directory.people())
    raise ControlError(404, f"There is no person '{reference}'. There are: {keys}.")


def describe_person(state: State, person: User) -> dict[str, Any]:
    """A person, with the guest object that stands for them in the agent's tenant."""
    guest = state.directory.guest(person, state.agent.tenant)
    sponsors = state.agent.sponsors
    return {
        "key": person.key,
        "name": person.name,
        "id": person.id,
        "tenant": person.tenant.key,
        "tenant_id": person.tenant.id,
        "upn": person.upn,
        "mail": person.mail,
        "sponsor": person in sponsors or guest in sponsors,
        "guest_id": guest.id if guest else None,
        "guest_upn": guest.upn if guest else None,
    }


def describe_people(state: State) -> dict[str, dict[str, Any]]:
    """Everybody by key."""
    return {person.key: describe_person(state, person) for person in state.directory.people()}
