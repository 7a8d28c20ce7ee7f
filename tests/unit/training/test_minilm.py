"""The embedded encoder in torch gives the vectors that it gives in onnxruntime, trained or not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
pytest.importorskip("peft", reason="peft is not installed (extra `train`)")
pytest.importorskip("transformers", reason="transformers is not installed (extra `train`)")

from canopy_rag.config import EncoderConfig  # noqa: E402
from canopy_rag.core import vectors  # noqa: E402
from canopy_rag.core.errors import ConfigError  # noqa: E402
from canopy_rag.core.lexical import node_similarities  # noqa: E402
from canopy_rag.core.vectors import node_matrix, similarities  # noqa: E402
from canopy_rag.encoders import encoder, locate, minilm  # noqa: E402
from canopy_rag.testing.encoder_contract import table_item, text_item  # noqa: E402
from canopy_rag.training import MINILM  # noqa: E402
from canopy_rag.training.data import Portion  # noqa: E402
from canopy_rag.training.minilm import MiniLMTrunk  # noqa: E402
from canopy_rag.training.run import Job, frozen_likeness, train  # noqa: E402
from canopy_rag.training.trainable import trained  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not locate.PACKED.is_file() and locate.package_checkpoint() is None,
        reason=f"the embedded encoder's weights are not here; run: {locate.INSTALL}",
    ),
]
WHOLE = replace(MINILM, epochs=1, batch=4, rank=4, learning_rate=0.01, precision="fp32")
RECIPE = replace(WHOLE, across=0.0, neighbours=1, lexical=False, learning_rate=1e-3)
"""Without what is ours: the paper's objective on this trunk."""
QUERIES = ["What was the bell made of?", "castle"]
EQUAL = 1e-4


def items():
    long = [
        f"Sentence {n} tells of hall {n * 7} and of its lamp, its bell and clock."
        for n in range(30)
    ]
    rows = [(f"name {n}", str(1800 + n)) for n in range(20)]
    return [
        text_item("short", ["The bell is of iron.", "It rings."]),
        text_item("long", long),
        table_item("rows", rows, ("name", "born")),
        text_item("empty leaf", ["A word.", "", "Another word."]),
    ]


def assert_equal(trunk: MiniLMTrunk, other) -> None:
    """Compare a trunk, as it stands, with an encoder before it rounds to half precision."""
    trunk.module.eval()
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(minilm.vectors, "pool", partial(vectors.pool, dtype=np.float32))
        queries = trunk.query_vectors(QUERIES).numpy()
        assert queries == pytest.approx(other.encode_queries(QUERIES).node, abs=EQUAL)
        for item, one in zip(items(), other.encode_items(items()), strict=True):
            found = trunk.node_vectors(item).numpy()
            expected = node_matrix(item.nodes, one.nodes)
            half = 0 if trunk.mode == "late" else 2**-11
            assert found == pytest.approx(expected, abs=EQUAL, rel=half)


@pytest.mark.parametrize("mode", ["late", "node"])
def test_untrained_it_is_the_embedded_encoder(mode):
    assert_equal(MiniLMTrunk(RECIPE, mode=mode), encoder("minilm:base", mode=mode))


def test_a_trained_adapter_runs_in_onnxruntime_with_torchs_vectors(source, learned, tmp_path):
    from canopy_rag.training.loop import fit

    trunk = MiniLMTrunk(RECIPE)
    before = {name: value.clone() for name, value in trunk.module.state_dict().items()}
    fit(trunk, learned, None, RECIPE)
    for name, value in trunk.module.state_dict().items():
        assert torch.equal(value, before[name]) == ("lora_" not in name), name
    job = Job(
        encoder=EncoderConfig(name="minilm"),
        sources=[source],
        out=tmp_path / "adapter",
        recipe=replace(RECIPE, keep="last"),
    )
    body = train(job)
    assert body["results"]["train"]["instances"] == learned.n_instances
    merged = encoder(f"minilm+{tmp_path / 'adapter'}")
    assert_equal(trunk, merged)
    with torch.no_grad(), trunk.module.disable_adapter():
        plain = trunk.query_vectors(QUERIES).numpy()
    frozen = encoder("minilm:base")
    assert plain == pytest.approx(frozen.encode_queries(QUERIES).node, abs=EQUAL)
    retrieval = merged.encode_queries(QUERIES).retrieval
    assert np.array_equal(retrieval, frozen.encode_queries(QUERIES).retrieval)
    assert sorted(each.name for each in (tmp_path).iterdir()) == ["adapter", "own.jsonl"]


def test_a_trunk_that_finds_items_too_runs_in_onnxruntime_with_the_same_similarities(
    source, learned, judged, tmp_path
):
    job = Job(
        encoder=EncoderConfig(name="minilm"),
        sources=[source],
        out=tmp_path / "adapter",
        recipe=replace(WHOLE, keep="last"),
    )
    body = train(job)
    assert body["retrieves"] is True
    assert body["lexical"]["weight"] != pytest.approx(0.3, abs=1e-4)
    assert set(body["results"]["loss_parts"]) == {"decisions", "leaves", "roots"}
    assert set(body["results"]["decision_accuracy"]["by_benchmark"]) == {"jsonl"}
    merged = encoder(f"minilm+{tmp_path / 'adapter'}")
    queries = merged.encode_queries(QUERIES)
    assert np.array_equal(queries.retrieval, queries.node)
    trunk = MiniLMTrunk(WHOLE)
    own = likeness_of(learned)
    fit_again(trunk, learned, own)
    assert trunk.lexical_weight == body["lexical"]["weight"]
    batch = judged.examples
    trunk.module.eval()
    with torch.no_grad():
        found = trunk.similarities(batch)
        compared = trunk.compare(batch)
    asked = merged.encode_queries([each.query for each in batch])
    for row, (example, values) in enumerate(zip(batch, found, strict=True)):
        (one,) = merged.encode_items([example.item])
        (expected,) = node_similarities([(example.item.nodes, one.nodes)], asked.of(row))
        # Stored vectors are rounded to half precision.
        assert values.numpy() == pytest.approx(expected[list(example.nodes)], abs=1e-3)
        start = sum(
            len(item.nodes) for item in compared.items[: compared.items.index(example.item)]
        )
        everywhere = compared.similarities[row, start : start + len(example.item.nodes)]
        assert everywhere.numpy() == pytest.approx(expected, abs=1e-3)
        root = float(compared.cosines[row, start])
        assert root == pytest.approx(float(one.item @ asked.retrieval[row]), abs=1e-3)


def likeness_of(learned):
    return frozen_likeness(learned.examples, encoder("minilm:base"))


def fit_again(trunk, learned, likeness):
    from canopy_rag.training.loop import fit

    fit(trunk, learned, None, WHOLE, likeness=likeness)


def test_before_training_it_is_judged_without_the_lexical_term(judged):
    trunk, plain = MiniLMTrunk(WHOLE), MiniLMTrunk(RECIPE)
    trunk.count_words(each.item for each in judged.examples)
    trunk.module.eval()
    plain.module.eval()
    with torch.no_grad():
        expected = plain.similarities(judged.examples)
        with trunk.vectors_alone():
            alone = trunk.similarities(judged.examples)
        together = trunk.similarities(judged.examples)
    for one, two, three in zip(expected, alone, together, strict=True):
        assert torch.equal(one, two)
        assert (three > one).any()


@pytest.mark.parametrize("changed", [{"lexical": False}, {"across": 0.0}])
def test_nodes_that_are_read_one_by_one_have_no_such_terms(changed, source, tmp_path):
    recipe = replace(WHOLE, **changed)
    with pytest.raises(ConfigError, match="'late'"):
        MiniLMTrunk(recipe, mode="node")
    job = Job(
        encoder=EncoderConfig(name="minilm", mode="node"),
        sources=[source],
        out=tmp_path / "adapter",
        recipe=recipe,
    )
    with pytest.raises(ConfigError, match="--across 0 --no-lexical"):
        train(job)


def test_all_weights_of_a_small_encoder_can_be_trained(source, tmp_path):
    recipe = replace(RECIPE, kind="full", learning_rate=1e-4, batch=8)
    few = source.parts["train"][:4]
    job = Job(
        encoder=EncoderConfig(name="minilm"),
        sources=[replace(source, parts={"train": few})],
        out=tmp_path / "weights",
        recipe=recipe,
    )
    body = train(job)
    assert body["kind"] == "full"
    tuned = encoder("minilm", weights=tmp_path / "weights")
    plain = encoder("minilm:base")
    assert tuned.fingerprint != plain.fingerprint
    assert not np.allclose(
        tuned.encode_queries(QUERIES).node, plain.encode_queries(QUERIES).node, atol=1e-4
    )
    again = MiniLMTrunk(recipe, weights=tmp_path / "weights")
    assert_equal(again, tuned)
    with pytest.raises(ConfigError, match=r"adapter\.json"):
        encoder(f"minilm+{tmp_path / 'weights'}").encode_queries(QUERIES)


def test_the_batch_does_not_change_an_examples_similarities(learned: Portion):
    trunk = MiniLMTrunk(RECIPE)
    trunk.module.eval()
    batch = learned.examples[:5]
    with torch.no_grad():
        together = trunk.similarities(batch)
        alone = [trunk.similarities([each])[0] for each in batch]
    plain = encoder("minilm:base")
    for example, one, two in zip(batch, together, alone, strict=True):
        assert one.numpy() == pytest.approx(two.numpy(), abs=1e-5)
        query = plain.encode_queries([example.query]).node[0]
        (own,) = plain.encode_items([example.item])
        expected = similarities(example.item.nodes, own.nodes, query)
        assert one.numpy() == pytest.approx(expected[list(example.nodes)], abs=EQUAL)


def test_adapters_are_put_on_attention_and_mlp_alone():
    names = {name.split(".lora_")[0] for name, _ in trained(MiniLMTrunk(RECIPE))}
    assert len(names) == 6 * 6
    assert all(".encoder.layer." in name for name in names)
