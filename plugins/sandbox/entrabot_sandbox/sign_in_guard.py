"""What keeps other web pages from signing in as somebody: own host, own origin, a cookie and a token for each form."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import cookie_parser

from entrabot_sandbox.authorization import AuthorizationRequest
from entrabot_sandbox.clock import Clock
from entrabot_sandbox.device_codes import DeviceCode
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.oauth_forms import Form

LIFETIME = 600
_MOST = 200
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass
class Transaction:
    """One sign-in page that is open: what it asks a person for (None: for a device's code), and its secrets.

    ``browser`` is the cookie of the browser that it was shown in.
    """

    asked: AuthorizationRequest | DeviceCode | None
    browser: str
    opened: float
    id: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


class Guard:
    """Knows the open pages, and whether a request comes from one of them."""

    def __init__(self, clock: Clock, base: str) -> None:
        self._clock = clock
        port = urlsplit(base).port
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.cookie = f"__Host-entrabot-sandbox-{port}"
        self._open: dict[str, Transaction] = {}

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Raise EntraError (403) unless the service was called by its own name."""
        if headers.get("host", "").lower() not in self._hosts:
            raise _refused("This page answers only under its own host and port.")

    def begin(self, asked: AuthorizationRequest | DeviceCode | None, headers: Mapping[str, str]) -> Transaction:
        """Open a page in the browser that asks for it."""
        while len(self._open) >= _MOST:
            del self._open[next(iter(self._open))]
        transaction = Transaction(asked, self._browser(headers) or secrets.token_urlsafe(32), self._clock.time())
        self._open[transaction.id] = transaction
        return transaction

    def check(self, form: Form, headers: Mapping[str, str]) -> Transaction:
        """The open page that a form was sent from. Raises EntraError (403) when it was none, or another browser's."""
        self.check_host(headers)
        if headers.get("origin") != f"https://{headers['host'].lower()}":
            raise _refused("The form was not sent from this page.")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise _refused("The form was not sent from this page.")
        transaction = self._open.get(form.get("transaction", ""))
        if transaction is None or transaction.opened + LIFETIME <= self._clock.time():
            raise _refused("The page was open for too long, or was used already. Begin the sign-in again.")
        browser, csrf = self._browser(headers).encode(), form.get("csrf", "").encode()
        if not hmac.compare_digest(browser, transaction.browser.encode()):
            raise _refused("The page was opened in another browser, or cookies are off.")
        if not hmac.compare_digest(csrf, transaction.csrf.encode()):
            raise _refused("The form was not sent from this page.")
        return transaction

    def end(self, transaction: Transaction) -> None:
        """Close a page: its form counts no more."""
        self._open.pop(transaction.id, None)

    def set_cookie(self, transaction: Transaction) -> str:
        """The value of the ``Set-Cookie`` header that goes with a page."""
        return f"{self.cookie}={transaction.browser}; Path=/; Secure; HttpOnly; SameSite=Strict"

    def _browser(self, headers: Mapping[str, str]) -> str:
        value = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return value if _SECRET.fullmatch(value) else ""


def _refused(message: str) -> EntraError:
    return EntraError(403, "access_denied", 900561, message)
