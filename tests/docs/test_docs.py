"""Documentation that can be checked: links, anchors, commands, the picture."""

import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "plugins").glob("*/*.md"),
        *(ROOT / "examples").glob("*/*.md"),
        *(ROOT / "prompts").rglob("*.md"),
    }
)
GUIDES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")})
"""The pages whose commands are checked."""
README = ROOT / "README.md"

_FENCE = re.compile(r"^```(\w*)[^\n`]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
OTHERS = frozenset({"make", "python3", "uv", "openssl", "cat", "chmod", "claude", "codex"})
"""Commands in the documentation that are not ours."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The fragments that a heading gets on GitHub."""
    titles = _HEADING.findall(prose(page))
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles)


def commands(page: Path) -> list[list[str]]:
    """The words of each command in fenced ``sh`` blocks."""
    blocks = [text for language, text in _FENCE.findall(page.read_text(encoding="utf-8")) if language == "sh"]
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_INLINE_CODE.sub("", prose(page))):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_fences_are_closed(page: Path) -> None:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")]
    assert len(lines) == 2 * len(_FENCE.findall(page.read_text(encoding="utf-8")))


def test_the_readme_names_the_two_commands() -> None:
    assert ["make", "demo"] in commands(README)
    assert ["make", "test"] in commands(README)


def test_make_has_the_targets_that_are_named() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {words[1] for page in GUIDES for words in commands(page) if words[0] == "make"}
    assert targets >= {"demo", "test", "check"}
    missing = [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)]
    assert missing == []


def test_commands_exist() -> None:
    installed = {point.name for point in entry_points(group="console_scripts")}
    used = {Path(words[0]).name for page in GUIDES for words in commands(page)}
    assert {"entrabot", "entrabot-mcp"} <= installed
    assert used - OTHERS - installed - {"pip", "python"} == set()


def test_subcommands_and_flags_of_ours_are_accepted() -> None:
    shown = [
        (Path(program).name, rest)
        for page in GUIDES
        for words in commands(page)
        for place, program in enumerate(words)
        if Path(program).name in ("entrabot", "entrabot-mcp") and (place == 0 or words[place - 1] == "--")
        for rest in [words[place + 1 :]]
    ]
    assert len({program for program, _ in shown}) == 2
    for program, rest in shown:
        words = [word for word in rest if not word.startswith("-")]
        helped = _help(program, tuple(words[:2] if words[:1] == ["sandbox"] else words[:1]))
        missing = [flag for flag in rest if flag.startswith("--") and flag not in helped]
        assert missing == [], f"{program} {' '.join(rest)}"


@cache
def _help(program: str, subcommand: tuple[str, ...]) -> str:
    shown = subprocess.run(
        [str(Path(sys.executable).parent / program), *(subcommand if program == "entrabot" else ()), "--help"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_the_picture_fetches_nothing() -> None:
    svg = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'\s)<]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in svg
    assert "promises&#160;kept" in svg
