"""The contract on Azure's emulator, and what only Blob has: parts of logs, values that are appended to, containers."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from entrabot_host.errors import ConcurrencyError, StorageConfigError, StorageError, TokenAudienceError
from entrabot_host.security.clouds import CloudSettings, resolve_cloud
from entrabot_host.storage import blob_log
from entrabot_host.storage.blob import BlobBackend
from entrabot_host.storage.blob_credential import BlobAccess, checked_endpoint
from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from entrabot_host.storage.settings import StorageSettings, open_backend
from tests.host.storage.azurite import Azurite, stand_in_cloud, token
from tests.host.storage.contract import BackendContract, LogContract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture
async def backend(azurite: Azurite) -> AsyncIterator[BlobBackend]:
    backend = azurite.backend(await azurite.make(f"c{secrets.token_hex(8)}"))
    yield backend
    await backend.aclose()


@pytest.fixture
async def small(small_azurite: Azurite) -> AsyncIterator[BlobBackend]:
    container = await small_azurite.make(f"c{secrets.token_hex(8)}")
    backend = small_azurite.backend(container, limits=blob_log.Limits(blocks=10))
    yield backend
    await backend.aclose()


class TestBlob(BackendContract, LogContract):
    pass


class TestFacetOnBlob(BackendContract):
    @pytest.fixture
    def backend(self, backend: BlobBackend) -> StoreFacet:
        async def source() -> BlobBackend:
            return backend

        return StoreFacet("tide", source, OwnedKeys())


async def test_two_machines_append_to_one_log(azurite: Azurite, backend: BlobBackend) -> None:
    other = azurite.backend(backend._connection.container)
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(backend.append, "log.jsonl", b"a%d" % number)
            group.start_soon(other.append, "log.jsonl", b"b%d" % number)
    await other.aclose()
    entry = await backend.read("log.jsonl")
    assert entry is not None
    assert sorted(entry.data.split()) == sorted(b"%s%d" % (who, n) for who in (b"a", b"b") for n in range(30))


async def test_a_log_that_is_full_goes_on_in_another_blob(small_azurite: Azurite, small: BlobBackend) -> None:
    other = small_azurite.backend(small._connection.container, limits=blob_log.Limits(blocks=10))
    for number in range(35):
        await (small, other)[number % 3 == 0].append("log.jsonl", b"%d" % number)
    await other.aclose()
    expected = b"".join(b"%d\n" % number for number in range(35))
    entry = await small.read("log.jsonl")
    assert entry is not None
    assert entry.data == expected
    blocks = [block async for block in small.read_backwards("log.jsonl")]
    assert b"".join(reversed(blocks)) == expected
    assert await small.list() == ["log.jsonl"]
    with pytest.raises(StorageError, match="several blobs"):
        await small.write("log.jsonl", b"", if_match=entry.etag)
    await small.delete("log.jsonl")
    assert await small.read("log.jsonl") is None
    assert await all_blobs(small) == []


async def test_a_log_that_is_large_goes_on_in_another_blob(azurite: Azurite) -> None:
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    backend = azurite.backend(container, limits=blob_log.Limits(roll_bytes=100))
    for number in range(30):
        await backend.append("log", b"%020d" % number)
    entry = await backend.read("log")
    assert entry is not None
    assert entry.data == b"".join(b"%020d\n" % number for number in range(30))
    assert len(await all_blobs(backend)) == 6
    await backend.aclose()


async def all_blobs(backend: BlobBackend) -> list[str]:
    async def names(client: Any) -> list[str]:
        return [name async for name in client.list_blob_names()]

    return await backend._connection.call(names)


async def test_a_value_written_whole_is_appended_to(azurite: Azurite, backend: BlobBackend) -> None:
    """As after a compaction, and in what an earlier product left."""
    await backend.append("promises.jsonl", b"one")
    entry = await backend.read("promises.jsonl")
    assert entry is not None
    await backend.write("promises.jsonl", b"compacted", if_match=entry.etag)
    other = azurite.backend(backend._connection.container)
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(backend.append, "promises.jsonl", b"a%d" % number)
            group.start_soon(other.append, "promises.jsonl", b"b%d" % number)
    await other.aclose()
    entry = await backend.read("promises.jsonl")
    assert entry is not None
    first, *rest = entry.data.split()
    assert first == b"compacted"
    assert sorted(rest) == sorted(b"%s%d" % (who, n) for who in (b"a", b"b") for n in range(10))


async def test_an_append_fences_a_compaction_that_read_before_it(backend: BlobBackend) -> None:
    await backend.append("log", b"one")
    entry = await backend.read("log")
    assert entry is not None
    await backend.append("log", b"two")
    with pytest.raises(ConcurrencyError):
        await backend.write("log", b"compacted", if_match=entry.etag)


async def test_a_large_value_is_visible_at_once_and_conditional(backend: BlobBackend) -> None:
    data = b"x" * (3 << 20)
    old = await backend.write("large", data, if_absent=True)
    with pytest.raises(ConcurrencyError):
        await backend.write("large", data, if_absent=True)
    await backend.append("large", b"line")
    with pytest.raises(ConcurrencyError):
        await backend.write("large", data, if_match=old)
    entry = await backend.read("large")
    assert entry is not None
    assert entry.data == data + b"\nline\n"


async def test_age_is_on_the_services_clock(backend: BlobBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    await backend.write("a", b"1")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 5)  # this machine's clock is wrong
    await asyncio.sleep(1.1)
    entry = await backend.read("a")
    assert entry is not None
    assert 1 <= entry.age <= 4


async def test_a_container_that_is_not_there_is_said(azurite: Azurite) -> None:
    backend = azurite.backend("nobody-made-this")
    for attempt in (backend.check(), backend.read("a"), backend.append("a", b""), backend.write("a", b"")):
        with pytest.raises(StorageConfigError, match="nobody-made-this") as caught:
            await attempt
        assert "az storage container create" in caught.value.remedy
    await backend.aclose()
    with pytest.raises(StorageError, match="closed"):
        await backend.check()


async def test_a_certificate_that_is_not_trusted_is_said_at_once(azurite: Azurite) -> None:
    backend = Azurite(azurite.endpoint, "").backend("any")
    with anyio.fail_after(8), pytest.raises(StorageError, match="not trusted") as caught:
        await backend.check()
    assert "ENTRABOT_CA_BUNDLE" in caught.value.remedy
    await backend.aclose()


async def test_a_netrc_entry_for_the_host_does_no_harm(
    azurite: Azurite, backend: BlobBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login x password y\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    await backend.check()


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:1/a", "https://a.blob.core.windows.net/?sig=SECRET", "https://SECRET@a.example", "a"]
)
def test_a_malformed_endpoint_is_refused_without_being_shown(endpoint: str) -> None:
    with pytest.raises(StorageConfigError) as caught:
        checked_endpoint(endpoint, stand_in_cloud())
    assert "SECRET" not in str(caught.value.to_dict())


def test_tokens_of_a_real_authority_go_to_that_clouds_storage_only() -> None:
    cloud = resolve_cloud(CloudSettings())
    assert checked_endpoint("https://a.blob.core.windows.net/", cloud) == "https://a.blob.core.windows.net"
    for endpoint in ("https://127.0.0.1:10000/devstoreaccount1", "https://a.blob.core.chinacloudapi.cn"):
        with pytest.raises(TokenAudienceError):
            checked_endpoint(endpoint, cloud)


async def test_the_settings_choose_it(azurite: Azurite, tmp_path: Path) -> None:
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    values = {"ENTRABOT_BLOB_ENDPOINT": azurite.endpoint, "ENTRABOT_BLOB_CONTAINER": container}
    settings = StorageSettings.model_validate(values)
    backend = open_backend(settings, tmp_path, lambda: BlobAccess(stand_in_cloud(), azurite.ca_bundle, token))
    await backend.check()
    assert (backend.name, backend.location) == ("blob", f"{azurite.endpoint}/{container}")
    await backend.aclose()
    assert not list(tmp_path.iterdir())
