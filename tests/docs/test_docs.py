from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from canopy_rag import config

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"(?<!`)!?\[[^\]\n]*\]\(([^)\s]+)\)|<(?:img|source)[^>]+src(?:set)?=\"([^\"]+)\"")
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(language: str, *, without: str = "no-run") -> list[Any]:
    """Return the code of the pages' blocks; one marked `no-run` needs what a test has not.

    One marked `needs=MODULE` is skipped where that module is not installed. Python on a page that
    is a session runs there, in `test_pages.py`.
    """
    return [
        pytest.param(match[3], id=f"{relative(page)}-{number}", marks=needs(match[2]))
        for page in PAGES
        if language != "python" or not is_session(page) or not without
        for number, match in enumerate(BLOCK.finditer(page.read_text("utf-8")), 1)
        if match[1] == language and without not in match[2].split()
    ]


def is_session(page: Path) -> bool:
    return re.search(r"^```console$", page.read_text("utf-8"), re.MULTILINE) is not None


def needs(marks: str) -> list[pytest.MarkDecorator]:
    """Return a mark that skips a block whose module is not there."""
    modules = [word.removeprefix("needs=") for word in marks.split() if word.startswith("needs=")]
    return [
        pytest.mark.skipif(not is_installed(module), reason=f"needs {module}") for module in modules
    ]


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is not there either
        return False


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for match in LINK.finditer(without_code(page.read_text("utf-8"))):
        target = match[1] or match[2]
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name) if name else page
        known = place.exists() and (not anchor or place.suffix != ".md" or anchor in anchors(place))
        if not known:
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("code", blocks("python", without=""))
def test_python_in_the_docs_compiles(code: str) -> None:
    compile(code, "<docs>", "exec")


@pytest.mark.parametrize("code", blocks("python"))
def test_python_in_the_docs_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    exec(compile(code, "<docs>", "exec"), {})


@pytest.mark.parametrize("code", blocks("toml"))
def test_toml_in_the_docs_is_accepted(code: str, tmp_path: Path) -> None:
    if "[tool." in code or "[project]" in code:
        assert tomllib.loads(code)
        return
    file = tmp_path / "canopy.toml"
    file.write_text(code, encoding="utf-8")
    assert config.load({}, {}, file).origins


def test_the_configuration_page_lists_every_setting_and_no_other() -> None:
    page = (ROOT / "docs/configuration.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+\.\w+)` \|", page, re.MULTILINE) == list(config.keys())


@pytest.fixture(scope="module")
def make_docs() -> ModuleType:
    sys.path.append(str(ROOT / "tools"))  # as when it runs as a script
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools/make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_docs"] = module
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_are_what_make_docs_writes(make_docs: ModuleType) -> None:
    for path, text in make_docs.pages().items():
        assert path.read_text("utf-8") == text, f"{relative(path)}: run `make docs`"


def test_every_statement_of_the_paper_has_a_row_in_the_map() -> None:
    text = (ROOT / "docs/paper-map.md").read_text("utf-8")
    rows = re.findall(r"^\| ([PD]\d+) \|", text, re.MULTILINE)
    assert rows == [*(f"P{n}" for n in range(1, 19)), *(f"D{n}" for n in range(1, 16))]


def test_what_the_paper_map_names_exists() -> None:
    text = (ROOT / "docs/paper-map.md").read_text("utf-8")
    paths = [one for one in re.findall(r"`([\w/.]+/[\w.]+\.\w+)`", text) if "." in one]
    homes = (ROOT, ROOT / "src/canopy_rag")
    assert len(paths) > 30
    assert [one for one in paths if not any((home / one).is_file() for home in homes)] == []


def test_what_the_paper_map_calls_done_has_code_and_a_test() -> None:
    rows = (ROOT / "docs/paper-map.md").read_text("utf-8").splitlines()
    cells = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in rows if "| done" in row
    ]
    assert len(cells) > 8
    assert [row[0] for row in cells if not (row[2] and row[3])] == []


def test_what_the_architecture_page_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    paths = re.findall(r"`(\w+/|\w+\.py|[a-z]\w*/[\w/]+\.py)`", text)
    assert len(paths) > 12
    assert [one for one in paths if not (ROOT / "src/canopy_rag" / one).exists()] == []


def test_every_room_has_a_row_on_the_architecture_page() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    rows = set(re.findall(r"^\| `(\w+)/?` \|", text, re.MULTILINE))
    rooms = {path.name for path in (ROOT / "src/canopy_rag").iterdir() if any(path.glob("**/*.py"))}
    assert rooms - rows == set()
