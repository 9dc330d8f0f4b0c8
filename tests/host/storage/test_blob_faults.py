"""An endpoint that refuses, limits, breaks off or hangs: a clear error in time, and nothing lost or done twice."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from aiohttp import web

from entrabot_host.auth.provider import Token
from entrabot_host.errors import AuthError, ConcurrencyError, StorageError
from entrabot_host.storage.blob import BlobBackend
from entrabot_host.storage.blob_connection import Connection, Patience
from entrabot_host.storage.blob_credential import BlobAccess
from tests.host.storage.azurite import Azurite, stand_in_cloud, token
from tests.host.storage.interposer import (
    Fault,
    Interposer,
    answers,
    breaks,
    done_but_503,
    done_but_breaks,
    hangs,
    interposed,
    kept_for_later,
    late_ones_first,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]
HURRIED = Patience(seconds=1.2, one_try=0.4, tries=3, pause=0.02)
BRISK = Patience(seconds=8, one_try=4, tries=3, pause=0.02)
CALM = Patience(seconds=20, one_try=5, tries=4, pause=0.02)


@pytest.fixture
async def between(azurite: Azurite) -> AsyncIterator[Interposer]:
    async with interposed(azurite) as between:
        yield between


@pytest.fixture
async def container(azurite: Azurite) -> str:
    return await azurite.make(f"c{secrets.token_hex(8)}")


@pytest.fixture
async def direct(azurite: Azurite, container: str) -> AsyncIterator[BlobBackend]:
    backend = azurite.backend(container)
    yield backend
    await backend.aclose()


@pytest.fixture
async def backend(azurite: Azurite, between: Interposer, container: str) -> AsyncIterator[BlobBackend]:
    backend = azurite.backend(container, endpoint=between.endpoint, patience=CALM)
    yield backend
    await backend.aclose()


def appends(request: web.Request) -> bool:
    return request.query.get("comp") == "appendblock"


def puts(request: web.Request) -> bool:
    return request.method == "PUT"


OPERATIONS: dict[str, Callable[[BlobBackend], Awaitable[Any]]] = {
    "check": lambda backend: backend.check(),
    "read": lambda backend: backend.read("kept"),
    "list": lambda backend: backend.list("k"),
    "write": lambda backend: backend.write("kept", b"new"),
    "append": lambda backend: backend.append("log", b"new"),
    "delete": lambda backend: backend.delete("kept"),
}
REFUSALS: list[tuple[Fault, str, str]] = [
    (answers(403, "AuthorizationPermissionMismatch"), "refused the agent .403", "Storage Blob Data Contributor"),
    (answers(409, "ContainerBeingDeleted"), "409 ContainerBeingDeleted", "ENTRABOT_BLOB_ENDPOINT"),
    (answers(412, "LeaseIdMissing"), "lease", "lease"),
    (answers(429, "TooManyRequests"), "limiting requests", "Wait"),
    (answers(503, "ServerBusy"), "limiting requests", "Wait"),
    (answers(500, "InternalError"), "is failing", "Azure's status"),
    (answers(302, Location="https://example.org/elsewhere"), "refused the operation .302", "ENDPOINT"),
    (hangs, "did not answer in time", "network"),
    (breaks, "cannot be reached", "network"),
]


@pytest.mark.parametrize(("fault", "message", "remedy"), REFUSALS, ids=[one[1] for one in REFUSALS])
async def test_each_operation_says_what_is_wrong_and_nothing_is_lost(
    azurite: Azurite, between: Interposer, container: str, direct: BlobBackend, fault: Fault, message: str, remedy: str
) -> None:
    await direct.write("kept", b"old")
    await direct.append("log", b"one")
    patience = HURRIED if fault is hangs else BRISK  # what answers gets the time that a busy machine needs
    backend = azurite.backend(container, endpoint=between.endpoint, patience=patience)
    between.always = fault
    for name, operation in OPERATIONS.items():
        with anyio.fail_after(10), pytest.raises(StorageError, match=message) as caught:
            await operation(backend)
        assert remedy in caught.value.remedy, name
        assert between.endpoint in caught.value.message or "lease" in message
    between.always = None
    await backend.append("log", b"two")
    kept, log = await backend.read("kept"), await backend.read("log")
    assert kept is not None
    assert log is not None
    assert (kept.data, log.data) == (b"old", b"one\ntwo\n")
    await backend.aclose()


@pytest.mark.parametrize("fault", [answers(409, "BlobAlreadyExists"), answers(412, "ConditionNotMet")])
async def test_conditions_that_fail_are_one_error(backend: BlobBackend, between: Interposer, fault: Fault) -> None:
    etag = await backend.write("a", b"1")
    between.always = fault
    for attempt in (backend.write("a", b"2", if_match=etag), backend.write("a", b"2", if_absent=True)):
        with pytest.raises(ConcurrencyError):
            await attempt


@pytest.mark.parametrize(
    "fault",
    [answers(503, "ServerBusy", **{"Retry-After": "1"}), answers(429), breaks, answers(500, "OperationTimedOut")],
)
async def test_what_passes_is_waited_for(backend: BlobBackend, between: Interposer, fault: Fault) -> None:
    for operation in OPERATIONS.values():
        between.faults = [fault, fault]
        await operation(backend)
        assert not between.faults


async def test_a_wait_that_is_too_long_is_not_begun(backend: BlobBackend, between: Interposer) -> None:
    between.always = answers(503, "ServerBusy", **{"Retry-After": "3600"})
    with anyio.fail_after(5), pytest.raises(StorageError, match="limiting"):
        await backend.check()


@pytest.mark.parametrize("fault", [done_but_breaks, done_but_503])
async def test_a_line_whose_outcome_was_not_told_is_there_once(
    backend: BlobBackend, between: Interposer, direct: BlobBackend, fault: Fault
) -> None:
    between.applies = appends
    expected = b""
    for number in range(6):
        between.faults = [fault] * (number % 3)
        await backend.append("log", b"line %d" % number)
        await direct.append("log", b"other %d" % number)  # so that the next one begins with a wrong position
        expected += b"line %d\nother %d\n" % (number, number)
    entry = await direct.read("log")
    assert entry is not None
    assert entry.data == expected


async def test_a_line_that_arrives_late_is_there_once(
    backend: BlobBackend, between: Interposer, direct: BlobBackend
) -> None:
    between.applies = appends
    await backend.append("log", b"zero")
    between.faults = [kept_for_later, late_ones_first]
    await backend.append("log", b"one")
    await backend.append("log", b"two")
    entry = await direct.read("log")
    assert entry is not None
    assert entry.data == b"zero\none\ntwo\n"


async def test_a_line_that_failed_and_arrives_after_others_is_left_out(
    azurite: Azurite, between: Interposer, container: str, direct: BlobBackend
) -> None:
    backend = azurite.backend(container, endpoint=between.endpoint, patience=Patience(tries=1))
    await backend.append("log", b"zero")
    between.applies, between.faults = appends, [kept_for_later]
    with pytest.raises(StorageError):
        await backend.append("log", b"one")
    await direct.append("log", b"two")
    await between.forward(*between.late.pop())
    await backend.append("log", b"three")
    entry = await direct.read("log")
    assert entry is not None
    assert entry.data == b"zero\ntwo\nthree\n"
    await backend.aclose()


async def test_a_line_added_to_a_whole_value_is_there_once(
    backend: BlobBackend, between: Interposer, direct: BlobBackend
) -> None:
    await backend.write("log", b"zero\n")
    between.applies, between.faults = puts, [done_but_503, passed_over, done_but_503]
    await backend.append("log", b"one")
    await backend.append("log", b"two")
    entry = await direct.read("log")
    assert entry is not None
    assert entry.data == b"zero\none\ntwo\n"


async def passed_over(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    return await between.forward(request, body)


@pytest.mark.parametrize("fault", [done_but_breaks, done_but_503])
async def test_a_write_that_was_carried_out_is_no_conflict_with_itself(
    backend: BlobBackend, between: Interposer, fault: Fault
) -> None:
    between.applies = puts
    between.faults = [fault]
    etag = await backend.write("a", b"1", if_absent=True)
    between.faults = [fault]
    etag = await backend.write("a", b"2", if_match=etag)
    entry = await backend.read("a")
    assert entry is not None
    assert (entry.data, entry.etag) == (b"2", etag)
    between.faults = [fault]
    await backend.delete("a", if_match=etag)
    assert await backend.read("a") is None


async def test_somebody_elses_equal_write_is_a_conflict(
    backend: BlobBackend, between: Interposer, direct: BlobBackend
) -> None:
    async def somebody_was_faster(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
        await direct.write("number", b"1", if_absent=True)
        return await breaks(between, request, body)

    between.applies, between.faults = puts, [somebody_was_faster]  # type: ignore[list-item]
    with pytest.raises(ConcurrencyError):
        await backend.write("number", b"1", if_absent=True)


async def test_a_refused_token_is_replaced_once(azurite: Azurite, between: Interposer, container: str) -> None:
    asked: list[tuple[str, str]] = []

    async def tokens(audience: str, *, rejected: str = "", claims: str = "") -> Token:
        asked.append((audience, rejected))
        return await token(audience)

    connection = Connection(
        between.endpoint, container, lambda: BlobAccess(stand_in_cloud(), azurite.ca_bundle, tokens)
    )
    backend = BlobBackend(connection)
    challenge = "Bearer authorization_uri=https://login.example/x resource_id=https://vault.azure.net"
    between.faults = [answers(401, "InvalidAuthenticationInfo", **{"WWW-Authenticate": challenge})] * 2
    await backend.check()
    assert {audience for audience, _ in asked} == {"https://storage.azure.com"}
    assert asked[-1][1] == between.seen[0][2].removeprefix("Bearer ")
    between.always = answers(401, "InvalidAuthenticationInfo")
    with pytest.raises(StorageError, match="refused the agent"):
        await backend.check()
    await backend.aclose()


async def test_without_a_token_the_reason_is_said(azurite: Azurite, container: str) -> None:
    async def none(audience: str, *, rejected: str = "", claims: str = "") -> Token:
        raise AuthError("Hop 3 failed.", remedy="Consent to Azure Storage.")

    access = BlobAccess(stand_in_cloud(), azurite.ca_bundle, none)
    backend = BlobBackend(Connection(azurite.endpoint, container, lambda: access))
    with pytest.raises(StorageError, match="Hop 3 failed") as caught:
        await backend.read("a")
    assert caught.value.remedy == "Consent to Azure Storage."
    await backend.aclose()


async def test_a_redirect_takes_the_token_nowhere(backend: BlobBackend, between: Interposer) -> None:
    between.faults = [answers(307, Location=f"{between.endpoint}/elsewhere")]
    with pytest.raises(StorageError, match="307"):
        await backend.check()
    assert len(between.seen) == 1


async def test_a_cancelled_call_ends_at_once_and_the_next_one_works(backend: BlobBackend, between: Interposer) -> None:
    await backend.append("log", b"zero")
    between.always = hangs
    with anyio.fail_after(3):
        with anyio.move_on_after(0.2):
            await backend.append("log", b"one")
    between.always = None
    await backend.append("log", b"two")
    entry = await backend.read("log")
    assert entry is not None
    assert entry.data == b"zero\ntwo\n"
