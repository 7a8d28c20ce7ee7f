"""The tools that make what the encoder loads."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from canopy_rag.encoders import locate

TOOLS = Path(__file__).resolve().parents[3] / "tools"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def somewhere_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(locate, "PACKED", tmp_path / "weights" / "packed.safetensors")
    return tmp_path / "weights" / "packed.safetensors"


def test_the_committed_graph_is_what_the_tool_builds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx", reason="building the graph needs onnx, a development dependency")
    monkeypatch.setattr(sys, "argv", ["build_graph.py", "--check"])
    assert load("build_graph").main() == 0, capsys.readouterr().out


@pytest.mark.skipif(
    locate.package_checkpoint() is None, reason=f"no weights package; run: {locate.INSTALL}"
)
def test_packing_gives_the_pinned_bytes_and_then_has_nothing_to_do(
    somewhere_else: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = load("pack_minilm")
    assert tool.main() == 0
    content = somewhere_else.read_bytes()
    assert hashlib.sha256(content).hexdigest() == locate.PACKED_SHA256
    assert 22e6 < len(content) < 25e6
    assert [path.name for path in somewhere_else.parent.iterdir()] == [somewhere_else.name]
    capsys.readouterr()
    assert tool.main() == 0
    assert "up to date" in capsys.readouterr().out


def test_packing_without_the_weights_package_says_what_to_install(
    somewhere_else: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locate, "package_checkpoint", lambda: None)
    assert load("pack_minilm").main() == 1
    assert locate.INSTALL in capsys.readouterr().err
    assert not somewhere_else.exists()


def test_packing_other_weights_is_refused(
    somewhere_else: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = tmp_path / "model.safetensors"
    other.write_bytes(b"not the published model")
    monkeypatch.setattr(locate, "package_checkpoint", lambda: other)
    assert load("pack_minilm").main() == 1
    assert "damaged or of another version" in capsys.readouterr().err
    assert not somewhere_else.exists()
