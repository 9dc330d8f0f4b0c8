"""The model of the lease holds, and would say so if it did not."""

import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).parents[3] / "models" / "delivery_lease.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MODEL), *arguments], capture_output=True, text=True, encoding="utf-8", timeout=100
    )


def test_the_lease_loses_nothing_and_repeats_nothing_without_cause() -> None:
    verdict = run()
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    assert int(verdict.stdout.split()[0]) > 100_000
    assert "nothing is lost" in verdict.stdout


def test_a_process_that_forgets_what_it_pushed_is_found_out() -> None:
    verdict = run("broken")
    assert verdict.returncode == 1, verdict.stdout + verdict.stderr
    assert "pushed a message twice" in verdict.stdout
