"""Check that a tag, the version and the CHANGELOG agree: `python tools/check_release.py v0.1.0`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what stands against releasing `tag`, a line each; empty when nothing does."""
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    package = (root / "src/canopy_rag/__init__.py").read_text("utf-8")
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    found = []
    if tag != f"v{version}":
        found.append(
            f"the tag is {tag}, the version in pyproject.toml {version}: expected v{version}"
        )
    if f'__version__ = "{version}"' not in package:
        found.append(f"canopy_rag.__version__ is not {version}")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        found.append(f"CHANGELOG.md has no section '## [{version}] - <date>'")
    return found


def main(arguments: list[str]) -> int:
    """Print the problems; 0 when there are none, 2 for wrong usage."""
    if len(arguments) != 1:
        print("usage: check_release.py TAG", file=sys.stderr)
        return 2
    found = problems(arguments[0])
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
