"""Which cloud, and to which hosts its tokens go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from entrabot_host.config import Layer, load_config
from entrabot_host.errors import SettingsError, TokenAudienceError
from entrabot_host.security.clouds import CLOUDS, Cloud, CloudSettings, is_microsoft_host, resolve_cloud
from entrabot_host.security.targets import STORAGE_AUDIENCE, check_target, check_work_iq
from entrabot_host.security.urls import host_of, is_below, origin

GRAPH = "https://graph.microsoft.com"
REAL = CLOUDS["global"]
WORD = "c2d0c2b6-8013-4346-9f8b-b81d3b754a29"
WORK_IQ = "https://agent365.svc.cloud.microsoft"
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
        (f"{GRAPH}:443", f"{WORK_IQ}/agents/servers/x"),
        ("spn:00000003-0000-0000-c000-000000000000", f"{WORK_IQ}/agents/servers/x"),
        ("api://00000003-0000-0000-C000-000000000000", f"{WORK_IQ}/agents/servers/x"),
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
    check_target(STAND_IN, WORD, "https://localhost:8444/agents/servers/x")
    check_target(STAND_IN, WORD, "https://localhost:8443/agents/servers/x")
    for audience, url in (
        (WORD, "https://localhost:8445/agents/servers/x"),
        (WORD, "https://evil.example/agents/servers/x"),
        ("https://api.example", "https://localhost:8444/"),
        (GRAPH, "https://localhost:8445/"),
        (GRAPH, GRAPH),
        (STORAGE_AUDIENCE, "http://127.0.0.1:10000/acc"),
        ("x", "https://agent365.svc.cloud.microsoft/"),
    ):
        with pytest.raises(TokenAudienceError):
            check_target(STAND_IN, audience, url)


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        (WORD, f"{WORK_IQ}/agents/servers/mcp_WordServer"),
        (WORD.upper(), f"{WORK_IQ}:443/agents/tenants/{WORD}/servers/mcp_WordServer"),
        (f"api://{WORD}", "HTTPS://AGENT365.svc.cloud.microsoft/agents/servers/x"),
        ("api://mcp-wordtools", f"{WORK_IQ}/agents/servers/x"),
        ("api://auth.contoso.example/tools", f"{WORK_IQ}/agents/servers/x"),
    ],
)
def test_what_a_file_may_name(audience: str, url: str) -> None:
    check_work_iq(REAL, audience, url)


AUDIENCES = [
    GRAPH,
    f"{GRAPH}/",
    f"{GRAPH}/.default",
    f"{GRAPH}:443",
    "https://GRAPH.microsoft.com",
    "https://graph.microsoft.us",
    "graph.microsoft.com",
    "api://graph.microsoft.com",
    "api://x/graph.microsoft.com",
    "00000003-0000-0000-c000-000000000000",
    "00000003-0000-0000-C000-000000000000",
    " 00000003-0000-0000-c000-000000000000",
    "{00000003-0000-0000-c000-000000000000}",
    "00000003-0000-0000-c000-000000000000/.default",
    "00000003-0000-0000-c000-000000000000/graph.microsoft.com",
    "00000003%2D0000-0000-c000-000000000000",
    "0000000\uff13-0000-0000-c000-000000000000",
    "spn:00000003-0000-0000-c000-000000000000",
    "api://00000003-0000-0000-c000-000000000000",
    "API://00000003-0000-0000-C000-000000000000",
    STORAGE_AUDIENCE,
    "https://account.blob.core.windows.net",
    "e406a681-f3d4-42a8-90b6-c2b029497af1",
    "api://E406A681-f3d4-42a8-90b6-c2b029497af1",
    "https://management.azure.com/",
    "https://management.core.windows.net/",
    "797f4846-ba00-4fd7-ba43-dac1f8f63013",
    "https://vault.azure.net",
    "cfa8b339-82a2-471a-a3c9-0fc0be7a4093",
    "CFA8B339-82A2-471A-A3C9-0FC0BE7A4093",
    "00000002-0000-0ff1-ce00-000000000000",
    "00000003-0000-0ff1-ce00-000000000000",
    "",
    "default",
    "x",
    "api://",
    "api:///x",
    "api://x/../y",
    f"{WORD} {GRAPH}",
    f"{WORD}\n",
]


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("cloud", [REAL, STAND_IN], ids=["Microsoft", "a stand-in"])
def test_audiences_that_no_file_may_name(cloud: Cloud, audience: str) -> None:
    url = WORK_IQ if cloud is REAL else cloud.graph_url
    check_work_iq(cloud, WORD, f"{url}/agents/servers/x")
    with pytest.raises(TokenAudienceError) as refused:
        check_work_iq(cloud, audience, f"{url}/agents/servers/x")
    assert refused.value.remedy
    assert not audience.strip() or audience == "x" or audience not in refused.value.message


@pytest.mark.parametrize(
    "address",
    [
        "http://{host}/agents/servers/x",
        "https://{host}:9443/agents/servers/x",
        "https://{host}:444/agents/servers/x",
        "https://{host}.evil.example/agents/servers/x",
        "https://evil.example/{host}/agents/servers/x",
        "https://evil.{host}/agents/servers/x",
        "https://{host}./agents/servers/x",
        "https://user:pass@{host}/agents/servers/x",
        "https://{host}@evil.example/agents/servers/x",
        "https://evil.example\\@{host}/agents/servers/x",
        "https://evil.example#@{host}/agents/servers/x",
        "https://{host}\t.evil.example/agents/servers/x",
        "https://{host}/agents/../../x",
        "https://{host}/agents/./x",
        "https://{host}/agents/..%2fx",
        "https://{host}/agents/%2e%2e/x",
        "https://{host}//evil.example/x",
        "https://{host}/agents\\x",
        "https://{host}/agents/servers/x?to=evil.example",
        "https://{host}/agents/servers/x?a=/agents/servers/x",
        "https://{host}/agents/servers/x#y",
        "https://{host}/",
        "https://{host}",
        "https://agent365.svc.cloud.mi\u0441rosoft/agents/servers/x",
        "https://agent365.svc.cloud.xn--mirosoft-lyg/agents/servers/x",
        "https://\uff41gent365.svc.cloud.microsoft/agents/servers/x",
        "https://graph.microsoft.com/agents/servers/x",
        "https://127.0.0.1/agents/servers/x",
        "https:{host}/agents/servers/x",
        "//{host}/agents/servers/x",
        "",
    ],
)
def test_addresses_that_no_file_may_name(address: str) -> None:
    for cloud, host in ((REAL, "agent365.svc.cloud.microsoft"), (STAND_IN, "localhost")):
        with pytest.raises(TokenAudienceError):
            check_work_iq(cloud, WORD, address.replace("{host}", host))


def test_other_clouds_have_no_work_iq() -> None:
    for name in ("usgov", "dod", "china"):
        with pytest.raises(TokenAudienceError):
            check_work_iq(CLOUDS[name], WORD, f"{WORK_IQ}/agents/servers/x")
    with pytest.raises(TokenAudienceError):
        check_work_iq(replace(STAND_IN, graph_url=GRAPH), WORD, f"{GRAPH}/agents/servers/x")


def test_urls() -> None:
    assert origin("HTTPS://Host.Example:443/p?q#f") == "https://host.example"
    assert origin("https://[2001:DB8::1]:444") == "https://[2001:db8::1]:444"
    assert is_below("a.b.c", "b.c")
    assert not is_below("ab.c", "b.c")
    assert is_microsoft_host("graph.microsoft.com")
    assert not is_microsoft_host("notmicrosoft.com")
