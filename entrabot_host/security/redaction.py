"""What logs and errors may not show: tokens, assertions, pre-signed addresses, keys."""

from __future__ import annotations

import re

_NAMES = (
    "access_token|refresh_token|id_token|client_assertion|assertion|user_federated_identity_credential|client_secret"
    "|device_code|password|tempauth|sig|signature|x-amz-signature|accountkey|sharedaccesskey|sharedaccesssignature"
    "|api[_-]?key"
)

# A secret is looked for where a word or an address begins, or a text full of beginnings would cost its length squared.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z0-9 ]{1,40}-----.*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)", re.DOTALL),
        "[redacted PEM]",
    ),
    (
        re.compile(r"\b(authorization[\"']?\s*[=:]\s*[\"']?)(?:(?:bearer|pop|basic)\s+)?[^\s\"',;]+", re.IGNORECASE),
        r"\1[redacted]",
    ),
    (re.compile(r"\b((?:bearer|pop|basic)\s+)[A-Za-z0-9._~+/=-]{16,}", re.IGNORECASE), r"\1[redacted]"),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,4}"), "[redacted token]"),
    (re.compile(r"(?<![A-Za-z0-9:/.])(https?://)[^\s/?#@\"'<>]+@", re.IGNORECASE), r"\1[redacted]@"),
    (re.compile(r"(?<![A-Za-z0-9:/.])(https?://[^\s?#\"<>]+[?#])[^\s\"<>]+", re.IGNORECASE), r"\1[redacted]"),
    (
        re.compile(rf"(?<![A-Za-z0-9])((?:{_NAMES})[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;}}]+", re.IGNORECASE),
        r"\1[redacted]",
    ),
)


def redact(text: str) -> str:
    """Return ``text`` with its secrets replaced: bearer tokens, JWTs, assertions, queries of addresses, PEM blocks."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
