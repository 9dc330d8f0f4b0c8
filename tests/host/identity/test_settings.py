"""Settings of identity, as they come from variables."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from entrabot_host.config import Config, Layer
from entrabot_host.errors import SettingsError
from entrabot_host.identity.settings import AgentUserSettings, BehaviourSettings, SponsorSettings

from .fakes import guid

MODELS = (AgentUserSettings, SponsorSettings, BehaviourSettings)


def config(**values: str) -> Config:
    return Config([Layer("the test", values)])


def refusal(model: type[BaseModel], **values: str) -> str:
    with pytest.raises(SettingsError) as caught:
        config(**values).load(model)
    return caught.value.message


@pytest.mark.parametrize("model", MODELS)
def test_everything_has_a_default_a_description_and_a_variable(model: type[BaseModel]) -> None:
    config().load(model)
    for field in model.model_fields.values():
        assert field.description
        assert field.validation_alias or field.alias


@pytest.mark.parametrize(
    "name",
    [
        "ENTRABOT_TENANT_ID",
        "ENTRABOT_BLUEPRINT_APP_ID",
        "ENTRABOT_AGENT_ID",
        "ENTRABOT_AGENT_USER_ID",
        "ENTRABOT_AGENT_OBJECT_ID",
        "ENTRABOT_HUMAN_USER_ID",
        "ENTRABOT_HUMAN_USER_IDS",
        "ENTRABOT_HUMAN_USER_TENANT_IDS",
    ],
)
@pytest.mark.parametrize("value", ["contoso.example", "1234", "{" + guid(1) + "}", guid(1).replace("-", "")])
def test_ids_must_be_guids(name: str, value: str) -> None:
    model = SponsorSettings if "HUMAN" in name or "OBJECT" in name else AgentUserSettings
    said = refusal(model, **{name: value})
    assert name in said
    assert "GUID" in said
    assert value not in said


def test_guids_are_compared_in_lower_case() -> None:
    upper = "ABCDEF00-0000-0000-0000-00000000000A"
    assert config(ENTRABOT_TENANT_ID=upper).load(AgentUserSettings).tenant_id == upper.lower()


def test_older_names() -> None:
    both = config(ENTRABOT_AGENT_UPN="new@x.example", ENTRABOT_AGENT_USER_UPN="old@x.example")
    assert both.load(AgentUserSettings).agent_upn == "new@x.example"
    old = config(ENTRABOT_AGENT_USER_UPN="old@x.example")
    assert old.load(AgentUserSettings).agent_upn == "old@x.example"


def test_plural_wins_over_singular() -> None:
    values = {
        "ENTRABOT_HUMAN_USER_ID": guid(1),
        "ENTRABOT_HUMAN_USER_IDS": f"{guid(2)}, {guid(3)}",
        "ENTRABOT_HUMAN_UPN": "one@x.example",
        "ENTRABOT_HUMAN_UPNS": "two@x.example,three@x.example",
    }
    loaded = config(**values).load(SponsorSettings)
    assert loaded.user_ids == (guid(2), guid(3))
    assert loaded.upns == ("two@x.example", "three@x.example")
    single = config(ENTRABOT_HUMAN_USER_ID=guid(1)).load(SponsorSettings)
    assert single.user_ids == (guid(1),)


def test_lists_that_go_with_the_ids_keep_their_places() -> None:
    values = {
        "ENTRABOT_HUMAN_USER_IDS": f"{guid(1)},{guid(2)},{guid(3)}",
        "ENTRABOT_HUMAN_USER_TENANT_IDS": f",{guid(7)},",
        "ENTRABOT_HUMAN_USER_TYPES": "Member,,Guest",
    }
    loaded = config(**values).load(SponsorSettings)
    assert loaded.tenant_ids == ("", guid(7), "")
    assert loaded.types == ("Member", "", "Guest")


def test_home_ids() -> None:
    text = f"carol@fabrikam.example={guid(1)}@{guid(2)}, o=x@y.example={guid(3).upper()}@{guid(4)}"
    first, second = config(ENTRABOT_SPONSOR_HOME_IDS=text).load(SponsorSettings).home_ids
    assert (first.address, first.user_id, first.tenant_id) == ("carol@fabrikam.example", guid(1), guid(2))
    assert (second.address, second.user_id) == ("o=x@y.example", guid(3))


@pytest.mark.parametrize(
    "text",
    ["carol@x.example", f"carol@x.example={guid(1)}", f"carol={guid(1)}@{guid(2)}", f"carol@x.example=me@{guid(2)}"],
)
def test_malformed_home_ids_are_refused(text: str) -> None:
    assert "ENTRABOT_SPONSOR_HOME_IDS" in refusal(SponsorSettings, ENTRABOT_SPONSOR_HOME_IDS=text)


def test_mode() -> None:
    for value in ("auto", "delegated", "agent_user", "AUTO"):
        assert config(ENTRABOT_MODE=value).load(BehaviourSettings).mode == value.lower()
    assert "not supported" in refusal(BehaviourSettings, ENTRABOT_MODE="bot")
    assert "ENTRABOT_MODE" in refusal(BehaviourSettings, ENTRABOT_MODE="Bot")
    assert "ENTRABOT_MODE" in refusal(BehaviourSettings, ENTRABOT_MODE="human")


def test_binding_seconds() -> None:
    assert config().load(BehaviourSettings).sponsor_binding_seconds == 600
    assert config(ENTRABOT_SPONSOR_BINDING_SECONDS="30").load(BehaviourSettings).sponsor_binding_seconds == 30
    for value in ("0", "-5", "soon", "1000000"):
        said = refusal(BehaviourSettings, ENTRABOT_SPONSOR_BINDING_SECONDS=value)
        assert "ENTRABOT_SPONSOR_BINDING_SECONDS" in said


def test_skip_provisioning() -> None:
    for value in ("true", "1", "yes", "TRUE"):
        assert config(ENTRABOT_SKIP_PROVISIONING=value).load(AgentUserSettings).skip_provisioning
    assert not config(ENTRABOT_SKIP_PROVISIONING="false").load(AgentUserSettings).skip_provisioning
    assert "ENTRABOT_SKIP_PROVISIONING" in refusal(AgentUserSettings, ENTRABOT_SKIP_PROVISIONING="perhaps")


def test_the_password_is_not_shown() -> None:
    loaded = config(ENTRABOT_BLUEPRINT_CERT_PASSWORD="hush-hush")
    assert "hush-hush" not in repr(loaded.load(AgentUserSettings))
    declared = {setting.name: setting for setting in loaded.declared()}
    assert declared["ENTRABOT_BLUEPRINT_CERT_PASSWORD"].secret
