"""Giving an upload session up, so that Microsoft does not keep its bytes for days."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    import httpx

SECONDS = 4.0


async def cancel(url: str, ca_bundle: str) -> bool:
    """Delete an upload session, without a token and within some seconds, also while this call is being cancelled.

    Returns whether Microsoft confirmed it. A session that stays ends by itself and shows nothing to anybody. The
    address is a secret and is in no log.
    """
    with anyio.move_on_after(SECONDS, shield=True):
        return await _delete(url, ca_bundle)
    return False


async def _delete(url: str, ca_bundle: str) -> bool:
    import httpx

    try:
        async with await anyio.to_thread.run_sync(_client, ca_bundle) as client:
            return (await client.delete(url)).status_code in (204, 404)
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        return False


def _client(ca_bundle: str) -> httpx.AsyncClient:
    import httpx
    import truststore

    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_bundle:
        context.load_verify_locations(ca_bundle)
    return httpx.AsyncClient(verify=context, timeout=SECONDS, follow_redirects=False)
