"""The lock names every direct dependency in a version that `pyproject.toml` allows, by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>[^ ;\\]+)[^\n]*", re.MULTILINE)


def entries(name: str) -> dict[str, set[str]]:
    """Return package -> versions; one that depends on the system or the Python has several."""
    text = (ROOT / "requirements" / name).read_text("utf-8")
    found: dict[str, set[str]] = {}
    for match in ENTRY.finditer(text):
        found.setdefault(canonicalize_name(match["name"]), set()).add(match["version"])
    return found


def wanted(*extras: str) -> list[Requirement]:
    """Return what the project asks for with some extras, those that they name in turn included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = [Requirement(each) for each in project["dependencies"]]
    for extra in extras:
        for each in map(Requirement, project["optional-dependencies"][extra]):
            found += wanted(*sorted(each.extras)) if each.name == "canopy-rag" else [each]
    return found


@pytest.mark.parametrize("need", wanted("dev", "docs"), ids=lambda need: need.name)
def test_a_direct_dependency_is_locked_in_a_version_that_is_allowed(need: Requirement) -> None:
    versions = entries("locked.txt").get(canonicalize_name(need.name), set())
    assert versions, f"{need.name} is not in requirements/locked.txt; run `make lock`"
    assert all(need.specifier.contains(each) for each in versions)


@pytest.mark.parametrize("name", ["locked.txt", "weights.txt"])
def test_every_entry_has_a_hash_and_none_an_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8")
    blocks = [block for block in re.split(r"\n(?=[a-z])", text) if ENTRY.match(block)]
    assert blocks
    for block in blocks:
        assert "--hash=sha256:" in block, block.splitlines()[0]
    assert "://" not in text
