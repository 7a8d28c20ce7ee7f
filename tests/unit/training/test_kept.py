"""What is read once for training stays, up to a bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from canopy_rag.core.errors import EncodeError
from canopy_rag.encoders.qwen3_inputs import Reading
from canopy_rag.testing.encoder_contract import video_item
from canopy_rag.training.kept import KeptReadings

Image = pytest.importorskip("PIL.Image", reason="needs the extra qwen: Pillow is not installed")

TOKENS = 2 * 8 * 10
FRAME = 3 * 20 * 10


class Counting:
    """Reads a node as ten tokens and one frame, which is the segment's; counts what is decoded."""

    def __init__(self) -> None:
        self.read: list[tuple[str, int]] = []
        self.decoded: list[tuple[str, float]] = []

    def node_readings(self, item, nodes, frames=None):
        found = []
        for node in nodes:
            if node.start not in frames:
                frames[node.start] = Image.new("RGB", (20, 10))
                self.decoded.append((item.id, node.start))
            self.read.append((item.id, node.index))
            ids = np.full(10, node.index, np.int64)
            frame = frames[node.start]
            found.append(Reading(ids, np.zeros(10, np.int64), pairs=((frame, frame),)))
        return found


@pytest.fixture
def reader() -> Counting:
    return Counting()


ITEM = video_item(["one", "two", "three", "four"])
OTHER = replace(ITEM, id="other")


def test_a_node_is_read_once_and_comes_back_in_the_order_it_was_asked_for(reader) -> None:
    kept = KeptReadings(reader)
    assert [each.ids[0] for each in kept.of(ITEM, [2, 0])] == [2, 0]
    assert [each.ids[0] for each in kept.of(ITEM, [0, 1, 2])] == [0, 1, 2]
    assert reader.read == [(ITEM.id, 2), (ITEM.id, 0), (ITEM.id, 1)]


def test_a_frame_that_several_nodes_show_is_decoded_and_counted_once(reader) -> None:
    kept = KeptReadings(reader)
    begins = {ITEM.nodes[0].start, ITEM.nodes[1].start, ITEM.nodes[2].start}
    assert len(begins) < 3  # a node's first segment begins where the node does
    for node in (0, 1, 2):
        kept.of(ITEM, [node])
    assert len(reader.decoded) == len(begins)
    assert kept.n_bytes == 3 * TOKENS + len(begins) * FRAME


def test_what_was_used_longest_ago_goes_first_and_the_bound_holds(reader) -> None:
    third = replace(ITEM, id="third")
    bound = 2 * (TOKENS + FRAME)
    kept = KeptReadings(reader, bound)
    for item in (ITEM, OTHER, ITEM, third, ITEM, OTHER):
        kept.of(item, [0])
        assert kept.n_bytes <= bound
    assert reader.read == [(ITEM.id, 0), ("other", 0), ("third", 0), ("other", 0)]


@pytest.mark.parametrize("bound", [0, TOKENS + FRAME - 1])
def test_what_is_above_the_bound_is_read_and_not_kept(reader, bound) -> None:
    kept = KeptReadings(reader, bound)
    for _ in range(2):
        assert len(kept.of(ITEM, [0])) == 1
        assert kept.n_bytes == 0
    assert len(reader.read) == len(reader.decoded) == 2


def test_two_items_of_one_id_are_not_taken_for_each_other(reader) -> None:
    kept = KeptReadings(reader)
    kept.of(ITEM, [0])
    kept.of(replace(ITEM, title="Another"), [0])
    assert len(reader.read) == 2
    assert kept.n_bytes == TOKENS + FRAME


def test_an_item_that_cannot_be_read_leaves_the_count_right(reader, monkeypatch) -> None:
    kept = KeptReadings(reader)
    kept.of(ITEM, [0])

    def broken(*_):
        raise EncodeError(ITEM.id, "its picture cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(reader, "node_readings", broken)
        with pytest.raises(EncodeError):
            kept.of(ITEM, [1])
    assert kept.n_bytes == 0
    assert len(kept.of(ITEM, [0, 1])) == 2
