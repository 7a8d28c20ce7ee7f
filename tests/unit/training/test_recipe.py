import pytest

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.training import MAP, MINILM, PAPER, Recipe, preset


def test_the_defaults_are_the_papers():
    assert preset("paper") == PAPER == Recipe()
    assert (PAPER.rank, PAPER.alpha, PAPER.dropout) == (8, 16, 0.05)
    assert (PAPER.learning_rate, PAPER.batch, PAPER.unit) == (5e-5, 16, "instance")
    assert (PAPER.epochs, PAPER.scale, PAPER.reduction) == (2, 20, "mean")


def test_small_trunks_and_maps_have_recipes_of_their_own():
    assert (MINILM.rank, MINILM.learning_rate, MINILM.dropout) == (16, 1e-3, 0)
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
        {"reduction": "max"},
        {"precision": "fp16"},
    ],
)
def test_a_number_that_cannot_work_is_named(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        Recipe(**wrong)


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'minilm'"):
        preset("minilmm")
