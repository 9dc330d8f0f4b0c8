"""Runs the demo and saves its output as ``docs/demo.svg``, a picture that fetches nothing from the network.

    python docs/make_demo_picture.py

rich's pictures name a font on a server; readers of a README should not be sent there. Without it the picture is shown
in the reader's own monospaced font.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from entrabot_host.cli.demo.run import run

TARGET = Path(__file__).resolve().parent / "demo.svg"
_FONT_FACE = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)


def self_contained(svg: str) -> str:
    """Return the picture without font rules and comments."""
    return _COMMENT.sub("", _FONT_FACE.sub("", svg))


def main() -> int:
    """Make the picture. Returns the demo's exit status; a demo that fails leaves the old picture alone."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "demo.svg"
        if status := run(svg=str(raw)):
            return status
        lines = self_contained(raw.read_text(encoding="utf-8")).splitlines()
    TARGET.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
