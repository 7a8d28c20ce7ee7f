"""What model libraries show on stderr while they load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from canopy_rag.cli.options import hide_bars
from canopy_rag.cli.output import Output

SWITCH = "HF_HUB_DISABLE_PROGRESS_BARS"


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")  # recorded, so that it is put back


@pytest.mark.parametrize(
    ("as_json", "quiet", "switch"),
    [(False, False, "0"), (True, False, "1"), (False, True, "1"), (True, True, "1")],
)
def test_bars_are_hidden_where_it_is_quiet_or_for_a_program_and_left_alone_elsewhere(
    as_json: bool, quiet: bool, switch: str
) -> None:
    hide_bars(Output(as_json=as_json, quiet=quiet))
    assert os.environ[SWITCH] == switch


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("torch", "transformers"):
        pytest.importorskip(module, reason=f"needs the extra qwen: {module} is not installed")
    from canopy_rag.testing.tiny_qwen import write_tiny_qwen

    return write_tiny_qwen(tmp_path_factory.mktemp("tiny") / "model")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "shown"), [([], True), (["--quiet"], False), (["--json"], False)]
)
def test_a_model_that_loads_shows_its_bar_unless_it_is_to_be_quiet(
    model: Path, flags: list[str], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH)
    monkeypatch.setenv("CANOPY_SELECT_MIN_TOKENS", "0")  # so short a text would be shown whole
    Path("lake.txt").write_text("The lake freezes over. People skate on it.", encoding="utf-8")
    command = ["compress", "--query", "lake", "lake.txt", "--encoder", f"qwen3-vl:{model}", *flags]
    done = subprocess.run(
        [sys.executable, "-c", "from canopy_rag.cli import main; main()", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("Loading weights" in done.stderr) is shown
    if not shown:
        assert done.stderr == ""
