"""`hf:` against the library itself, with tiny random models of real architectures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from canopy_rag.core.errors import ConfigError, EncodeError, ModelError
from canopy_rag.core.node_text import node_text
from canopy_rag.core.trees import image_tree
from canopy_rag.core.types import ImagePayload, Item
from canopy_rag.encoders.placement import Placement
from canopy_rag.encoders.sentence_transformers import HFOptions, SentenceTransformers
from canopy_rag.testing.encoder_contract import (
    SENTENCES,
    headed_item,
    make_item,
    sample_items,
    table_item,
    text_item,
    video_item,
)
from canopy_rag.testing.tiny_bert import MARKS, WORDS, tiny_tokenizer, write_tiny_bert

REASON = "needs the extra hf: {} is not installed"
torch = pytest.importorskip("torch", reason=REASON.format("torch"))
library = pytest.importorskip(
    "sentence_transformers", reason=REASON.format("sentence-transformers")
)
transformers = pytest.importorskip("transformers", reason=REASON.format("transformers"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prompts = {"query": "the query : ", "document": "title : "}
    return write_tiny_bert(tmp_path_factory.mktemp("bert") / "model", prompts=prompts)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip") / "model"
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    small |= {"intermediate_size": 32, "projection_dim": 16}
    marks = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        text_config={
            "vocab_size": len(MARKS) + len(WORDS),
            "max_position_embeddings": 32,
            **small,
            **marks,
        },
        vision_config={"image_size": 32, "patch_size": 8, **small},
        projection_dim=16,
    )
    transformers.CLIPModel(config).save_pretrained(str(folder))
    pictures = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    transformers.CLIPProcessor(
        image_processor=pictures, tokenizer=tiny_tokenizer(32)
    ).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def encoder(bert: Path) -> SentenceTransformers:
    return SentenceTransformers(str(bert))


def test_vectors_are_the_librarys_with_the_models_prompts(
    bert: Path, encoder: SentenceTransformers
) -> None:
    model = library.SentenceTransformer(str(bert), device="cpu")
    item = table_item("t", [("Ada", "1815"), ("Alan", "1912")], ("name", "born"))
    texts = [f"title : {node_text(item, node)}" for node in item.nodes]
    expected = model.encode(texts, prompt="", normalize_embeddings=True)
    found = encoder.encode_items([item])[0]
    assert np.allclose(found.nodes.rows, expected, atol=1e-3)
    assert np.allclose(found.item, expected[0], atol=1e-5)
    query = encoder.encode_queries(["Ada wrote"])
    wanted = model.encode(["the query : Ada wrote"], prompt="", normalize_embeddings=True)
    assert np.allclose(query.node, wanted, atol=1e-5)
    assert query.retrieval.tobytes() == query.node.tobytes()


def test_a_prompt_of_ones_own_takes_the_place_of_the_models(bert: Path) -> None:
    own = SentenceTransformers(str(bert), options=HFOptions(query_prompt="castle "))
    model = library.SentenceTransformer(str(bert), device="cpu")
    expected = model.encode(["castle hill"], prompt="", normalize_embeddings=True)
    assert np.allclose(own.encode_queries(["hill"]).node, expected, atol=1e-5)
    assert own.fingerprint.instruction == "castle "


def test_the_fingerprint_is_told_without_loading_the_model(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "SentenceTransformer", None)
    found = SentenceTransformers(str(bert)).fingerprint
    assert (found.dim, found.mode, found.instruction) == (32, "node", "the query : ")
    assert found.model == f"hf:{bert}"
    cut = SentenceTransformers(str(bert), options=HFOptions(dim=8)).fingerprint
    assert (cut.dim, cut.revision) == (8, found.revision)


def test_other_weights_or_prompts_are_another_revision(bert: Path, tmp_path: Path) -> None:
    other = write_tiny_bert(tmp_path / "other", prompts={"query": "", "document": "castle"})
    found = [SentenceTransformers(str(folder)).fingerprint.revision for folder in (bert, other)]
    assert found[0] != found[1]


def test_neither_batch_nor_order_changes_a_vector(encoder: SentenceTransformers) -> None:
    items = sample_items()
    together = encoder.encode_items(items)
    reverse = encoder.encode_items(items[::-1])[::-1]
    for item, one, other in zip(items, together, reverse, strict=True):
        alone = encoder.encode_items([item])[0]
        for version in (other, alone):
            assert np.allclose(one.item, version.item, atol=1e-5), item.source.uri
            assert np.allclose(one.nodes.rows, version.nodes.rows, atol=1e-3), item.source.uri


def test_more_texts_than_are_held_at_once_are_all_encoded_in_order(
    encoder: SentenceTransformers,
) -> None:
    item = text_item("many", [f"castle {'hill ' * (n % 40)}{n}." for n in range(700)])
    found = encoder.encode_items([item])[0].nodes.rows
    again = encoder.encode_items([text_item("few", ["castle 0."])])[0].item
    leaves = [node.index for node in item.nodes if not node.children]
    assert found.shape == (len(item.nodes), 32)
    assert np.allclose(found[leaves[0]], again, atol=1e-3)


def test_a_text_model_reads_images_and_videos_through_their_text(
    encoder: SentenceTransformers,
) -> None:
    assert encoder.media == frozenset()
    items = [image("gone.png", "castle"), video_item(["castle", "hill"])]
    words = [text_item("a", ["Holidays: castle"]), text_item("b", ["Lecture: castle\nhill"])]
    for one, other in zip(encoder.encode_items(items), encoder.encode_items(words), strict=True):
        assert np.allclose(one.item, other.item, atol=1e-5)


def image(name: str, caption: str = "") -> Item:
    payload = ImagePayload(media=name, width=1, height=1, caption=caption)
    return make_item(name, "image", payload, image_tree(), "Holidays")


def test_a_model_of_pictures_reads_their_pixels(clip: Path, tmp_path: Path) -> None:
    colours = ["red", "green", "blue"]
    for colour in colours:
        Image.new("RGB", (60, 40), colour).save(tmp_path / f"{colour}.png")
    encoder = SentenceTransformers(str(clip), place=lambda media: (media, tmp_path))
    assert encoder.media == {"image"}
    assert encoder.fingerprint.dim == 16
    items = [image("red.png"), text_item("a", ["castle"]), image("green.png"), image("blue.png")]
    found = encoder.encode_items(items)
    model = library.SentenceTransformer(str(clip), device="cpu")
    pixels = [Image.open(tmp_path / f"{colour}.png") for colour in colours]
    expected = model.encode(pixels, normalize_embeddings=True)
    assert np.allclose([found[i].item for i in (0, 2, 3)], expected, atol=1e-5)
    words = model.encode(["castle"], normalize_embeddings=True)
    assert np.allclose(found[1].item, words[0], atol=1e-5)


def test_a_corrupt_image_in_the_middle_of_a_batch_is_named(clip: Path, tmp_path: Path) -> None:
    Image.new("RGB", (60, 40), "red").save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:60])
    encoder = SentenceTransformers(str(clip), place=lambda media: (media, tmp_path))
    with pytest.raises(EncodeError, match=r"b\.png.*truncated or corrupt") as caught:
        encoder.encode_items([image("a.png"), image("b.png"), image("a.png")])
    assert caught.value.item_id == image("b.png").id


class FakeModel:
    """A model that reads frames and words together, which no tiny one here can."""

    max_seq_length = 32

    def __init__(self) -> None:
        self.calls: list[tuple[list[Any], dict[str, Any]]] = []

    def supports(self, modality: Any) -> bool:
        return modality in ("text", "video", ("video", "text"))

    def encode_document(self, inputs: list[Any], **options: Any) -> np.ndarray:
        self.calls.append((inputs, options))
        return np.ones((len(inputs), 32), np.float32)


def test_a_model_of_videos_gets_the_frames_of_each_node_with_their_times(
    bert: Path, tmp_path: Path, make_clip: Callable[..., Path]
) -> None:
    from canopy_rag.core.trees import video_tree
    from canopy_rag.core.types import Segment, VideoPayload

    make_clip("a.mp4", [(40, 2.0), (200, 2.0)])
    segments = (
        Segment(start=0, stop=2, frames=(0.5, 1.5), subtitles="castle"),
        Segment(start=2, stop=4, frames=(2.5, 3.5)),
        Segment(start=4, stop=6, subtitles="hill"),
    )
    payload = VideoPayload(media="a.mp4", duration_s=6, segments=segments, width=64, height=36)
    item = make_item("a.mp4", "video", payload, video_tree(segments))
    encoder = SentenceTransformers(str(bert), place=lambda media: (media, tmp_path))
    model = FakeModel()
    vars(encoder)["_loaded_model"] = model
    encoder.encode_items([item])
    read = {
        one["text"]: one["video"] for inputs, _ in model.calls for one in inputs if "text" in one
    }
    first = read["castle"]
    assert first["array"].shape == (2, 36, 64, 3)
    assert abs(float(first["array"].mean()) - 40) < 5
    assert first["video_metadata"]["frames_indices"] == [5, 15]
    assert first["video_metadata"]["fps"] == 10
    kinds = [(type(inputs[0]).__name__, len(inputs)) for inputs, _ in model.calls]
    assert sorted(kinds) == [("dict", 1), ("dict", 3), ("str", 1)]
    for inputs, options in model.calls:
        told = options.get("processing_kwargs")
        assert (told == {"video": {"do_sample_frames": False}}) == isinstance(inputs[0], dict)


def test_empty_and_odd_texts_have_a_direction(encoder: SentenceTransformers) -> None:
    rows = encoder.encode_queries(["", " \n", "NULL", "\udcff", "castle " * 5000]).node
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0].tobytes() == rows[1].tobytes() == rows[2].tobytes()


def test_tokens_are_counted_without_special_ones(encoder: SentenceTransformers) -> None:
    assert encoder.count_tokens("") == 0
    assert encoder.count_tokens("castle " * 5000) == 5000


def test_fewer_dimensions_are_the_first_ones_at_length_one(
    bert: Path, encoder: SentenceTransformers
) -> None:
    short = SentenceTransformers(str(bert), options=HFOptions(dim=8)).encode_queries(["castle"])
    whole = encoder.encode_queries(["castle"]).node[0, :8]
    assert np.allclose(short.node[0], whole / np.linalg.norm(whole), atol=1e-6)


@pytest.mark.parametrize(("dim", "match"), [(33, "above the model's 32"), (0, "at least 1")])
def test_dimensions_that_cannot_be_are_refused(dim: int, match: str, bert: Path) -> None:
    with pytest.raises(ConfigError, match=match):
        _ = SentenceTransformers(str(bert), options=HFOptions(dim=dim)).fingerprint


def test_half_precision_is_close(bert: Path, encoder: SentenceTransformers) -> None:
    options = HFOptions(placement=Placement(dtype="bf16"))
    half = SentenceTransformers(str(bert), options=options).encode_queries(["castle hill"]).node[0]
    exact = encoder.encode_queries(["castle hill"]).node[0]
    assert float(half @ exact) > 0.99
    assert not np.array_equal(half, exact)


def test_a_damaged_model_gives_an_error_that_names_the_item(bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = shutil.copytree(bert, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensors["embeddings.LayerNorm.weight"] *= float("nan")
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    item = headed_item()
    with pytest.raises(EncodeError, match="gave no number") as caught:
        SentenceTransformers(str(broken)).encode_items([item])
    assert caught.value.item_id == item.id


def test_pickled_weights_are_not_read(bert: Path, tmp_path: Path) -> None:
    other = shutil.copytree(bert, tmp_path / "other")
    (other / "model.safetensors").rename(other / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"no \*\.safetensors"):
        _ = SentenceTransformers(str(other)).fingerprint
    with pytest.raises(ModelError, match="cannot be loaded"):
        SentenceTransformers(str(other)).encode_queries(["castle"])


def test_sentences_that_are_the_same_tie(encoder: SentenceTransformers) -> None:
    item = text_item("a", [SENTENCES[0]] * 7)
    rows = encoder.encode_items([item])[0].nodes.rows
    leaves = [node.index for node in item.nodes if not node.children]
    assert len({rows[leaf].tobytes() for leaf in leaves}) == 1
