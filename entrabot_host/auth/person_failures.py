"""What to do when a person's sign-in is refused, by Entra's number for it."""

from __future__ import annotations

LOG_IN = "Run `entrabot login` on this machine; servers that are running notice it."
_CONSENT = (
    "Consent is missing for what the tools need. Run `entrabot login` and consent; where the organisation does not "
    "allow that, an administrator has to grant it to the app in ENTRABOT_CLIENT_ID."
)
_POLICY = "The organisation wants a new or a stronger sign-in. Run `entrabot login`."
_BLOCKED = "A Conditional Access policy stands in the way. Ask an administrator, or sign in with a browser instead."
_APP = "Check ENTRABOT_CLIENT_ID (an app id, not an object id) and ENTRABOT_AUTHORITY or ENTRABOT_TENANT_ID."
_PUBLIC = "The app in ENTRABOT_CLIENT_ID is no public client: in its registration, allow public client flows."
_REDIRECT = "In the app's registration, add http://localhost as a redirect URI for mobile and desktop applications."
_TENANT = "Check ENTRABOT_AUTHORITY, ENTRABOT_TENANT_ID, and that ENTRABOT_CLOUD names the cloud of the tenant."
_SCOPE = "A tool names a permission that does not exist in this cloud: `entrabot plugins` shows them."

_BY_CODE: dict[int, str] = {
    50034: _TENANT,
    50011: _REDIRECT,
    500113: _REDIRECT,
    50057: "The account is disabled. An administrator has to enable it.",
    50076: _POLICY,
    50078: _POLICY,
    50079: _POLICY,
    50105: "The person is not assigned to the app: an administrator has to assign it.",
    50173: "The password changed or the sign-in was revoked. " + LOG_IN,
    53000: _BLOCKED,
    53003: _BLOCKED,
    65001: _CONSENT,
    65004: "The person declined to consent. " + LOG_IN,
    70011: _SCOPE,
    70043: "The sign-in has expired. " + LOG_IN,
    70020: "The code was not entered in time. Try again.",
    90002: _TENANT,
    90094: _CONSENT,
    90133: "Codes need a tenant: set ENTRABOT_TENANT_ID, or name the tenant in ENTRABOT_AUTHORITY.",
    650053: _SCOPE,
    650057: _SCOPE,
    700003: _APP,
    700016: _APP,
    700082: "The sign-in has expired from lack of use. " + LOG_IN,
    700084: "The sign-in has expired. " + LOG_IN,
    7000112: _APP,
    7000218: _PUBLIC,
}


def person_remedy(code: int | None) -> str:
    """Return what the person, or an administrator, can do."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code is not None:
        return f"Look the code up at https://login.microsoftonline.com/error?code={code}, then run `entrabot login`."
    return LOG_IN
