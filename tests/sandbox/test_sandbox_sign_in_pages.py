"""The sign-in pages as a browser gets them, and what keeps other pages from using them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_sandbox.sign_in_client import Page, PageError

from tests.sandbox.people import REDIRECT, Program, claims_of, query_of


@pytest.fixture
async def program(sandbox: Sandbox) -> AsyncIterator[Program]:
    async with Program.connection(sandbox) as http:
        yield Program(sandbox, http)


class Browser:
    """Opens a page and sends its form, by hand; cookies are kept."""

    def __init__(self, program: Program, address: str) -> None:
        self.http, self.base, self.address = program.http, program.base, address
        self.shown = httpx.Response(0)
        self.page = Page("")

    async def open(self) -> Browser:
        self._see(await self.http.get(self.address))
        return self

    async def send(self, headers: dict[str, str] | None = None, **fields: str) -> httpx.Response:
        given = {"Origin": self.base, "Sec-Fetch-Site": "same-origin"} if headers is None else headers
        return self._see(await self.http.post(self.address, data={**self.page.hidden, **fields}, headers=given))

    def _see(self, response: httpx.Response) -> httpx.Response:
        self.shown = response
        if response.status_code == 200:
            self.page = Page(response.text)
        return response


def check_headers(response: httpx.Response) -> dict[str, str]:
    """What every page must say of itself; returns the directives of its policy."""
    headers = response.headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "no-store" in headers["cache-control"]
    assert "access-control-allow-origin" not in headers
    directives = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert directives["default-src"] == directives["frame-ancestors"] == directives["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert not re.search(r"(src|href)=", response.text)
    assert not re.search(r"\son\w+=", response.text)
    return directives


async def test_the_page_says_who_asks_for_what(sandbox: Sandbox, program: Program) -> None:
    browser = await Browser(program, program.authorize()).open()
    directives = check_headers(browser.shown)
    assert directives["form-action"] == f"'self' {REDIRECT}"
    assert "script-src" not in directives
    assert "<script" not in browser.shown.text
    for shown in ("Entrabot (delegated)", "https://graph.microsoft.com/Chat.ReadWrite", REDIRECT, "Alice Example"):
        assert shown in browser.shown.text
    people = sandbox.people
    assert set(browser.page.choices) == {people["alice"]["id"], people["bob"]["id"], people["carol"]["guest_id"]}
    cookie = browser.shown.headers["set-cookie"]
    assert cookie.startswith("__Host-")
    for attribute in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
        assert attribute in cookie.split("; ")


async def test_only_the_answer_page_of_form_post_has_a_script(sandbox: Sandbox, program: Program) -> None:
    browser = await Browser(program, program.authorize(response_mode="form_post")).open()
    await browser.send(user=sandbox.people["alice"]["id"], action="accept")
    directives = check_headers(browser.shown)
    assert directives["form-action"] == REDIRECT
    assert directives["script-src"].startswith("'sha256-")
    assert "<button>" in browser.shown.text
    assert browser.page.action == REDIRECT


async def test_everything_shown_is_escaped(sandbox: Sandbox, program: Program) -> None:
    evil = "<script>alert(1)</script>\"'"
    await sandbox.add_person("eve", f"Eve {evil}")
    address = program.authorize(scope=f"https://graph.microsoft.com/{evil.replace('/', '')}", state=evil)
    shown = (await program.http.get(address)).text
    assert "Eve &lt;script&gt;" in shown
    assert "<script" not in shown
    answer = await Browser(program, program.authorize(state=evil, response_mode="form_post")).open()
    sent = await answer.send(action="cancel")
    assert sent.text.count("<script") == 1
    assert answer.page.hidden["state"] == evil
    refused = await program.http.get(program.authorize(client_id=evil))
    assert "<script" not in refused.text
    check_headers(refused)


async def test_a_hint_chooses_somebody_beforehand(sandbox: Sandbox, program: Program) -> None:
    for hint, chosen in (("BOB@contoso.example", "bob"), ("nobody@contoso.example", None)):
        shown = (await program.http.get(program.authorize(login_hint=hint))).text
        checked = re.findall(r'value="([^"]+)" required checked', shown)
        assert checked == ([sandbox.people[chosen]["id"]] if chosen else [])


@pytest.mark.parametrize("user", ["", "nobody", "agent", "mallory"])
async def test_only_somebody_on_the_page_can_be_chosen(sandbox: Sandbox, program: Program, user: str) -> None:
    browser = await Browser(program, program.authorize()).open()
    chosen = sandbox.people[user]["id"] if user in sandbox.people else user
    response = await browser.send(user=chosen, action="accept")
    assert "Choose who signs in." in response.text
    response = await browser.send(user=sandbox.people["alice"]["id"], action="accept")
    assert "code" in query_of(response.headers["location"])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "OWN", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "OWN", "Host": "evil.example"},
        {"Origin": "https://evil.example", "Host": "evil.example"},
    ],
)
async def test_a_form_from_elsewhere_is_refused(sandbox: Sandbox, program: Program, headers: dict[str, str]) -> None:
    browser = await Browser(program, program.authorize()).open()
    given = {name: program.base if value == "OWN" else value for name, value in headers.items()}
    response = await browser.send(given, user=sandbox.people["alice"]["id"], action="accept")
    assert (response.status_code, "location" in response.headers) == (403, False)


@pytest.mark.parametrize("changes", [{"csrf": "x"}, {"csrf": ""}, {"transaction": "x"}, {"csrf": "ü"}])
async def test_a_form_without_the_pages_secrets_is_refused(
    sandbox: Sandbox, program: Program, changes: dict[str, Any]
) -> None:
    browser = await Browser(program, program.authorize()).open()
    response = await browser.send(user=sandbox.people["alice"]["id"], action="accept", **changes)
    assert (response.status_code, "location" in response.headers) == (403, False)


async def test_a_form_from_another_browser_is_refused(sandbox: Sandbox, program: Program) -> None:
    browser = await Browser(program, program.authorize()).open()
    program.http.cookies.clear()
    alice: dict[str, Any] = {"user": sandbox.people["alice"]["id"], "action": "accept"}
    assert (await browser.send(**alice)).status_code == 403
    other = await Browser(program, program.authorize()).open()
    assert (await other.send(**alice)).status_code == 302
    assert (await browser.send(**alice)).status_code == 403


async def test_cookies_of_other_programs_on_this_machine_do_no_harm(sandbox: Sandbox, program: Program) -> None:
    browser = await Browser(program, program.authorize()).open()
    own = browser.shown.headers["set-cookie"].partition(";")[0]
    program.http.cookies.clear()
    headers = {"Origin": program.base, "Cookie": f'other={{"a": [1, "b"]}}; {own}; @="\\'}
    response = await browser.send(headers, user=sandbox.people["alice"]["id"], action="accept")
    assert response.status_code == 302


async def test_a_page_counts_once_and_not_for_ever(sandbox: Sandbox, program: Program) -> None:
    alice: dict[str, Any] = {"user": sandbox.people["alice"]["id"], "action": "accept"}
    first = await Browser(program, program.authorize()).open()
    second = await Browser(program, program.authorize()).open()
    assert (await first.send(**alice)).status_code == 302
    assert (await first.send(**alice)).status_code == 403
    await sandbox.set_clock(601)
    assert (await second.send(**alice)).status_code == 403


async def test_a_page_is_shown_under_its_own_name_only(sandbox: Sandbox, program: Program) -> None:
    for address in (program.authorize(), f"{program.base}/devicelogin"):
        response = await program.http.get(address, headers={"Host": "evil.example"})
        assert (response.status_code, "<form" in response.text) == (403, False)


async def test_a_code_is_entered_on_the_device_page(sandbox: Sandbox, program: Program) -> None:
    begun = (await program.begin_device()).json()
    browser = await Browser(program, begun["verification_uri"]).open()
    assert check_headers(browser.shown)["form-action"] == "'self'"
    assert "not known" in (await browser.send(user_code="BBBBBBBBB")).text
    typed = f" {begun['user_code'][:4]}-{begun['user_code'][4:]} ".lower()
    shown = (await browser.send(user_code=typed)).text
    assert "Entrabot (delegated)" in shown
    assert "https://graph.microsoft.com/Chat.ReadWrite" in shown
    check_headers(browser.shown)
    done = await browser.send(user=sandbox.people["bob"]["id"], action="accept")
    assert "as Bob Example" in done.text
    token = (await program.poll(begun["device_code"])).json()["access_token"]
    assert claims_of(token)["oid"] == sandbox.people["bob"]["id"]


async def test_a_code_is_refused_on_the_device_page(sandbox: Sandbox, program: Program) -> None:
    begun = (await program.begin_device()).json()
    browser = await Browser(program, begun["verification_uri"]).open()
    await browser.send(user_code=begun["user_code"])
    assert "Cancelled" in (await browser.send(action="cancel")).text
    assert (await program.poll(begun["device_code"])).json()["error"] == "authorization_declined"
    again = await Browser(program, begun["verification_uri"]).open()
    assert "not known" in (await again.send(user_code=begun["user_code"])).text


async def test_two_decisions_about_a_code_are_one_too_many(sandbox: Sandbox, program: Program) -> None:
    begun = (await program.begin_device()).json()
    browser = await Browser(program, begun["verification_uri"]).open()
    await browser.send(user_code=begun["user_code"])
    await sandbox.enter_code(begun["user_code"], "alice")
    late = await browser.send(user=sandbox.people["bob"]["id"], action="accept")
    assert "Too late" in late.text
    token = (await program.poll(begun["device_code"])).json()["access_token"]
    assert claims_of(token)["oid"] == sandbox.people["alice"]["id"]


async def test_forms_are_not_exchanged_between_pages(sandbox: Sandbox, program: Program) -> None:
    alice: dict[str, Any] = {"user": sandbox.people["alice"]["id"], "action": "accept"}
    authorize = await Browser(program, program.authorize()).open()
    device = await Browser(program, f"{program.base}/devicelogin").open()
    authorize.page, device.page = device.page, authorize.page
    assert (await authorize.send(**alice)).status_code == 403
    assert (await device.send(**alice)).status_code == 403


async def test_an_administrators_consent_is_asked_for_on_the_device_page(sandbox: Sandbox, program: Program) -> None:
    await sandbox.settings(user_consent=False)
    begun = (await program.begin_device(scope="https://graph.microsoft.com/Team.Create")).json()
    browser = await Browser(program, begun["verification_uri"]).open()
    await browser.send(user_code=begun["user_code"])
    assert "administrator" in (await browser.send(user=sandbox.people["bob"]["id"], action="accept")).text
    assert (await program.poll(begun["device_code"])).json()["error"] == "authorization_pending"


async def test_a_fault_strikes_the_page_as_a_page(sandbox: Sandbox, program: Program) -> None:
    await sandbox.fault("status", path="/*/oauth2/v2.0/authorize", status=503, retry_after=7, count=1)
    response = await program.http.get(program.authorize())
    assert (response.status_code, response.headers["retry-after"]) == (503, "7")
    check_headers(response)
    assert (await program.http.get(program.authorize())).status_code == 200


async def test_the_client_says_when_somebody_is_not_on_the_page(sandbox: Sandbox, program: Program) -> None:
    with pytest.raises(PageError, match="mallory"):
        await sandbox.sign_in(program.authorize(), "mallory")
