"""The encoder against a plain forward of the same tiny random model: one input at a time, the text
put together by hand, no padding, pooled in float64."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.unit.encoders.pictured import SCENES, TIMES, MakeClip, image_of, mixed, picture, video_of

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError, EncodeError, ModelError
from canopy_rag.core.node_text import node_text
from canopy_rag.encoders.placement import Placement
from canopy_rag.encoders.qwen3_inputs import Budgets
from canopy_rag.encoders.qwen3_model import Network
from canopy_rag.encoders.qwen3_vl import (
    DOCUMENT_INSTRUCTION,
    QUERY_INSTRUCTION,
    Qwen3Options,
    Qwen3VL,
)
from canopy_rag.encoders.registry import from_config
from canopy_rag.testing.encoder_contract import (
    SENTENCES,
    headed_item,
    table_item,
    text_item,
)

torch = pytest.importorskip("torch", reason="needs the extra qwen: torch is not installed")
transformers = pytest.importorskip("transformers", reason="needs the extra qwen")

# peft 0.21 asks transformers 5.24 by a name that the latter has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


class Plain:
    """The model as its authors describe it, written a second time."""

    def __init__(self, folder: Path) -> None:
        self.model = transformers.Qwen3VLModel.from_pretrained(folder, dtype=torch.float64).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.processor = transformers.Qwen2VLImageProcessorPil.from_pretrained(folder)

    def vector(
        self,
        text: str,
        *,
        instruction: str = DOCUMENT_INSTRUCTION,
        image: Image.Image | None = None,
        frames: Sequence[Image.Image] = (),
        seconds: Sequence[str] = (),
    ) -> np.ndarray:
        vision, more = "", {}
        if image is not None:
            size = {"shortest_edge": 4 * 1024, "longest_edge": 1800 * 1024}
            found = self.processor(images=[image], size=size, return_tensors="pt")
            count = int(found["image_grid_thw"][0].prod()) // 4
            vision = f"<|vision_start|>{'<|image_pad|>' * count}<|vision_end|>"
            more = {"pixel_values": found["pixel_values"].double()}
            more["image_grid_thw"] = found["image_grid_thw"]
        if frames:
            pixels, count, grid = self._video(frames)
            pads = f"<|vision_start|>{'<|video_pad|>' * count}<|vision_end|>"
            vision = "".join(f"<{time} seconds>{pads}" for time in seconds)
            more = {"pixel_values_videos": pixels.double(), "video_grid_thw": grid}
        prompt = (
            f"<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>user\n{vision}{text}"
            "<|im_end|>\n<|im_start|>assistant\n"
        )
        ids = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        if more:
            image_id = self.model.config.image_token_id
            kinds = (ids == image_id).int() + 2 * (ids == self.model.config.video_token_id).int()
            more["mm_token_type_ids"] = kinds
        with torch.no_grad():
            state = self.model(input_ids=ids, **more).last_hidden_state[0, -1].double()
        return (state / state.norm()).numpy()

    @staticmethod
    def _video(frames: Sequence[Image.Image]) -> tuple[Any, int, Any]:
        """Frames of 64 x 36, for which the budgets ask for 96 x 64, as patches of two frames."""
        sized = [frame.resize((96, 64), Image.Resampling.BICUBIC) for frame in frames]
        sized += sized[-1:] if len(sized) % 2 else []
        pixels = torch.tensor(np.stack([np.asarray(one) for one in sized])) / 255.0
        pixels = ((pixels - 0.5) / 0.5).permute(0, 3, 1, 2)
        n_pairs, (height, width) = len(sized) // 2, (64, 96)
        patches = pixels.reshape(
            n_pairs, 2, 3, height // 32, 2, 16, width // 32, 2, 16
        )  # pair, frame, colour, then rows and columns of cells, of patches, of pixels
        patches = patches.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(-1, 3 * 2 * 16 * 16)
        grid = torch.tensor([[n_pairs, height // 16, width // 16]])
        return patches, height * width // 1024, grid


@pytest.fixture(scope="module")
def plain(folder: Path) -> Plain:
    return Plain(folder)


def test_texts_and_rows_have_the_vectors_of_a_plain_forward(encoder: Qwen3VL, plain: Plain) -> None:
    items = [headed_item(), table_item("t", [("Ada", "1815"), ("Alan", "1912")], ("name", "born"))]
    for item, one in zip(items, encoder.encode_items(items), strict=True):
        expected = [plain.vector(node_text(item, node)) for node in item.nodes]
        assert np.allclose(one.item, expected[0], atol=1e-5)
        assert np.allclose(one.nodes.rows, expected, atol=1e-3)


def test_a_query_has_the_vector_of_a_plain_forward_with_its_instruction(
    encoder: Qwen3VL, plain: Plain
) -> None:
    found = encoder.encode_queries(["Who wrote the first program?", "castle"])
    expected = plain.vector("Who wrote the first program?", instruction=QUERY_INSTRUCTION)
    assert np.allclose(found.node[0], expected, atol=1e-5)
    assert found.retrieval is not None
    assert np.array_equal(found.retrieval, found.node)
    assert np.linalg.norm(expected - plain.vector("Who wrote the first program?")) > 0.05


@pytest.mark.parametrize("size", [(200, 70), (20, 9), (64, 64)])
def test_an_image_has_the_vector_of_its_pixels_and_its_text(
    size: tuple[int, int], folder: Path, plain: Plain, place: Any, tmp_path: Path
) -> None:
    image = Image.open(picture(tmp_path / "a.png", size))
    found = Qwen3VL(str(folder), place=place).encode_items([image_of("a.png")])[0]
    expected = plain.vector("Holidays: A lake", image=image)
    assert np.allclose(found.item, expected, atol=1e-5)
    assert np.linalg.norm(expected - plain.vector("Holidays: A lake")) > 0.05


def test_a_video_has_the_vectors_of_its_frames_times_and_subtitles(
    folder: Path, plain: Plain, place: Any, tmp_path: Path, make_clip: MakeClip
) -> None:
    from canopy_rag.media import load_frames

    make_clip("clip.mp4", SCENES)
    item = video_of("clip.mp4")
    found = Qwen3VL(str(folder), place=place).encode_items([item])[0]
    frames = load_frames("clip.mp4", [*TIMES[0], *TIMES[1]], tmp_path)
    whole = plain.vector(
        "Lecture: Part 0\nPart 1", frames=[*frames, frames[-1]], seconds=("1.0", "3.0", "4.5")
    )
    first = plain.vector("Lecture: Part 0", frames=frames[:3], seconds=("1.0", "2.5"))
    second = plain.vector("Lecture: Part 1", frames=frames[3:], seconds=("4.0",))
    assert np.allclose(found.item, whole, atol=1e-5)
    assert np.allclose(found.nodes.rows, [whole, first, second], atol=1e-3)
    assert np.linalg.norm(whole - plain.vector("Lecture: Part 0\nPart 1")) > 0.05


@pytest.mark.parametrize("batch_tokens", [1, 300, 1_000_000])
def test_neither_batch_nor_padding_nor_order_changes_a_vector(
    batch_tokens: int, folder: Path, place: Any, tmp_path: Path, make_clip: MakeClip
) -> None:
    items = mixed(tmp_path, make_clip)
    alone = Qwen3VL(str(folder), place=place, options=Qwen3Options(batch_tokens=1))
    options = Qwen3Options(batch_tokens=batch_tokens)
    together = Qwen3VL(str(folder), place=place, options=options)
    one_by_one = [alone.encode_items([item])[0] for item in items]
    for found in (together.encode_items(items), together.encode_items(items[::-1])[::-1]):
        for item, one, other in zip(items, found, one_by_one, strict=True):
            assert np.allclose(one.item, other.item, atol=1e-5), item.source.uri
            assert np.allclose(one.nodes.rows, other.nodes.rows, atol=1e-3), item.source.uri


def test_two_encoders_give_the_same_bytes(
    folder: Path, place: Any, tmp_path: Path, make_clip: MakeClip
) -> None:
    items = mixed(tmp_path, make_clip)
    first, second = (Qwen3VL(str(folder), place=place).encode_items(items) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.item.tobytes() == other.item.tobytes()
        assert one.nodes.rows.tobytes() == other.nodes.rows.tobytes()


def test_a_corrupt_image_in_the_middle_of_a_batch_is_named(
    folder: Path, place: Any, tmp_path: Path, make_clip: MakeClip
) -> None:
    items = mixed(tmp_path, make_clip)
    (tmp_path / "tiny.png").write_bytes((tmp_path / "wide.png").read_bytes()[:300])
    with pytest.raises(
        EncodeError, match=f"{items[4].id}.*tiny.png.*truncated or corrupt"
    ) as caught:
        Qwen3VL(str(folder), place=place).encode_items(items)
    assert caught.value.item_id == items[4].id


def test_a_missing_video_is_named(folder: Path, place: Any) -> None:
    item = video_of("gone.mp4")
    with pytest.raises(EncodeError, match=r"gone\.mp4.*gone or never was") as caught:
        Qwen3VL(str(folder), place=place).encode_items([text_item("a", SENTENCES), item])
    assert caught.value.item_id == item.id


def test_a_broken_video_in_the_middle_of_a_batch_is_named(
    folder: Path, place: Any, tmp_path: Path, make_clip: MakeClip
) -> None:
    items = mixed(tmp_path, make_clip)
    (tmp_path / "clip.mp4").write_bytes((tmp_path / "clip.mp4").read_bytes()[:200])
    with pytest.raises(EncodeError, match=r"clip\.mp4") as caught:
        Qwen3VL(str(folder), place=place).encode_items(items)
    assert caught.value.item_id == items[3].id


def test_a_picture_too_narrow_to_be_read_is_named(folder: Path, place: Any, tmp_path: Path) -> None:
    picture(tmp_path / "line.png", (700, 3))
    with pytest.raises(EncodeError, match="aspect ratio") as caught:
        Qwen3VL(str(folder), place=place).encode_items([image_of("line.png")])
    assert caught.value.item_id == image_of("line.png").id


def test_pictures_above_the_window_are_an_error_that_says_what_to_lower(
    folder: Path, place: Any, tmp_path: Path
) -> None:
    picture(tmp_path / "large.png", (640, 640))
    options = Qwen3Options(budgets=Budgets(max_tokens=200))
    told = r"402 tokens, above max_tokens 200; lower encoder\.max_picture_px"
    with pytest.raises(EncodeError, match=told):
        Qwen3VL(str(folder), place=place, options=options).encode_items([image_of("large.png")])


def test_a_damaged_model_gives_an_error_and_no_vector(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = shutil.copytree(folder, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    name = next(name for name in tensors if name.endswith("language_model.norm.weight"))
    tensors[name] = tensors[name] * float("nan")
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    item = text_item("a", SENTENCES)
    with pytest.raises(EncodeError, match="gave no number"):
        Qwen3VL(str(broken)).encode_items([item])


def test_missing_tensors_are_refused_instead_of_filled_at_random(
    folder: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    broken = shutil.copytree(folder, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    del tensors[next(name for name in tensors if "layers.1.mlp.up_proj" in name)]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"1 tensors are missing .*layers\.1\.mlp.up_proj"):
        Qwen3VL(str(broken)).encode_queries(["castle"])


def test_fewer_dimensions_are_the_first_ones_at_length_one(folder: Path, encoder: Qwen3VL) -> None:
    short = Qwen3VL(str(folder), options=Qwen3Options(dim=16))
    assert short.fingerprint.dim == 16
    whole = encoder.encode_queries(["castle"]).node[0]
    cut = short.encode_queries(["castle"]).node[0]
    assert np.allclose(cut, whole[:16] / np.linalg.norm(whole[:16]), atol=1e-6)
    assert short.encode_items([headed_item()])[0].nodes.rows.shape[1] == 16


def test_more_dimensions_than_the_model_has_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="dim 65 is above the model's 64"):
        Qwen3VL(str(folder), options=Qwen3Options(dim=65)).encode_queries(["castle"])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_half_precision_is_close(dtype: Any, folder: Path, encoder: Qwen3VL) -> None:
    half = Qwen3VL(str(folder), options=Qwen3Options(placement=Placement(dtype=dtype)))
    found = half.encode_queries(["castle on a hill"]).node[0]
    assert found.dtype == np.float32
    assert np.isclose(np.linalg.norm(found), 1, atol=1e-6)
    exact = encoder.encode_queries(["castle on a hill"]).node[0]
    assert float(found @ exact) > 0.99
    assert not np.array_equal(found, exact)


def test_another_attention_gives_the_same_vectors(folder: Path, encoder: Qwen3VL) -> None:
    eager = Qwen3VL(str(folder), options=Qwen3Options(placement=Placement(attention="eager")))
    found = eager.encode_queries(["castle", "the castle on the hill"]).node
    expected = encoder.encode_queries(["castle", "the castle on the hill"]).node
    assert np.allclose(found, expected, atol=1e-5)


def test_an_attention_that_is_not_installed_is_an_error_before_anything_is_encoded(
    folder: Path,
) -> None:
    options = Qwen3Options(placement=Placement(attention="flash_attention_2"))
    with pytest.raises(ModelError, match="cannot be loaded"):
        Qwen3VL(str(folder), options=options).encode_queries(["castle"])


def test_spread_by_a_device_map_it_gives_the_same_vectors(
    folder: Path, place: Any, tmp_path: Path
) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate, which the extra train brings")
    picture(tmp_path / "wide.png", (200, 70))
    items = [image_of("wide.png"), headed_item()]
    options = Qwen3Options(placement=Placement(device_map="auto"))
    found = Qwen3VL(str(folder), options=options, place=place).encode_items(items)
    expected = Qwen3VL(str(folder), place=place).encode_items(items)
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one.item, other.item, atol=1e-5)


def test_control_tokens_in_a_document_are_words(encoder: Qwen3VL, plain: Plain) -> None:
    text = "a <|im_end|><|image_pad|><|im_start|> b"
    found = encoder.encode_items([text_item("a", [text])])[0].item
    assert np.linalg.norm(found - plain.vector("a  b")) > 0.01
    assert encoder.count_tokens("<|image_pad|>") > 3


def test_the_empty_query_is_read_as_null(encoder: Qwen3VL) -> None:
    rows = encoder.encode_queries(["", "  \n", "NULL", "castle"]).node
    assert rows[0].tobytes() == rows[1].tobytes() == rows[2].tobytes()
    assert not np.allclose(rows[0], rows[3], atol=1e-3)


def test_what_changes_vectors_changes_the_fingerprint(folder: Path) -> None:
    options = [
        Qwen3Options(),
        Qwen3Options(query_instruction="Find the row"),
        Qwen3Options(document_instruction="Read"),
        Qwen3Options(budgets=Budgets(max_frames=8)),
        Qwen3Options(dim=32),
    ]
    found = [Qwen3VL(str(folder), options=one).fingerprint for one in options]
    assert len(set(found)) == len(options)
    assert found[1].instruction == "Find the row."
    same = Qwen3Options(placement=Placement(dtype="bf16"), batch_tokens=7)
    assert Qwen3VL(str(folder), options=same).fingerprint == found[0]


def test_the_fingerprint_follows_the_content_of_the_folder(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    before = Qwen3VL(str(copy)).fingerprint
    assert before.revision == Qwen3VL(str(folder)).fingerprint.revision
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    assert Qwen3VL(str(copy)).fingerprint.revision != before.revision


def test_another_architecture_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    transformers.BertConfig(hidden_size=64).save_pretrained(other)
    with pytest.raises(ConfigError, match="tells no hidden size"):
        _ = Qwen3VL(str(other)).fingerprint
    with pytest.raises(ConfigError, match="of the type 'bert'"):
        Qwen3VL(str(other)).encode_queries(["castle"])


def test_the_tiny_model_has_the_parts_of_the_real_one(folder: Path) -> None:
    model = transformers.Qwen3VLModel.from_pretrained(folder)
    names = [name for name, _ in model.named_parameters()]
    assert sum(name.startswith("visual.deepstack_merger_list") for name in names) == 12
    assert sum("language_model.layers" in name and "q_norm" in name for name in names) == 2
    assert 200_000 < sum(parameter.numel() for parameter in model.parameters()) < 500_000


def test_the_settings_are_the_limits_of_what_is_read(
    folder: Path, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {
        "min_picture_px": 2048,
        "max_picture_px": 10_000,
        "max_frame_px": 9_000,
        "max_video_px": 80_000,
        "max_frames": 8,
        "max_tokens": 900,
    }
    config = EncoderConfig(name=f"qwen3-vl:{folder}", batch_tokens=1, **limits)
    built = from_config(config, place=place)
    assert built.options.budgets == Budgets(**limits)
    picture(tmp_path / "wide.png", (200, 70))
    batches = []
    states = Network.states
    monkeypatch.setattr(
        Network,
        "states",
        lambda self, batch, **how: batches.append(batch) or states(self, batch, **how),
    )
    built.encode_items([image_of("wide.png"), text_item("a", SENTENCES[:2])])
    assert {len(each["input_ids"]) for each in batches} == {1}
    (grid,) = [each["image_grid_thw"] for each in batches if "image_grid_thw" in each]
    assert grid.prod() * 16 * 16 <= 10_000
    told = built.fingerprint.revision
    assert told.endswith(
        ".max_tokens=900.min_picture_px=2048.max_picture_px=10000.max_frame_px=9000"
        ".max_video_px=80000.max_frames=8"
    )


def test_a_batch_of_no_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch_tokens"):
        replace(Qwen3Options(), batch_tokens=0)
