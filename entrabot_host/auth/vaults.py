"""Where a person's tokens lie: in the operating system's keystore, in a file for their owner only, or in memory."""

from __future__ import annotations

import hashlib
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from entrabot_host.storage import files

SERVICE = "entrabot"
_FILE = "tokens.json"
_LEAST_PRIORITY = 1
"""Below it are keyring's backends that keep nothing, or keep it in the clear."""


class Kind(StrEnum):
    """What protects the tokens."""

    KEYSTORE = "keystore"
    FILE = "file"
    MEMORY = "memory"


class VaultError(Exception):
    """A vault cannot be opened, read or written; the text says why and holds nothing of what is inside."""


class Vault(Protocol):
    """One place for one text. All methods block and raise `VaultError`."""

    kind: Kind
    location: str

    def load(self) -> str:
        """Return the text, empty when there is none."""
        ...

    def save(self, text: str) -> None:
        """Put a text in the old one's place, all or nothing."""
        ...


class MemoryVault:
    """Keeps the text as long as the process lives."""

    kind = Kind.MEMORY
    location = "the memory of this process"

    def __init__(self) -> None:
        self._text = ""

    def load(self) -> str:
        """Return the text."""
        return self._text

    def save(self, text: str) -> None:
        """Keep the text."""
        self._text = text


class FileVault:
    """A file that only its owner may read; one that others could have read or written is not believed."""

    kind = Kind.FILE

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FILE
        self.location = str(self.path)

    def load(self) -> str:
        """Return the file's text."""
        try:
            found = files.read_file(self.path)
        except OSError as error:
            raise VaultError(f"{self.path} cannot be read: {error.strerror}") from None
        if found is None:
            return ""
        data, status = found
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise VaultError(f"{self.path} is open to other users of this machine, so it is not used; delete it")
        return data.decode("utf-8", "replace")

    def save(self, text: str) -> None:
        """Replace the file."""
        try:
            with files.temporary_file(self.path.parent, text.encode()) as new:
                new.replace(self.path)
            files.sync_folder(self.path.parent)
        except OSError as error:
            raise VaultError(f"{self.path} cannot be written: {error.strerror}") from None

    def remove(self) -> None:
        """Delete the file, if there is one."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise VaultError(f"{self.path} cannot be deleted: {error.strerror}") from None


class KeyringVault:
    """The keystore of macOS or of a Linux desktop, through keyring."""

    kind = Kind.KEYSTORE

    def __init__(self, folder: Path) -> None:
        import keyring

        backend = keyring.get_keyring()
        if backend.priority < _LEAST_PRIORITY:
            raise VaultError("no keystore of the operating system can be reached from here")
        self._backend = backend
        self._name = f"person-tokens-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
        self.location = f"{backend.name}, service {SERVICE}, name {self._name}"
        self.load()

    def load(self) -> str:
        """Return what is stored."""
        try:
            return self._backend.get_password(SERVICE, self._name) or ""
        except Exception as error:  # keyring's backends let errors of their own libraries through
            raise VaultError(f"the keystore did not answer: {type(error).__name__}") from None

    def save(self, text: str) -> None:
        """Store the text."""
        try:
            self._backend.set_password(SERVICE, self._name, text)
        except Exception as error:  # as in `load`
            raise VaultError(f"the keystore did not take it: {type(error).__name__}") from None


class DataProtectionVault:
    """A file that Windows encrypts for its user; the Windows keystore itself takes no texts of this size."""

    kind = Kind.KEYSTORE

    def __init__(self, folder: Path) -> None:
        from msal_extensions import FilePersistenceWithDataProtection  # type: ignore[import-untyped]

        self.location = str(folder / "tokens.bin")
        try:
            self._persistence = FilePersistenceWithDataProtection(self.location)
        except (ImportError, OSError, RuntimeError) as error:
            raise VaultError(f"Windows does not encrypt: {type(error).__name__}") from None

    def load(self) -> str:
        """Decrypt the file."""
        from msal_extensions.persistence import PersistenceNotFound  # type: ignore[import-untyped]

        try:
            return str(self._persistence.load())
        except PersistenceNotFound:
            return ""
        except OSError as error:
            raise VaultError(f"the encrypted file cannot be read: {type(error).__name__}") from None

    def save(self, text: str) -> None:
        """Encrypt into the file."""
        try:
            self._persistence.save(text)
        except OSError as error:
            raise VaultError(f"the encrypted file cannot be written: {type(error).__name__}") from None


def keystore(folder: Path) -> Vault:
    """Return the operating system's keystore. Raises `VaultError` where it cannot be used."""
    return DataProtectionVault(folder) if sys.platform == "win32" else KeyringVault(folder)
