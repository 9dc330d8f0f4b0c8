"""What may go wrong with files, typed as the tools report it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from entrabot_host import (
    EntrabotError,
    GraphError,
    GraphForbidden,
    GraphNotFound,
    GraphThrottled,
    GraphUnavailable,
)


class UrlNotResolvableError(EntrabotError):
    """An address is malformed, or does not lead to a file or folder."""

    default_remedy = "Pass the whole https address of a file or a sharing link, as the browser or the chat shows it."


class SiteNotAllowedError(EntrabotError):
    """The operator does not allow this site."""

    default_remedy = "Tell the requester that the operator does not allow this site. Do not look for a way around it."


class UnsupportedReadFormatError(EntrabotError):
    """This kind of file cannot be read as text here."""

    default_remedy = "Readable are .md, .txt, .html, .htm, .docx and .pdf. Ask for the file in one of these."


class UnsupportedCommentFormatError(EntrabotError):
    """This item cannot be commented on here."""


class FileTooLargeError(EntrabotError):
    """The file is larger than allowed."""

    default_remedy = "Ask for a smaller file; the operator can raise the limit."


class EncryptedFileError(EntrabotError):
    """The file is protected by a password."""

    default_remedy = "Ask its owner for a copy without a password. Never ask for the password itself."


class DamagedFileError(EntrabotError):
    """The file is not what its name says, or broken."""

    default_remedy = "Ask its owner to open the file, save it anew and share it again."


class ScannedFileError(EntrabotError):
    """The document holds pictures of pages and no text."""

    default_remedy = "Ask its owner for a version with text, one that went through text recognition (OCR)."


class TooComplexFileError(EntrabotError):
    """Reading the file takes more time or memory than allowed; it may be made to do so."""

    default_remedy = "Do not try it again. Ask its owner for a simpler version, for instance printed to PDF anew."


class LocalPathNotAllowedError(EntrabotError):
    """A path of this machine lies outside the folders that the operator allows, or leads through a link."""


class UploadFailedError(EntrabotError):
    """An upload was given up. Nothing of it is visible."""

    default_remedy = "Try again in a few minutes."


class UploadOutcomeUnknownError(EntrabotError):
    """The last part of an upload was sent and no answer came: the file may be there."""

    default_remedy = "Look whether the file is there before uploading it again."


class ShareFailedError(EntrabotError):
    """Microsoft did not share the file with the recipient."""


class GraphFilesError(GraphError):
    """Microsoft Graph refused a request about files."""


class FileNotFoundError(GraphFilesError):
    """404: there is no such file, or the agent may not see it."""


class MissingPermissionError(GraphFilesError):
    """403: the agent has no access."""


class FileExistsError(GraphFilesError):
    """409: something of that name exists already."""


class QuotaExceededError(GraphFilesError):
    """507: the drive is full."""


class FileLockedError(GraphFilesError):
    """423: somebody edits or checked out the file."""


_BY_STATUS: dict[int, tuple[type[GraphFilesError], str]] = {
    403: (
        MissingPermissionError,
        "Ask the file's owner to share it with the agent's account, or the administrator for the Files permissions.",
    ),
    404: (
        FileNotFoundError,
        "Check the ids (take them from resolve_file_url); the file may also be hidden from the agent.",
    ),
    409: (FileExistsError, "Choose another name, or pass conflict_behavior 'rename' or 'replace'."),
    423: (FileLockedError, "Somebody has it open or checked out. Try again later or ask them."),
    507: (QuotaExceededError, "The drive is full. Its owner has to make room."),
}


def typed(
    status: int,
    message: str,
    code: str = "",
    request_id: str = "",
    remedy: str = "",
    retry_after: float | None = None,
) -> GraphFilesError:
    """Return the error that stands for a refusal with this status."""
    kind, usual = _BY_STATUS.get(status, (GraphFilesError, ""))
    return kind(
        message, status=status, code=code, request_id=request_id, remedy=remedy or usual, retry_after=retry_after
    )


@contextmanager
def explained() -> Iterator[None]:
    """Give Graph's refusals their type. Throttling and outages keep theirs, which say what to do."""
    try:
        yield
    except (GraphThrottled, GraphUnavailable, GraphFilesError):
        raise
    except GraphError as error:
        known = isinstance(error, GraphForbidden | GraphNotFound) or error.status in _BY_STATUS
        remedy = "" if known else error.remedy
        raise typed(error.status, error.message, error.code, error.request_id, remedy, error.retry_after) from None
