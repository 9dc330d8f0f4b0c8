"""send_email, over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from entrabot_host.testing.agent import ToolFailed
from tests.email.conftest import Mailing
from tests.email.parts import inbox_of, until, write


def logged(folder: Path) -> list[dict[str, Any]]:
    path = folder / "data" / "interactions" / f"{datetime.now(UTC):%Y-%m-%d}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["direction"] == "outbound"]


async def test_a_mail_arrives_and_is_written_down(
    mailing: Mailing, tenant: Any, entrabot_audit: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    async with mailing() as agent:
        sent = await agent.call(
            "send_email",
            to='"Example, Alice" <alice@contoso.example>; carol@fabrikam.example',
            subject=" The  plan ",
            body="<p>Here it <b>is</b></p>",
            bcc="bob@contoso.example",
        )

        async def preferred() -> bool:
            """The session that wrote hears the answer first."""
            return any(
                json.loads(record.read_bytes())["preferred"] for record in (tmp_path / "data" / "mail").glob("*")
            )

        await until(preferred)
    assert sent["status"] == "accepted"
    assert sent["subject"] == "The plan"
    (mail,) = await inbox_of(tenant, "alice")
    assert (mail["subject"], mail["body"]["content"]) == ("The plan", "<p>Here it <b>is</b></p>")
    assert [one["emailAddress"]["address"] for one in mail["toRecipients"]] == [
        "alice@contoso.example",
        "carol@fabrikam.example",
    ]
    assert mail["bccRecipients"] == []
    assert len(await inbox_of(tenant, "bob")) == len(await inbox_of(tenant, "carol")) == 1
    assert len(await inbox_of(tenant, "agent", folder="sentitems")) == 1
    lines = entrabot_audit()
    assert [(line["action"], line["outcome"]) for line in lines] == [
        ("email.send", "pending"),
        ("email.send", "success"),
    ]
    assert "alice@contoso.example" in lines[0]["resource"]
    (entry,) = logged(tmp_path)
    assert (entry["channel"], entry["direction"], entry["action"]) == ("email", "outbound", "send_email")
    assert entry["recipient"] == "alice@contoso.example, carol@fabrikam.example, bob@contoso.example"
    assert entry["summary"] == "The plan: Here it is"


@pytest.mark.parametrize("replaces", [False, True])
async def test_a_reply_holds_its_thread(mailing: Mailing, tenant: Any, tmp_path: Path, replaces: bool) -> None:
    await tenant.control("PUT", "/mail/settings", json={"replaces_recipients": replaces})
    asked = await write(tenant, "alice", "Question", cc=["bob"])
    async with mailing() as agent:
        sent = await agent.call(
            "send_email",
            to="alice@contoso.example, carol@fabrikam.example",
            subject="whatever",
            body="Yes.",
            content_type="text",
            reply_to_message_id=asked["id"],
        )
    assert sent["in_reply_to"] == asked["id"]
    assert "subject" not in sent
    (mail,) = await inbox_of(tenant, "alice")
    assert (mail["subject"], mail["conversationId"]) == ("RE: Question", asked["conversationId"])
    assert mail["bodyPreview"] == "Yes."
    headers = {header["name"]: header["value"] for header in mail["internetMessageHeaders"]}
    assert headers["In-Reply-To"] == asked["internetMessageId"]
    assert len(await inbox_of(tenant, "carol")) == 1
    assert len(await inbox_of(tenant, "bob")) == 1, "cc of the question does not get the answer"
    (entry,) = logged(tmp_path)
    assert entry["content_ref"] == asked["id"]
    assert entry["metadata"]["subject"] == "Question"


async def test_a_reply_to_nobody_in_particular_goes_to_the_sender(mailing: Mailing, tenant: Any) -> None:
    asked = await write(tenant, "alice", "Question")
    async with mailing() as agent:
        await agent.call("send_email", to="", subject="", body="Yes.", reply_to_message_id=asked["id"])
    assert len(await inbox_of(tenant, "alice")) == 1


@pytest.mark.parametrize("to", ["alice@contoso.example", ""])
async def test_a_reply_address_that_leads_elsewhere_is_refused(mailing: Mailing, tenant: Any, to: str) -> None:
    asked = await write(tenant, "alice", "Question", reply_to_address=["mallory"])
    async with mailing() as agent:
        with pytest.raises(ToolFailed, match="Reply-To") as refused:
            await agent.call("send_email", to=to, subject="", body="Secret", reply_to_message_id=asked["id"])
        assert "mallory" not in str(refused.value.error)
        assert await inbox_of(tenant, "mallory") == []
        meant = "mallory@fabrikam.example"
        await agent.call("send_email", to=meant, subject="", body="Yes", reply_to_message_id=asked["id"])
    assert len(await inbox_of(tenant, "mallory")) == 1


async def test_a_reply_that_leaves_out_the_sender_is_refused(mailing: Mailing, tenant: Any) -> None:
    asked = await write(tenant, "alice", "Question")
    async with mailing() as agent:
        with pytest.raises(ToolFailed, match="goes to the sender"):
            await agent.call(
                "send_email", to="bob@contoso.example", subject="", body="x", reply_to_message_id=asked["id"]
            )
    assert await inbox_of(tenant, "alice") == await inbox_of(tenant, "bob") == []


WRONG = [
    ({"to": "not-an-address"}, "entry 1"),
    ({"to": ""}, "names nobody"),
    ({"cc": "a@x.example, nonsense"}, "cc: entry 2"),
    ({"subject": "  "}, "subject is empty"),
    ({"subject": "x" * 300}, "subject is longer"),
    ({"body": " "}, "body is empty"),
    ({"body": "x" * 1_000_001}, "too long"),
    ({"content_type": "markdown"}, "content_type"),
    ({"reply_to_message_id": "../users"}, "form of a mail's id"),
]


async def test_what_cannot_be_sent_is_refused_before_graph_sees_it(mailing: Mailing, tenant: Any) -> None:
    async with mailing() as agent:
        for wrong, message in WRONG:
            arguments = {"to": "alice@contoso.example", "subject": "Hi", "body": "x", **wrong}
            with pytest.raises(ToolFailed, match=message) as refused:
                await agent.call("send_email", **arguments)
            assert refused.value.error["type"] == "InvalidArgument"
            assert refused.value.remedy
    requests = await tenant.control("GET", "/requests")
    assert not [one for one in requests["requests"] if "sendMail" in one["path"] or "reply" in one["path"]]


async def test_a_mail_to_answer_that_is_not_there(mailing: Mailing, tenant: Any) -> None:
    async with mailing() as agent:
        for missing, kind, status in (("AAMk" + "x" * 80, "GraphNotFound", 404), ("AAMkshort", "GraphError", 400)):
            with pytest.raises(ToolFailed) as refused:
                await agent.call("send_email", to="", subject="", body="x", reply_to_message_id=missing)
            assert (refused.value.error["type"], refused.value.error["status"]) == (kind, status)
            assert "content_ref" in refused.value.remedy


@pytest.mark.parametrize("answers", [False, True])
async def test_a_send_whose_answer_was_lost_is_looked_up(
    mailing: Mailing, tenant: Any, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr("entrabot_email.sending._LOOKS", (0.0, 0.1))
    more: dict[str, str] = {}
    if answers:
        more["reply_to_message_id"] = (await write(tenant, "alice", "Question"))["id"]
    async with mailing() as agent:
        broken, alice = {"method": "POST", "path": "/v1.0/me/**"}, "alice@contoso.example"
        await tenant.control("POST", "/faults", json={**broken, "kind": "drop_after", "count": 1})
        sent = await agent.call("send_email", to=alice, subject="Hi", body="<p>Yes &amp; no</p>", **more)
        assert sent["status"] == "accepted"
        assert len(await inbox_of(tenant, "alice")) == 1
        await tenant.control("POST", "/faults", json={**broken, "kind": "drop_before"})
        with pytest.raises(ToolFailed) as lost:
            await agent.call("send_email", to=alice, subject="Hi", body="<p>Another</p>", **more)
        assert lost.value.error["type"] == "GraphUnavailable"
        assert lost.value.error["outcome_unknown"] is True
    assert len(await inbox_of(tenant, "alice")) == 1


async def test_a_permission_that_is_missing_is_told(mailing: Mailing, tenant: Any) -> None:
    await tenant.control("PUT", "/grants", json={"resource": "graph", "scopes": ["User.Read", "Mail.Read"]})
    async with mailing() as agent:
        with pytest.raises(ToolFailed) as refused:
            await agent.call("send_email", to="alice@contoso.example", subject="Hi", body="x")
        assert refused.value.error["type"] == "GraphForbidden"
        assert "whoami" in refused.value.remedy
