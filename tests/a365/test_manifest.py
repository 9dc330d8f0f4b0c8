"""Reading manifests as tolerantly as Microsoft's own tools do."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from entrabot_a365 import catalog
from entrabot_a365.errors import (
    A365Error,
    A365ManifestInvalidError,
    A365ManifestNotFoundError,
    A365ServerNotConfiguredError,
)
from entrabot_a365.manifest import MAX_BYTES, Manifest, ManifestSource, parse
from entrabot_a365.settings import A365Settings
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st

from tests.a365.parts import AUDIENCE, entry, manifest

LOG = logging.getLogger("tests.a365")
SHARED = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
URL = "https://agent365.svc.cloud.microsoft/agents/servers/mcp_WordServer"
WORD = "mcp_WordServer"


def settings(**values: str) -> A365Settings:
    return A365Settings.model_validate(values)


def read(root: Any, **values: str) -> Manifest:
    content = root if isinstance(root, bytes) else json.dumps(root).encode()
    return parse(content, Path("x"), settings(**values), LOG)


def one(**values: Any) -> Any:
    return read({"mcpServers": [{"mcpServerName": WORD, **values}]}).get(WORD)


def test_all_is_there() -> None:
    found = read(
        {"mcpServers": [{**entry(URL), "mcpServerUniqueName": "u", "scope": "Tools.ListInvoke.All", "new": 1}]}
    )
    for name in ("u", "U", WORD, WORD.upper()):
        server = found.get(name)
        assert server is not None
        assert (server.name, server.url, server.audience) == ("u", URL, AUDIENCE)
    assert found.names == ["u"]


def test_only_the_name_is_indispensable() -> None:
    server = one()
    assert (server.name, server.url, server.audience) == (WORD, URL, SHARED)


@pytest.mark.parametrize(
    "audience", [None, "", "null", "default", "DEFAULT", SHARED, SHARED.upper(), f"api://{SHARED}", f" {SHARED} "]
)
def test_the_shared_audience(audience: str | None) -> None:
    assert one(audience=audience).audience == SHARED


@pytest.mark.parametrize("audience", [f" {AUDIENCE.upper()} ", AUDIENCE])
def test_an_audience_of_its_own(audience: str) -> None:
    assert one(audience=audience).audience == AUDIENCE
    assert one(audience="api://mcp-wordtools").audience == "api://mcp-wordtools"


def test_variables_of_microsofts_tools_count() -> None:
    found = read(
        {"mcpServers": [{"mcpServerName": WORD}]},
        MCP_PLATFORM_ENDPOINT="https://other.example/",
        MCP_PLATFORM_AUTHENTICATION_SCOPE=f"{AUDIENCE}/.default",
    ).get(WORD)
    assert found is not None
    assert (found.url, found.audience) == ("https://other.example/agents/servers/mcp_WordServer", AUDIENCE)


def test_a_strange_name_makes_no_strange_address() -> None:
    found = read({"mcpServers": [{"mcpServerName": "../../@evil.example/x?y#z"}]}).get("../../@evil.example/x?y#z")
    assert found is not None
    assert found.url == "https://agent365.svc.cloud.microsoft/agents/servers/..%2F..%2F%40evil.example%2Fx%3Fy%23z"


def test_entries_that_make_no_sense_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    rows: list[Any] = [
        7,
        None,
        [],
        "x",
        {},
        {"mcpServerName": ""},
        {"mcpServerName": 7},
        {"mcpServerName": "a", "url": 7},
    ]
    found = read({"mcpServers": [*rows, {"mcpServerName": WORD, "url": "secret-one"}]})
    assert found.names == [WORD]
    assert len(caplog.records) == len(rows)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("root", [{}, [], 7, None, {"mcpServers": None}, {"mcpServers": {}}, {"MCPSERVERS": [{}]}])
def test_a_root_without_servers(root: Any) -> None:
    assert read(root).names == []


def test_the_first_of_two_of_a_name_counts() -> None:
    found = read({"mcpServers": [entry("https://a.example/x"), entry("https://b.example/x")]}).get(WORD)
    assert found is not None
    assert found.url == "https://a.example/x"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{\x00}\x00", b"[" * 100_000, b"NaN,"])
def test_what_is_no_json(content: bytes) -> None:
    with pytest.raises(A365ManifestInvalidError) as failed:
        read(content)
    assert failed.value.remedy


def test_a_byte_order_mark() -> None:
    assert read(b"\xef\xbb\xbf" + json.dumps({"mcpServers": [{"mcpServerName": WORD}]}).encode()).names == [WORD]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
fields = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("mcpServerName", "mcpServerUniqueName", "url", "scope", "audience"), anything | st.just(WORD)
    ),
)


@trials(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_it(content: bytes) -> None:
    with suppress(A365Error):
        read(content)


@trials(deadline=None)
@given(st.lists(fields | anything, max_size=5))
def test_no_entries_break_it(rows: list[Any]) -> None:
    found = read({"mcpServers": rows})
    usable = [row for row in rows if isinstance(row, dict) and isinstance(row.get("mcpServerName"), str)]
    assert len(found.names) <= len(usable)
    for name in found.names:
        server = found.get(name)
        assert server is not None
        assert server.url
        assert server.audience == server.audience.lower().strip()


async def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = ManifestSource(settings(), LOG)
    with pytest.raises(A365ManifestNotFoundError):
        await source.current()
    manifest(tmp_path / ".a365" / "ToolingManifest.json", {"mcpServerName": "second"})
    assert (await source.current()).names == ["second"]
    manifest(tmp_path / "ToolingManifest.json", {"mcpServerName": "first"})
    assert (await source.current()).names == ["first"]
    named = manifest(tmp_path / "named.json", {"mcpServerName": "named"})
    assert (await ManifestSource(settings(ENTRABOT_A365_TOOLING_MANIFEST=str(named)), LOG).current()).names == ["named"]
    (tmp_path / "ToolingManifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(A365ManifestInvalidError):
        await source.current()


async def test_what_is_no_readable_file(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b" " * (MAX_BYTES + 1))
    for path in (tmp_path, large):
        with pytest.raises(A365ManifestInvalidError):
            await ManifestSource(settings(ENTRABOT_A365_TOOLING_MANIFEST=str(path)), LOG).current()
    below = str(large / "x")
    with pytest.raises(A365ManifestNotFoundError):
        await ManifestSource(settings(ENTRABOT_A365_TOOLING_MANIFEST=below), LOG).current()


def servers(*names: str) -> Manifest:
    return read({"mcpServers": [{"mcpServerName": name} for name in names]})


def test_which_server_reads_what() -> None:
    sharepoint, onedrive, combined = "mcp_SharePointRemoteServer", "mcp_OneDriveRemoteServer", "mcp_ODSPRemoteServer"
    all_three = servers(combined, onedrive, sharepoint)
    team, own = "https://contoso.sharepoint.com/x", "https://contoso-my.sharepoint.com/x"
    assert catalog.to_find(all_three, team).server.name == sharepoint
    assert catalog.to_find(all_three, own).server.name == onedrive
    assert catalog.to_find(servers(combined), own).server.name == combined
    assert catalog.to_find(servers(onedrive), team).server.name == onedrive
    (read_own,) = catalog.to_read(all_three, "me", "1", binary=False)
    assert (read_own.server.name, read_own.arguments) == (onedrive, {"fileId": "1"})
    by_drive = catalog.to_read(all_three, "b!1", "1", binary=True)
    assert [one.server.name for one in by_drive] == [sharepoint, combined]
    assert {one.operation.names for one in by_drive} == {("readSmallBinaryFile",)}
    (read_own,) = catalog.to_read(servers(combined), "me", "1", binary=True)
    assert read_own.arguments["documentLibraryId"] == "me"
    for found in (servers(onedrive), servers()):
        with pytest.raises(A365ServerNotConfiguredError):
            catalog.to_read(found, "b!1", "1", binary=False)
    with pytest.raises(A365ServerNotConfiguredError) as failed:
        catalog.to_word(servers(sharepoint), catalog.READ_DOCUMENT, {})
    assert "mcp_WordServer" in failed.value.remedy
