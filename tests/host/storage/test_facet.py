"""Whose keys are whose, and which backend the settings choose."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrabot_host.errors import NotStarted, PluginError, StorageConfigError, StorageError
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from entrabot_host.storage.local import LocalBackend
from entrabot_host.storage.settings import StorageSettings, open_backend
from tests.host.storage.contract import BackendContract


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    backend = LocalBackend(tmp_path)
    yield backend
    await backend.aclose()


def facet(plugin: str, backend: MemoryBackend, owned: OwnedKeys) -> StoreFacet:
    async def source() -> MemoryBackend:
        return backend

    return StoreFacet(plugin, source, owned)


class TestFacetIsAStore(BackendContract):
    @pytest.fixture
    def backend(self, local: LocalBackend) -> StoreFacet:
        return facet("tide", local, OwnedKeys())


async def test_plugins_do_not_see_each_other(local: LocalBackend) -> None:
    owned = OwnedKeys()
    one, two = facet("one", local, owned), facet("two", local, owned)
    await one.write("x", b"1")
    assert await two.read("x") is None
    assert await two.list() == []
    assert await local.list() == ["plugins/one/x"]
    for key in ("../two/x", "/x", "a/../../two/x"):
        with pytest.raises(StorageError):
            await one.write(key, b"")
    with pytest.raises(StorageError):
        await one.list("../")


async def test_owned_keys_are_outside_the_prefix(local: LocalBackend) -> None:
    owned = OwnedKeys()
    one = facet("one", local, owned)
    one.own("watched_chats", "summaries/")
    await one.write("watched_chats", b"1")
    await one.write("summaries/a.html", b"2")
    await one.write("summaries_private", b"3")
    await one.write("watched_chats_too", b"4")
    await local.write("watched_chats_of_all", b"5")
    assert await local.list() == [
        "plugins/one/summaries_private",
        "plugins/one/watched_chats_too",
        "summaries/a.html",
        "watched_chats",
        "watched_chats_of_all",
    ]
    assert await one.list() == ["summaries/a.html", "summaries_private", "watched_chats", "watched_chats_too"]
    assert await one.list("summaries/") == ["summaries/a.html"]
    assert await one.list("summaries/a") == ["summaries/a.html"]
    assert await one.list("sum") == ["summaries/a.html", "summaries_private"]
    await one.delete("watched_chats")
    assert await local.read("watched_chats") is None


@pytest.mark.parametrize(
    "wanted", ["mine", "mine/", "dir/", "dir", "dir/a", "plugins/", "plugins/x", "chats/", "sponsors.json", "../x", ""]
)
def test_clashes_are_refused_and_name_the_plugin(wanted: str) -> None:
    owned = OwnedKeys()
    owned.claim("first", ["mine", "dir/"])
    with pytest.raises(PluginError, match="second"):
        owned.claim("second", ["fine", wanted])
    assert owned.of("second") == []


def test_a_plugin_that_was_not_accepted_leaves_its_keys_and_nobody_claims_after_assembly() -> None:
    owned = OwnedKeys()
    owned.claim("bad", ["promises.jsonl"])
    owned.release("bad")
    owned.claim("good", ["promises.jsonl"])
    owned.freeze()
    with pytest.raises(PluginError, match="after assembly"):
        owned.claim("good", ["more"])


async def test_the_hosts_own_keys_are_its_own(local: LocalBackend) -> None:
    await facet("host", local, OwnedKeys()).write("sponsors.json", b"{}")
    await facet("other", local, OwnedKeys()).write("sponsors.json", b"{}")
    assert await local.list() == ["plugins/other/sponsors.json", "sponsors.json"]


async def test_the_real_reason_of_a_failed_start_is_raised() -> None:
    async def source() -> MemoryBackend:
        raise NotStarted("too early")

    with pytest.raises(NotStarted):
        await StoreFacet("one", source, OwnedKeys()).read("x")


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"ENTRABOT_BLOB_ENDPOINT": "https://x"}, "ENTRABOT_BLOB_CONTAINER is not set"),
        ({"ENTRABOT_BLOB_CONTAINER": "x"}, "ENTRABOT_BLOB_ENDPOINT is not set"),
    ],
)
def test_half_of_the_blob_settings_is_refused_loudly(values: dict[str, str], missing: str, tmp_path: Path) -> None:
    with pytest.raises(StorageConfigError, match=missing) as caught:
        open_backend(StorageSettings.model_validate(values), tmp_path)
    assert "ENTRABOT_KEEP_MEMORY_LOCAL" in caught.value.remedy
    kept = StorageSettings.model_validate({**values, "ENTRABOT_KEEP_MEMORY_LOCAL": "true"})
    assert open_backend(kept, tmp_path).location == str(tmp_path)


def test_local_files_win_where_they_are_asked_for_and_blob_needs_somebody_signed_in(tmp_path: Path) -> None:
    blob = {"ENTRABOT_BLOB_ENDPOINT": "https://x", "ENTRABOT_BLOB_CONTAINER": "x"}
    kept = StorageSettings.model_validate({**blob, "ENTRABOT_KEEP_MEMORY_LOCAL": "true"})
    assert open_backend(kept, tmp_path).location == str(tmp_path)
    with pytest.raises(StorageConfigError, match="signed-in"):
        open_backend(StorageSettings.model_validate(blob), tmp_path)
