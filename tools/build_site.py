"""Build the documentation site into site/: `python tools/build_site.py`; `--serve` shows it.

The pages are read in the repository as well as on the site, so they are written for the former and
staged for the latter in build/docs: links to files outside docs/ lead to their pages or to the
source, and a block of code that no test runs says so above it. Zensical then builds what
zensical.toml names, and fails on a broken link or anchor.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "build/docs"
BLOB = "https://github.com/canopy-rag/canopy-rag/blob/main/"
ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "README.md": "index.md",
}
"""Pages outside docs/ -> where they stand on the site; the front page takes the README's place."""

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+) +(?P<marks>[^\n`]+)$", re.MULTILINE)
LINK = re.compile(r"(\[[^\]\n]*\]\()([^)\s]+)(\))")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
SAID = {
    "no-run": "not run by the tests",
    "needs-train": "run by the tests where the extra train is installed",
}
"""Mark of a block -> what the site says above it."""
OUTSIDE = ("http://", "https://", "mailto:", "#")


def sources() -> dict[Path, Path]:
    """Return every file of the site: its place in the repository -> its place on the site."""
    docs = ROOT / "docs"
    found = {one: one.relative_to(docs) for one in sorted(docs.rglob("*")) if one.is_file()}
    return found | {ROOT / name: Path(place) for name, place in ELSEWHERE.items()}


def staged(source: Path, places: dict[Path, Path]) -> str:
    """Return a page as the site has it.

    Args:
        source: Its file in the repository.
        places: Where each file stands on the site.
    """
    text = source.read_text("utf-8")
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [_linked(text[end : code.start()], source, places), code[0]]
        end = code.end()
    parts.append(_linked(text[end:], source, places))
    return FENCE.sub(_titled, "".join(parts))


def _linked(text: str, source: Path, places: dict[Path, Path]) -> str:
    return LINK.sub(lambda m: f"{m[1]}{target(m[2], source, places)}{m[3]}", text)


def target(link: str, source: Path, places: dict[Path, Path]) -> str:
    """Return where a link of a page leads on the site.

    Args:
        link: As written, relative to the page's file.
        source: The page's file.
        places: Where each file stands on the site.
    """
    if link.startswith(OUTSIDE):
        return link
    name, _, anchor = link.partition("#")
    file = (source.parent / name).resolve()
    suffix = f"#{anchor}" if anchor else ""
    if file not in places:
        return f"{BLOB}{file.relative_to(ROOT).as_posix()}{suffix}"
    folder = places[source].parent
    return f"{Path(os.path.relpath(places[file], folder)).as_posix()}{suffix}"


def _titled(fence: re.Match[str]) -> str:
    mark, *reason = fence["marks"].split()
    if mark.startswith("file="):
        said = mark.removeprefix("file=")
    elif mark.startswith("needs="):
        said = (
            f"run by the tests where {mark.removeprefix('needs=').partition('.')[0]} is installed"
        )
    elif mark in SAID:
        said = SAID[mark]
    else:
        raise ValueError(f"{fence[0].strip()!r}: no such mark; see the table in CONTRIBUTING.md")
    title = ": ".join([said, *filter(None, [" ".join(reason)])])
    return f'{fence["indent"]}```{fence["language"]} title="{title}"'


def pages_of(nav: object) -> Iterator[str]:
    """Yield the pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from pages_of(below)
    elif isinstance(nav, list):
        for each in nav:
            yield from pages_of(each)


def astray() -> tuple[list[str], list[str]]:
    """Return the pages that the nav of zensical.toml lacks, and those only it has."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    listed = set(pages_of(project["nav"]))
    there = {place.as_posix() for place in sources().values() if place.suffix == ".md"}
    return sorted(there - listed), sorted(listed - there)


def stage() -> None:
    """Write build/docs.

    Raises:
        ValueError: If a page is not in the navigation, or one in it is not there.
    """
    lacking, gone = astray()
    if lacking or gone:
        raise ValueError(f"the nav of zensical.toml lacks {lacking}; {gone} are not there")
    places = sources()
    shutil.rmtree(STAGE, ignore_errors=True)
    for source, place in places.items():
        if source == ROOT / "README.md":
            continue
        file = STAGE / place
        file.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            file.write_text(staged(source, places), encoding="utf-8")
        else:
            shutil.copyfile(source, file)


def main(arguments: list[str]) -> int:
    """Stage and build; the exit code of zensical."""
    stage()
    command = ["serve"] if "--serve" in arguments else ["build", "--clean", "--strict"]
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    run = [sys.executable, "-m", "zensical", *command]
    return subprocess.run(run, check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
