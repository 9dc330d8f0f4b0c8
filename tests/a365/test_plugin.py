"""What the plugin offers, and at what cost."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys
from typing import Annotated, Any, get_args, get_origin

import pytest
from entrabot_a365 import plugin
from entrabot_a365.prompt import FRAGMENT
from entrabot_a365.settings import A365Settings
from pydantic import ValidationError

from entrabot_host.assembly import Assembly, assemble
from entrabot_host.calls import Calls
from entrabot_host.config import Config, Layer
from entrabot_host.discovery import Installed, Loaded, Selection
from entrabot_host.listing import cost
from tests.files.test_plugin import Host, no_audit

IDS = ["drive_id", "document_id"]
SIGNATURES = {
    "read_word_document": ["url"],
    "create_word_document": ["file_name", "content_html"],
    "add_word_comment": [*IDS, "content"],
    "reply_to_word_comment": [*IDS, "comment_id", "content"],
    "get_a365_file_metadata_by_url": ["url"],
    "read_a365_text_file": ["document_library_id", "file_id"],
    "read_a365_binary_file": ["document_library_id", "file_id"],
}
WRITES = {"create_word_document", "add_word_comment", "reply_to_word_comment"}


class A365Host(Host):
    """As much of a host as assembly needs."""

    log = logging.getLogger("tests.a365")


@pytest.fixture
def assembly() -> Assembly:
    loaded = [Loaded(Installed("a365", "entrabot-a365", "1", object), plugin)]
    hosts: dict[str, Any] = {"a365": A365Host()}
    return assemble(loaded, hosts.__getitem__, Selection(), innermost=Calls(write_audit=no_audit).innermost)


def test_signatures(assembly: Assembly) -> None:
    assert not assembly.problems
    assert list(SIGNATURES) == list(assembly.tools)
    for tool in assembly.tools.values():
        parameters = inspect.signature(tool.tool.fn).parameters
        assert list(parameters) == SIGNATURES[tool.name]
        for parameter in parameters.values():
            assert get_origin(parameter.annotation) is Annotated
            assert get_args(parameter.annotation)[0] is str
            assert parameter.default is inspect.Parameter.empty
        hints = tool.tool.hints
        assert hints.read_only is (tool.name not in WRITES)
        assert hints.open_world
        assert not hints.destructive


def test_the_budget(assembly: Assembly) -> None:
    assert sum(cost(tool) for tool in assembly.tools.values()) <= 5_500


def test_the_prompt_is_short() -> None:
    assert len(FRAGMENT.short) <= 200


@pytest.mark.parametrize(("name", "value"), [("TIMEOUT_SECONDS", "0"), ("MAX_RESULT_CHARACTERS", "1")])
def test_settings_that_make_no_sense(name: str, value: str) -> None:
    with pytest.raises(ValidationError):
        A365Settings.model_validate({f"ENTRABOT_A365_{name}": value})


def test_every_setting_is_described() -> None:
    for field in A365Settings.model_fields.values():
        assert field.alias
        assert field.description


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    heavy = "{'mcp', 'mcp_types', 'httpx2', 'httpx', 'msal', 'requests', 'cryptography'}"
    code = f"import sys, entrabot_a365.plugin; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_settings_are_loaded_by_the_plugin() -> None:
    config = Config([Layer("the test", {"ENTRABOT_A365_TIMEOUT_SECONDS": "7"})])
    assert config.load(A365Settings, "a365").timeout_seconds == 7
