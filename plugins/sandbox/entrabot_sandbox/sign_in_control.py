"""The control calls about people's own sign-in: enter a device's code as somebody, spoil refresh tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from entrabot_sandbox.errors import ControlError, EntraError
from entrabot_sandbox.people import find_person
from entrabot_sandbox.refresh_tokens import SPOILT
from entrabot_sandbox.state import State

Json = dict[str, Any]
Action = Callable[[Json, Request], Awaitable[Any] | Any]


class SignInControl:
    """Decides what people would decide on the sign-in pages."""

    def __init__(self, state: State) -> None:
        self._state = state

    def actions(self) -> list[tuple[str, str, Action, int]]:
        """The control API's calls: method, path, action, status."""
        return [("POST", "/device", self._device, 200), ("POST", "/refresh-tokens", self._spoil, 200)]

    def _device(self, body: Json, request: Request) -> Json:
        people = self._state.entra.people
        code = people.device_codes.entered(str(body.get("user_code", "")))
        if code is None:
            raise ControlError(404, "There is no such code, or it has expired or was used.")
        action = body.get("action", "accept")
        if action not in ("accept", "decline"):
            raise ControlError(400, "action must be accept or decline.")
        person = find_person(self._state, body.get("as"))
        try:
            user = self._state.entra.answers.in_tenant(person, code.tenant)
            if user not in self._state.directory.people_of(code.tenant):
                raise ControlError(400, "An agent's user has no sign-in of its own.")
            if action == "decline":
                code.declined = True
            else:
                people.accept(code, user)
        except EntraError as error:
            raise ControlError(400, error.message) from error
        return {}

    def _spoil(self, body: Json, request: Request) -> Json:
        state = body.get("state")
        if state not in SPOILT:
            raise ControlError(400, f"state must be one of {', '.join(SPOILT)}.")
        person = find_person(self._state, body["as"]) if "as" in body else None
        return {"count": self._state.entra.refresh_tokens.spoil(state, person)}
