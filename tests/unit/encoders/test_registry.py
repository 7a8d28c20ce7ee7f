from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.encoders import encoder


def test_minilm_is_made_without_looking_at_any_file(tmp_path: Path) -> None:
    made = encoder("minilm", mode="node", weights=tmp_path / "nowhere")
    assert made.media == frozenset()
    assert made.languages == {"en"}


def test_the_fingerprint_of_the_embedded_model_needs_no_file() -> None:
    found = encoder("minilm", mode="node").fingerprint
    assert (found.model, found.mode, found.instruction, found.dim) == ("minilm", "node", "", 384)
    assert found.revision


def test_an_unknown_name_brings_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'minilm'"):
        encoder("minilmm")


@pytest.mark.parametrize("name", ["qwen3-vl", "hf:a/b", "http://h:1/v1#m", "https://h/v1#m"])
def test_an_encoder_of_a_later_version_is_refused_honestly(name: str) -> None:
    with pytest.raises(ConfigError, match="this version of canopy has only 'minilm'"):
        encoder(name)


def test_an_adapter_is_refused_rather_than_ignored() -> None:
    with pytest.raises(ConfigError, match="cannot load the adapter 'tuned/' yet"):
        encoder("minilm+tuned/")


@pytest.mark.parametrize(("argument", "value"), [("mode", "early"), ("threads", 0)])
def test_a_setting_that_cannot_work_is_named(argument: str, value: object) -> None:
    with pytest.raises(ConfigError, match=argument):
        encoder("minilm", **{argument: value})


def test_importing_the_encoders_loads_no_runtime() -> None:
    code = (
        "import sys, canopy_rag.encoders as e; e.encoder('minilm').fingerprint; "
        "heavy = {'onnxruntime', 'tokenizers', 'safetensors', 'torch', 'onnx'} & set(sys.modules); "
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
