"""The sandbox tenant for this folder too."""

from tests.host.auth.conftest import anyio_backend, no_proxy, sandbox, tenant

__all__ = ["anyio_backend", "no_proxy", "sandbox", "tenant"]
