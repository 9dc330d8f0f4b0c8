"""Drives of three kinds and what lies in them: OneDrive for Business, SharePoint libraries, a consumer's OneDrive."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote
from uuid import uuid4

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import Directory, Guids, User
from entrabot_sandbox.drive_errors import not_found, refused
from entrabot_sandbox.drive_names import check_name, check_path

PERSONAL, BUSINESS, LIBRARY = "personal", "business", "documentLibrary"
QUOTA = 1 << 40
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@dataclass
class Permission:
    """Somebody's right to an item. ``link`` is a sharing link's address, with nobody named."""

    id: str
    roles: list[str]
    user: User | None
    address: str = ""
    link: str = ""


@dataclass
class Item:
    """A file (``content`` is set) or a folder. ``parent`` is None for the root. ``tag`` counts changes.

    hashed: a content and its hash, so that a large file is hashed once, as a drive does.
    """

    id: str
    name: str
    parent: Item | None
    content: bytes | None
    created: datetime
    modified: datetime
    author: User | None
    editor: User | None
    guid: str = field(default_factory=lambda: str(uuid4()).upper())
    tag: int = 1
    content_tag: int = 1
    permissions: list[Permission] = field(default_factory=list)
    locked: bool = False
    hashed: tuple[bytes, str] | None = field(default=None, repr=False)

    @property
    def is_folder(self) -> bool:
        """Whether it can hold others."""
        return self.content is None

    @property
    def etag(self) -> str:
        """Changes with every change."""
        return f'"{{{self.guid}}},{self.tag}"'

    @property
    def ctag(self) -> str:
        """Changes with the content only."""
        return f'"c:{{{self.guid}}},{self.content_tag}"'

    def path(self) -> str:
        """The path below the root, ``/A/B.txt``; empty for the root."""
        return f"{self.parent.path()}/{self.name}" if self.parent else ""


@dataclass
class Drive:
    """A drive. ``members`` may use all of it; ``site_id`` is Graph's triple, empty for a consumer's drive."""

    key: str
    id: str
    kind: str
    name: str
    url: str
    members: list[User]
    site_id: str = ""
    quota: int = QUOTA
    comments: bool = False
    items: dict[str, Item] = field(default_factory=dict)

    @property
    def root(self) -> Item:
        """The folder in which everything lies."""
        return next(item for item in self.items.values() if item.parent is None)

    @property
    def used(self) -> int:
        """Bytes stored."""
        return sum(len(item.content or b"") for item in self.items.values())

    def children(self, folder: Item) -> list[Item]:
        """What lies directly in a folder."""
        return [item for item in self.items.values() if item.parent is folder]

    def child(self, folder: Item, name: str) -> Item | None:
        """What is called so there; case does not count."""
        return next((item for item in self.children(folder) if item.name.lower() == name.lower()), None)

    def at(self, path: str) -> Item | None:
        """What lies at a path below the root."""
        found: Item | None = self.root
        for name in filter(None, path.split("/")):
            found = self.child(found, name) if found else None
        return found

    def web_url(self, item: Item) -> str:
        """The address that a browser would show."""
        return self.url + quote(item.path())

    def size(self, item: Item) -> int:
        """Bytes of a file, or of all in a folder."""
        if item.content is not None:
            return len(item.content)
        return sum(self.size(child) for child in self.children(item))


class Drives:
    """All drives of a sandbox. ``links`` are sharing links: address to drive, item and the permission."""

    def __init__(self, clock: Clock, guids: Guids, directory: Directory) -> None:
        self._clock = clock
        self.all: dict[str, Drive] = {}
        self.links: dict[str, tuple[Drive, Item, Permission]] = {}
        self._build(guids, {person.key: person for person in directory.people()})

    def _build(self, guids: Guids, people: dict[str, User]) -> None:
        agent, alice, bob, mallory = (people[key] for key in ("agent", "alice", "bob", "mallory"))
        for person in (agent, alice):
            host, name = "contoso-my.sharepoint.example", person.upn.replace("@", "_").replace(".", "_")
            url = f"https://{host}/personal/{name}/Documents"
            self._add(guids, f"{person.key}-onedrive", BUSINESS, "OneDrive", url, [person], host)
        for site, members in (("Marketing", [agent, alice, bob]), ("Board", [agent, alice])):
            host = "contoso.sharepoint.example"
            url = f"https://{host}/sites/{site}/Shared%20Documents"
            self._add(guids, site.lower(), LIBRARY, "Documents", url, members, host)
        self._add(guids, "mallory-onedrive", PERSONAL, "OneDrive", "https://onedrive.live.example/m", [mallory], "")

    def _add(self, guids: Guids, key: str, kind: str, name: str, url: str, members: list[User], host: str) -> None:
        if kind == PERSONAL:
            drive_id, site = guids[f"drive {key}"].replace("-", "")[:16].upper(), ""
        else:
            drive_id = "b!" + (guids[f"drive {key}"] + guids[f"drive2 {key}"]).replace("-", "")
            site = f"{host},{guids[f'site {key}']},{guids[f'web {key}']}"
        drive = Drive(key, drive_id, kind, name, url, members, site)
        self.all[drive_id] = drive
        self._insert(drive, "root", None, None, members[0])

    def of(self, user: User) -> Drive:
        """A user's own OneDrive. Raises GraphError (404) for somebody who has none."""
        for drive in self.all.values():
            if drive.kind != LIBRARY and drive.members[0] is user:
                return drive
        raise not_found("User's mysite not found.")

    def get(self, drive_id: str) -> Drive:
        """A drive by id. Raises GraphError: 400 for a malformed one, 404 for an unknown one."""
        if drive_id in self.all:
            return self.all[drive_id]
        if not drive_id.startswith("b!") and not (drive_id.isalnum() and len(drive_id) <= 16):
            raise refused(400, "invalidRequest", "The provided drive id appears to be malformed, or does not exist.")
        raise not_found("The resource could not be found.")

    def named(self, key: str) -> Drive | None:
        """A drive by the key that the control API uses."""
        return next((drive for drive in self.all.values() if key in (drive.key, drive.id)), None)

    def make_folders(self, drive: Drive, path: str, user: User) -> Item:
        """The folder at a path, made with those above it where they are missing."""
        folder = drive.root
        for name in filter(None, path.split("/")):
            found = drive.child(folder, name)
            if found is not None and not found.is_folder:
                raise refused(409, "nameAlreadyExists", "A file stands in the way of a folder.")
            folder = found or self._insert(drive, name, folder, None, user)
        return folder

    def store(self, drive: Drive, folder: Item, name: str, content: bytes, user: User, behaviour: str) -> Item:
        """Create or replace a file; ``behaviour`` is fail, replace or rename. Raises GraphError.

        The item's ``tag`` is 1 when it was created.
        """
        check_name(name, in_root=False)
        check_path(f"{folder.path()}/{name}")
        found = drive.child(folder, name)
        if found is not None and (behaviour == "fail" or (behaviour == "replace" and found.is_folder)):
            raise refused(409, "nameAlreadyExists", "An item with the same name already exists under the parent.")
        freed = len(found.content or b"") if found and behaviour == "replace" else 0
        if drive.used - freed + len(content) > drive.quota:
            raise refused(507, "quotaLimitReached", "Insufficient space available.")
        if found is None:
            return self._insert(drive, name, folder, content, user)
        if behaviour == "rename":
            return self._insert(drive, _free_name(drive, folder, name), folder, content, user)
        return self._replace(found, content, user)

    def _replace(self, item: Item, content: bytes, user: User) -> Item:
        if item.locked:
            raise refused(423, "resourceLocked", "The resource you are attempting to access is locked.")
        item.content, item.editor, item.modified = content, user, self._clock.now()
        item.tag += 1
        item.content_tag += 1
        return item

    def _insert(self, drive: Drive, name: str, parent: Item | None, content: bytes | None, user: User) -> Item:
        now = self._clock.now()
        item = Item(_item_id(drive), name, parent, content, now, now, user, user)
        drive.items[item.id] = item
        return item

    def grant(self, item: Item, user: User | None, address: str, roles: list[str]) -> Permission:
        """Give somebody rights; asked again, the permission that exists gets them."""
        for permission in item.permissions:
            if not permission.link and permission.address.lower() == address.lower():
                permission.roles = sorted({*permission.roles, *roles})
                return permission
        permission = Permission(secrets.token_urlsafe(12), list(roles), user, address)
        item.permissions.append(permission)
        return permission

    def link(self, drive: Drive, item: Item) -> str:
        """Make a sharing link for people of the organisation."""
        host = drive.url.split("/")[2]
        url = f"https://{host}/:w:/s/{drive.name}/{secrets.token_urlsafe(24)}?e={secrets.token_hex(3)}"
        permission = Permission(secrets.token_urlsafe(12), ["read"], None, link=url)
        item.permissions.append(permission)
        self.links[url] = (drive, item, permission)
        return url

    def shared_with(self, user: User) -> Iterator[tuple[Drive, Item, Permission]]:
        """What others gave a user rights to."""
        for drive in self.all.values():
            for item in drive.items.values():
                for permission in item.permissions:
                    if permission.user is user and user not in drive.members[:1]:
                        yield drive, item, permission

    def rights(self, drive: Drive, item: Item, user: User) -> set[str]:
        """``read`` and ``write``, as far as the user has them."""
        if user in drive.members:
            return {"read", "write"}
        found: set[str] = set()
        step: Item | None = item
        while step is not None:
            for permission in step.permissions:
                if permission.user is user:
                    found |= {"read", *permission.roles}
            step = step.parent
        return found


def _free_name(drive: Drive, folder: Item, name: str) -> str:
    stem, dot, extension = name.rpartition(".")
    if not stem:
        stem, dot, extension = name, "", ""
    number = 1
    while drive.child(folder, f"{stem} {number}{dot}{extension}"):
        number += 1
    return f"{stem} {number}{dot}{extension}"


def _item_id(drive: Drive) -> str:
    if drive.kind == PERSONAL:
        return f"{drive.id}!{100 + len(drive.items)}"
    return "01" + "".join(secrets.choice(_ALPHABET) for _ in range(32))
