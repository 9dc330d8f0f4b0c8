"""How a person is asked to sign in: with a browser here, or with a code on any device."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from entrabot_host.auth.failures import Hop
from entrabot_host.auth.provider import SignInPrompt
from entrabot_host.errors import AuthError
from entrabot_host.security.clouds import Cloud
from entrabot_host.security.urls import origin

PORT = 8400
BROWSER_SECONDS = 120.0
_LEAST_INTERVAL, _MOST_INTERVAL = 1, 60
_MOST_DEVICE_SECONDS = 900
_END_SECONDS = 5.0
_SILENT_SECONDS = 2.0
_MICROSOFTS_PAGE = re.compile(r"https://(www\.)?microsoft\.com/(devicelogin[a-z]*|link)/?")
_CODE = re.compile(r"[A-Za-z0-9-]{4,32}")


class NoBrowser(Exception):
    """Signing in with a browser did not come about; a code may do. The text says why."""


def is_headless(choice: bool | None, environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether nobody could see a browser that is opened here. choice: what the operator says."""
    if choice is not None:
        return choice
    if any(environment.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")):
        return True
    if environment.get("BROWSER"):
        return False
    has_screen = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return platform.startswith("linux") and not has_screen


def check_address(url: str, cloud: Cloud, hop: Hop) -> str:
    """Return an address at which a person is to sign in. Raises `AuthError` unless it is the sign-in service's own.

    A stand-in may not send people to Microsoft's page: a code entered there would open real data to somebody.
    """
    try:
        own = origin(url) == cloud.login_url or (cloud.is_microsoft and origin(url) in _addresses(cloud))
    except ValueError:
        own = False
    if own or (cloud.is_microsoft and _MICROSOFTS_PAGE.fullmatch(url)):
        return url
    raise AuthError(
        "The sign-in service names a page of another site for the sign-in, which is not shown.",
        hop=hop,
        remedy="Check ENTRABOT_LOGIN_URL and HTTPS_PROXY. Do not enter a code at an address that you do not know.",
    )


def _addresses(cloud: Cloud) -> frozenset[str]:
    return frozenset(f"https://{host}" for host in cloud.login_hosts)


class DeviceCode:
    """A code that Entra gave out for a person to enter. ``flow`` is MSAL's, which it changes at every poll."""

    def __init__(self, flow: dict[str, Any], cloud: Cloud) -> None:
        self.url = check_address(str(flow.get("verification_uri", "")), cloud, Hop.DEVICE_CODE)
        self.code = str(flow["user_code"])
        if not _CODE.fullmatch(self.code):
            raise AuthError("The sign-in service's code has an unknown form.", hop=Hop.DEVICE_CODE, remedy="Try again.")
        self.flow = flow
        self.deadline = time.monotonic() + min(float(flow.get("expires_in") or 0), _MOST_DEVICE_SECONDS)

    @property
    def interval(self) -> int:
        """Seconds between two polls; grows when Entra says so."""
        self.flow["interval"] = min(max(int(self.flow.get("interval") or 0), _LEAST_INTERVAL), _MOST_INTERVAL)
        return int(self.flow["interval"])

    def prompt(self) -> SignInPrompt:
        """Return what the person is told."""
        sentence = (
            f"To let the agent act in your name, open {self.url} and enter the code {self.code}. "
            "Do it only if you started Entrabot yourself."
        )
        return SignInPrompt(sentence, self.deadline, self.url, self.code)


class BrowserWindow:
    """Waits on this machine's own loopback address for what a browser brings back. `close` may be called any time."""

    def __init__(self, seconds: float = BROWSER_SECONDS, port: int = PORT) -> None:
        self._seconds = seconds
        self._port = port
        self._state = ""
        self._given_up = ""

    @property
    def redirect_uri(self) -> str:
        """Where Entra is to send the browser."""
        return f"http://localhost:{self._port}"

    def answer(self, flow: Mapping[str, Any]) -> Mapping[str, Any]:
        """Open the browser at the flow's address and return Entra's answer. Blocks. Raises `NoBrowser`."""
        try:
            receiver = _receiver(self._port)
        except OSError as error:
            raise NoBrowser(f"port {self._port} cannot be used: {error.strerror}") from None
        self._state = flow["state"]
        with receiver:
            if self._given_up:  # before there was anything to wake
                raise NoBrowser(self._given_up)
            found = receiver.get_auth_response(
                auth_uri=flow["auth_uri"],
                state=self._state,
                timeout=self._seconds,
                auth_uri_callback=lambda _: self.close("no browser could be opened"),
            )
            if found is None:
                self._end()
        if self._given_up or found is None:
            raise NoBrowser(self._given_up or f"nobody signed in within {self._seconds:g} seconds")
        return dict(found)

    def close(self, why: str = "it was given up") -> None:
        """Stop waiting, soon. Does not block."""
        self._given_up = self._given_up or why
        if self._state:
            threading.Thread(target=self._end, name="entrabot-browser-end", daemon=True).start()

    def _end(self) -> None:
        """Answer in Entra's place: nothing else wakes the receiver before its time is up."""
        from http.client import HTTPConnection, HTTPException

        connection = HTTPConnection("127.0.0.1", self._port, timeout=_END_SECONDS)
        body = urlencode({"error": "given_up", "state": self._state})
        with suppress(OSError, HTTPException):  # it has ended already
            connection.request("POST", "/", body, {"Content-Type": "application/x-www-form-urlencoded"})
            connection.getresponse().read()
        connection.close()

    def prompt(self) -> SignInPrompt:
        """Return what the person is told."""
        sentence = "A browser window was opened on this machine: sign in there to let the agent act in your name."
        return SignInPrompt(sentence, time.monotonic() + self._seconds)


def _receiver(port: int) -> Any:
    """Return MSAL's receiver, which takes one connection at a time, made fit for what else may come to this port.

    Browsers open connections in advance, on which nothing comes: such a one holds up the others for seconds only. And
    what makes no sense is not printed to standard error.
    """
    from msal.oauth2cli import AuthCodeReceiver

    receiver = AuthCodeReceiver(port=port)
    server = receiver._server
    server.RequestHandlerClass = type("Handler", (server.RequestHandlerClass,), {"timeout": _SILENT_SECONDS})
    server.handle_error = lambda request, client_address: None
    return receiver
