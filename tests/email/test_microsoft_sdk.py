"""Microsoft's own Python SDK drives the sandbox's mail and knows every property that it returns."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.email.parts import inbox_of, write
from tests.packages import microsoft_sdk
from tests.teams.test_microsoft_sdk import token

WALK = Path(__file__).with_name("sdk_walk.py")
FILE = {"name": "table.txt", "text": "high water at 14:20"}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def sdk() -> Path:
    """An interpreter that has the SDK."""
    return microsoft_sdk()


async def test_it_lists_reads_answers_and_sends(tenant: Any, sdk: Path) -> None:
    await write(tenant, "bob", "First", html="<p>One</p>")
    asked = await write(tenant, "alice", "The tide", html="<p>Is it <b>in</b>?</p>", attachments=[FILE])
    await write(tenant, "carol", "Third")
    environment = tenant.environment
    root = environment["ENTRABOT_GRAPH_URL"]
    given = {
        "root": root,
        "host": urlsplit(root).hostname,
        "ca": environment["ENTRABOT_CA_BUNDLE"],
        "token": await token(environment),
        "mail": asked["id"],
        "answer_to": "alice@contoso.example",
    }
    process = await asyncio.create_subprocess_exec(
        sdk, WALK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(process.communicate(json.dumps(given).encode()), 120)
    assert process.returncode == 0, errors.decode()[-3000:]
    result = json.loads(output)
    assert result.pop("strange") == []
    assert {"Message", "MailFolder", "FileAttachment", "InternetMessageHeader", "ODataError"} <= set(result.pop("seen"))
    assert {"Inbox", "Sent Items", "Drafts", "Deleted Items"} <= set(result.pop("folders"))
    assert result == {
        "inbox": 3,
        "listed": [
            ["First", "Bob Example", False],
            ["The tide", "Alice Example", True],
            ["Third", "Carol Example", False],
        ],
        "ids_as_given": True,
        "times_with_zone": True,
        "inefficient": [400, "InefficientFilter"],
        "read": [True, "The tide", "text", "Is it in?"],
        "without_preference": [False, "html"],
        "has_headers": True,
        "attachments": [["FileAttachment", FILE["name"], FILE["text"]]],
        "unknown": [404, "ErrorItemNotFound"],
        "sent": [["From the SDK", True], ["RE: The tide", False]],
        "marked": ["abc"],
    }
    sent, answer = sorted(await inbox_of(tenant, "alice"), key=lambda mail: mail["subject"])
    assert (answer["subject"], answer["conversationId"]) == ("RE: The tide", asked["conversationId"])
    assert "It is in." in answer["bodyPreview"]
    assert (sent["subject"], sent["hasAttachments"]) == ("From the SDK", True)
