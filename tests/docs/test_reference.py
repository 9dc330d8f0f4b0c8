"""The generated reference says what the code says."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "generate_reference.py"
REFERENCE = ROOT / "docs" / "reference.md"
GUIDE = ROOT / "docs" / "plugin-authors.md"
TEAMS = ROOT / "docs" / "plugins" / "teams.md"
VARIABLE = re.compile(r"(?:ENTRABOT|EFFERENT_COPY|PERSONA_SATI)_[A-Z0-9_]*[A-Z0-9]")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, encoding="utf-8", timeout=90
    )


def test_the_reference_is_current() -> None:
    checked = run("--check")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        (REFERENCE, "`whoami`", "`whoareyou`"),
        (GUIDE, "if_absent: bool = False", "if_absent: bool = True"),
        (TEAMS, "`ChatMessage.Send`", "`ChatMessage.Sent`"),
    ],
    ids=["reference", "contract", "plugin"],
)
def test_a_check_notices_a_difference_and_writes_nothing(page: Path, old: str, new: str, tmp_path: Path) -> None:
    for original in (REFERENCE, GUIDE, *TEAMS.parent.glob("*.md")):
        copy = tmp_path / original.relative_to(ROOT / "docs")
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(original.read_bytes())
    copy = tmp_path / page.relative_to(ROOT / "docs")
    copy.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    before = copy.read_bytes()
    assert before != page.read_bytes()
    checked = run("--check", str(tmp_path))
    assert checked.returncode == 1
    assert "generate_reference.py" in checked.stderr
    assert [Path(line.split(" is out of date")[0]).name for line in checked.stderr.splitlines()] == [page.name]
    assert copy.read_bytes() == before


def test_settings_in_the_environment_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTRABOT_PLUGINS", "none")
    monkeypatch.setenv("ENTRABOT_READ_ONLY", "1")
    monkeypatch.setenv("ENTRABOT_TENANT_ID", "no guid")
    checked = run("--check")
    assert checked.returncode == 0, checked.stderr


def test_every_variable_that_the_code_names_is_in_it() -> None:
    named = {
        node.value
        for folder in (ROOT / "entrabot_host", *(ROOT / "plugins").glob("*/entrabot_*"))
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.fullmatch(node.value)
    }
    described = set(VARIABLE.findall(REFERENCE.read_text(encoding="utf-8")))
    assert len(named) > 20
    assert named <= described
