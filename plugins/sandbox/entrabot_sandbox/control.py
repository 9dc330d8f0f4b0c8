"""The control API: its guard, and the calls that arrange the tenancy and its troubles."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from entrabot_sandbox import defaults
from entrabot_sandbox.directory import AgentIdentity, Grants, Group, Tenant, User
from entrabot_sandbox.drive_control import DriveControl
from entrabot_sandbox.errors import ControlError
from entrabot_sandbox.mail_control import MailControl
from entrabot_sandbox.people import describe_people, describe_person, find_person
from entrabot_sandbox.refresh_tokens import KEEP, REVOKE
from entrabot_sandbox.scopes import RESOURCES
from entrabot_sandbox.sign_in_control import SignInControl
from entrabot_sandbox.speech import Speech
from entrabot_sandbox.state import State
from entrabot_sandbox.word_control import WordControl

Json = dict[str, Any]
Action = Callable[[Json, Request], Awaitable[Any] | Any]

SETTINGS: dict[str, tuple[type, ...]] = {
    "ordering_taken": (bool,),
    "federated_addresses": (bool,),
    "throttling": (bool,),
    "visibility_delay": (int, float),
    "token_lifetime": (int, type(None)),
    "refresh_rotation": (str,),
    "device_interval": (int,),
    "user_consent": (bool,),
}


class Control:
    """Arranges what the services know, and speaks for the people in it."""

    def __init__(self, state: State, token: str) -> None:
        self._state = state
        self._token = token

    def app(self) -> ASGIApp:
        """The ASGI application, behind its guard."""
        routes = [
            _route("GET", "/state", self._show),
            _route("GET", "/people", lambda body, request: describe_people(self._state)),
            _route("POST", "/people", self._add_person, 201),
            _route("POST", "/guests", self._invite, 201),
            _route("POST", "/tenants", self._add_tenant, 201),
            _route("POST", "/domains", self._add_domain, 201),
            _route("POST", "/groups", self._add_group, 201),
            _route("POST", "/blueprints", self._add_blueprint, 201),
            _route("PUT", "/sponsors", self._set_sponsors),
            _route("PUT", "/grants", self._set_grants),
            _route("GET", "/faults", lambda body, request: {"faults": self._state.faults.describe()}),
            _route("POST", "/faults", lambda body, request: self._state.faults.add(body).describe(), 201),
            _route("DELETE", "/faults", lambda body, request: self._state.faults.clear()),
            _route("DELETE", "/faults/{id:int}", lambda _, r: self._state.faults.remove(r.path_params["id"])),
            _route("POST", "/tokens/expire", self._expire_tokens),
            _route("PUT", "/settings", self._set_settings),
            _route("PUT", "/clock", self._set_clock),
            _route("GET", "/requests", self._requests),
            _route("DELETE", "/requests", lambda body, request: self._state.recorder.clear()),
            _route("POST", "/reset", lambda body, request: self._state.reset()),
        ]
        speech = Speech(self._state)
        routes += [_route(method, path, action, status) for method, path, action, status in speech.actions()]
        routes += [_route(*action) for action in DriveControl(self._state).actions()]
        routes += [_route(*action) for action in MailControl(self._state).actions()]
        routes += [_route(*action) for action in WordControl(self._state).actions()]
        routes += [_route(*action) for action in SignInControl(self._state).actions()]
        return _Guard(Starlette(routes=routes, exception_handlers=_UNKNOWN), self._token, self._state.base)

    def _show(self, body: Json, request: Request) -> Json:
        state = self._state
        grants = {f"{app} {resource}": asdict(grant) for (app, resource), grant in state.directory.grants.items()}
        return {
            "tenants": [asdict(tenant) for tenant in state.directory.tenants],
            "people": describe_people(state),
            "sponsors": [sponsor.id for sponsor in state.agent.sponsors],
            "grants": grants,
            "settings": self._settings(),
            "faults": state.faults.describe(),
            "clock_offset": state.clock.offset,
        }

    def _settings(self) -> Json:
        state = self._state
        return {
            "ordering_taken": state.ordering_taken,
            "federated_addresses": state.federated_addresses,
            "throttling": state.throttle.enabled,
            "visibility_delay": state.conversations.visibility_delay,
            "token_lifetime": state.issuer.lifetime,
            "refresh_rotation": state.entra.refresh_tokens.rotation,
            "device_interval": state.entra.people.device_codes.interval,
            "user_consent": state.entra.people.user_consent,
        }

    def _tenant(self, reference: str) -> Tenant:
        directory = self._state.directory
        named = next((tenant for tenant in directory.tenants if tenant.key == reference), None)
        tenant = named or directory.tenant(reference)
        if tenant is None:
            raise ControlError(404, f"There is no tenant '{reference}'.")
        return tenant

    def _add_person(self, body: Json, request: Request) -> Json:
        state, key = self._state, text(body, "key")
        if any(person.key == key for person in state.directory.people()):
            raise ControlError(400, f"There is a person '{key}' already.")
        tenant = self._tenant(text(body, "tenant", "contoso"))
        mail = text(body, "mail", "") or None
        if body.get("guest") and tenant is state.agent.tenant:
            raise ControlError(400, "Only somebody of another tenant can be a guest.")
        person = defaults.add_person(state.directory, state.guids, tenant, key, text(body, "name"), mail)
        if body.get("guest"):
            self._guest(person)
        return describe_person(state, person)

    def _invite(self, body: Json, request: Request) -> Json:
        person = find_person(self._state, body.get("person"))
        self._guest(person)
        return describe_person(self._state, person)

    def _guest(self, person: User) -> User:
        """The person's guest object in the agent's tenant, made if there is none. Raises ControlError at home."""
        state, tenant = self._state, self._state.agent.tenant
        if person.tenant is tenant:
            raise ControlError(400, "Only somebody of another tenant can be a guest.")
        made = state.directory.guest(person, tenant)
        return made or state.directory.invite(person, tenant, state.guids[f"{person.key} as a guest"])

    def _add_tenant(self, body: Json, request: Request) -> Json:
        directory, domain = self._state.directory, text(body, "domain")
        if directory.tenant(domain):
            raise ControlError(400, f"The domain {domain} is taken.")
        key, name = text(body, "key"), text(body, "name")
        return asdict(defaults.add_tenant(directory, self._state.guids, key, name, domain))

    def _add_domain(self, body: Json, request: Request) -> Json:
        domain = text(body, "domain").lower()
        if self._state.directory.tenant(domain):
            raise ControlError(400, f"The domain {domain} is taken.")
        tenant = self._tenant(text(body, "tenant"))
        tenant.domains.insert(0, domain)
        return asdict(tenant)

    def _add_group(self, body: Json, request: Request) -> Json:
        group = Group(str(uuid4()), self._state.agent.tenant, text(body, "name"))
        self._state.directory.groups.append(group)
        return {"id": group.id, "name": group.name}

    def _add_blueprint(self, body: Json, request: Request) -> Json:
        state, name = self._state, text(body, "name")
        key = name.lower().replace(" ", "-")
        if any(person.key == key for person in state.directory.people()):
            raise ControlError(400, f"There is a person '{key}' already.")
        path, certificate = state.new_certificate(f"blueprint-{uuid4()}")
        agent = defaults.add_agent(state.directory, state.guids, state.agent.tenant, name, certificate)
        user = defaults.add_agent_user(state.directory, state.guids, agent, key, f"{name} Agent", key)
        return {**_describe_agent(agent, user), "cert_file": str(path)}

    def _set_sponsors(self, body: Json, request: Request) -> Json:
        wanted = body.get("sponsors")
        if not isinstance(wanted, list):
            raise ControlError(400, "sponsors must be a list of people or group ids.")
        self._state.agent.sponsors = [self._sponsor(reference) for reference in wanted]
        return {"sponsors": [sponsor.id for sponsor in self._state.agent.sponsors]}

    def _sponsor(self, reference: Any) -> User | Group:
        state = self._state
        for group in state.directory.groups:
            if reference in (group.id, group.name):
                return group
        person = find_person(state, reference)
        return person if person.tenant is state.agent.tenant else self._guest(person)

    def _set_grants(self, body: Json, request: Request) -> Json:
        resource = text(body, "resource")
        if resource not in RESOURCES:
            raise ControlError(400, f"resource must be one of {', '.join(RESOURCES)}.")
        granted = self._grants(text(body, "app", "agent"), resource)
        if "scopes" in body:
            granted.scopes = None if body["scopes"] is None else _names(body, "scopes")
        if "roles" in body:
            granted.roles = _names(body, "roles")
        return asdict(granted)

    def _grants(self, app: str, resource: str) -> Grants:
        """What an application was granted; of the one that people sign in to, their own consents are taken away."""
        directory = self._state.directory
        if app == "agent":
            return directory.granted(self._state.agent.app_id, resource)
        if app != "delegated":
            raise ControlError(400, "app must be agent or delegated.")
        client = directory.clients[0]
        kept = {key: names for key, names in directory.consents.items() if key[::2] != (client.app_id, resource)}
        directory.consents = kept
        return directory.granted(client.app_id, resource)

    def _expire_tokens(self, body: Json, request: Request) -> Json:
        self._state.issuer.forget(everything=bool(body.get("all")))
        if body.get("all"):
            self._state.entra.refresh_tokens.clear()
        return {}

    def _set_settings(self, body: Json, request: Request) -> Json:
        for name, value in body.items():
            if name not in SETTINGS:
                raise ControlError(400, f"There is no setting '{name}'. There are: {', '.join(SETTINGS)}.")
            if type(value) not in SETTINGS[name]:
                raise ControlError(400, f"{name} has the wrong type.")
        if body.get("refresh_rotation", KEEP) not in (KEEP, REVOKE):
            raise ControlError(400, f"refresh_rotation must be {KEEP} or {REVOKE}.")
        state = self._state
        wanted = {**self._settings(), **body}
        state.ordering_taken = wanted["ordering_taken"]
        state.federated_addresses = wanted["federated_addresses"]
        state.throttle.enabled = wanted["throttling"]
        state.conversations.visibility_delay = wanted["visibility_delay"]
        state.issuer.lifetime = wanted["token_lifetime"]
        state.entra.refresh_tokens.rotation = wanted["refresh_rotation"]
        state.entra.people.device_codes.interval = wanted["device_interval"]
        state.entra.people.user_consent = wanted["user_consent"]
        return self._settings()

    def _set_clock(self, body: Json, request: Request) -> Json:
        offset = body.get("offset")
        if isinstance(offset, bool) or not isinstance(offset, int | float):
            raise ControlError(400, "offset must be a number of seconds.")
        self._state.clock.offset = float(offset)
        return {"offset": self._state.clock.offset}

    def _requests(self, body: Json, request: Request) -> Json:
        since = request.query_params.get("since", "0")
        if not since.isdigit():
            raise ControlError(400, "since must be a number.")
        return self._state.recorder.describe(int(since))


def text(body: Json, name: str, default: str | None = None) -> str:
    """A string of the body. Raises ControlError (400) when it is missing or not one."""
    value = body.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise ControlError(400, f"{name} must be a string.")
    return value


class _Guard:
    """Lets in who knows the run's token, came by the sandbox's own name, and is no foreign page."""

    def __init__(self, app: ASGIApp, token: str, base: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        port = urlsplit(base).port
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(dict(scope.get("headers", ())))
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: dict[bytes, bytes]) -> Response | None:
        if headers.get(b"host", b"").decode("latin-1").lower() not in self._hosts:
            return _error(403, "The control API answers only under its own host and port.")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in {f"https://{host}" for host in self._hosts}:
            return _error(403, "The control API does not answer pages from elsewhere.")
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            return _error(401, "The control API needs the token that was printed at start.")
        return None


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message}}, status)


async def _unknown(request: Request, error: Exception) -> Response:
    return _error(error.status_code if isinstance(error, HTTPException) else 500, "There is no such control call.")


_UNKNOWN: dict[Any, Any] = {404: _unknown, 405: _unknown}


def _route(method: str, path: str, action: Action, status: int = 200) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            result = action(await _body(request), request)
            if isinstance(result, Awaitable):
                result = await result
        except ControlError as error:
            return _error(error.status, error.message)
        return JSONResponse(result if result is not None else {}, status)

    return Route(path, endpoint, methods=[method])


async def _body(request: Request) -> Json:
    content = await request.body()
    if not content:
        return {}
    try:
        body = json.loads(content)
    except ValueError as error:
        raise ControlError(400, "The body is not JSON.") from error
    if not isinstance(body, dict):
        raise ControlError(400, "The body must be a JSON object.")
    return body


def _names(body: Json, name: str) -> list[str]:
    value = body[name]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ControlError(400, f"{name} must be a list of strings.")
    return list(value)


def _describe_agent(agent: AgentIdentity, user: User) -> Json:
    return {
        "app_id": agent.blueprint.app_id,
        "agent_id": agent.app_id,
        "agent_object_id": agent.object_id,
        "agent_user_id": user.id,
        "agent_upn": user.upn,
    }
