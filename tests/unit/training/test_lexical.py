"""The lexical term while it is learned."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")

from canopy_rag.testing.encoder_contract import text_item  # noqa: E402
from canopy_rag.training.lexical import LexicalTerm  # noqa: E402

WORDS = ["the", "bell", "is", "iron", "lamp", "brass", "rings"]


def ids(text, limit):
    words = text.lower().replace(".", "").replace("?", "").split()
    return [WORDS.index(word) for word in words if word in WORDS][:limit]


def term(**limits):
    chosen = {"max_leaf_tokens": 100, "max_query_tokens": 100, **limits}
    return LexicalTerm(ids, len(WORDS), **chosen)


BELL = text_item("bell", ["The bell is iron.", "The bell rings.", "Nothing."])
LAMP = text_item("lamp", ["The lamp is brass."])


def test_tokens_are_as_rare_as_the_leaves_that_hold_them_are_few():
    found = term()
    found.count_words([BELL, LAMP])
    n_leaves, in_leaves = 4, {"the": 3, "bell": 2, "is": 2, "iron": 1, "rings": 1}
    for word, df in in_leaves.items():
        expected = np.float16(math.log((n_leaves + 1) / (df + 1)))
        assert found.idf[WORDS.index(word)] == expected
    assert found.idf.dtype == np.float16


def test_coverage_is_the_share_of_the_question_in_a_leaf_and_the_mean_above():
    found = term()
    found.count_words([BELL, LAMP])
    idf = {word: float(value) for word, value in zip(WORDS, found.idf, strict=True)}
    total = idf["bell"] + idf["iron"] + idf["the"]
    values = found.coverage("The iron bell? The bell?", BELL)
    leaves = [node.index for node in BELL.nodes if not node.children]
    shares = [1.0, (idf["bell"] + idf["the"]) / total, 0.0]
    assert values[leaves] == pytest.approx(shares)
    assert values[0] == pytest.approx(sum(shares) / 3)
    assert found.coverages(["The iron bell", "lamp"], [BELL, LAMP]).shape == (
        2,
        len(BELL.nodes) + len(LAMP.nodes),
    )


def test_a_question_without_words_covers_nothing():
    found = term()
    found.count_words([BELL])
    assert not found.coverage("???", BELL).any()


def test_the_weight_begins_where_it_should_and_learns():
    found = term()
    assert found.weight == pytest.approx(0.3)
    cosines = torch.zeros(3)
    sums = found.add(cosines, np.array([1.0, 0.5, 0.0], np.float32))
    assert sums.tolist() == pytest.approx([0.3, 0.15, 0.0])
    sums[1].backward()
    assert float(found.parameter.grad) > 0


def test_for_a_while_it_adds_nothing():
    found = term()
    cosines = torch.zeros(2)
    coverages = np.ones(2, np.float32)
    with found.off():
        assert found.add(cosines, coverages).tolist() == [0, 0]
    assert found.add(cosines, coverages).tolist() == pytest.approx([0.3, 0.3])


def test_what_is_written_is_what_was_learned_with(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    found = term()
    found.count_words([BELL, LAMP])
    found.write(tmp_path)
    (name,) = tmp_path.iterdir()
    tensors = safetensors.load_file(name)
    assert name.name == "lexical.safetensors"
    assert list(tensors) == ["idf"]
    assert np.array_equal(tensors["idf"], found.idf)
