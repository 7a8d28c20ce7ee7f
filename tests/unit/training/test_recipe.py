import pytest

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.training import MAP, MINILM, PAPER, Recipe, preset
from canopy_rag.training.run import default_recipe


def test_the_defaults_are_the_papers():
    assert preset("paper") == PAPER == Recipe()
    assert (PAPER.rank, PAPER.alpha, PAPER.dropout) == (8, 16, 0.05)
    assert (PAPER.learning_rate, PAPER.batch, PAPER.unit) == (5e-5, 16, "instance")
    assert (PAPER.epochs, PAPER.scale, PAPER.reduction) == (2, 20, "mean")
    assert (PAPER.across, PAPER.neighbours, PAPER.lexical) == (0, 1, False)


def test_small_trunks_and_maps_have_recipes_of_their_own():
    assert (MINILM.rank, MINILM.alpha, MINILM.dropout) == (32, 64, 0)
    assert (MINILM.across, MINILM.neighbours, MINILM.lexical) == (0.5, 4, True)
    assert MAP.kind == "map"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rank": 0},
        {"batch": 0},
        {"epochs": 0},
        {"accumulate": 0},
        {"patience": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"scale": -1.0},
        {"dropout": 1.0},
        {"warmup": -0.1},
        {"kind": "dora"},
        {"across": -0.5},
        {"across": float("inf")},
        {"neighbours": 0},
        {"reduction": "max"},
        {"precision": "fp16"},
    ],
)
def test_a_number_that_cannot_work_is_named(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        Recipe(**wrong)


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ({"kind": "map", "across": 0.5}, "kind lora"),
        ({"kind": "map", "lexical": True}, "kind lora"),
        ({"kind": "full", "lexical": True}, "--no-lexical"),
        ({"across": 0.5, "unit": "instance"}, "count items"),
        ({"neighbours": 2, "unit": "instance"}, "count items"),
        ({"across": 0.5, "unit": "item", "accumulate": 2}, "accumulate 1"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(wrong, remedy):
    with pytest.raises(ConfigError, match=remedy):
        Recipe(**wrong)


def test_each_way_to_read_nodes_has_a_recipe_that_works_for_it():
    late, node = default_recipe("minilm", None), default_recipe("minilm", None, "node")
    assert late == MINILM
    assert (node.across, node.neighbours, node.lexical) == (0, 1, False)
    full = default_recipe("minilm", "full")
    assert (full.kind, full.across, full.lexical) == ("full", 0.5, False)
    assert default_recipe("minilm", "map") == MAP
    assert default_recipe("qwen3-vl", None) == PAPER


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'minilm'"):
        preset("minilmm")
