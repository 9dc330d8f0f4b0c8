"""Every setting of the host and of the plugins, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from page_parts import text as _text
from pydantic import AliasChoices, BaseModel

from entrabot_host.config import ENV_FILE, Config
from entrabot_host.discovery import ALLOW, BLOCK, FILES, READ_ONLY, STRICT

HOST_PACKAGE = "entrabot_host"
COLUMNS = ("variable", "default", "description")

READ_WITHOUT_A_MODEL = {
    ENV_FILE: "A further settings file; the flag `--env-file` comes before it",
    "ENTRABOT_LOG_LEVEL": "What is logged to stderr: DEBUG, INFO, WARNING or ERROR",
    ALLOW: "Names of the plugins to use, separated by commas; `none` for none; unset means all that are installed",
    BLOCK: "Names of plugins not to use, separated by commas",
    FILES: "Python files to use as plugins too, separated as in PATH; each is named after its file",
    READ_ONLY: "Offer only tools that change nothing (1 or 0)",
    STRICT: "Refuse to start when a plugin is quarantined (1 or 0)",
}
"""Variables that are read one by one, before any settings model is loaded."""

_DEFAULTS = {"ENTRABOT_LOG_LEVEL": "WARNING", READ_ONLY: "0", STRICT: "0"}


def settings_rows(config: Config, packages: Mapping[str, str]) -> dict[str, list[tuple[str, str, str]]]:
    """Return the rows by owner: ``host``, or a plugin's name. packages: import package to plugin name."""
    also: dict[str, list[str]] = {}
    for model, owner in settings_models(packages):
        config.load(model, owner)
        also.update(_other_names(model))
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for name, description in READ_WITHOUT_A_MODEL.items():
        rows.setdefault("host", []).append((name, _DEFAULTS.get(name, ""), description))
    for setting in config.declared():
        names = also.get(setting.name, [])
        description = setting.description + (f" (or {', '.join(names)})" if names else "")
        description += " (secret: never shown)" if setting.secret else ""
        rows.setdefault(setting.owner, []).append((setting.name, _plain(setting.default), description))
    return {
        owner: sorted((f"`{name}`", f"`{default}`" if default else "", _text(about)) for name, default, about in found)
        for owner, found in rows.items()
    }


def settings_models(packages: Mapping[str, str]) -> list[tuple[type[BaseModel], str]]:
    """Find every settings model of the host and the plugins, with the plugin that owns it (empty for the host).

    A settings model is one with a field that reads a variable by name, or one whose name says so.
    """
    found = []
    for package, owner in {HOST_PACKAGE: "", **packages}.items():
        for module in _modules(package):
            found += [
                (value, owner)
                for value in vars(module).values()
                if isinstance(value, type)
                and issubclass(value, BaseModel)
                and value.__module__ == module.__name__
                and _holds_settings(value)
            ]
    return sorted(found, key=lambda item: (item[1], item[0].__module__, item[0].__name__))


def _modules(package: str) -> Iterator[ModuleType]:
    root = import_module(package)
    yield root
    for info in walk_packages(root.__path__, prefix=f"{package}."):
        if not info.name.endswith(".__main__"):
            yield import_module(info.name)


def _holds_settings(model: type[BaseModel]) -> bool:
    named = any(name.isupper() for info in model.model_fields.values() for name in _names(info.validation_alias))
    return named or model.__name__.endswith("Settings")


def _names(alias: object) -> list[str]:
    if isinstance(alias, AliasChoices):
        return [choice for choice in alias.choices if isinstance(choice, str)]
    return [alias] if isinstance(alias, str) else []


def _other_names(model: type[BaseModel]) -> dict[str, list[str]]:
    names = [_names(info.validation_alias) for info in model.model_fields.values()]
    return {first: others for first, *others in filter(None, names) if others}


def _plain(default: str) -> str:
    return {"True": "true", "False": "false"}.get(default, default)
