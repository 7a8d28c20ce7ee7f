"""What tokens of a chat model are counted by, and what they cost."""

from __future__ import annotations

import pytest

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.media_tokens import internvl_picture, qwen_picture
from canopy_rag.llms.counting import Counting, estimated, pictures_of


def test_a_cost_is_that_of_both_directions_per_million_tokens() -> None:
    assert Counting(price_in=2.0, price_out=8.0).cost(1_000, 500) == pytest.approx(0.006)
    assert Counting(price_in=2.0).cost(1_000_000, 5) == pytest.approx(2.0)
    assert Counting(price_in=0.0).cost(10, 10) == 0


def test_without_prices_there_is_no_cost() -> None:
    assert Counting().cost(10, 10) is None


def test_a_named_family_is_used_and_an_unknown_one_suggested() -> None:
    assert Counting(pictures="internvl").named_pictures() is internvl_picture
    assert Counting().named_pictures() is None
    with pytest.raises(UnknownNameError, match="Did you mean 'qwen3-vl'"):
        Counting(pictures="qwen3vl").named_pictures()


def test_pictures_cost_by_the_models_name() -> None:
    assert pictures_of("Qwen3-VL-8B") is qwen_picture
    assert pictures_of("gpt-5") is None


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("abcd", 1), ("abcde", 2), ("éé\udce4", 2)])
def test_an_estimate_is_a_quarter_of_the_bytes(text: str, tokens: int) -> None:
    assert estimated(text) == tokens
