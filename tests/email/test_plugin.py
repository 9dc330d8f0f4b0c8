"""Signatures as documented, what the tools cost, and what else the plugin offers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

import pytest
from entrabot_email.prompt import FRAGMENT
from entrabot_email.settings import EmailSettings, parse_zone

from entrabot_host import SettingsError
from entrabot_host.config import Config, Layer
from tests.email.conftest import Mailing

DOCUMENTED = {
    "send_email": [
        ("to", "string", None),
        ("subject", "string", None),
        ("body", "string", None),
        ("content_type", "string", "html"),
        ("cc", "string", ""),
        ("bcc", "string", ""),
        ("reply_to_message_id", "string", ""),
    ],
    "read_email": [("message_id", "string", None), ("mailbox", "string", "")],
    "run_daily_summary": [("day", "string", ""), ("send", "boolean", True)],
}
HEAVY = ("httpx", "msal", "mcp", "azure", "justhtml")


async def test_names_parameters_types_and_defaults(entrabot: Callable[..., Any]) -> None:
    async with entrabot("email") as agent:
        tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
    for name, parameters in DOCUMENTED.items():
        schema = tools[name].input_schema
        shown = [(key, value["type"], value.get("default")) for key, value in schema["properties"].items()]
        assert shown == parameters
        assert schema.get("required", []) == [key for key, _, default in parameters if default is None]
        wire = tools[name].model_dump(mode="json", by_alias=True, exclude_none=True)
        assert len(json.dumps(wire, ensure_ascii=False, separators=(",", ":")).encode()) <= 900, name


async def test_tasks_permissions_and_state(mailing: Mailing) -> None:
    async with mailing(settings={"ENTRABOT_EMAIL_SUMMARY": "on"}) as agent:
        me = await agent.call("whoami")
    names = {task["name"]: task for task in me["background"] if task["plugin"] == "email"}
    assert set(names) == {"email-poll", "daily-summary"}
    assert names["email-poll"]["every_seconds"] == 60.0
    assert not me["permissions"].get("missing")


def test_loading_it_stays_light() -> None:
    script = f"""
import sys
import entrabot_email.plugin
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "hours"),
    [("UTC", 0), ("UTC-7", -7), ("utc+5:30", 5.5), ("UTC+05:30", 5.5), ("GMT-0330", -3.5)],
)
def test_zones(text: str, hours: float) -> None:
    from datetime import datetime

    assert datetime(2026, 1, 1, tzinfo=parse_zone(text)).utcoffset() == timedelta(hours=hours)
    assert parse_zone("Europe/Berlin") is not UTC


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENTRABOT_EMAIL_SUMMARY_ZONE", "Mars/Olympus"),
        ("ENTRABOT_EMAIL_SUMMARY_ZONE", "UTC+20"),
        ("ENTRABOT_EMAIL_SUMMARY_ZONE", "../../etc/passwd"),
        ("ENTRABOT_EMAIL_SUMMARY_HOUR", "24"),
        ("ENTRABOT_EMAIL_POLL_SECONDS", "1"),
    ],
)
def test_settings_out_of_bounds_are_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name) as refused:
        Config([Layer("a test", {name: value})]).load(EmailSettings, "email")
    assert value not in refused.value.message or len(value) < 3


def test_sponsors_mails_are_a_list() -> None:
    config = Config([Layer("a test", {"ENTRABOT_HUMAN_USER_MAILS": " a@x.example, ,b@x.example"})])
    assert config.load(EmailSettings, "email").sponsor_mails == ("a@x.example", "b@x.example")


def test_the_fragment_fits() -> None:
    assert len(FRAGMENT.short) <= 200
    assert FRAGMENT.full.startswith("## ")
