"""Settings: one loader, one precedence, every value's origin known.

Flags come before the environment, the environment before the file named by ``--env-file`` or ``ENTRABOT_ENV_FILE``,
that before ``entrabot.env`` in the configuration folder. The working directory is never looked at: the host program
chooses it, and a stranger's repository may hold an ``.env``. An empty value is an unset one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from entrabot_host.errors import SettingsError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

ENV_FILE = "ENTRABOT_ENV_FILE"
PREFIX = "ENTRABOT_"
_REMEDY = "Correct it where it is set, or unset it there, and start the server again."

_HOST = "host"
_LOOKED_AT = 64 * 1024
_OURS = re.compile(
    rb"^\s*(?:export\s+)?(?:ENTRABOT|EFFERENT_COPY|PERSONA_SATI|MCP_PLATFORM)_[A-Z0-9_]+\s*=", re.MULTILINE
)
ModelT = TypeVar("ModelT", bound="BaseModel")


@dataclass(frozen=True)
class Layer:
    """Values from one place. ``origin`` says which, in words an operator understands."""

    origin: str
    values: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Setting:
    """One variable that some part of the product reads, as it stands. ``origin`` is empty when it is not set."""

    name: str
    owner: str
    description: str
    default: str
    origin: str
    secret: bool


class Config:
    """All values in the order of their precedence, and a record of who declared which setting."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        self._layers = tuple(layers)
        self._declared: dict[str, Setting] = {}

    def get(self, name: str) -> str:
        """Return the value of a variable, empty when it is unset everywhere."""
        return self._find(name)[0]

    def origin(self, name: str) -> str:
        """Say where the value comes from, empty when it is unset."""
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str, str]:
        for layer in self._layers:
            if value := layer.values.get(name, "").strip():
                return value, layer.origin
        return "", ""

    def load(self, model: type[ModelT], owner: str = "") -> ModelT:
        """Fill ``model`` from the variables its fields name; ``owner`` is the plugin, empty for the host.

        A field with an alias reads the variable of that name (several names in an `AliasChoices` are tried in
        order), another one reads ``ENTRABOT_<OWNER>_<FIELD>``. Raises `SettingsError`.
        """
        from pydantic import ValidationError

        found: dict[str, str] = {}
        origins: dict[str, str] = {}
        for field_name, info in model.model_fields.items():
            names = _variables(field_name, info, owner)
            used = next((name for name in names if self.get(name)), names[0])
            self._declare(used, owner, info)
            if value := self.get(used):
                found[_input_key(field_name, info)] = value
                origins[_input_key(field_name, info)] = used
        try:
            return model.model_validate(found)
        except ValidationError as error:
            raise SettingsError(_explain(error, origins, self), remedy=_REMEDY) from None

    def declared(self) -> list[Setting]:
        """Return every setting that was loaded so far, by name."""
        return [self._declared[name] for name in sorted(self._declared)]

    def _declare(self, name: str, owner: str, info: FieldInfo) -> None:
        if (known := self._declared.get(name)) and known.owner == _HOST:
            return  # a plugin that reads one of the host's settings does not own it
        value = None if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
        default = "" if value in (None, "", ()) else str(value).replace(str(Path.home()), "~", 1)
        self._declared[name] = Setting(
            name=name,
            owner=owner or _HOST,
            description=info.description or "",
            default=default,
            origin=self.origin(name),
            secret=bool(isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("secret")),
        )


def _variables(field_name: str, info: FieldInfo, owner: str) -> list[str]:
    alias = info.validation_alias or info.alias
    if isinstance(alias, str):
        return [alias]
    if alias is not None and hasattr(alias, "choices"):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    place = f"{owner.upper().replace('-', '_')}_" if owner else ""
    return [f"{PREFIX}{place}{field_name.upper()}"]


def _input_key(field_name: str, info: FieldInfo) -> str:
    alias = info.validation_alias or info.alias
    if isinstance(alias, str):
        return alias
    if alias is not None and hasattr(alias, "choices"):
        return str(alias.choices[0])
    return field_name


def _explain(error: object, origins: Mapping[str, str], config: Config) -> str:
    """Say which variables are wrong and why, never what they hold."""
    lines = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):  # type: ignore[attr-defined]
        key = str(problem["loc"][0]) if problem["loc"] else ""
        name = origins.get(key, key)
        where = f" (from {config.origin(name)})" if config.origin(name) else ""
        message = str(problem["msg"]).removeprefix("Value error, ")
        lines.append(f"{name}{where}: {message}" if name else message)
    return "; ".join(lines) or "The settings contradict each other."


def config_folder() -> Path:
    """The folder of the operator's own settings file."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "entrabot"
    return Path.home() / ".entrabot"


def load_config(
    flags: Mapping[str, str] | None = None,
    *,
    env_file: str = "",
    environ: Mapping[str, str] | None = None,
    overlay: Layer | None = None,
) -> Config:
    """Read all places once. ``overlay`` stands above everything (a sandbox tenant's own environment).

    Raises `SettingsError` when the env file that was asked for cannot be read.
    """
    environment = dict(os.environ if environ is None else environ)
    layers = [overlay] if overlay else []
    layers.append(Layer("the command line", dict(flags or {})))
    layers.append(Layer("the environment", environment))
    if named := env_file or environment.get(ENV_FILE, "").strip():
        layers.append(_env_file(Path(named).expanduser(), required=True))
    layers.append(_env_file(config_folder() / "entrabot.env", required=False))
    return Config(layers)


def _env_file(path: Path, *, required: bool) -> Layer:
    if not required and not path.is_file():
        return Layer(str(path), {})
    from dotenv import dotenv_values

    try:
        with path.open(encoding="utf-8") as stream:
            values = dotenv_values(stream=stream, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The settings file {path} cannot be read: {error}.",
            remedy="Name a readable UTF-8 file with --env-file or ENTRABOT_ENV_FILE.",
        ) from None
    return Layer(str(path), {name: value for name, value in values.items() if value is not None})


def unread_settings(folder: Path) -> Path | None:
    """Return the ``.env`` of a folder when settings of ours stand in it, so that its owner learns it is not read."""
    path = folder / ".env"
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            content = file.read(_LOOKED_AT)
    except OSError:
        return None
    return path if _OURS.search(content) else None


def comma_list(text: object) -> object:
    """Split ``"a, b,c"`` for a field that holds a tuple of words; use with pydantic's `BeforeValidator`."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else text


def relative_to_home(default: str) -> Callable[[], Path]:
    """Return a default factory for a folder below the configuration folder."""
    return lambda: config_folder() / default
