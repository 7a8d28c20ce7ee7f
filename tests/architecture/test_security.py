"""What no module may do: run what it reads, or read what can carry code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

ALLOWED = {
    ("indexing/child.py", "pickle"): "reads what the run that started it wrote to its input",
    ("indexing/processes.py", "pickle"): "writes the parser's settings; reads replies as JSON",
    ("testing/store_contract.py", "pickle"): "of what it made itself, as Ray does",
    ("indexing/processes.py", "subprocess"): "this very Python, no shell, no name of a file",
}
"""Exceptions by module and finding, with the reason."""

CODE_CARRIERS = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
PROCESSES = {"subprocess", "pty", "multiprocessing.pool"}
XML_WITH_ENTITIES = {"xml.sax", "xml.dom", "xml.dom.minidom", "xml.dom.pulldom"}
MODULES = CODE_CARRIERS | PROCESSES | XML_WITH_ENTITIES
BUILTINS = {"eval", "exec", "compile", "__import__"}
CALLS = {
    "os.system",
    "os.popen",
    "os.execv",
    "os.execve",
    "os.execvp",
    "os.spawnv",
    "tempfile.mktemp",
    "yaml.load",
    "yaml.unsafe_load",
    "zipfile.ZipFile.extractall",
    "torch.hub.load",
    "ssl._create_unverified_context",
}
UNSAFE = {
    "shell": True,
    "trust_remote_code": True,
    "allow_pickle": True,
    "weights_only": False,
    "verify": False,
    "follow_redirects": True,
    "resolve_entities": True,
}
"""Keyword arguments that must not have these values."""
REQUIRED = {"torch.load": ("weights_only", True)}
"""Calls that need a keyword argument."""


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a chain of names; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def _of_call(call: ast.Call) -> Iterator[str]:
    name = dotted(call.func)
    if name in BUILTINS | CALLS or name.endswith(".extractall"):
        yield name
    given = {each.arg: each.value for each in call.keywords if each.arg}
    for key, value in UNSAFE.items():
        # What is no constant may be anything.
        if key in given and getattr(given[key], "value", value) is value:
            yield f"{key}={value}"
    for key, (wanted, value) in REQUIRED.items():
        if name == key and getattr(given.get(wanted), "value", None) is not value:
            yield f"{name} without {wanted}={value}"
    if name.endswith("require") and call.args:
        first = getattr(call.args[0], "value", None)
        if first in MODULES:
            yield str(first)


def findings(tree: ast.AST) -> Iterator[str]:
    """Yield what code does that it must not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
            yield from sorted(names & (MODULES | CALLS))
        elif isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.Dict):  # options that are passed on later
            for key, value in zip(node.keys, node.values, strict=True):
                unsafe = UNSAFE.get(getattr(key, "value", None))
                if unsafe is not None and getattr(value, "value", None) is unsafe:
                    yield f"{getattr(key, 'value', None)}={unsafe}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_that_is_read_can_run(path: Path) -> None:
    module = path.relative_to(ROOT / "src" / "canopy_rag").as_posix()
    found = set(findings(ast.parse(path.read_text("utf-8"))))
    assert {each for each in found if (module, each) not in ALLOWED} == set()


def test_every_exception_is_still_one() -> None:
    base = ROOT / "src" / "canopy_rag"
    for module, finding in ALLOWED:
        assert finding in set(findings(ast.parse((base / module).read_text("utf-8"))))


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "import xml.dom.minidom",
        "eval(text)",
        "exec(text)",
        "os.system(text)",
        "from os import system",
        "run(text, shell=True)",
        "run(text, shell=wanted)",
        "yaml.load(text)",
        "load(name, trust_remote_code=True)",
        "options = {'trust_remote_code': True}",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "Client(follow_redirects=True)",
        "archive.extractall(folder)",
        "require('cloudpickle', extra='ray', feature='x')",
    ],
)
def test_the_check_sees(code: str) -> None:
    assert list(findings(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "module.eval()",
        "re.compile(text)",
        "torch.load(path, map_location='cpu', weights_only=True)",
        "Client(follow_redirects=False)",
        "yaml.safe_load(text)",
    ],
)
def test_the_check_lets_pass(code: str) -> None:
    assert not list(findings(ast.parse(code)))
