"""``entrabot new-plugin NAME``: a plugin that installs, works and passes its test at once."""

from __future__ import annotations

import argparse
import re
from importlib import metadata
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from entrabot_host.discovery import RESERVED, installed_plugins
from entrabot_host.errors import InvalidArgument

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SUFFIX = ".tmpl"


class NewPluginCommand:
    """Writes the files; overwrites nothing."""

    help = "Write a new plugin: one tool, one task, one test, ready to install."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the name and the folder."""
        parser.add_argument("name", help="the plugin's name: lower-case words joined by underscores, such as tide")
        parser.add_argument("--into", default=".", metavar="FOLDER", help="where to write the project (default: here)")

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the project and say what to do next."""
        folder = write_plugin(arguments.name, Path(arguments.into))
        print(f"Wrote {folder}. Next:\n\n  cd {folder}\n  pip install -e '.[test]'\n  pytest\n  entrabot plugins\n")
        return 0


command = NewPluginCommand()


def write_plugin(name: str, into: Path) -> Path:
    """Write the project below ``into`` and return its folder. Raises `InvalidArgument`."""
    if not _NAME.fullmatch(name) or len(name) > 40:
        raise InvalidArgument(
            "A plugin's name is made of lower-case words joined by underscores, at most 40 characters.",
            remedy="Try something like: entrabot new-plugin tide_table",
        )
    if name.replace("_", "-") in RESERVED:
        raise InvalidArgument("The host itself uses this name.", remedy="Choose another name.")
    if name.replace("_", "-") in _own_extras():
        raise InvalidArgument("A plugin of Entrabot itself has this name.", remedy="Choose another name.")
    if taken := [plugin.distribution for plugin in installed_plugins() if plugin.name == name]:
        raise InvalidArgument(
            f"{taken[0]} is installed and offers a plugin of this name; of two with one name, neither is used.",
            remedy="Choose another name.",
        )
    folder = into / f"entrabot-{name.replace('_', '-')}"
    if folder.exists():
        raise InvalidArgument(f"{folder} exists already.", remedy="Choose another name, or another folder with --into.")
    for path, text in plugin_files(name).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def _own_extras() -> set[str]:
    """The names under which the host's distribution offers its own plugins, installed or not."""
    try:
        return {extra.replace("_", "-") for extra in metadata.metadata("entrabot-host").get_all("Provides-Extra") or ()}
    except metadata.PackageNotFoundError:
        return set()


def plugin_files(name: str) -> dict[str, str]:
    """Return the project's files by their paths below its folder."""
    words = {
        "name": name,
        "package": f"entrabot_{name}",
        "distribution": f"entrabot-{name.replace('_', '-')}",
        "title": name.replace("_", " ").capitalize(),
        "class_name": "".join(word.capitalize() for word in name.split("_")),
    }
    found: dict[str, str] = {}
    _collect(files(__package__) / "template", "", words, found)
    return dict(sorted(found.items()))


def _collect(folder: Traversable, prefix: str, words: dict[str, str], found: dict[str, str]) -> None:
    for item in folder.iterdir():
        if item.is_dir():
            name = words["package"] if item.name == "package" else item.name
            _collect(item, f"{prefix}{name}/", words, found)
        elif item.name.endswith(_SUFFIX):
            text = Template(item.read_text(encoding="utf-8")).substitute(words)
            found[prefix + item.name.removesuffix(_SUFFIX)] = text
