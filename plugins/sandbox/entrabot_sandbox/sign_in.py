"""The web pages of people's own sign-in: authorization, and the entry of a device's code."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrabot_sandbox import sign_in_pages as pages
from entrabot_sandbox.authorization import FORM_POST, AuthorizationRequest, Target
from entrabot_sandbox.device_codes import PATH, DeviceCode
from entrabot_sandbox.directory import User
from entrabot_sandbox.entra import NO_STORE, Entra
from entrabot_sandbox.errors import EntraError, GraphError
from entrabot_sandbox.oauth_forms import Form, read_form, read_query
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.service import Service, headers_of
from entrabot_sandbox.sign_in_guard import Guard, Transaction
from entrabot_sandbox.state import State

_ASKS_AN_ADMINISTRATOR = "Your organisation lets only an administrator consent to what this application asks for."
_DECLINED = EntraError(400, "access_denied", 65004, "User declined to consent to access the app.")
_CHOOSE = "Choose who signs in."


class SignIn:
    """The pages. Forms count only when they come from a page that is open here, in the same browser."""

    def __init__(self, state: State, service: Service) -> None:
        self._state = state
        self._service = service

    def routes(self) -> list[Route]:
        """The endpoints."""
        authorize = "/{tenant}/oauth2/v2.0/authorize"
        return [
            Route(authorize, self._show, methods=["GET"]),
            Route(authorize, self._decide, methods=["POST"]),
            Route(PATH, self._ask_for_code, methods=["GET"]),
            Route(PATH, self._take_code, methods=["POST"]),
        ]

    @property
    def _entra(self) -> Entra:
        return self._state.entra

    @property
    def _guard(self) -> Guard:
        return self._state.sign_in_guard

    # Authorization

    async def _show(self, request: Request) -> Response:
        """``GET /{tenant}/oauth2/v2.0/authorize``: the page, an answer to the client, or a refusal to the person."""

        def show() -> Reply:
            headers = headers_of(request)
            self._guard.check_host(headers)
            query = read_query(request.url.query)
            target = self._entra.target(request.path_params["tenant"], query)
            try:
                asked = self._entra.request(target, query)
            except EntraError as error:
                return self._sent(target, self._refusal(target, error))
            return self._choose(self._guard.begin(asked, headers), asked)

        return await self._answer(request, show)

    async def _decide(self, request: Request) -> Response:
        """``POST /{tenant}/oauth2/v2.0/authorize``: the page's form."""
        form = await _form(request)

        def decide() -> Reply:
            transaction = self._guard.check(form, headers_of(request))
            asked = transaction.asked
            if not isinstance(asked, AuthorizationRequest):
                raise EntraError(403, "access_denied", 900561, "The form belongs to another page.")
            if form.get("action") != "accept":
                self._guard.end(transaction)
                return self._sent(asked.target, self._refusal(asked.target, _DECLINED))
            user = self._chosen(asked, form)
            if user is None:
                return self._choose(transaction, asked, _CHOOSE)
            self._guard.end(transaction)
            try:
                self._entra.people.accept(asked, user)
            except EntraError as error:
                return self._sent(asked.target, self._refusal(asked.target, error))
            return self._sent(asked.target, self._entra.people.codes.issue(asked, user))

        return await self._answer(request, decide)

    def _refusal(self, target: Target, error: EntraError) -> Form:
        told = self._entra.describe(error)
        answer = {name: str(told[name]) for name in ("error", "error_description", "error_uri")}
        return target.with_state(answer)

    def _sent(self, target: Target, answer: Form) -> Reply:
        if target.mode == FORM_POST:
            return pages.post_on(target.address(answer), target.origin, answer)
        headers = {"Location": target.address(answer), "Referrer-Policy": "no-referrer", **NO_STORE}
        return Reply(302, headers, body=b"")

    # Another device's code

    async def _ask_for_code(self, request: Request) -> Response:
        """``GET /devicelogin``."""

        def ask() -> Reply:
            headers = headers_of(request)
            self._guard.check_host(headers)
            return self._code_page(self._guard.begin(None, headers))

        return await self._answer(request, ask)

    async def _take_code(self, request: Request) -> Response:
        """``POST /devicelogin``: the code, and then the decision."""
        form = await _form(request)

        def take() -> Reply:
            transaction = self._guard.check(form, headers_of(request))
            if isinstance(transaction.asked, AuthorizationRequest):
                raise EntraError(403, "access_denied", 900561, "The form belongs to another page.")
            if transaction.asked is None:
                return self._entered(transaction, form.get("user_code", ""))
            return self._decided(transaction, transaction.asked, form)

        return await self._answer(request, take)

    def _entered(self, transaction: Transaction, user_code: str) -> Reply:
        code = self._entra.people.device_codes.entered(user_code)
        if code is None:
            return self._code_page(transaction, "That code is not known, or has expired.")
        transaction.asked = code
        return self._choose(transaction, code)

    def _decided(self, transaction: Transaction, code: DeviceCode, form: Form) -> Reply:
        if not self._entra.people.device_codes.is_waiting(code):
            self._guard.end(transaction)
            return pages.told("Too late", "The code has expired, or was used already.")
        if form.get("action") != "accept":
            self._guard.end(transaction)
            code.declined = True
            return pages.told("Cancelled", "You have not signed in. You can close this page.")
        user = self._chosen(code, form)
        if user is None:
            return self._choose(transaction, code, _CHOOSE)
        self._guard.end(transaction)
        try:
            self._entra.people.accept(code, user)
        except EntraError:
            return pages.told("An administrator is needed", _ASKS_AN_ADMINISTRATOR)
        return pages.told("Signed in", f"You have signed in to {code.client.name} on your device as {user.name}.")

    def _code_page(self, transaction: Transaction, note: str = "") -> Reply:
        return self._with_cookie(transaction, pages.enter_code(_secrets(transaction), note))

    # Both

    def _choose(self, transaction: Transaction, asked: AuthorizationRequest | DeviceCode, note: str = "") -> Reply:
        hint = sends_to = ""
        if isinstance(asked, AuthorizationRequest):
            hint, sends_to = asked.login_hint, asked.target.origin
        people = self._state.directory.people_of(asked.tenant)
        chosen = next((person for person in people if hint and (person.home or person).is_called(hint)), None)
        secrets, app = _secrets(transaction), asked.client.name
        return self._with_cookie(
            transaction, pages.choose(secrets, people, chosen, app, asked.requested, sends_to, note)
        )

    def _chosen(self, asked: AuthorizationRequest | DeviceCode, form: Form) -> User | None:
        people = self._state.directory.people_of(asked.tenant)
        return next((person for person in people if person.id == form.get("user")), None)

    def _with_cookie(self, transaction: Transaction, reply: Reply) -> Reply:
        reply.headers["Set-Cookie"] = self._guard.set_cookie(transaction)
        return reply

    async def _answer(self, request: Request, work: Callable[[], Reply]) -> Response:
        async def handle() -> Reply:
            try:
                return work()
            except EntraError as error:
                return self._told(error)

        return await self._service.answer(request, handle, self._troubled)

    def _told(self, error: EntraError) -> Reply:
        description = str(self._entra.describe(error)["error_description"])
        return pages.told("Sorry, but we're having trouble signing you in", description, error.status)

    def _troubled(self, error: GraphError) -> Reply:
        reply = self._told(
            EntraError(error.status, "temporarily_unavailable", 90033, "A transient error has occurred.")
        )
        reply.headers |= error.headers
        return reply


def _secrets(transaction: Transaction) -> Form:
    return {"transaction": transaction.id, "csrf": transaction.csrf}


async def _form(request: Request) -> Form:
    try:
        return read_form(request.headers.get("content-type", ""), await request.body(), "transaction")
    except EntraError:
        return {}
