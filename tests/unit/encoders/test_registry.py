from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.encoders import encoder
from canopy_rag.encoders.registry import BUDGETS, from_config


def test_minilm_is_made_without_looking_at_any_file(tmp_path: Path) -> None:
    made = encoder("minilm:base", mode="node", weights=tmp_path / "nowhere")
    assert made.media == frozenset()
    assert made.languages == {"en"}


def test_the_fingerprint_of_the_embedded_model_needs_no_file() -> None:
    found = encoder("minilm:base", mode="node").fingerprint
    assert (found.model, found.mode, found.instruction, found.dim) == ("minilm", "node", "", 384)
    assert found.revision


def test_an_unknown_name_brings_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'minilm'"):
        encoder("minilmm")


def test_a_mode_that_the_encoder_has_not_is_refused() -> None:
    for name in ("http://h:1/v1#m", "hf:a/b", "qwen3-vl"):
        with pytest.raises(ConfigError, match="encodes each node on its own"):
            encoder(name, mode="late")


def test_an_adapter_that_is_not_there_is_refused_rather_than_ignored(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no '.*adapter\.json'; train one"):
        encoder(f"minilm+{tmp_path / 'tuned'}")


@pytest.mark.parametrize(
    ("name", "told"),
    [("http://h:1/v1#m", r"has to load the adapter.*\+lora:NAME"), ("hf:a/b", "kind 'map'")],
)
def test_a_lora_that_the_encoder_cannot_load_is_refused(
    tmp_path: Path, name: str, told: str
) -> None:
    manifest = {
        "format": 1,
        "kind": "lora",
        "base": {"model": "m", "revision": "1"},
        "mode": "node",
    }
    (tmp_path / "adapter.json").write_text(json.dumps(manifest), encoding="utf-8")
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match=told):
        encoder(f"{name}+{tmp_path}")


@pytest.mark.parametrize("change", [{"instruction": "Find it."}, {"dim": 128}])
def test_what_minilm_does_not_have_is_refused_rather_than_ignored(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"unset encoder.{next(iter(change))}"):
        from_config(EncoderConfig(name="minilm", **change))


@pytest.mark.parametrize("name", ["minilm", "hf:a/b", "http://h:1/v1#m"])
@pytest.mark.parametrize("limit", BUDGETS)
def test_limits_of_pictures_are_refused_by_encoders_that_have_their_own(
    name: str, limit: str
) -> None:
    with pytest.raises(ConfigError, match=f"unset encoder.{limit}, for qwen3-vl alone"):
        from_config(EncoderConfig(name=name, **{limit: 5000}))


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_tokens": 20}, r"encoder\.max_tokens must be at least 64, got 20"),
        ({"max_picture_px": 2000}, r"max_picture_px is 2000, below encoder\.min_picture_px"),
        ({"min_picture_px": 10**6}, r"max_frame_px is 786432, below encoder\.min_picture_px"),
        ({"max_frames": 2000}, r"max_video_px is 7864320, too few for encoder\.max_frames, 2000"),
    ],
)
def test_limits_that_cannot_hold_together_are_refused(limits: dict[str, int], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        from_config(EncoderConfig(name="qwen3-vl", **limits))


@pytest.mark.parametrize(("argument", "value"), [("mode", "early"), ("threads", 0)])
def test_a_setting_that_cannot_work_is_named(argument: str, value: object) -> None:
    with pytest.raises(ConfigError, match=argument):
        encoder("minilm", **{argument: value})


def test_importing_the_encoders_loads_no_runtime() -> None:
    code = (
        "import sys, canopy_rag.encoders as e; e.encoder('minilm').fingerprint; "
        "heavy = {'onnxruntime', 'tokenizers', 'safetensors', 'torch', 'openai', 'PIL'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
