"""What Qwen3-VL-Embedding reads: conversations, pictures, frames; and whose files are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from canopy_rag.core.errors import ConfigError
from canopy_rag.encoders.qwen3_inputs import Budgets, Inputs, instruction_sentence
from canopy_rag.encoders.qwen3_model import load_config
from canopy_rag.encoders.qwen3_vl import Qwen3VL

torch = pytest.importorskip("torch", reason="needs the extra qwen: torch is not installed")
transformers = pytest.importorskip("transformers", reason="needs the extra qwen")

# peft 0.21 asks transformers 5.24 by a name that the latter has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


@pytest.fixture(scope="module")
def inputs(folder: Path) -> Inputs:
    return Inputs(folder, load_config(folder), Budgets(max_tokens=128))


def test_an_overlong_text_is_cut_and_the_end_of_the_conversation_stays(inputs: Inputs) -> None:
    reading = inputs.reading("Read.", "castle hill " * 5000)
    assert len(reading.ids) == 128
    assert reading.ids[-len(inputs.tail) :].tolist() == inputs.tail
    short = inputs.reading("Read.", "castle hill")
    assert reading.ids[: len(inputs.head("Read."))].tolist() == inputs.head("Read.")
    assert short.ids[-len(inputs.tail) :].tolist() == inputs.tail


def test_video_comes_before_images_before_text(folder: Path) -> None:
    inputs = Inputs(folder, load_config(folder), Budgets())
    grey = Image.new("RGB", (64, 64))
    reading = inputs.reading(
        "Read.", "castle", images=[grey, grey], frames=[grey] * 3, times=(61.0, 62.5, 64.0)
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    vision = "<|vision_start|>{}<|vision_end|>"
    pair, image = vision.format("<|video_pad|>" * 4), vision.format("<|image_pad|>" * 4)
    assert tokenizer.decode(reading.ids) == (
        "<|im_start|>system\nRead.<|im_end|>\n<|im_start|>user\n"
        f"<61.8 seconds>{pair}<64.0 seconds>{pair}{image}{image}castle"
        "<|im_end|>\n<|im_start|>assistant\n"
    )
    assert [int((reading.kinds == kind).sum()) for kind in (1, 2)] == [8, 8]
    batch = inputs.batch([inputs.reading("Read.", "castle"), reading])
    assert batch["image_grid_thw"].tolist() == [[1, 4, 4], [1, 4, 4]]
    assert batch["video_grid_thw"].tolist() == [[2, 4, 4]]
    assert batch["attention_mask"].sum(1).tolist()[1] == len(reading.ids)


@pytest.mark.parametrize(
    ("size", "n_tokens"), [((4000, 3000), 1728), ((10, 10), 4), ((320, 64), 20), ((2000, 20), 62)]
)
def test_pictures_are_read_within_their_budget(
    size: tuple[int, int], n_tokens: int, folder: Path
) -> None:
    inputs = Inputs(folder, load_config(folder), Budgets())
    reading = inputs.reading("Read.", "", images=[Image.new("RGB", size)])
    assert int((reading.kinds == 1).sum()) == n_tokens


@pytest.mark.parametrize(("n_frames", "n_tokens"), [(1, 768), (2, 768), (8, 3072), (64, 3584)])
def test_frames_share_the_budget_of_their_video(n_frames: int, n_tokens: int, folder: Path) -> None:
    inputs = Inputs(folder, load_config(folder), Budgets())
    frames = [Image.new("RGB", (2048, 1024))] * n_frames
    reading = inputs.reading("Read.", "", frames=frames, times=list(range(n_frames)))
    found = int((reading.kinds == 2).sum())
    assert 0.9 * n_tokens < found <= n_tokens
    assert len(reading.pairs) == -(-n_frames // 2)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Find it", "Find it."),
        (" Find it! ", "Find it!"),
        ("找", "找."),
        ("找。", "找。"),
        ("", ""),
    ],
)
def test_an_instruction_ends_with_a_mark(written: str, read: str) -> None:
    assert instruction_sentence(written) == read


def test_a_template_that_ends_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    template = (other / "chat_template.jinja").read_text()
    (other / "chat_template.jinja").write_text(template.replace("assistant\\n", "assistant "))
    with pytest.raises(ConfigError, match=r"chat template writes .*with the last tokens \["):
        Qwen3VL(str(other)).encode_queries(["castle"])


def test_a_model_without_template_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        Qwen3VL(str(other)).encode_queries(["castle"])


def test_the_template_of_older_files_is_found(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    template = (other / "chat_template.jinja").read_text()
    (other / "chat_template.jinja").unlink()
    (other / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    assert Qwen3VL(str(other)).encode_queries(["castle"]).node.shape == (1, 64)


def test_the_settings_for_pictures_may_be_part_of_a_processors(
    folder: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    settings = json.loads((other / "preprocessor_config.json").read_text())
    (other / "preprocessor_config.json").unlink()
    with pytest.raises(ConfigError, match=r"no preprocessor_config\.json"):
        Inputs(other, load_config(other), Budgets())
    (other / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    image = Image.new("RGB", (64, 64), "red")
    found = [Inputs(one, load_config(one), Budgets()) for one in (folder, other)]
    one, two = (each.batch([each.reading("Read.", "", images=[image])]) for each in found)
    assert np.array_equal(one["pixel_values"], two["pixel_values"])


def test_a_model_whose_marks_are_others_is_refused(folder: Path) -> None:
    config = load_config(folder)
    config.image_token_id += 1
    with pytest.raises(ConfigError, match="disagree about image_token_id"):
        Inputs(folder, config, Budgets())


@pytest.mark.parametrize(
    "wrong",
    [{"max_tokens": 10}, {"max_frames": 0}, {"min_picture_px": 1}, {"max_picture_px": 2000}],
)
def test_budgets_that_cannot_work_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Budgets(**wrong)
