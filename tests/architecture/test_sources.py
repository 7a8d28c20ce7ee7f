from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_FILE_LINES = 450
MAX_BODY_LINES = 50
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
GLOSSARY = {
    r"\bsnippets?\b": "fragment",
    r"\bembedder\b": "encoder",
    r"\bsub[-_ ]?questions?\b": "follow-up query",
}
"""Words that the glossary replaces."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_are_sources_to_check() -> None:
    assert len(SOURCES) > 20


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_file_stays_short_enough_to_read_in_one_sitting(path: Path) -> None:
    n_lines = len(path.read_text("utf-8").splitlines())
    assert n_lines <= MAX_FILE_LINES


def n_body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines after signature and docstring: those that have to be followed."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_stay_short(path: Path) -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [
        one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, functions)
    ]
    long = {one.name: n for one in nodes if (n := n_body_lines(one)) > MAX_BODY_LINES}
    assert long == {}


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert UNFINISHED.findall(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_the_glossary_is_kept(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    found = [
        f"{number}: {line.strip()} (say {instead})"
        for number, line in enumerate(lines, 1)
        for word, instead in GLOSSARY.items()
        if re.search(word, line, re.IGNORECASE)
    ]
    assert found == []


ADAPTER = "adapter_model.safetensors"
"""Trained, 3 MB each, and part of the package; everything else that is large is made by `make`."""


def test_no_committed_file_is_large() -> None:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in done.stdout.split("\0") if name]
    large = [
        relative(path)
        for path in paths
        if path.is_file() and path.stat().st_size > 2**21 and path.name != ADAPTER
    ]
    assert large == []
