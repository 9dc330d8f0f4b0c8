"""``entrabot new-plugin``: what it writes, what it refuses, and that the example in the repository is its output."""

import subprocess
import sys
from pathlib import Path

import pytest

from entrabot_host import InvalidArgument
from entrabot_host.cli.new_plugin import plugin_files, write_plugin

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_is_what_the_command_writes() -> None:
    example = ROOT / "examples" / "hello_plugin"
    written = {
        path.relative_to(example).as_posix(): path.read_text(encoding="utf-8")
        for path in example.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".pytest_cache" not in path.parts
    }

    assert written == plugin_files("hello")


def test_a_name_of_several_words_is_used_everywhere(tmp_path: Path) -> None:
    folder = write_plugin("tide_table", tmp_path)

    assert folder == tmp_path / "entrabot-tide-table"
    assert (folder / "entrabot_tide_table" / "plugin.py").is_file()
    text = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())
    assert "$" not in text
    assert 'tide_table = "entrabot_tide_table.plugin"' in text


def test_it_overwrites_nothing(tmp_path: Path) -> None:
    write_plugin("tide", tmp_path)

    with pytest.raises(InvalidArgument, match="exists already"):
        write_plugin("tide", tmp_path)


@pytest.mark.parametrize(
    "name", ["", "Tide", "tide-table", "1tide", "tide__table", "../tide", "tide table", "t" * 41, "ü"]
)
def test_a_name_that_is_no_module_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="lower-case words"):
        write_plugin(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["host", "agent_user"])
def test_the_hosts_own_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="The host itself"):
        write_plugin(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_an_installed_plugin_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="of Entrabot itself"):
        write_plugin("teams", tmp_path)
    with pytest.raises(InvalidArgument, match="of Entrabot itself"):
        write_plugin("efferent_copy", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_written_plugin_passes_its_own_test(tmp_path: Path) -> None:
    folder = write_plugin("tide", tmp_path)
    metadata = folder / "entrabot_tide-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: entrabot-tide\nVersion: 0.1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[entrabot.plugins]\ntide = entrabot_tide.plugin\n", encoding="utf-8")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout
