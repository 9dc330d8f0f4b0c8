"""What is said about Entra's refusals and about a network that fails."""

from __future__ import annotations

import pytest
import requests.exceptions as http

from entrabot_host.auth.failures import Attempt, Hop, error_code, refused, unavailable, unreachable
from entrabot_host.errors import SettingsError

GRAPH = "https://graph.microsoft.com"


def answer(code: int, text: str = "Something is wrong.") -> dict[str, object]:
    description = f"AADSTS{code}: {text} Trace ID: 1f Correlation ID: 2f Timestamp: 2026-11-30 18:00:00Z"
    return {"error": "invalid_client", "error_description": description, "error_codes": [code]}


@pytest.mark.parametrize(
    ("hop", "code", "remedy"),
    [
        (Hop.BLUEPRINT, 700027, "THUMB"),
        (Hop.BLUEPRINT, 700016, "ENTRABOT_BLUEPRINT_APP_ID"),
        (Hop.BLUEPRINT, 90002, "ENTRABOT_TENANT_ID"),
        (Hop.BLUEPRINT, 700024, "clock"),
        (Hop.BLUEPRINT, 500133, "clock"),
        (Hop.BLUEPRINT, 7000215, "certificate"),
        (Hop.AGENT_IDENTITY, 700016, "ENTRABOT_AGENT_ID"),
        (Hop.AGENT_IDENTITY, 700211, "ENTRABOT_BLUEPRINT_APP_ID"),
        (Hop.AGENT_IDENTITY, 700213, "ENTRABOT_AGENT_ID"),
        (Hop.AGENT_IDENTITY, 500011, GRAPH),
        (Hop.AGENT_USER, 65001, GRAPH),
        (Hop.AGENT_USER, 50034, "ENTRABOT_AGENT_USER_ID"),
        (Hop.AGENT_USER, 50076, "Conditional Access"),
        (Hop.AGENT_USER, 50173, "revoked"),
        (Hop.AGENT_USER, 123456, "error?code=123456"),
    ],
)
def test_remedy_fits_hop_and_code(hop: Hop, code: int, remedy: str) -> None:
    error = refused(Attempt(hop, "app-id", GRAPH, "THUMB"), answer(code))
    assert (error.hop, error.code) == (hop, code)
    assert remedy in error.remedy
    assert f"AADSTS{code}" in error.message
    assert "Trace ID" not in error.message
    assert error.to_dict()["code"] == f"AADSTS{code}"
    assert error.to_dict()["hop"] == hop


def test_code_is_found_in_the_description_too() -> None:
    assert error_code({"error": "x", "error_description": "AADSTS65001: no"}) == 65001
    assert error_code({"error": "x"}) is None
    assert error_code({"error": "x", "error_codes": ["65001"]}) is None


def test_tokens_in_a_description_are_not_repeated() -> None:
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2lnbmF0dXJlc2lnbmF0dXJl"
    error = refused(Attempt(Hop.AGENT_USER, "app", GRAPH), answer(50027, f"Token {token} is bad."))
    assert token not in str(error.to_dict())


@pytest.mark.parametrize(
    ("failure", "message", "remedy"),
    [
        (http.SSLError("https://secret.example"), "certificate is not trusted", "ENTRABOT_CA_BUNDLE"),
        (http.ProxyError("x"), "proxy", "HTTPS_PROXY"),
        (http.ConnectTimeout("x"), "did not answer in time", "network"),
        (http.ReadTimeout("x"), "did not answer in time", "network"),
        (TimeoutError(), "did not answer in time", "network"),
        (http.TooManyRedirects("x"), "redirect", "ENTRABOT_LOGIN_URL"),
        (http.ConnectionError("x"), "cannot be reached", "ENTRABOT_LOGIN_URL"),
        (ValueError("x"), "makes no sense", "ENTRABOT_TENANT_ID"),
        (SettingsError("The bundle is bad.", remedy="Mend it."), "The bundle is bad", "Mend it."),
    ],
)
def test_network_failures_have_no_code(failure: Exception, message: str, remedy: str) -> None:
    error = unreachable(Attempt(Hop.BLUEPRINT, "app", GRAPH), failure)
    assert message in error.message
    assert remedy in error.remedy
    assert error.code is None
    assert error.hop == Hop.BLUEPRINT
    assert "secret.example" not in error.message


def test_a_busy_service_says_when_to_come_back() -> None:
    error = unavailable(Attempt(Hop.AGENT_USER, "app", GRAPH), 429, 17.4)
    assert "17 seconds" in error.remedy
    assert "minute" in unavailable(Attempt(Hop.AGENT_USER, "app", GRAPH), 503, 0).remedy
