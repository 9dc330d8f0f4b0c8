"""Importing the package, or the plugin, costs the server's start next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["mcp", "mcp_types", "httpx", "httpx2", "msal", "requests", "cryptography"]


@pytest.mark.parametrize("module", ["entrabot_efferent_copy", "entrabot_efferent_copy.plugin"])
def test_nothing_heavy_is_imported(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_names_that_others_use() -> None:
    import entrabot_efferent_copy as package

    assert package.DISCOVERY_TIMEOUT_S == 5.0
    assert package.OBSERVE_TIMEOUT_S == 0.25
    assert package.WARN_THROTTLE_S == 60.0
    assert all(hasattr(package, name) for name in package.__all__)
