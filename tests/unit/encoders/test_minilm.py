from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from canopy_rag.core.errors import EncodeError
from canopy_rag.core.vectors import node_matrix
from canopy_rag.encoders import checkpoint as layout
from canopy_rag.encoders import minilm
from canopy_rag.encoders.locate import FolderModel
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.model import TokenModel
from canopy_rag.testing.encoder_contract import headed_item, table_item, text_item

CLS, SEP = 2, 3
erf = np.vectorize(math.erf, otypes=[np.float64])


def plain_forward(tensors: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """BERT as its paper has it, one sequence, in float64: `(length, dim)`."""
    t = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-12)
        return x * t[f"{name}.weight"] + t[f"{name}.bias"]

    x = t[layout.WORDS][ids] + t[layout.POSITIONS][: len(ids)] + t[layout.TYPES][0]
    x = norm(x, "embeddings.LayerNorm")
    for layer in range(6):
        p = f"encoder.layer.{layer}"
        query, key, value = (
            linear(x, f"{p}.attention.self.{part}").reshape(len(ids), 12, 32).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        dots = query @ key.transpose(0, 2, 1) / math.sqrt(32)
        shares = np.exp(dots - dots.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        mixed = (shares @ value).transpose(1, 0, 2).reshape(len(ids), 384)
        x = norm(
            linear(mixed, f"{p}.attention.output.dense") + x, f"{p}.attention.output.LayerNorm"
        )
        inner = linear(x, f"{p}.intermediate.dense")
        inner = 0.5 * inner * (1 + erf(inner / math.sqrt(2)))
        x = norm(linear(inner, f"{p}.output.dense") + x, f"{p}.output.LayerNorm")
    return x


def unit(row: np.ndarray) -> np.ndarray:
    return row / np.linalg.norm(row)


@pytest.fixture(scope="module")
def model(random_model: Path) -> TokenModel:
    return TokenModel(FolderModel(random_model), threads=1)


def test_states_are_those_of_a_plain_forward_pass_also_beside_longer_sequences(
    model: TokenModel, checkpoint: dict[str, np.ndarray]
) -> None:
    sequences = [[2, 9, 8, 7, 3], [2, 11, 3], [2, *range(5, 40), 3]]
    found = {}
    for positions, states in model.states(sequences):
        found.update(zip(positions, states, strict=True))
    for position, ids in enumerate(sequences):
        expected = plain_forward(checkpoint, ids)
        assert np.allclose(found[position][: len(ids)], expected, atol=1e-4)


def test_a_query_is_the_mean_of_all_its_states(
    random_model: Path, model: TokenModel, checkpoint: dict[str, np.ndarray]
) -> None:
    text = "Ada wrote the first program."
    states = plain_forward(checkpoint, [CLS, *model.ids(text), SEP])
    found = MiniLM(weights=random_model).encode_queries([text])
    assert found.retrieval[0] @ unit(states.mean(axis=0)) > 0.99999
    assert found.node is found.retrieval


def test_late_pooling_takes_each_leafs_own_tokens_and_the_contexts(
    random_model: Path, model: TokenModel, checkpoint: dict[str, np.ndarray]
) -> None:
    item = text_item("a", ["Ada wrote it.", "The castle lies on a hill."], "Title")
    title, one, two = (
        model.ids(t) for t in ("Title", "Ada wrote it.", "The castle lies on a hill.")
    )
    states = plain_forward(checkpoint, [CLS, *title, *one, *two, SEP])
    begin = 1 + len(title)
    context = states[:begin].sum(axis=0) + states[-1]
    first = states[begin : begin + len(one)].sum(axis=0)
    second = states[begin + len(one) : -1].sum(axis=0)
    expected = np.stack(
        [unit(context + first + second), unit(context + first), unit(context + second)]
    )
    found = MiniLM(weights=random_model).encode_items([item])[0]
    assert np.allclose(node_matrix(item.nodes, found.nodes), expected, atol=2e-3)
    assert found.nodes.weights is not None
    assert found.nodes.weights.tolist() == [len(one), len(two), len(title) + 2]
    # The item's vector is the usual one of sentence encoders: the mean over the whole sequence.
    assert found.item @ unit(states.mean(axis=0)) > 0.99999


def test_headings_in_the_text_inform_leaves_and_belong_to_none(
    random_model: Path, model: TokenModel, checkpoint: dict[str, np.ndarray]
) -> None:
    item = headed_item()
    parts = ["Places", "Engines", "Ada wrote a program.", "It ran."]
    parts += ["Castles", "The castle is old.", "It has a moat."]
    ids = [model.ids(part) for part in parts]
    states = plain_forward(checkpoint, [CLS, *(token for part in ids for token in part), SEP])
    stops = np.cumsum([1, *map(len, ids)])
    found = MiniLM(weights=random_model).encode_items([item])[0].nodes.rows
    for row, part in enumerate((2, 3, 5, 6)):
        own = states[stops[part] : stops[part + 1]].mean(axis=0)
        assert np.allclose(found[row], own, atol=3e-3), parts[part]


def test_each_node_alone_is_read_with_its_heading_path(
    random_model: Path, model: TokenModel, checkpoint: dict[str, np.ndarray]
) -> None:
    item = headed_item()
    found = MiniLM(weights=random_model, mode="node").encode_items([item])[0].nodes.rows
    last = item.nodes[-1]
    assert last.start == 64
    text = "Places > Castles" + " " + "It has a moat."
    states = plain_forward(checkpoint, [CLS, *model.ids(text), SEP])
    assert np.allclose(found[last.index], unit(states.mean(axis=0)), atol=2e-3)


def test_windows_repeat_the_context_and_never_exceed_the_model(
    random_model: Path, model: TokenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []
    states = TokenModel.states

    def record(self: TokenModel, sequences: list[list[int]]) -> object:
        read.extend(sequences)
        return states(self, sequences)

    monkeypatch.setattr(TokenModel, "states", record)
    item = table_item("t", [(f"x {n}", "y " * 9) for n in range(60)], ("name", "born"))
    MiniLM(weights=random_model).encode_items([item])
    context = model.ids("People > Births: name; born")
    assert len(read) > 2
    assert max(map(len, read)) <= minilm.WINDOW
    for ids in read:
        assert ids[: 1 + len(context)] == [CLS, *context]
        assert ids[-1] == SEP


def test_a_context_of_any_length_leaves_room_for_the_item(random_model: Path) -> None:
    item = text_item("a", ["Ada wrote it.", "The castle."], "title " * 5000)
    found = MiniLM(weights=random_model).encode_items([item])[0].nodes
    assert found.weights is not None
    assert found.weights[-1] == minilm.MAX_CONTEXT_TOKENS + 2


def test_a_leaf_is_read_up_to_the_documented_token(random_model: Path) -> None:
    item = text_item("a", ["river " * 9000])
    found = MiniLM(weights=random_model).encode_items([item])[0].nodes
    assert found.weights is not None
    assert found.weights[0] == minilm.MAX_LEAF_TOKENS


def test_marks_of_the_model_in_a_text_are_words_like_others(random_model: Path) -> None:
    encoder = MiniLM(weights=random_model)
    assert encoder.count_tokens("[SEP]") == 3
    assert encoder.count_tokens("[SEP]" * 4) == 12


def test_built_in_padding_and_cutting_of_the_tokenizer_are_off(random_model: Path) -> None:
    encoder = MiniLM(weights=random_model)
    assert encoder.count_tokens("ada") == 1
    assert encoder.count_tokens("ada " * 20) == 20


def test_weights_that_give_no_numbers_fail_and_name_the_item(
    checkpoint: dict[str, np.ndarray], random_model: Path, tmp_path: Path
) -> None:
    words = checkpoint[layout.WORDS].copy()
    tokenizer = (random_model / "tokenizer.json").read_text("utf-8")
    (tmp_path / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    encoder = MiniLM(weights=tmp_path)
    words[TokenModel(FolderModel(tmp_path), 1).ids("castle")[0]] = np.nan
    save_file({**checkpoint, layout.WORDS: words}, tmp_path / "model.safetensors")
    good, bad = text_item("good", ["Ada wrote it."]), text_item("bad", ["The castle."])
    with pytest.raises(EncodeError) as caught:
        encoder.encode_items([good, bad])
    assert caught.value.item_id == bad.id


def test_a_failing_runtime_names_an_item(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise RuntimeError("bad allocation")

    monkeypatch.setattr(TokenModel, "states", fail)
    item = text_item("a", ["Ada wrote it."])
    with pytest.raises(EncodeError, match="bad allocation") as caught:
        MiniLM(weights=random_model).encode_items([item])
    assert caught.value.item_id == item.id


def test_passes_side_by_side_give_what_one_after_the_other_gives_in_the_same_order(
    random_model: Path, model: TokenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.encoders.model.BATCH_TOKENS", 32)
    sequences = [[2, *range(5, 5 + length), 3] for length in range(1, 25)]
    several = TokenModel(FolderModel(random_model), threads=3)
    expected, found = list(model.states(sequences)), list(several.states(sequences))
    assert len(expected) > 6
    assert [positions for positions, _ in found] == [positions for positions, _ in expected]
    for (_, one), (_, other) in zip(found, expected, strict=True):
        assert (one == other).all()


def test_a_pass_that_fails_among_several_names_its_reason(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.encoders.model.BATCH_TOKENS", 8)
    forward = TokenModel._forward

    def fail(self: TokenModel, sequences: list[list[int]], positions: list[int]) -> np.ndarray:
        if 3 in positions:
            raise RuntimeError("bad allocation")
        return forward(self, sequences, positions)

    monkeypatch.setattr(TokenModel, "_forward", fail)
    items = [text_item(name, ["Ada wrote it.", "It rained."]) for name in "abcdef"]
    with pytest.raises(EncodeError, match="bad allocation"):
        MiniLM(weights=random_model, threads=2).encode_items(items)


def test_threads_that_come_at_once_load_the_model_once(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[int] = []
    weights = FolderModel.weights

    def count(self: FolderModel) -> layout.Weights:
        loads.append(1)
        return weights(self)

    monkeypatch.setattr(FolderModel, "weights", count)
    encoder = MiniLM(weights=random_model)
    gate = threading.Barrier(4)

    def encode(_: int) -> np.ndarray:
        gate.wait()
        return encoder.encode_queries(["Ada wrote it."]).node

    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(encode, range(4)))
    assert len(loads) == 1
    assert all((row == rows[0]).all() for row in rows)
