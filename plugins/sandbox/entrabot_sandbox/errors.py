"""What the services refuse with: typed errors that know their status and body."""

from __future__ import annotations

from collections.abc import Mapping


class GraphError(Exception):
    """A refusal by Graph: an HTTP status, Graph's code, a message for developers, extra headers."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


class EntraError(Exception):
    """A refusal by the sign-in service: an OAuth error name, an AADSTS number, further members of the body."""

    def __init__(
        self, status: int, error: str, number: int, message: str, extra: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.number = number
        self.message = message
        self.extra = dict(extra or {})


class ControlError(Exception):
    """A refusal by the control API, with a message for the person who wrote the call."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ConnectionDroppedError(Exception):
    """Raised where the connection is to be cut instead of answered."""


def bad_request(message: str) -> GraphError:
    """400 ``BadRequest``."""
    return GraphError(400, "BadRequest", message)


def forbidden(message: str) -> GraphError:
    """403 ``Forbidden``."""
    return GraphError(403, "Forbidden", message)


def not_found(message: str) -> GraphError:
    """404 ``NotFound``."""
    return GraphError(404, "NotFound", message)


def unauthenticated(message: str, login_url: str) -> GraphError:
    """401 ``InvalidAuthenticationToken`` with its ``WWW-Authenticate`` challenge."""
    challenge = (
        f'Bearer realm="", authorization_uri="{login_url}/common/oauth2/authorize", '
        'client_id="00000003-0000-0000-c000-000000000000"'
    )
    return GraphError(401, "InvalidAuthenticationToken", message, {"WWW-Authenticate": challenge})
