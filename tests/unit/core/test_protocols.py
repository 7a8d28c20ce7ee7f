from __future__ import annotations

from dataclasses import replace

import pytest

from canopy_rag.core.protocols import Fingerprint

HERE = Fingerprint(
    model="qwen3-vl:/models/tiny", revision="a1.1", mode="node", instruction="Find.", dim=64
)


@pytest.mark.parametrize("model", ["qwen3-vl:/elsewhere/tiny", "qwen3-vl:C:\\models\\tiny"])
def test_a_folder_that_moved_is_the_same_model(model: str) -> None:
    assert HERE.agrees(replace(HERE, model=model))


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": "b2.1"},
        {"mode": "late"},
        {"instruction": ""},
        {"dim": 32},
        {"model": "hf:/models/tiny"},
        {"model": "qwen3-vl:owner/tiny"},
        {"model": "qwen3-vl"},
    ],
)
def test_whatever_else_differs_is_another_space(changes: dict[str, object]) -> None:
    assert not HERE.agrees(replace(HERE, **changes))


def test_two_models_of_a_server_that_names_them_by_path_are_two() -> None:
    one, other = (replace(HERE, model=f"http:/models/{name}") for name in "ab")
    assert one.agrees(one)
    assert not one.agrees(other)
