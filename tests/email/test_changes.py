"""Hearing mail: through a whole server, and the look by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from entrabot_email.api import MailApi, Page
from entrabot_email.changes import MAX_NEW, ChangeSource
from entrabot_email.settings import EmailSettings
from entrabot_email.wire import Mail, mail_of
from hypothesis import given, settings
from hypothesis import strategies as st

from entrabot_host import Attribution, Conversation, Delivery, Message, Position, Principal
from tests.email.conftest import Mailing
from tests.email.parts import look_again, until, write


async def test_new_mail_is_pushed_once_and_older_mail_is_not(
    mailing: Mailing, tenant: Any, entrabot_clock: Any
) -> None:
    await write(tenant, "alice", "Old", received="2026-01-01T00:00:00Z")
    async with mailing(clock=entrabot_clock) as agent:
        written = await write(tenant, "alice", "New", text="x" * 300, cc=["bob"], importance="high")
        await look_again(tenant, entrabot_clock)
        push = await agent.next_push()
        assert push.meta["message_id"] == written["id"]
        assert push.meta["kind"] == "mail"
        assert push.meta["chat_id"] == "sati.agent@contoso.example"
        assert (push.meta["user"], push.meta["from"]) == ("Alice Example", "alice@contoso.example")
        assert (push.meta["subject"], push.meta["to_me"], push.meta["importance"]) == ("New", "to", "high")
        assert push.meta["sponsor"] == "no", "mail proves nobody"
        assert push.meta["sponsor_address"].startswith("yes, but")
        assert "Subject: New" in push.content
        assert "read_email" in push.content
        await look_again(tenant, entrabot_clock, 2)
        assert agent.waiting_pushes == 0
        read = await agent.call("read_email", message_id=push.meta["message_id"])
        assert "x" * 300 in read["body"]


async def test_what_is_heard_is_in_the_interaction_log(
    mailing: Mailing, tenant: Any, entrabot_clock: Any, tmp_path: Path
) -> None:
    async with mailing(clock=entrabot_clock) as agent:
        written = await write(tenant, "mallory", "Hi")
        await look_again(tenant, entrabot_clock)
        await agent.next_push()

        async def line() -> Any:
            files = (tmp_path / "data" / "interactions").glob("*.jsonl")
            lines = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
            return next((line for line in lines if line["content_ref"] == written["id"]), None)

        found = await until(line)
    assert (found["channel"], found["direction"], found["sender"]) == ("email", "inbound", "mallory@fabrikam.example")


async def test_noise_own_mail_and_other_folders_are_left_out(
    mailing: Mailing, tenant: Any, entrabot_clock: Any
) -> None:
    async with mailing(clock=entrabot_clock) as agent:
        await write(tenant, "Shop <news@shop.example>", "Sale", headers={"List-Unsubscribe": "<x>"})
        await write(tenant, "noreply@shop.example", "Receipt")
        await write(tenant, "alice", "Out of office", headers={"Auto-Submitted": "auto-replied"})
        await write(tenant, "agent", "Note to self")
        await agent.call("send_email", to="nobody@contoso.example", subject="Hello", body="x")
        last = await write(tenant, "bob", "Real")
        await look_again(tenant, entrabot_clock)
        pushes = [await agent.next_push(), await agent.next_push()]
        await look_again(tenant, entrabot_clock)
        assert agent.waiting_pushes == 0
        heard = {push.meta["subject"]: push.meta for push in pushes}
        assert set(heard) == {"Undeliverable: Hello", "Real"}
        assert heard["Undeliverable: Hello"]["bounce"] == "yes"
        assert heard["Real"]["message_id"] == last["id"]
        health = next(check for check in (await agent.call("whoami"))["health"] if check["check"] == "email")
        assert health["ok"]
        assert "mailing list: " in health["summary"]


async def test_noise_can_be_heard(mailing: Mailing, tenant: Any, entrabot_clock: Any) -> None:
    async with mailing(clock=entrabot_clock, settings={"ENTRABOT_EMAIL_FILTER_NOISE": "off"}) as agent:
        await write(tenant, "noreply@shop.example", "Receipt")
        await look_again(tenant, entrabot_clock)
        assert (await agent.next_push()).meta["subject"] == "Receipt"


async def test_protected_mail_is_reported_as_such(mailing: Mailing, tenant: Any, entrabot_clock: Any) -> None:
    async with mailing(clock=entrabot_clock) as agent:
        await write(tenant, "alice", "Secret", text="the plan", encrypted=True)
        await look_again(tenant, entrabot_clock)
        push = await agent.next_push()
        assert push.meta["encrypted"] == "yes"
        assert "cannot be read here" in push.content
        assert "protectedmessage" not in push.content


async def test_a_host_without_pushes_gets_it_with_its_next_result(
    mailing: Mailing, tenant: Any, entrabot_clock: Any
) -> None:
    settings = {"ENTRABOT_INBOX": "on", "ENTRABOT_PUSH": "off"}
    async with mailing(clock=entrabot_clock, settings=settings, client_name="codex") as agent:
        written = await write(tenant, "bob", "Hi")
        await look_again(tenant, entrabot_clock)

        async def riding() -> list[dict[str, Any]]:
            result = await agent.client.call_tool("audit_log", {"action": "test", "resource": "test"})
            return [entry for block in result.content[1:] for entry in json.loads(block.text)["_inbox"]]

        (entry,) = await until(riding, 40)
        assert entry["message_id"] == written["id"]
        assert entry["mailbox"] == "sati.agent@contoso.example"


async def test_a_failure_is_shown_and_passes(mailing: Mailing, tenant: Any, entrabot_clock: Any) -> None:
    async with mailing(clock=entrabot_clock) as agent:
        await tenant.control(
            "POST", "/faults", json={"kind": "status", "path": "/v1.0/me/mailFolders/**", "status": 403}
        )
        await look_again(tenant, entrabot_clock)

        async def failing() -> bool:
            tasks = (await agent.call("whoami"))["background"]
            return any("403" in str(task.get("last_error")) for task in tasks)

        await until(failing)
        await tenant.control("DELETE", "/faults")
        written = await write(tenant, "bob", "Hi")
        await look_again(tenant, entrabot_clock)
        assert (await agent.next_push()).meta["message_id"] == written["id"]


# --- the look by itself ---------------------------------------------------------------------------------------------

ME = Principal("id", "sati@contoso.example", "tenant", "agent", Attribution.AGENT, "test")
START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def mail(number: int, second: int) -> Mail:
    row = {
        "id": f"m{number}",
        "receivedDateTime": (START + timedelta(seconds=second)).isoformat(),
        "from": {"emailAddress": {"address": "bob@contoso.example"}},
    }
    found = mail_of(row)
    assert found is not None
    return found


class Exchange:
    """An inbox in pages of three, asked as `MailApi` is."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.now = START
        self.requests = 0

    async def service_time(self) -> datetime:
        return self.now.replace(microsecond=0)

    async def inbox_since(self, since: datetime) -> Page:
        since = since.replace(microsecond=0)
        return self._page([one for one in self.mails if one.received >= since], 0)

    async def next_page(self, link: str) -> Page:
        since, _, skip = link.partition("|")
        rows = [one for one in self.mails if one.received >= datetime.fromisoformat(since)]
        return self._page(rows, int(skip))

    def _page(self, rows: list[Mail], skip: int) -> Page:
        self.requests += 1
        rows = sorted(rows, key=lambda one: one.received)
        more = f"{rows[0].received.isoformat()}|{skip + 3}" if skip + 3 < len(rows) else ""
        return Page(rows[skip : skip + 3], more, self.now.replace(microsecond=0))


class Inbox:
    """Remembers what it was handed; its floor trails five minutes behind what is covered, as the host's does."""

    def __init__(self) -> None:
        self.floor: datetime | None = None
        self.ids: dict[str, datetime] = {}
        self.handed: list[str] = []
        self.takes = True

    async def position(self, conversation: Conversation, start: datetime | None = None) -> Position:
        assert conversation == Conversation.mail("sati@contoso.example")
        assert start is not None
        if self.floor is None:
            self.floor = start - timedelta(microseconds=1)
        return Position(self.floor, frozenset(self.ids))

    async def deliver(self, conversation: Conversation, messages: Sequence[Message], covered_to: datetime) -> Delivery:
        assert self.floor is not None
        fresh = [one for one in messages if one.created > self.floor and one.id not in self.ids]
        if not self.takes:
            return Delivery((), tuple(one.id for one in fresh))
        self.handed += [one.id for one in fresh]
        self.ids |= {one.id: one.created for one in fresh}
        self.floor = max(self.floor, covered_to - timedelta(minutes=5))
        self.ids = {key: at for key, at in self.ids.items() if at > self.floor}
        return Delivery(tuple(one.id for one in fresh))

    def pushes(self) -> bool:
        return True


def source(exchange: Exchange, inbox: Inbox) -> ChangeSource:
    async def me() -> Principal:
        return ME

    async def sponsors() -> list[Any]:
        return []

    identity = SimpleNamespace(me=me, sponsors=sponsors)
    host: Any = SimpleNamespace(identity=identity, inbox=inbox, log=None)
    api: Any = exchange
    assert isinstance(api, Exchange)
    return ChangeSource(host, api, EmailSettings())


async def test_mails_of_one_second_are_all_heard() -> None:
    exchange, inbox = Exchange(), Inbox()
    changes = source(exchange, inbox)
    await changes.look()
    exchange.mails = [mail(1, 5)]
    exchange.now = START + timedelta(seconds=5.4)
    await changes.look()
    exchange.mails.append(mail(2, 5))
    exchange.now = START + timedelta(seconds=60)
    await changes.look()
    await changes.look()
    assert inbox.handed == ["m1", "m2"]


async def test_one_that_comes_in_the_second_of_the_first_run_is_heard() -> None:
    exchange, inbox = Exchange(), Inbox()
    inbox.floor = START + timedelta(seconds=0.3)
    exchange.mails = [mail(1, 0)]
    exchange.now = START + timedelta(seconds=30)
    await source(exchange, inbox).look()
    assert inbox.handed == ["m1"]


async def test_a_full_inbox_is_read_step_by_step() -> None:
    exchange, inbox = Exchange(), Inbox()
    changes = source(exchange, inbox)
    await changes.look()
    exchange.mails = [mail(number, 1 + number // 7) for number in range(500)]
    exchange.now = START + timedelta(minutes=10)
    inbox.takes = False
    assert await changes.look() is not None, "what is left is offered again soon"
    assert exchange.requests <= 2 + MAX_NEW // 3
    inbox.takes = True
    for _ in range(4):
        await changes.look()
    assert sorted(inbox.handed, key=lambda key: int(key[1:])) == [f"m{number}" for number in range(500)]


async def test_what_a_session_that_died_may_not_have_shown_is_read_again() -> None:
    exchange, inbox = Exchange(), Inbox()
    changes = source(exchange, inbox)
    await changes.look()
    pinned = inbox.floor
    exchange.mails = [mail(1, 5), mail(2, 10)]
    exchange.now = START + timedelta(minutes=1)
    await source(exchange, inbox).look()
    for minute in (20, 40):
        exchange.now = START + timedelta(minutes=minute)
        inbox.floor = pinned
        inbox.ids = {one.id: one.created for one in exchange.mails}
        await changes.look()
    assert inbox.handed == ["m1", "m2"]
    before, inbox.floor = exchange.requests, pinned
    inbox.ids = {one.id: one.created for one in exchange.mails if one.id != "m1"}
    await changes.look()
    assert inbox.handed == ["m1", "m2", "m1"]
    assert exchange.requests == before + 1


async def test_noise_is_counted_once() -> None:
    exchange, inbox = Exchange(), Inbox()
    changes = source(exchange, inbox)
    await changes.look()
    row = {"id": "n", "receivedDateTime": (START + timedelta(seconds=5)).isoformat()}
    noisy = mail_of({**row, "from": {"emailAddress": {"address": "noreply@x.example"}}})
    assert noisy is not None
    exchange.mails = [noisy]
    for minute in range(1, 15):
        exchange.now = START + timedelta(minutes=minute)
        await changes.look()
    assert changes.left_out == {"no-reply sender": 1}
    assert inbox.handed == []


ARRIVALS = st.lists(st.tuples(st.integers(0, 900), st.booleans()), max_size=40)


@settings(max_examples=60, deadline=None)
@given(ARRIVALS, st.lists(st.floats(0.1, 400), min_size=1, max_size=15))
def test_every_mail_is_heard_once_whenever_it_comes(arrivals: list[tuple[int, bool]], pauses: list[float]) -> None:
    """Mail comes at any second, late ones up to a minute after their time; looks come at any moment."""
    exchange, inbox = Exchange(), Inbox()
    changes = source(exchange, inbox)
    coming = [(second + (60 if late else 0), mail(number, second)) for number, (second, late) in enumerate(arrivals)]

    async def run() -> None:
        await changes.look()
        at = 0.0
        for pause in [*pauses, 1_200.0, 60.0]:
            at += pause
            exchange.now = START + timedelta(seconds=at)
            exchange.mails = [one for visible, one in coming if visible <= at]
            await changes.look()

    asyncio.run(run())
    expected = sorted(one.id for _, one in coming)
    assert sorted(inbox.handed) == expected


@pytest.mark.parametrize("nothing", [{}, {"value": None}, {"value": ["x", {"id": 3}]}, None, []])
async def test_an_answer_that_makes_no_sense_delivers_nothing(nothing: Any) -> None:
    async def request(*args: Any, **more: Any) -> Any:
        return SimpleNamespace(body=nothing, headers={})

    api = MailApi(SimpleNamespace(graph=SimpleNamespace(request=request)))  # type: ignore[arg-type]
    page = await api.inbox_since(START)
    assert (page.mails, page.next, page.served) == ([], "", None)
