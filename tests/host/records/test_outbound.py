"""Every tool that sends something leaves a line in the interaction log, through whole servers."""

from __future__ import annotations

from typing import Any


async def test_each_send_is_written_down_once(entrabot: Any, entrabot_tenant: Any) -> None:
    await entrabot_tenant.reset()
    question = {"as": "alice", "subject": "Question", "text": "When?"}
    asked = await entrabot_tenant.control("POST", "/mail", json=question)
    settings = {"ENTRABOT_EMAIL_SUMMARY": "off", "ENTRABOT_TEAMS_WAIT_SECONDS": "0"}
    async with entrabot("teams", "email", tenant=entrabot_tenant, settings=settings) as agent:
        chat = (await agent.call("create_chat", target_email="alice@contoso.example"))["chat_id"]
        sent = await agent.call("send_teams_message", message="The tide is in.", chat_id=chat)
        placeholder = (await agent.call("post_thinking_placeholder", chat_id=chat))["placeholder_id"]
        await agent.call("update_placeholder", chat_id=chat, placeholder_id=placeholder, progress_text="reading")
        await agent.call("resolve_placeholder", chat_id=chat, placeholder_id=placeholder, final_message="Done.")
        card = await agent.call("send_card", card_type="tool_activity", chat_id=chat, title="Build")
        await agent.call("send_email", to="alice@contoso.example", subject="Plan", body="Here it is")
        await agent.call("send_email", to="", subject="", body="At noon", reply_to_message_id=asked["id"])
        await agent.call("run_daily_summary", send=False)
        await agent.call("run_daily_summary")
        read = await agent.call("read_interactions", direction="outbound", limit=50)
    found = [
        (line["action"], line["channel"], line["recipient"], line.get("content_ref", ""))
        for line in reversed(read["interactions"])
    ]
    to_alice = "alice@contoso.example"
    assert found[:-1] == [
        ("send_teams_message", "teams_dm", chat, sent["message_id"]),
        ("post_thinking_placeholder", "teams_dm", chat, placeholder),
        ("resolve_placeholder", "teams_dm", chat, placeholder),
        ("send_card", "teams_dm", chat, card["message_id"]),
        ("send_email", "email", to_alice, ""),
        ("send_email", "email", to_alice, asked["id"]),
    ]
    assert found[-1][:3] == ("run_daily_summary", "email", to_alice)
