"""Rows in few bits against the numbers that they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from canopy_rag.core.coding import BLOCK, CodedRows, code, dense, dots
from canopy_rag.core.trees import table_tree
from canopy_rag.core.vectors import NodeVectors, node_matrix, pool, similarities


def begin_of(block):
    return block.start // BLOCK


def rows(n, dim, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float16)


@pytest.mark.parametrize("dim", [8, 64, 130, 384])
@pytest.mark.parametrize(("bits", "lowest"), [(8, 128), (4, 8)])
def test_each_entry_is_the_code_nearest_to_it(bits, lowest, dim):
    numbers = rows(20, dim)
    numbers[3, 5] = 90.0  # takes the precision of its own block alone
    numbers[4] = 0.0
    coded = code(numbers, bits)
    assert coded.shape == dense(coded).shape == (20, dim)
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, dim, BLOCK)]
    for block in blocks:
        step = np.abs(numbers[:, block].astype(np.float64)).max(axis=1) / lowest
        scale = np.abs(coded.scales[:, begin_of(block)]).astype(np.float64)
        assert (np.abs(scale - step) <= 0.1 * step).all()
        codes = dense(coded)[:, block] / np.where(scale, scale, 1)[:, None]
        error = np.abs(codes * step[:, None] - numbers[:, block])
        # Codes end one step short of the largest magnitude on the side that it is not on.
        is_far = np.abs(numbers[:, block]) > (lowest - 1.5) * step[:, None]
        assert (error <= np.where(is_far, 1.01, 0.51) * step[:, None] + 1e-9).all()
        largest = np.abs(numbers[:, block]).argmax(axis=1)
        assert (error[np.arange(20), largest] <= 0.01 * step).all()
    assert (dense(coded)[4] == 0).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_scales_are_fitted_to_the_codes(bits):
    """What is left of a block has no part in the direction of what is stored."""
    numbers = rows(200, 384).astype(np.float32)
    stored = dense(code(numbers, bits)).reshape(200, -1, BLOCK)
    left = (numbers.reshape(stored.shape) - stored) / np.linalg.norm(stored, axis=2)[:, :, None]
    assert np.abs((left * stored).sum(axis=2)).max() < 0.01


@pytest.mark.parametrize(("bits", "n_bytes"), [(8, 384 + 12), (4, 192 + 12)])
def test_a_row_takes_its_bits_and_two_bytes_a_block(bits, n_bytes):
    assert code(rows(7, 384), bits).nbytes == 7 * n_bytes


@pytest.mark.parametrize("dim", [8, 130, 384])
@pytest.mark.parametrize("bits", [8, 4])
def test_dot_products_are_those_of_the_rows_that_the_codes_stand_for(bits, dim):
    coded = code(rows(50, dim), bits)
    query = rows(1, dim, seed=1)[0].astype(np.float32)
    expected = dense(coded).astype(np.float64) @ query
    np.testing.assert_allclose(coded.dots(query), expected, atol=1e-4)


@pytest.mark.parametrize("bits", [8, 4])
def test_equal_rows_tie_wherever_they_stand(bits):
    numbers = rows(40, 384)
    numbers[[7, 21, 39]] = numbers[0]
    query = rows(1, 384, seed=1)[0].astype(np.float32)
    values = code(numbers, bits).dots(query)
    assert len({values[place].tobytes() for place in (0, 7, 21, 39)}) == 1
    for begin, end in ((0, 1), (5, 9), (21, 40)):
        own = code(numbers, bits)[begin:end].dots(query)
        np.testing.assert_array_equal(own, values[begin:end])


def test_parts_of_several_forms_give_what_each_gives_alone():
    numbers, query = rows(9, 130), rows(1, 130, seed=1)[0].astype(np.float32)
    parts = [numbers, code(numbers, 4), code(numbers, 8), numbers.astype(np.float32)]
    expected = np.concatenate([dots([part], query) for part in parts])
    np.testing.assert_array_equal(dots(parts, query), expected)
    both = [code(numbers, 4), code(numbers[:2], 4)]
    expected = np.concatenate([dots([part], query) for part in both])
    np.testing.assert_array_equal(dots(both, query), expected)


def test_coding_again_changes_nothing():
    coded = code(rows(9, 384), 4)
    again = code(coded, 4)
    np.testing.assert_array_equal(again.codes, coded.codes)
    np.testing.assert_array_equal(again.scales, coded.scales)


def test_entries_too_small_for_a_scale_become_zero():
    coded = code(np.full((1, 8), 1e-8, np.float32), 4)
    assert dense(coded).tolist() == [[0.0] * 8]


def test_another_width_is_refused():
    with pytest.raises(ValueError, match="4 or 8 bits, not 5"):
        code(rows(1, 8), 5)


def test_nodes_of_coded_rows_keep_their_similarities():
    rng = np.random.default_rng(5)
    nodes = table_tree(30)
    means, context = rng.normal(size=(30, 384)).astype(np.float32), rng.normal(size=384)
    vectors = pool(nodes, means, [4] * 30, context.astype(np.float32), 3)
    query = rng.normal(size=384).astype(np.float32)
    query /= np.linalg.norm(query)
    plain = similarities(nodes, vectors, query)
    for bits, most in ((8, 0.001), (4, 0.02)):
        coded = replace(vectors, rows=code(vectors.rows, bits))
        assert isinstance(coded.rows, CodedRows)
        assert np.abs(similarities(nodes, coded, query) - plain).max() < most
        assert np.abs(node_matrix(nodes, coded) @ query - plain).max() < most
    each = NodeVectors(rows=code(node_matrix(nodes, vectors), 4))
    assert np.abs(similarities(nodes, each, query) - plain).max() < 0.02
