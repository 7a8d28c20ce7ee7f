from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import canopy_rag

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "torch",
    "transformers",
    "onnxruntime",
    "lancedb",
    "httpx",
    "openai",
    "pyarrow",
    "rich",
    "PIL",
    "av",
)


def loaded_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter holds after `statement`."""
    code = f"import sys\n{statement}\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import canopy_rag").isdisjoint(HEAVY)


def test_the_rule_itself_needs_no_more_than_numpy() -> None:
    loaded = loaded_after("import canopy_rag; canopy_rag.refine; canopy_rag.Node")
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("module", ["canopy_rag.api", "canopy_rag.cli"])
def test_the_faces_of_the_package_load_their_libraries_only_when_used(module: str) -> None:
    loaded = loaded_after(f"import {module}")
    assert loaded.isdisjoint({"torch", "transformers", "onnxruntime", "lancedb", "pyarrow", "av"})


def test_pictures_name_the_extra_that_they_need() -> None:
    code = "import sys; sys.modules['PIL'] = None; import canopy_rag.media"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingDependencyError: reading pictures needs `pillow`" in done.stderr
    assert "canopy-rag[index]" in done.stderr


def test_the_public_names_are_these() -> None:
    assert sorted(canopy_rag.__all__) == [
        "Answer",
        "Canopy",
        "CanopyError",
        "Compressor",
        "Evidence",
        "Fragment",
        "Index",
        "Item",
        "Node",
        "Refinement",
        "__version__",
        "refine",
    ]


@pytest.mark.parametrize("name", canopy_rag.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(canopy_rag, name) is not None


def test_imports_point_downwards() -> None:
    lint = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert lint is not None
    done = subprocess.run(
        [lint],
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
