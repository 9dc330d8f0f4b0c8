"""People's own sign-in, for tests: the sign-in page without a browser, device codes, refresh tokens."""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


class PageError(Exception):
    """The sign-in page did not show what was expected of it."""


class SignInCalls(ABC):
    """The part of the control client that is about people's own sign-in."""

    _ca_bundle: str

    @abstractmethod
    async def call(self, method: str, path: str, body: Json | None = None, **query: Any) -> Any:
        """Make a control call."""

    async def enter_code(self, user_code: str, person: str, *, decline: bool = False) -> None:
        """Enter the code that a device shows, as somebody, and accept the sign-in, or refuse it."""
        body = {"user_code": user_code, "as": person, "action": "decline" if decline else "accept"}
        await self.call("POST", "/device", body)

    async def spoil_refresh_tokens(self, state: str, person: str | None = None) -> int:
        """Make the refresh tokens of somebody, or everybody's, ``expired``, ``revoked`` or ``interaction_required``.

        Returns how many they were. Those that are issued later are good.
        """
        body = {"state": state} | ({"as": person} if person is not None else {})
        return int((await self.call("POST", "/refresh-tokens", body))["count"])

    async def sign_in(self, address: str, person: str, *, cancel: bool = False) -> Json:
        """Do on the authorization page at ``address`` what a person does in a browser.

        Returns the ``url`` that the browser is sent to next, and with ``form_post`` the ``form`` for it. Nothing is
        sent there. Raises PageError when no sign-in page answers, or the person is not on it.
        """
        import httpx

        known = (await self.call("GET", "/people"))[person]
        context = ssl.create_default_context(cafile=self._ca_bundle)
        async with httpx.AsyncClient(verify=context, trust_env=False, timeout=15) as http:
            shown = await http.get(address)
            if shown.is_redirect:
                return {"url": shown.headers["location"]}
            page = Page(shown.text)
            user = next((one for one in (known["id"], known["guest_id"]) if one in page.choices), None)
            if shown.status_code != 200 or user is None:
                raise PageError(f"The page does not offer {person} (status {shown.status_code}).")
            parts = urlsplit(address)
            answered = await http.post(
                address,
                data={**page.hidden, "user": user, "action": "cancel" if cancel else "accept"},
                headers={"Origin": f"{parts.scheme}://{parts.netloc}"},
            )
        if answered.is_redirect:
            return {"url": answered.headers["location"]}
        end = Page(answered.text)
        if answered.status_code != 200 or not end.action:
            raise PageError(f"The page did not take the answer (status {answered.status_code}).")
        return {"url": end.action, "form": end.hidden}


class Page(HTMLParser):
    """A sign-in page as it was read: its form's ``action``, ``hidden`` fields, and the people to choose from."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action = ""
        self.hidden: dict[str, str] = {}
        self.choices: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element says."""
        named = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = named.get("action", "")
        elif tag == "input" and named.get("type") == "hidden":
            self.hidden[named["name"]] = named["value"]
        elif tag == "input" and named.get("type") == "radio":
            self.choices.append(named["value"])
