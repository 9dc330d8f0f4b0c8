"""From a tool's callable to its input schema and the validation of its arguments.

Validation is ours so that errors have our shape, name the parameter and the allowed values, never repeat a rejected
value, and refuse unknown arguments.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from entrabot_host.errors import InvalidArgument, PluginError
from entrabot_host.tools import ToolContext

_SHOWN_NAME = 60


class Signature:
    """The parameters of one tool. Creating it checks them; the model is built when it is first needed."""

    def __init__(self, tool: str, fn: Callable[..., Any]) -> None:
        if not inspect.iscoroutinefunction(fn):
            raise PluginError(f"Tool {tool!r} is not an async function.")
        self._tool = tool
        self.context_parameter = ""
        self._fields: dict[str, Any] = {}
        hints = _hints(tool, fn)
        for name, parameter in inspect.signature(fn).parameters.items():
            if _is_context(hints.get(name)):
                self.context_parameter = name
            else:
                self._fields[name] = _field(tool, name, parameter, hints.get(name))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments, in their order."""
        return tuple(self._fields)

    @cached_property
    def _model(self) -> type[BaseModel]:
        config = ConfigDict(extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=False)
        return create_model(self._tool, __config__=config, **self._fields)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments, without titles."""
        schema: dict[str, Any] = _without_titles(self._model.model_json_schema())
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with defaults filled in. Raises `InvalidArgument`."""
        try:
            validated = self._model.model_validate(dict(arguments), by_name=True)
        except ValidationError as error:
            raise self._explain(error) from None
        return {name: getattr(validated, name) for name in self._fields}

    def _explain(self, error: ValidationError) -> InvalidArgument:
        problems = error.errors(include_url=False, include_input=False)
        parts = [_sentence(problem, self._fields) for problem in problems[:5]]
        details: dict[str, Any] = {"parameter": _where(problems[0]["loc"], self._fields)}
        if allowed := problems[0].get("ctx", {}).get("expected"):
            details["allowed"] = str(allowed)
        known = ", ".join(self._fields) or "none"
        return InvalidArgument(
            f"{self._tool}: {'; '.join(parts)}.",
            remedy=f"Correct the call. The parameters of {self._tool} are: {known}.",
            details=details,
        )


def _hints(tool: str, fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except NameError as error:
        raise PluginError(
            f"Tool {tool!r}: an annotation cannot be resolved ({error}); import its names at run time."
        ) from None


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or ToolContext in typing.get_args(annotation)


def _field(tool: str, name: str, parameter: inspect.Parameter, annotation: Any) -> Any:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise PluginError(f"Tool {tool!r}: parameter {name!r} may not be variable.")
    described = any(isinstance(extra, FieldInfo) and extra.description for extra in typing.get_args(annotation)[1:])
    if not described:
        raise PluginError(f"Tool {tool!r}: parameter {name!r} needs Annotated[..., Field(description=...)].")
    return (annotation, ... if parameter.default is inspect.Parameter.empty else parameter.default)


def _without_titles(schema: Any) -> Any:
    """Drop generated titles (never a property that happens to be called title): they cost the model's context."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(value) for name, value in item.items()}
        if key in ("properties", "$defs") and isinstance(item, dict)
        else _without_titles(item)
        for key, item in schema.items()
        if not (key == "title" and isinstance(item, str))
    }


def _where(location: tuple[int | str, ...], fields: Mapping[str, Any]) -> str:
    """Name the place of a problem. An unknown name is the caller's text, so only a plain one is repeated."""
    known = location and location[0] in fields
    text = ".".join(str(part) for part in location)[:_SHOWN_NAME]
    return text if known or text.replace("_", "").isalnum() else "(an unknown name)"


def _sentence(problem: Any, fields: Mapping[str, Any]) -> str:
    where = _where(problem["loc"], fields)
    if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
        return f"there is no parameter {where}"
    if problem["type"] == "missing":
        return f"{where} is required"
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{where}: {message[:1].lower()}{message[1:]}"
