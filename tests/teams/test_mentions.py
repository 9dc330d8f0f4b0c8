"""Mentions against tags."""

from __future__ import annotations

from typing import Any

import pytest
from entrabot_teams.composing import compose
from entrabot_teams.mentions import graph_mentions
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host import InvalidArgument

USER = "8b081ef6-4792-4def-b2c9-c363a1bf41d5"


def mention(number: Any = 0, **changes: Any) -> dict[str, Any]:
    return {"id": number, "name": "Jane", "user_id": USER, **changes}


def tag(number: object) -> str:
    return f'<at id="{number}">Jane</at>'


@given(
    mentioned=st.lists(st.integers(0, 5), max_size=5),
    tagged=st.lists(st.integers(0, 5), max_size=5),
    quote=st.sampled_from(['"', "'"]),
)
def test_only_a_one_to_one_match_passes(mentioned: list[int], tagged: list[int], quote: str) -> None:
    html = "x" + " ".join(f"<AT id={quote}{number}{quote}>Jane</at>" for number in tagged)
    fits = sorted(mentioned) == sorted(tagged) and len(set(mentioned)) == len(mentioned)
    try:
        draft = compose(html, "html", [mention(number) for number in mentioned])
    except InvalidArgument:
        assert not fits
    else:
        assert fits
        assert [found["id"] for found in draft.mentions] == mentioned


@given(st.text(max_size=40))
def test_a_tag_s_id_is_a_number_or_refused(text: str) -> None:
    try:
        graph_mentions([mention(7)], [text])
    except InvalidArgument:
        assert text.strip() != "7"
    else:
        assert int(text) == 7


@pytest.mark.parametrize(
    "wrong",
    [
        mention("0"),
        mention(True),
        mention(-1),
        mention(0.0),
        mention(0, name=""),
        mention(0, name=None),
        mention(0, user_id="jane@contoso.example"),
        mention(0, user_id=f"{USER}x"),
        mention(0, tenant_id="contoso"),
        mention(0, extra=1),
        {"id": 0, "name": "Jane"},
        {},
    ],
)
def test_malformed_mentions(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        compose(f"x {tag(0)}", "html", [wrong])
    assert "list_chat_members" in caught.value.remedy


def test_tags_in_code_are_text() -> None:
    assert compose(f"<pre>{tag(0).replace('<', '&lt;')}</pre>", "html", []).mentions == []


def test_mentions_need_html() -> None:
    with pytest.raises(InvalidArgument, match="html"):
        compose(tag(0), "text", [mention()])


def test_a_federated_person_is_named_with_his_tenant() -> None:
    (found,) = graph_mentions([mention(tenant_id=USER)], ["0"])
    assert found["mentioned"]["user"]["tenantId"] == USER
