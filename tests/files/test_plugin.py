"""What the plugin offers, to whom, and at what cost."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from entrabot_files import plugin
from entrabot_files.settings import FilesSettings
from pydantic import ValidationError

from entrabot_host import BackgroundTask, ToolContext, hookimpl
from entrabot_host.assembly import Assembly, assemble
from entrabot_host.calls import Calls
from entrabot_host.config import Config, Layer
from entrabot_host.discovery import Installed, Loaded, Selection
from entrabot_host.errors import SettingsError
from entrabot_host.listing import cost, listed

REQUIRED = "required"
OCTETS = "application/octet-stream"
ITEM = [("drive_id", "str", REQUIRED), ("item_id", "str", REQUIRED), ("name", "str", REQUIRED)]
TARGET = [
    ("folder_path", "str", "/"),
    ("drive_id", "str", ""),
    ("site_id", "str", ""),
    ("conflict_behavior", "str", "fail"),
]
WHAT = [("mime_type", "str", OCTETS), ("kind", "str", "sharepoint"), ("site_id", "str", "")]
SIGNATURES: dict[str, list[tuple[str, str, object]]] = {
    "resolve_file_url": [("url", "str", REQUIRED)],
    "list_recent_files": [("limit", "int", 25)],
    "read_file": [*ITEM, *WHAT, ("web_url", "str", ""), ("size_bytes", "int", 0), ("as_format", "str", "auto")],
    "add_file_comment": [*ITEM, ("content", "str", REQUIRED), *WHAT],
    "write_text_file": [
        ("target_type", "str", REQUIRED),
        ("file_name", "str", REQUIRED),
        ("content", "str", REQUIRED),
        *TARGET,
    ],
    "upload_file": [
        ("target_type", "str", REQUIRED),
        ("file_name", "str", REQUIRED),
        ("content_base64", "str", REQUIRED),
        *TARGET,
    ],
    "share_file": [
        *ITEM,
        ("recipient_email", "str", REQUIRED),
        ("requester_email", "str", REQUIRED),
        ("chat_id", "str", REQUIRED),
        ("role", "str", "read"),
        *WHAT,
    ],
}
LOCAL = ["upload_local_file", "download_file"]


class Host:
    """As much of a host as assembly needs."""

    def __init__(self, **environment: str) -> None:
        self._config = Config([Layer("the test", environment)])
        self.settings = self
        self._made: dict[Any, Any] = {}

    def load(self, model: Any) -> Any:
        return self._config.load(model, "files")

    def shared(self, make: Callable[[Any], Any]) -> Any:
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]


class Hearing:
    """A plugin that hears sponsors."""

    @hookimpl
    def background_tasks(self, host: Any) -> list[BackgroundTask]:
        async def look() -> None: ...

        return [BackgroundTask(name="look", run=look, interval=5, description="Looks", provides=("sponsor-presence",))]


async def no_audit(*_: object) -> str:
    return "event"


def assembled(*, hearing: bool = True, **environment: str) -> Assembly:
    modules: dict[str, Any] = {"files": plugin} | ({"hearing": Hearing()} if hearing else {})
    loaded = [Loaded(Installed(name, name, "1", object), module) for name, module in modules.items()]
    hosts = {name: Host(**environment) for name in modules}
    return assemble(loaded, hosts.__getitem__, Selection(), innermost=Calls(write_audit=no_audit).innermost)


def shown_type(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return "str" if get_origin(annotation) is Literal else str(annotation.__name__)


def test_names_parameters_types_order_and_defaults() -> None:
    assembly = assembled()
    assert list(assembly.tools) == list(SIGNATURES)
    for name, tool in assembly.tools.items():
        shown = [
            (one.name, shown_type(one.annotation), REQUIRED if one.default is one.empty else one.default)
            for one in inspect.signature(tool.tool.fn).parameters.values()
            if one.annotation != ToolContext | None
        ]
        assert shown == SIGNATURES[name]
        assert list(listed(tool)["inputSchema"]["properties"]) == [one[0] for one in SIGNATURES[name]]


def test_tools_cost_the_model_little() -> None:
    costs = {name: cost(tool) for name, tool in assembled().tools.items()}
    assert all(size <= 1150 for size in costs.values()), costs
    assert sum(costs.values()) <= 900 * len(costs), costs


def test_nothing_is_shared_where_nobody_hears_sponsors() -> None:
    assert "share_file" not in assembled(hearing=False).tools
    assert "share_file" in assembled().tools


def test_local_tools_only_with_local_folders(tmp_path: Any) -> None:
    assert not set(LOCAL) & set(assembled().tools)
    assert list(assembled(ENTRABOT_FILES_LOCAL_ROOTS=str(tmp_path)).tools)[-2:] == LOCAL


def test_only_looking_is_read_only() -> None:
    tools = assembled(ENTRABOT_FILES_LOCAL_ROOTS="/srv/files").tools
    assert {name for name, tool in tools.items() if tool.tool.hints.read_only} == {
        "resolve_file_url",
        "list_recent_files",
        "read_file",
    }
    assert {name for name, tool in tools.items() if tool.tool.hints.destructive} == {
        "write_text_file",
        "upload_file",
        *LOCAL,
    }


def test_permissions_and_prompt_speak_of_files_only() -> None:
    assembly = assembled()
    assert set(assembly.permissions) == {"Files.Read.All", "Files.ReadWrite.All"}
    fragment = assembly.contributions[0].fragment
    assert fragment is not None
    assert len(fragment.short) <= 200
    words = fragment.short + fragment.full + "".join(tool.description for tool in assembly.tools.values())
    for other in ("Teams", "mail", "promise", "read_word", "Work IQ"):
        assert other not in words


@pytest.mark.parametrize("entries", ["https://contoso.sharepoint.com/sites/x", "a b", "sites/x"])
def test_a_denylist_of_addresses_is_refused_at_start(entries: str) -> None:
    """It would deny nothing, and nobody would notice."""
    with pytest.raises(SettingsError, match="ENTRABOT_FILES_DENIED_SITES"):
        Host(ENTRABOT_FILES_DENIED_SITES=entries).load(FilesSettings)


@pytest.mark.parametrize("root", ["relative", "/", "/srv/../etc", "/srv:relative"])
def test_local_folders_that_are_refused_at_start(root: str) -> None:
    with pytest.raises(SettingsError, match="ENTRABOT_FILES_LOCAL_ROOTS"):
        Host(ENTRABOT_FILES_LOCAL_ROOTS=root).load(FilesSettings)


def test_limits_have_limits() -> None:
    with pytest.raises(ValidationError):
        FilesSettings.model_validate({"ENTRABOT_FILES_MAX_TEXT_BYTES": 10})


def test_loading_it_stays_light() -> None:
    heavy = ("httpx", "pypdf", "truststore", "msal", "mcp", "azure", "cryptography", "requests")
    script = f"""
import sys
import entrabot_files.plugin
print([name for name in {heavy!r} if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert found.stdout.strip() == "[]"
