"""Maps on stored vectors; no torch anywhere."""

from dataclasses import replace

import numpy as np
import pytest

from canopy_rag.core.errors import EncodeError, ModelError
from canopy_rag.core.vectors import NodeVectors
from canopy_rag.testing.hashing import HashingEncoder
from canopy_rag.training import MAP
from canopy_rag.training.loss import gradient
from canopy_rag.training.maps import Maps, _gradients, fit_maps, known

RECIPE = replace(MAP, batch=4, epochs=12, learning_rate=0.02)


@pytest.fixture
def vectors(learned):
    return known(learned.examples, HashingEncoder())


@pytest.fixture
def others(judged):
    return known(judged.examples, HashingEncoder())


@pytest.mark.parametrize("sides", ["query", "both"])
def test_more_decisions_are_right(vectors, others, sides):
    maps, fitted = fit_maps(vectors, others, replace(RECIPE, sides=sides))
    assert fitted.after.accuracy > fitted.before.accuracy
    assert (maps.node is None) == (sides == "query")


@pytest.mark.parametrize("sides", ["query", "both"])
def test_the_derivatives_are_those_of_small_steps(vectors, sides):
    recipe = replace(RECIPE, sides=sides, scale=5.0)
    draw = np.random.default_rng(0)
    maps = Maps.identity(64, recipe)
    maps.query = maps.query + draw.normal(0, 0.1, (64, 64))
    if maps.node is not None:
        maps.node = maps.node + draw.normal(0, 0.1, (64, 64))
    _, found = _gradients(maps, vectors[:3], recipe, 0)
    for name, slope in found.items():
        for _ in range(5):
            row, column = draw.integers(0, 64, 2)
            losses = []
            for change in (1e-3, -1e-3):
                moved = maps.copy()
                getattr(moved, name)[row, column] += change
                losses.append(_gradients(moved, vectors[:3], recipe, 0)[0])
            assert slope[row, column] == pytest.approx((losses[0] - losses[1]) / 2e-3, abs=2e-3)


def test_the_same_run_gives_the_same_bytes(vectors, others, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        fit_maps(vectors, others, RECIPE)[0].write(tmp_path / name)
    one, two = ((tmp_path / name / "map.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_what_was_trained_is_what_the_encoder_applies(vectors, others, judged, tmp_path):
    from canopy_rag.encoders.adapters import Adapter, load_maps

    maps, _ = fit_maps(vectors, others, replace(RECIPE, sides="both"))
    maps.write(tmp_path)
    adapter = Adapter(
        folder=tmp_path,
        kind="map",
        base_model="hashing",
        base_revision="1",
        mode="late",
        retrieves=False,
        manifest={},
    )
    loaded = load_maps(adapter, 64)
    assert np.array_equal(loaded.query, maps.query)
    assert np.array_equal(loaded.node, maps.node)
    again = Maps(loaded.query, loaded.node)
    assert again.similarities(others[0]) == pytest.approx(maps.similarities(others[0]))


def stored_by(portion):
    """All items' vectors, as an index holds them."""
    items = {each.item.id: each.item for each in portion.examples}
    vectors = HashingEncoder().encode_items(list(items.values()))
    by_id = {item_id: each.nodes for item_id, each in zip(items, vectors, strict=True)}
    return lambda ids: {item_id: by_id[item_id] for item_id in ids}


def test_stored_vectors_are_used_and_nothing_is_encoded_again(learned):
    class QueriesAlone(HashingEncoder):
        def encode_items(self, items):
            raise AssertionError

    plain = HashingEncoder()
    found = known(
        learned.examples,
        QueriesAlone(),
        stored=stored_by(learned),
    )
    for one, two in zip(found, known(learned.examples, plain), strict=True):
        assert np.array_equal(one.nodes, two.nodes)


def test_vectors_of_other_dimensions_name_their_item(learned):
    bad = learned.examples[1].item
    small = NodeVectors(rows=np.ones((len(bad.nodes), 32), np.float32))
    with pytest.raises(EncodeError, match=f"{bad.id}.*32 dimensions, the encoder's have 64"):
        known(learned.examples, HashingEncoder(), stored=lambda ids: {bad.id: small})


def test_vectors_that_are_no_numbers_name_their_item(learned):
    bad = learned.examples[1].item
    broken = NodeVectors(rows=np.full((len(bad.nodes), 64), np.nan, np.float32))
    with pytest.raises(EncodeError, match=bad.id):
        known(learned.examples, HashingEncoder(), stored=lambda ids: {bad.id: broken})


def test_a_loss_that_is_no_number_names_its_instances(vectors):
    broken = replace(vectors[0], query=np.full(64, np.nan, np.float32))
    with pytest.raises(ModelError, match=f"question '{broken.example.question_id}'"):
        fit_maps([broken, *vectors[1:]], [], RECIPE)


def test_training_ends_early_when_nothing_gets_better(vectors, others):
    recipe = replace(RECIPE, learning_rate=1e-9, patience=2)
    _, fitted = fit_maps(vectors, others, recipe)
    assert fitted.stopped_early
    assert len(fitted.history) == 3


def test_weights_decay_towards_the_identity(vectors):
    far, _ = fit_maps(vectors, [], RECIPE)
    near, _ = fit_maps(vectors, [], replace(RECIPE, weight_decay=0.9))
    eye = np.eye(64)
    assert np.abs(near.query - eye).sum() < np.abs(far.query - eye).sum()


def test_the_slope_of_a_pair_pulls_it_apart(vectors):
    one = vectors[0]
    slope = gradient(Maps.identity(64, RECIPE).similarities(one), one.wanted)
    assert slope[one.wanted.preferred[0]] < 0 or slope[one.wanted.other[0]] > 0
