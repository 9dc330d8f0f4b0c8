"""Settings of the files plugin."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

MEBIBYTE = 1024 * 1024


def _sites(value: object) -> object:
    """Split at semicolons: a site id contains commas."""
    if not isinstance(value, str):
        return value
    entries = tuple(entry.strip() for entry in value.split(";") if entry.strip())
    if any("/" in entry or any(char.isspace() for char in entry) for entry in entries):
        raise ValueError("name sites by their ids (host,guid,guid), separated by semicolons, not by their addresses")
    return entries


def _roots(value: object) -> object:
    if not isinstance(value, str):
        return value
    roots = tuple(root for root in value.split(os.pathsep) if root)
    if any(not Path(root).is_absolute() or ".." in Path(root).parts or len(Path(root).parts) < 2 for root in roots):
        raise ValueError(f"name folders by absolute paths, separated by '{os.pathsep}', and not the root of the disk")
    return roots


Sites = Annotated[tuple[str, ...], BeforeValidator(_sites)]
Roots = Annotated[tuple[str, ...], BeforeValidator(_roots)]


class FilesSettings(BaseModel):
    """What may be touched, and how much is read. Sizes in bytes."""

    denied_sites: Sites = Field(
        default=(),
        alias="ENTRABOT_FILES_DENIED_SITES",
        description="Ids (host,guid,guid, or one part) of sites that the agent may not touch, separated by semicolons",
    )
    max_text_bytes: int = Field(
        default=200_000,
        ge=1_000,
        le=10_000_000,
        alias="ENTRABOT_FILES_MAX_TEXT_BYTES",
        description="Bytes of text that read_file returns at most",
    )
    max_pdf_bytes: int = Field(
        default=50 * MEBIBYTE,
        ge=1_000,
        le=1024 * MEBIBYTE,
        alias="ENTRABOT_FILES_MAX_PDF_BYTES",
        description="Size in bytes of the largest PDF that is read, also of one that a Word document was converted to",
    )
    max_download_bytes: int = Field(
        default=2048 * MEBIBYTE,
        ge=1,
        alias="ENTRABOT_FILES_MAX_DOWNLOAD_BYTES",
        description="Size in bytes of the largest file that download_file fetches",
    )
    local_roots: Roots = Field(
        default=(),
        alias="ENTRABOT_FILES_LOCAL_ROOTS",
        description=f"Folders of this machine, separated by '{os.pathsep}', to upload from and to download to; "
        "without them there are no such tools",
    )
