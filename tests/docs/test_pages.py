"""Every block of code on a page is executed or parsed, or is marked.

A page that has a `console` block without a mark is a session: its blocks run from top to bottom in
one empty folder, and what follows a command has to be its output. There, `...` stands for anything,
and a number with a decimal point for any other, since processors round differently.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from canopy_rag.cli import app
from canopy_rag.encoders import locate

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)([^\n`]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
RUN_BY = {
    "python": "test_docs.py, or here on a page that is a session",
    "toml": "test_docs.py reads it as canopy.toml",
    "json": "here it is parsed",
    "console": "here, as a session",
}
"""Language -> what holds a block without a mark to what it says."""
NO_CODE = {"", "text", "markdown", "csv"}
OWN_TEST = {"docs/training.md": "tests/unit/cli/test_train.py"}
"""Pages whose `bash` blocks have a test of their own."""
MARK = re.compile(r"no-run\b|needs=[\w.]+$|needs-train$|file=[\w./-]+$")
WEIGHTS = locate.PACKED.is_file() or locate.package_checkpoint() is not None
WIDTH = "100"


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    mark: str
    code: str

    @property
    def file(self) -> str | None:
        """The file that the block is."""
        return self.mark.removeprefix("file=") if self.mark.startswith("file=") else None


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    found = FENCE.finditer(page.read_text("utf-8"))
    return [Block(language=one[2], mark=one[3].strip(), code=one[4]) for one in found]


def is_session(page: Path) -> bool:
    return any(one.language == "console" and not one.mark for one in blocks(page))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_block_that_nothing_runs_is_marked(page: Path) -> None:
    runs = {*RUN_BY, *NO_CODE} | ({"bash"} if relative(page) in OWN_TEST else set())
    unmarked = [one for one in blocks(page) if not one.mark and one.language not in runs]
    assert unmarked == [], "mark it no-run, with the reason, or make it a console session"
    assert [one.mark for one in blocks(page) if one.mark and not MARK.match(one.mark)] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_json_on_a_page_is_json(page: Path) -> None:
    for one in blocks(page):
        if one.language == "json" and not one.mark.startswith("no-run"):
            for document in [one.code] if "\n}" in one.code else one.code.splitlines():
                assert json.loads(document)


def commands(code: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a session with the output below it."""
    command, output, goes_on = "", [], False
    for line in code.splitlines():
        if goes_on:
            command, goes_on = f"{command[:-1]}{line.lstrip()}", line.endswith("\\")
        elif line.startswith("$ "):
            if command:
                yield command, "\n".join(output)
            command, output, goes_on = line[2:], [], line.endswith("\\")
        else:
            output.append(line)
    yield command, "\n".join(output)


def run(command: str) -> str:
    """Run a command and return its stdout; `canopy` in this process where no shell is needed."""
    if command.startswith("canopy ") and not re.search(r"[|<>;&]", command):
        words = shlex.split(command, comments=True)[1:]
        done = CliRunner().invoke(app, words, env={"COLUMNS": WIDTH, "NO_COLOR": "1"})
        assert done.exit_code == 0, f"{command}\n{done.output}"
        return done.stdout
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = shutil.which("bash")
    assert shell is not None
    ended = subprocess.run(
        [shell, "-c", command],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "PATH": path, "COLUMNS": WIDTH, "NO_COLOR": "1"},
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def agrees(written: str, actual: str) -> bool:
    """Return whether an output is what a page says.

    >>> agrees("found ...\\nin 0.2 s", "found three\\nand four\\nin 0.3 s")
    True
    """
    lines = [line.rstrip() for line in actual.strip().splitlines()]
    pattern = re.escape("\n".join(line.rstrip() for line in written.strip().splitlines()))
    pattern = re.sub(r"\\\.\\\.\\\.", ".*?", pattern)
    pattern = re.sub(r"\d+\\\.\d+", r"\\d+\\.\\d+", pattern)
    return re.fullmatch(pattern, "\n".join(lines), re.DOTALL) is not None


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS, reason=f"the encoder's weights are not here; {locate.INSTALL}")
@pytest.mark.skipif(sys.platform == "win32", reason="the sessions are written for a Unix shell")
@pytest.mark.parametrize("page", [one for one in PAGES if is_session(one)], ids=relative)
def test_a_session_goes_as_its_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("CANOPY_") or name == "OPENAI_API_KEY":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for one in blocks(page):
        if one.file is not None:
            Path(one.file).parent.mkdir(parents=True, exist_ok=True)
            Path(one.file).write_text(one.code, encoding="utf-8")
        elif one.language == "python" and not one.mark:
            exec(compile(one.code, relative(page), "exec"), names)
        elif one.language == "console" and not one.mark:
            for command, written in commands(one.code):
                actual = run(command)
                if written.strip():
                    assert agrees(written, actual), f"{command}\nprints\n{actual}"


def test_an_output_of_a_page_may_leave_parts_out_and_round_otherwise() -> None:
    assert agrees("a\n...\n0.25 z", "a\nb\nc\n0.31 z\n")
    assert agrees("a ... z", "a  z")
    assert not agrees("a\n...\nz", "a\nb\ny")
    assert not agrees("a", "a\nb")
    assert not agrees("1 file", "2 files")


def test_a_command_may_go_over_lines() -> None:
    code = "$ one \\\n    two\nout\nput\n$ three\n"
    assert list(commands(code)) == [("one two", "out\nput"), ("three", "")]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return tool("build_site")


def test_the_site_leads_to_every_page(site: ModuleType) -> None:
    assert site.astray() == ([], [])


def test_a_link_out_of_the_docs_leads_to_its_page_or_to_the_source(site: ModuleType) -> None:
    places = site.sources()
    page = ROOT / "docs/integrations/mcp.md"
    assert site.target("../cli.md#canopy-mcp", page, places) == "../cli.md#canopy-mcp"
    assert site.target("../../CHANGELOG.md", page, places) == "../project/changelog.md"
    assert site.target("../../configs/paper.toml", page, places) == f"{site.BLOB}configs/paper.toml"
    assert site.target("https://example.org", page, places) == "https://example.org"
    changelog = ROOT / "CHANGELOG.md"
    assert (
        site.target("docs/deprecation-policy.md", changelog, places) == "../deprecation-policy.md"
    )


def test_the_site_says_above_a_block_that_nothing_runs_it(site: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console no-run takes a GPU\n$ train\n```\n\n`[a](b.md)`\n", "utf-8")
    first, *rest = site.staged(page, {page: Path("page.md")}).splitlines()
    assert first == '```console title="not run by the tests: takes a GPU"'
    assert rest[-1] == "`[a](b.md)`"
    page.write_text("```console perhaps\n$ train\n```\n", "utf-8")
    with pytest.raises(ValueError, match="'```console perhaps': no such mark"):
        site.staged(page, {page: Path("page.md")})


def words(svg: str) -> list[str]:
    """Return the words of a picture without its numbers, which other processors round otherwise."""
    lines = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return [re.sub(r"\d+(\.\d+)?", "#", line) for line in lines]


PICTURES = sorted(one.stem for one in (ROOT / "docs/assets").glob("*.svg"))


@pytest.mark.slow
@pytest.mark.skipif(not WEIGHTS, reason=f"the encoder's weights are not here; {locate.INSTALL}")
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_program_does_now(name: str) -> None:
    drawing = sys.modules.get("draw_pictures") or tool("draw_pictures")
    kept = (ROOT / f"docs/assets/{name}.svg").read_text("utf-8")
    assert words(drawing.picture(name)) == words(kept), "run `make docs`"


def test_every_picture_is_on_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    there = (one for one in (ROOT / "docs/assets").iterdir() if one.suffix in {".svg", ".png"})
    assert [one.name for one in there if f"assets/{one.name}" not in text] == []
