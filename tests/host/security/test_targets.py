"""Which cloud, and to which hosts its tokens go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from entrabot_host.config import Layer, load_config
from entrabot_host.errors import SettingsError, TokenAudienceError
from entrabot_host.security.clouds import CLOUDS, Cloud, CloudSettings, is_microsoft_host, resolve_cloud
from entrabot_host.security.targets import STORAGE_AUDIENCE, check_target
from entrabot_host.security.urls import host_of, is_below, origin

GRAPH = "https://graph.microsoft.com"
REAL = CLOUDS["global"]
STAND_IN = replace(REAL, login_url="https://localhost:8443", graph_url="https://localhost:8444")


def cloud(**values: str) -> Cloud:
    names = {f"ENTRABOT_{name.upper()}": value for name, value in values.items()}
    return resolve_cloud(CloudSettings.model_validate(names))


def test_the_clouds() -> None:
    assert cloud() == REAL
    assert cloud(cloud="usgov").graph_url == "https://graph.microsoft.us"
    assert cloud(cloud="dod").login_url == cloud(cloud="usgov").login_url == "https://login.microsoftonline.us"
    assert cloud(cloud="china").exchange_audience == "api://AzureADTokenExchangeChina"
    for each in CLOUDS.values():
        assert each.is_microsoft
        assert host_of(each.login_url) in each.login_hosts
        assert each.graph_audience == each.graph_url
        check_target(each, each.graph_audience, f"{each.graph_url}/v1.0/me")
        check_target(each, STORAGE_AUDIENCE, f"https://account.{each.storage_suffix}/c")


def test_a_stand_in() -> None:
    found = cloud(cloud="china", login_url="https://LOCALHOST:8443/", graph_url="https://[::1]:8444")
    assert (found.login_url, found.graph_url) == ("https://localhost:8443", "https://[::1]:8444")
    assert found.graph_audience == CLOUDS["china"].graph_audience
    assert not found.is_microsoft
    check_target(found, found.graph_audience, "https://[::1]:8444/v1.0/me")


def test_microsofts_own_urls_may_be_spelled_out() -> None:
    assert cloud(login_url="https://login.microsoftonline.com", graph_url=f"{GRAPH}:443/") == REAL
    assert cloud(login_url="https://login.windows.net", graph_url=GRAPH).graph_url == GRAPH


@pytest.mark.parametrize(
    "values",
    [
        {"login_url": "https://localhost:1"},
        {"graph_url": "https://localhost:1"},
        {"login_url": "https://login.microsoftonline.com", "graph_url": "https://localhost:1"},
        {"login_url": "https://LOGIN.microsoftonline.com:443", "graph_url": "https://graph.microsoft.us"},
        {"login_url": "https://login.microsoftonline.us", "graph_url": GRAPH},
        {"login_url": "https://login.microsoftonline.us", "graph_url": "https://graph.microsoft.us"},
        {"login_url": "https://login.microsoftonline.com.", "graph_url": "https://localhost:1"},
        {"login_url": "https://westus.login.microsoft.com", "graph_url": "https://localhost:1"},
        {"login_url": "https://tenant.ciamlogin.com", "graph_url": "https://localhost:1"},
        {"login_url": "https://login.microsoftonline.com", "graph_url": f"{GRAPH}:8443"},
    ]
    + [
        {"login_url": "https://localhost:1", "graph_url": bad}
        for bad in (
            "http://localhost:1",
            "localhost:1",
            "https://localhost:1/v1.0",
            "https://localhost?x",
            "https://localhost/#",
            "https://user:hush@localhost",
            "https://localhost:99999",
            "https://local host",
            "https://",
            "https://\\localhost",
            "https://lócalhost",
        )
    ],
)
def test_contradictions_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        cloud(**values)
    assert "ENTRABOT_" in caught.value.message
    assert caught.value.remedy
    assert "hush" not in caught.value.message


def test_an_unknown_cloud() -> None:
    with pytest.raises(ValidationError):
        cloud(cloud="mars")
    with pytest.raises(SettingsError, match="ENTRABOT_CLOUD"):
        load_config(environ={}, overlay=Layer("test", {"ENTRABOT_CLOUD": "mars"})).load(CloudSettings)


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        (GRAPH, f"{GRAPH}/v1.0/me?x=1"),
        (GRAPH + "/", f"{GRAPH}:443/"),
        (GRAPH + "/.default", GRAPH),
        ("00000003-0000-0000-c000-000000000000", GRAPH),
        (STORAGE_AUDIENCE, "https://acc.blob.core.windows.net/c/b"),
        ("https://acc.blob.core.windows.net", "https://acc.blob.core.windows.net/c"),
        ("ea9ffc3e-8a23-4a7d-836d-234d7c7565c1", "https://agent365.svc.cloud.microsoft/agents/servers/x"),
    ],
)
def test_where_real_tokens_go(audience: str, url: str) -> None:
    check_target(REAL, audience, url)


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        (GRAPH, "http://graph.microsoft.com/v1.0"),
        (GRAPH, "https://graph.microsoft.com:444/"),
        (GRAPH, "https://graph.microsoft.us/"),
        (GRAPH, "https://graph.microsoft.com.evil.example/"),
        (GRAPH, "https://evil.example\\@graph.microsoft.com/"),
        (GRAPH, "https://evil.example@graph.microsoft.com/"),
        (GRAPH, "https://graph.microsoft.com@evil.example/"),
        (GRAPH, "https://graph.microsoft.com\t.evil.example/"),
        (GRAPH, "https://localhost:8444/"),
        (GRAPH, "https://acc.blob.core.windows.net/"),
        (STORAGE_AUDIENCE, "https://blob.core.windows.net/"),
        (STORAGE_AUDIENCE, "https://evilblob.core.windows.net/"),
        (STORAGE_AUDIENCE, "https://acc.blob.core.windows.net:8443/"),
        (STORAGE_AUDIENCE, "https://acc.blob.core.usgovcloudapi.net/"),
        (STORAGE_AUDIENCE, "https://localhost/"),
        (STORAGE_AUDIENCE, GRAPH),
        ("https://graph.microsoft.us", "https://graph.microsoft.us/"),
        ("https://graph.microsoft.us", "https://agent365.svc.cloud.microsoft/"),
        ("https://management.azure.com", "https://agent365.svc.cloud.microsoft/"),
        ("https://vault.azure.net/.default", "https://agent365.svc.cloud.microsoft/"),
        ("ea9ffc3e-8a23-4a7d-836d-234d7c7565c1", "https://evil.example/"),
        ("ea9ffc3e-8a23-4a7d-836d-234d7c7565c1", "https://localhost:1/"),
    ],
)
def test_where_they_do_not(audience: str, url: str) -> None:
    with pytest.raises(TokenAudienceError):
        check_target(REAL, audience, url)


def test_a_cloud_made_by_hand_does_not_get_around_it() -> None:
    with pytest.raises(TokenAudienceError):
        check_target(replace(REAL, graph_url="https://localhost:1"), GRAPH, "https://localhost:1/v1.0/me")


def test_a_stand_ins_tokens() -> None:
    check_target(STAND_IN, GRAPH, "https://localhost:8444/v1.0/me")
    check_target(STAND_IN, STORAGE_AUDIENCE, "https://127.0.0.1:10000/acc")
    check_target(STAND_IN, "c2d0c2b6-8013-4346-9f8b-b81d3b754a29", "https://localhost:8445/agents/servers/x")
    for audience, url in (
        (GRAPH, "https://localhost:8445/"),
        (GRAPH, GRAPH),
        (STORAGE_AUDIENCE, "http://127.0.0.1:10000/acc"),
        ("x", "https://agent365.svc.cloud.microsoft/"),
    ):
        with pytest.raises(TokenAudienceError):
            check_target(STAND_IN, audience, url)


def test_urls() -> None:
    assert origin("HTTPS://Host.Example:443/p?q#f") == "https://host.example"
    assert origin("https://[2001:DB8::1]:444") == "https://[2001:db8::1]:444"
    assert is_below("a.b.c", "b.c")
    assert not is_below("ab.c", "b.c")
    assert is_microsoft_host("graph.microsoft.com")
    assert not is_microsoft_host("notmicrosoft.com")
