"""Device codes: given out, entered by a person elsewhere, asked about until they are."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import PublicClient, Tenant, User
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.scopes import Requested

PATH = "/devicelogin"
LIFETIME = 900
INTERVAL = 5

_LETTERS = "BCDFGHJKLMNPQRSTVWXZ23456789"
_EARLY = 0.8
_MOST = 1000


@dataclass
class DeviceCode:
    """One sign-in on another device. ``user`` is there once somebody accepted, ``declined`` once somebody did."""

    device_code: str
    user_code: str
    tenant: Tenant | None
    client: PublicClient
    requested: Requested
    issued: float
    user: User | None = None
    declined: bool = False
    asked: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether nobody has decided yet."""
        return self.user is None and not self.declined


class DeviceCodes:
    """All of them. ``interval``: seconds between two questions."""

    def __init__(self, clock: Clock, base: str) -> None:
        self._clock = clock
        self._base = base
        self._codes: dict[str, DeviceCode] = {}
        self.interval = INTERVAL

    def issue(self, tenant: Tenant | None, client: PublicClient, requested: Requested) -> dict[str, Any]:
        """Give one out: the body of the answer."""
        if len(self._codes) >= _MOST:
            del self._codes[next(iter(self._codes))]
        user_code = "".join(secrets.choice(_LETTERS) for _ in range(9))
        code = DeviceCode(secrets.token_urlsafe(64), user_code, tenant, client, requested, self._clock.time())
        self._codes[code.device_code] = code
        address = f"{self._base}{PATH}"
        return {
            "user_code": user_code,
            "device_code": code.device_code,
            "verification_uri": address,
            "expires_in": LIFETIME,
            "interval": self.interval,
            "message": f"To sign in, use a web browser to open the page {address} and enter the code {user_code} "
            "to authenticate.",
        }

    def entered(self, user_code: str) -> DeviceCode | None:
        """The sign-in that a code entered by a person stands for, while it waits for one."""
        wanted = "".join(user_code.upper().replace("-", "").split())
        found = next((one for one in self._codes.values() if one.user_code == wanted and one.is_open), None)
        return found if found is not None and not self._is_late(found) else None

    def is_waiting(self, code: DeviceCode) -> bool:
        """Whether a person's decision still counts."""
        return code.is_open and not self._is_late(code)

    def redeem(self, device_code: str, client: PublicClient) -> tuple[DeviceCode, User]:
        """The sign-in and who accepted it, once. Raises EntraError, for one that nobody has decided yet too."""
        code = self._codes.get(device_code)
        if code is None or code.client is not client:
            message = "The provided value for the input parameter 'device_code' is not valid."
            raise EntraError(400, "bad_verification_code", 70018, message)
        if self._is_late(code):
            raise EntraError(400, "expired_token", 70020, "The device code has expired.")
        if code.declined:
            raise EntraError(400, "authorization_declined", 65004, "The user declined to sign in to the application.")
        if code.user is None:
            raise self._pending(code)
        del self._codes[device_code]
        return code, code.user

    def _pending(self, code: DeviceCode) -> EntraError:
        now, before = self._clock.time(), code.asked
        code.asked = now
        if now - before < self.interval * _EARLY:
            return EntraError(400, "slow_down", 70016, "The device asks too often. Ask less often.")
        message = "OAuth 2.0 device flow error. Authorization is pending. Continue polling."
        return EntraError(400, "authorization_pending", 70016, message)

    def _is_late(self, code: DeviceCode) -> bool:
        return code.issued + LIFETIME <= self._clock.time()
