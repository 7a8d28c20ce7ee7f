from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def check_release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_release", ROOT / "tools/check_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src/canopy_rag").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "src/canopy_rag/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n")
    return tmp_path


def test_a_tag_that_agrees_may_be_released(check_release: ModuleType, project: Path) -> None:
    assert check_release.problems("v1.2.3", project) == []


def test_another_tag_may_not(check_release: ModuleType, project: Path) -> None:
    assert "expected v1.2.3" in check_release.problems("v1.2.4", project)[0]


def test_a_version_without_a_dated_section_may_not(
    check_release: ModuleType, project: Path
) -> None:
    (project / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3]\n")
    assert "no section" in check_release.problems("v1.2.3", project)[0]


def test_the_package_and_its_metadata_have_one_version(check_release: ModuleType) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    problems = check_release.problems(f"v{version}")
    assert [line for line in problems if "CHANGELOG" not in line] == []


def test_every_promised_extra_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = "index video ocr local server qwen train eval ray langchain llamaindex haystack"
    assert {*promised.split(), "mcp", "all", "dev"} <= set(project["optional-dependencies"])


def test_what_every_install_and_every_test_run_needs_is_free_of_torch_and_ray() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        found = set()
        for one in requirements:
            if one.startswith("canopy-rag["):
                for extra in one.removeprefix("canopy-rag[").rstrip("]").split(","):
                    found |= names(extras[extra])
            else:
                found.add(one.split(">")[0].split("=")[0].strip())
        return found

    needed = names(project["dependencies"]) | names(extras["all"]) | names(extras["dev"])
    assert needed.isdisjoint({"torch", "ray", "transformers", "sentence-transformers"})
    assert "lancedb" not in names(project["dependencies"])
