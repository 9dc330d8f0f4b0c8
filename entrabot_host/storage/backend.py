"""The contract of a place where state is kept."""

from __future__ import annotations

from typing import Protocol

from entrabot_host.host import Entry


class MemoryBackend(Protocol):
    """Keyed bytes with conditional writes, safe for several processes. All errors are `StorageError` and its kinds.

    A call that was cancelled has either happened or never will; it does not happen later.
    """

    @property
    def name(self) -> str:
        """``"local"`` or ``"blob"``."""
        ...

    @property
    def location(self) -> str:
        """Where the state lies, for people."""
        ...

    async def check(self) -> None:
        """Prove that the place can be read and written. Raises `StorageError` or `StorageConfigError`."""
        ...

    async def read(self, key: str) -> Entry | None:
        """Return the value, or None when there is none."""
        ...

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write the whole value and return its new etag. Raises `ConcurrencyError` when the condition fails."""
        ...

    async def append(self, key: str, line: bytes) -> None:
        """Append one line (without its newline), whole, also when several processes append."""
        ...

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with ``prefix``, sorted."""
        ...

    async def delete(self, key: str, *, if_match: str = "") -> None:
        """Delete the value; it is no error when there is none."""
        ...

    async def aclose(self) -> None:
        """Let go of threads and connections. No network."""
        ...
