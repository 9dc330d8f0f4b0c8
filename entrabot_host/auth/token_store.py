"""A person's tokens, kept between runs and shared by processes: one at a time reads, renews and writes them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entrabot_host.auth.delegated_settings import TOKEN_CACHE, CacheChoice
from entrabot_host.auth.vaults import FileVault, Kind, MemoryVault, Vault, VaultError, keystore
from entrabot_host.errors import AuthError
from entrabot_host.storage import files

if TYPE_CHECKING:
    import msal

FOLDER = ".person"
"""Below the data folder. No storage key begins with a dot, so no plugin reads it and it is copied nowhere."""
LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.02
_TIMES = ("cached_at", "expires_on", "extended_expires_on", "refresh_on", "last_modification_time")
"""What MSAL takes for whole numbers without asking."""

_log = logging.getLogger(__name__)


class TokenStore:
    """Opens the cache of a person's tokens for one holder at a time. May be used from several threads.

    A refresh token may be good for one use, so whoever renews a token holds the lock from before he reads the old one
    until the new one is written. The lock is the operating system's: it ends with its holder.
    """

    def __init__(self, data_folder: Path, choice: CacheChoice, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self._folder = data_folder / FOLDER
        self._choice = choice
        self._lock_seconds = lock_seconds
        self._lock = threading.Lock()
        self._vault: Vault | None = MemoryVault() if choice == "memory" else None
        self._unsaved = ""
        self.problem = ""
        """Why tokens are kept less well than they could be, in a sentence; empty when nothing is wrong."""

    @property
    def kind(self) -> Kind | None:
        """What protects the tokens; None before they were first needed."""
        return self._vault.kind if self._vault else None

    @property
    def location(self) -> str:
        """Where they are."""
        return self._vault.location if self._vault else ""

    @contextmanager
    def opened(self) -> Iterator[msal.SerializableTokenCache]:
        """Yield the cache as it is now, and write it at the end if it was changed. Blocks.

        Raises `AuthError` when it cannot be opened. What cannot be written is kept in memory and said loudly.
        """
        import msal

        with self._held():
            cache = msal.SerializableTokenCache()
            self._fill(cache)
            try:
                yield cache
            finally:
                if cache.has_state_changed:
                    self._save(cache.serialize())

    def receiving(self) -> msal.TokenCache:
        """Return a cache for a new sign-in: what it is given takes the place of all that was stored, at once."""
        import msal

        store = self

        class Receiving(msal.TokenCache):  # type: ignore[misc]
            def add(self, event: Mapping[str, Any], now: int | None = None) -> None:
                with store.opened() as cache:
                    cache.deserialize(None)
                    cache.add(event, now=now)

        return Receiving()

    def clear(self) -> None:
        """Forget everything. Blocks."""
        with self.opened() as cache:
            cache.deserialize(None)
            cache.has_state_changed = True

    def settled(self, seconds: float) -> bool:
        """Wait until nobody in this process holds the cache, so that what is being renewed is written. Blocks."""
        if free := self._lock.acquire(timeout=seconds):
            self._lock.release()
        return free

    def text(self) -> str:
        """Return what is stored, to be compared: it changes when another process signs in. Blocks."""
        with self._held():
            return self._load()

    @contextmanager
    def _held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._lock_seconds):
            raise self._busy()
        try:
            if self._choice == "memory":
                yield
                return
            with self._locked():
                if self._vault is None:
                    self._vault = self._choose()
                yield
        finally:
            self._lock.release()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        try:
            files.make_folder(self._folder)
            path = self._folder / "lock"
            lock = FileLock(path, timeout=self._lock_seconds, mode=0o600, poll_interval=_LOCK_POLL_SECONDS)
            lock.acquire()
        except Timeout:
            raise self._busy() from None
        except OSError as error:
            raise AuthError(
                f"A person's tokens cannot be kept: {files.explain(error, self._folder).message}",
                remedy=f"Check the folder, or set {TOKEN_CACHE}=memory.",
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _warn(self, problem: str) -> None:
        """Say it once."""
        if problem != self.problem:
            _log.warning("%s", problem)
        self.problem = problem

    def _busy(self) -> AuthError:
        return AuthError(
            f"Another process has been renewing the person's tokens for {self._lock_seconds:g} seconds.",
            remedy="Try again; if it persists, look for a hanging entrabot process.",
        )

    def _choose(self) -> Vault:
        file = FileVault(self._folder)
        try:
            vault = keystore(self._folder)
        except VaultError as error:
            if self._choice == "keystore":
                raise AuthError(
                    f"{TOKEN_CACHE} wants the keystore, but {error}.",
                    remedy=f"Unlock or start the keystore, or set {TOKEN_CACHE} to auto (a file) or memory.",
                ) from None
            self._warn(
                f"The person's tokens are not encrypted: they are in the file {file.location}, which only its owner "
                f"may read, because {error}. Set {TOKEN_CACHE} to keystore or memory to refuse that."
            )
            return file
        _move(file, vault)
        return vault

    def _fill(self, cache: msal.SerializableTokenCache) -> None:
        text = self._load()
        if text and not _is_cache(text):
            self._warn("The stored tokens are damaged; the person has to sign in again")
            text = ""
        cache.deserialize(text or None)

    def _load(self) -> str:
        if self._unsaved:
            return self._unsaved
        try:
            return self._vault.load() if self._vault else ""
        except VaultError as error:
            if isinstance(self._vault, FileVault):
                self._warn(f"The stored tokens are not used: {error}")
                return ""
            raise AuthError(f"The person's tokens cannot be read: {error}.", remedy="Unlock the keystore.") from None

    def _save(self, text: str) -> None:
        try:
            if self._vault:
                self._vault.save(text)
            self._unsaved = ""
        except VaultError as error:
            self._unsaved = text
            _log.error("The person's new tokens could not be kept, so the next start may need a sign-in: %s", error)


def _is_cache(text: str) -> bool:
    """Whether it has the form of MSAL's cache: entries by id, by kind."""
    try:
        kinds = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(kinds, dict) and all(
        isinstance(entries, dict) and all(isinstance(entry, dict) and _is_entry(entry) for entry in entries.values())
        for entries in kinds.values()
    )


def _is_entry(entry: Mapping[str, Any]) -> bool:
    times = all(str(entry[name]).isdecimal() for name in _TIMES if entry.get(name) is not None)
    return times and isinstance(entry.get("target", ""), str)


def _move(file: FileVault, vault: Vault) -> None:
    """Take over what lies in a file from a time without a keystore."""
    try:
        if (text := file.load()) and not vault.load():
            vault.save(text)
        file.remove()
    except VaultError as error:
        _log.warning("Tokens from a time without a keystore were not moved into it: %s", error)
