"""Refusals of the files part of Graph: camelCase codes, details in an inner code."""

from __future__ import annotations

from collections.abc import Mapping

from entrabot_sandbox.errors import GraphError


class DriveError(GraphError):
    """A refusal that may name a more precise code inside."""

    def __init__(
        self, status: int, code: str, message: str, inner_code: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, code, message, headers)
        self.inner = {"code": inner_code} if inner_code else {}


def refused(status: int, code: str, message: str, inner_code: str = "") -> GraphError:
    """A refusal with OneDrive's code."""
    return DriveError(status, code, message, inner_code)


def not_found(message: str = "The resource could not be found.") -> GraphError:
    """404 ``itemNotFound``."""
    return refused(404, "itemNotFound", message)


def denied(message: str = "Access denied") -> GraphError:
    """403 ``accessDenied``."""
    return refused(403, "accessDenied", message)
