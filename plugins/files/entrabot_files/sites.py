"""The operator's list of sites that may not be touched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrabot_files.errors import SiteNotAllowedError


class Denylist:
    """Sites by their ids. An entry is a whole id (``host,guid,guid``) or one part of it; case does not count."""

    def __init__(self, entries: tuple[str, ...]) -> None:
        self._entries = tuple(_parts(entry) for entry in entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def denies(self, site_id: str) -> bool:
        """Whether the site is on the list."""
        parts = _parts(site_id)
        return any(
            entry <= parts or (len(entry) > 1 and _guids(entry) == _guids(parts)) for entry in self._entries if entry
        )

    def check(self, site_id: str) -> None:
        """Raise `SiteNotAllowedError` when the site is on the list."""
        if self.denies(site_id):
            raise SiteNotAllowedError("The operator does not allow this site.")

    def check_item(self, item: Mapping[str, Any]) -> None:
        """Raise `SiteNotAllowedError` unless the item surely lies outside of every site on the list."""
        if self.denies_item(item):
            raise SiteNotAllowedError("The file lies in a site that the operator does not allow, or in no known site.")

    def denies_item(self, item: Mapping[str, Any]) -> bool:
        """Whether the item lies in a site on the list, or in one that cannot be told."""
        if not self._entries:
            return False
        parent = item.get("parentReference") or {}
        if parent.get("driveType") == "personal":
            return False
        known = [parent.get("siteId"), *_site_ids(parent.get("sharepointIds")), *_site_ids(item.get("sharepointIds"))]
        ids = [site for site in known if isinstance(site, str) and site]
        return not ids or any(self.denies(site) for site in ids)


def same_site(one: str, other: str) -> bool:
    """Whether two site ids mean the same site; each may be a whole id or its GUIDs."""
    return bool(_guids(_parts(one)) & _guids(_parts(other)))


def _site_ids(ids: Any) -> list[Any]:
    return [ids.get("siteId"), ids.get("webId")] if isinstance(ids, Mapping) else []


def _parts(site_id: str) -> frozenset[str]:
    return frozenset(part.strip().strip("{}").lower() for part in site_id.split(",") if part.strip())


def _guids(parts: frozenset[str]) -> frozenset[str]:
    return frozenset(part for part in parts if "." not in part)
