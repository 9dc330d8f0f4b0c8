"""The connection to one Blob container: opened when first needed, every call bounded, repeated and explained.

The SDK is imported here, in a worker thread, and only for an installation that is configured for Blob.
"""

from __future__ import annotations

import asyncio
import logging
import random
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from entrabot_host.errors import EntrabotError, StorageConfigError, StorageError
from entrabot_host.security.tls import ssl_context
from entrabot_host.storage.blob_credential import AccessSource, BlobAccess, SessionCredential, checked_endpoint
from entrabot_host.storage.blob_failures import Refusal, explain_refusal, explain_silence, refusal, untrusted

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient

ResultT = TypeVar("ResultT")
READ_BYTES = 256 << 20
"""A value up to here is read in one request, so it is of one version."""
PIECE_BYTES = 1 << 20
"""A larger value is written in pieces (and made visible at once): aiohttp blocks the loop for each that it sends."""


@dataclass(frozen=True)
class Patience:
    """How long a call may take. seconds: with all its tries; one try; pause: before the second, then doubled."""

    seconds: float = 30.0
    one_try: float = 10.0
    tries: int = 4
    pause: float = 0.5


Work = Callable[["ContainerClient"], Awaitable[ResultT]]
"""One try. An earlier one may have been carried out without our knowing, also below this module: aiohttp repeats
a PUT when a connection that was kept open breaks. So a condition that fails always asks who was faster."""


class Connection:
    """Runs work against the container. api_version: for a service that is older than the SDK, empty for the newest."""

    def __init__(
        self,
        endpoint: str,
        container: str,
        access: AccessSource,
        *,
        patience: Patience | None = None,
        api_version: str = "",
    ) -> None:
        self.endpoint = endpoint
        self.container = container
        self._access = access
        self._patience = patience or Patience()
        self._api_version = api_version
        self._client: ContainerClient | None = None
        self._credential: SessionCredential | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def call(self, work: Work[ResultT]) -> ResultT:
        """Run ``work`` until it succeeds or is refused. Raises `StorageError` and its kinds, `StorageConfigError`."""
        try:
            async with asyncio.timeout(self._patience.seconds):
                return await self._repeat(work)
        except TimeoutError as error:
            raise explain_silence(error, self.endpoint) from None

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _repeat(self, work: Work[ResultT]) -> ResultT:
        client = await self._open()
        tries, new_token = 0, False
        while True:
            tries += 1
            try:
                async with asyncio.timeout(self._patience.one_try):
                    return await work(client)
            except EntrabotError:
                raise
            except Exception as error:  # the SDK's, aiohttp's and the socket's errors share no base
                answer = _failure(error)
                if answer and answer.token_refused and not new_token and self._credential:
                    new_token = True
                    self._credential.reject()
                    continue
                if not self._again(error, answer, tries):
                    raise self._explain(error, answer) from None
            await asyncio.sleep(self._pause(tries, answer))

    def _again(self, error: Exception, answer: Refusal | None, tries: int) -> bool:
        if tries >= self._patience.tries or untrusted(error):
            return False
        return answer is None or (answer.worth_repeating and answer.retry_after < self._patience.seconds)

    def _pause(self, tries: int, answer: Refusal | None) -> float:
        own: float = self._patience.pause * 2 ** (tries - 1) * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
        return max(own, answer.retry_after if answer else 0.0)

    def _explain(self, error: Exception, answer: Refusal | None) -> EntrabotError:
        if answer is None:
            return explain_silence(error, self.endpoint)
        return explain_refusal(answer, self.endpoint, self.container)

    async def _open(self) -> ContainerClient:
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._closed:
                raise StorageError("The connection to Azure Blob Storage was closed already.")
            if self._client is None:
                access = self._access()
                endpoint = checked_endpoint(self.endpoint, access.cloud)
                context = await asyncio.to_thread(_prepare, access)
                self._credential = SessionCredential(access.token)
                self._client = _container(endpoint, self.container, self._credential, context, self._api_version)
            return self._client


def _failure(error: Exception) -> Refusal | None:
    """Return what the service answered, None when no answer came. Raises the error again when it is a bug."""
    import aiohttp
    from azure.core.exceptions import AzureError

    if isinstance(error, AzureError):
        return refusal(error)
    if isinstance(error, TimeoutError | OSError | aiohttp.ClientError):
        return None
    raise error


def _prepare(access: BlobAccess) -> object:
    """Import what is heavy, and read the certificates. Runs in a worker thread."""
    try:
        import aiohttp  # noqa: F401
        import azure.storage.blob.aio  # noqa: F401
    except ImportError as error:
        raise StorageConfigError(
            f"Azure Blob storage is configured, but the package it needs is missing ({error.name}).",
            remedy="Install it: pip install 'entrabot-host[blob]'; or set ENTRABOT_KEEP_MEMORY_LOCAL=true.",
        ) from None
    return ssl_context(access.ca_bundle)


def _container(
    endpoint: str, container: str, credential: SessionCredential, context: object, api_version: str
) -> ContainerClient:
    import aiohttp
    from azure.core.pipeline.transport import AioHttpTransport
    from azure.storage.blob.aio import ContainerClient

    for name in ("azure", "aiohttp"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))  # they log addresses
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context),  # type: ignore[arg-type]
        proxy=_proxy(endpoint),  # trust_env would read .netrc as well, whose entries it refuses beside a token
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )
    more: dict[str, Any] = {"api_version": api_version} if api_version else {}
    return ContainerClient(
        endpoint,
        container,
        credential=credential,
        transport=AioHttpTransport(session=session, session_owner=True, use_env_settings=False),
        retry_total=0,
        permit_redirects=False,
        max_single_put_size=PIECE_BYTES,
        max_block_size=PIECE_BYTES,
        max_single_get_size=READ_BYTES,
        **more,
    )


def _proxy(endpoint: str) -> str | None:
    host = urlsplit(endpoint).netloc
    return None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get("https")
