"""Input schemas and validation: our own error shape, nothing rejected repeated, nothing unknown accepted."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from entrabot_host import InvalidArgument, ToolContext
from entrabot_host.signature import Signature


async def send(
    message: Annotated[str, Field(description="The text", min_length=1)],
    content_type: Annotated[Literal["text", "html"], Field(description="Its form")] = "html",
    mentions: Annotated[list[dict[str, Any]] | None, Field(description="Who is named")] = None,
    title: Annotated[str, Field(description="A title")] = "",
    count: Annotated[int, Field(description="How many", ge=1, le=50)] = 5,
    ctx: ToolContext | None = None,
) -> str:
    return message


@pytest.fixture(scope="module")
def signature() -> Signature:
    return Signature("send", send)


def test_the_schema_is_lean_and_refuses_what_is_unknown(signature: Signature) -> None:
    schema = signature.schema

    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["message"]
    assert list(schema["properties"]) == ["message", "content_type", "mentions", "title", "count"]
    assert schema["properties"]["content_type"] == {
        "default": "html",
        "description": "Its form",
        "enum": ["text", "html"],
        "type": "string",
    }
    assert "title" not in schema["properties"]["message"]
    assert "title" not in schema


def test_the_context_is_recognised_and_kept_out(signature: Signature) -> None:
    assert signature.context_parameter == "ctx"
    with pytest.raises(InvalidArgument, match="no parameter ctx"):
        signature.validate({"message": "x", "ctx": {}})


def test_defaults_are_filled_in(signature: Signature) -> None:
    assert signature.validate({"message": "x"}) == {
        "message": "x",
        "content_type": "html",
        "mentions": None,
        "title": "",
        "count": 5,
    }


@pytest.mark.parametrize(
    ("arguments", "parameter", "said"),
    [
        ({}, "message", "message is required"),
        ({"message": ""}, "message", "at least 1 character"),
        ({"message": "x", "content_type": "s3cret-value"}, "content_type", "'text' or 'html'"),
        ({"message": "x", "count": 51}, "count", "less than or equal to 50"),
        ({"message": "x", "count": "s3cret-value"}, "count", "integer"),
        ({"message": "x", "mentions": "s3cret-value"}, "mentions", "list"),
        ({"message": "x", "chat": "s3cret-value"}, "chat", "no parameter chat"),
        ({"message": "x", "<s3cret-value>": 1}, "(an unknown name)", "no parameter (an unknown name)"),
        ({"message": ["s3cret-value"]}, "message", "string"),
    ],
)
def test_errors_name_the_parameter_and_never_repeat_the_value(
    signature: Signature, arguments: dict[str, Any], parameter: str, said: str
) -> None:
    with pytest.raises(InvalidArgument) as raised:
        signature.validate(arguments)

    shown = raised.value.to_dict()
    assert shown["parameter"] == parameter
    assert said in shown["message"]
    assert "content_type" in shown["remedy"]
    assert "s3cret-value" not in str(shown)


def test_allowed_values_are_listed(signature: Signature) -> None:
    with pytest.raises(InvalidArgument) as raised:
        signature.validate({"message": "x", "content_type": "rtf"})

    assert raised.value.to_dict()["allowed"] == "'text' or 'html'"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["message", "content_type", "mentions", "count", "x"]) | st.text(), JSON))
def test_any_json_is_validated_or_refused_with_our_error(arguments: dict[str, Any]) -> None:
    signature = Signature("send", send)
    try:
        validated = signature.validate(arguments)
    except InvalidArgument as error:
        assert error.remedy  # noqa: PT017 - refusing is one of two right answers
    else:
        assert set(validated) == set(signature.parameters)
