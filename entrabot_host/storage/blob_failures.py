"""What Azure Blob Storage's refusals mean, and what the operator can do about each."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from entrabot_host.errors import ConcurrencyError, StorageConfigError, StorageError

AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_BAD_TOKEN = frozenset({"AuthenticationFailed", "InvalidAuthenticationInfo"})
_SOMEBODY_WAS_FASTER = frozenset(
    {"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet", "AppendPositionConditionNotMet"}
)


@dataclass(frozen=True)
class Refusal:
    """An answer that is an error. code: Azure's own. retry_after: seconds, 0 when it does not say."""

    status: int
    code: str
    request_id: str = ""
    retry_after: float = 0.0

    @property
    def worth_repeating(self) -> bool:
        """Whether the same request may succeed soon."""
        return self.status in AGAIN

    @property
    def token_refused(self) -> bool:
        """Whether another token may help."""
        return self.status == 401 or self.code in _BAD_TOKEN


def refusal(error: BaseException) -> Refusal | None:
    """Read an SDK error; None when no answer came."""
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if not isinstance(status, int):
        return None
    headers = getattr(response, "headers", None) or {}
    code = getattr(error, "error_code", None) or headers.get("x-ms-error-code") or ""
    return Refusal(
        status,
        str(getattr(code, "value", code)),
        str(headers.get("x-ms-request-id", "")),
        _seconds(str(headers.get("Retry-After", ""))),
    )


def code_of(error: BaseException) -> str:
    """Azure's code for an SDK error, empty when there is none."""
    answer = refusal(error)
    return answer.code if answer else ""


def untrusted(error: BaseException) -> bool:
    """Whether the server's certificate is why nothing came back: trying again does not help."""
    seen: BaseException | None = error
    while seen is not None:
        inner = getattr(seen, "inner_exception", None) or getattr(seen, "certificate_error", None)
        if isinstance(seen, ssl.SSLCertVerificationError) or isinstance(inner, ssl.SSLCertVerificationError):
            return True
        if "CERTIFICATE_VERIFY_FAILED" in str(seen):
            return True
        seen = seen.__cause__
    return False


def explain_refusal(answer: Refusal, endpoint: str, container: str) -> StorageError | StorageConfigError:
    """Say what an answer means. `ConcurrencyError` for conditions that failed."""
    shown = f"{answer.status} {answer.code}".strip() + (f", request {answer.request_id}" if answer.request_id else "")
    place = f"The Blob container {container!r} at {endpoint}"
    if answer.code == "ContainerNotFound":
        return StorageConfigError(
            f"{place} does not exist ({shown}).",
            remedy=f"Create it: az storage container create --auth-mode login --name {container} "
            "--account-name <account>; or correct ENTRABOT_BLOB_CONTAINER.",
        )
    if answer.status in (401, 403):
        return StorageError(
            f"{place} refused the agent ({shown}).",
            remedy="Give the agent's user the role 'Storage Blob Data Contributor' on the container (it takes some "
            "minutes to count), check the consent for Azure Storage, and that the account's firewall lets you in.",
        )
    if answer.code.startswith("Lease"):
        return StorageError(f"{place}: somebody holds a lease on the blob ({shown}).", remedy="Break the lease.")
    if answer.code in _SOMEBODY_WAS_FASTER or (answer.status == 412 and not answer.code):
        return ConcurrencyError(f"The blob was changed in the meantime ({shown}).", remedy="Read it and decide again.")
    if answer.status == 429 or answer.code == "ServerBusy":
        return StorageError(f"{place} is limiting requests ({shown}).", remedy="Wait a minute and try again.")
    if answer.worth_repeating:
        return StorageError(f"{place} is failing ({shown}).", remedy="Check Azure's status, then try again.")
    if answer.code == "InvalidHeaderValue":
        return StorageError(f"{place} does not know this client's version ({shown}).", remedy="Update the service.")
    return StorageError(f"{place} refused the operation ({shown}).", remedy="Check ENTRABOT_BLOB_ENDPOINT.")


def explain_silence(error: BaseException, endpoint: str) -> StorageError:
    """Say why no answer came."""
    if untrusted(error):
        return StorageError(
            f"The certificate of the Blob endpoint {endpoint} is not trusted.",
            remedy="If a proxy inspects your traffic, name its authority in ENTRABOT_CA_BUNDLE.",
        )
    what = "did not answer in time" if isinstance(error, TimeoutError) else "cannot be reached"
    return StorageError(
        f"The Blob endpoint {endpoint} {what}; whether the last step was carried out is not known.",
        remedy="Check the network and the account's name, then try again.",
    )


def _seconds(text: str) -> float:
    """Read Retry-After; a date, or nonsense, is as good as none."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0
