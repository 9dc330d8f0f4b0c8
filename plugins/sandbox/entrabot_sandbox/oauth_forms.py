"""Forms and queries as the sign-in service takes them."""

from __future__ import annotations

from urllib.parse import parse_qsl

from entrabot_sandbox.errors import EntraError

Form = dict[str, str]

_FORM_TYPE = "application/x-www-form-urlencoded"


def read_form(content_type: str, body: bytes, first: str = "grant_type") -> Form:
    """A posted form. Raises EntraError (900144, about the first field) when the body is none."""
    if content_type.partition(";")[0].strip().lower() != _FORM_TYPE:
        raise missing(first)
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True))
    except ValueError as error:
        raise missing(first) from error


def read_query(query: str) -> Form:
    """A query string. Raises EntraError (9000411) when it names a parameter twice."""
    pairs = parse_qsl(query, keep_blank_values=True)
    form = dict(pairs)
    if len(form) != len(pairs):
        name = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
        message = f"The request is not properly formatted. The parameter '{name}' is duplicated."
        raise EntraError(400, "invalid_request", 9000411, message)
    return form


def required(form: Form, name: str) -> str:
    """A field that must be there. Raises EntraError (900144)."""
    if not form.get(name):
        raise missing(name)
    return form[name]


def missing(name: str) -> EntraError:
    """AADSTS900144."""
    message = f"The request body must contain the following parameter: '{name}'."
    return EntraError(400, "invalid_request", 900144, message)
