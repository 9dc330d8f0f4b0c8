"""The contract of a place where state is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from entrabot_host.host import Entry

FIRST_BLOCK = 64 << 10
LARGEST_BLOCK = 1 << 20
"""Bytes that `MemoryBackend.read_backwards` asks for at first, and at most: each block is twice the one before."""


class MemoryBackend(Protocol):
    """Keyed bytes with conditional writes, safe for several processes. All errors are `StorageError` and its kinds.

    A call that was cancelled has either happened or never will; it does not happen later. (What Azure has received
    already when a call is cancelled may still be carried out; its condition holds then, too.)
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

    def read_backwards(self, key: str) -> AsyncGenerator[bytes, None]:
        """Iterate over a log from its end to its beginning, in blocks that hold their bytes in the usual order.

        What is appended meanwhile is left out. Nothing is yielded when there is no value.
        """
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
