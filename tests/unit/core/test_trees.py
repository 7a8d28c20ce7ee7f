"""Trees of the four modalities, and the check that finds broken ones."""

from dataclasses import replace

import pytest

from canopy_rag.core.errors import TreeError
from canopy_rag.core.trees import check_tree, image_tree, table_tree, text_tree, video_tree
from canopy_rag.core.types import Heading, Node, Segment


def shape(nodes, index=0):
    """Nested intervals, for reading."""
    node = nodes[index]
    if not node.children:
        return (node.start, node.stop)
    return [shape(nodes, child) for child in node.children]


def test_paragraphs_come_before_halving():
    nodes = text_tree(40, [[(0, 5), (6, 10)], [(12, 15), (16, 20), (21, 30)]])
    assert shape(nodes) == [[(0, 5), (6, 10)], [[(12, 15), (16, 20)], (21, 30)]]


def test_many_paragraphs_are_halved():
    nodes = text_tree(50, [[(10 * i, 10 * i + 5)] for i in range(5)])
    assert shape(nodes) == [[[(0, 5), (10, 15)], (20, 25)], [(30, 35), (40, 45)]]


def test_a_section_holds_its_heading_line_and_what_follows():
    headings = [
        Heading(start=0, stop=4, level=1, text="A"),
        Heading(start=20, stop=24, level=2, text="B"),
        Heading(start=40, stop=44, level=1, text="C"),
    ]
    nodes = text_tree(60, [[(5, 10)], [(25, 30), (31, 36)], [(45, 50)]], headings)
    a, c = nodes[0].children
    assert (nodes[a].start, nodes[a].stop) == (0, 36)
    assert (nodes[c].start, nodes[c].stop) == (40, 50)
    assert shape(nodes, a) == [(5, 10), [(25, 30), (31, 36)]]


def test_chains_collapse_and_keep_the_wider_interval():
    nodes = text_tree(20, [[(4, 9)]], [Heading(start=0, stop=3, level=1, text="A")])
    assert nodes == (Node(index=0, parent=None, children=(), start=0, stop=20),)


def test_text_without_a_sentence_is_one_node():
    assert len(text_tree(0, [])) == 1


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 7, 10_000])
def test_table_leaves_are_its_rows(n_rows):
    nodes = table_tree(n_rows)
    check_tree(nodes)
    ends = [(node.start, node.stop) for node in nodes if not node.children]
    assert ends == ([(row, row + 1) for row in range(n_rows)] or [(0, 0)])


def test_halving_keeps_a_table_of_ten_thousand_rows_shallow():
    nodes = table_tree(10_000)
    depth = [0] * len(nodes)
    for node in nodes[1:]:
        depth[node.index] = depth[node.parent] + 1
    assert max(depth) == 14


def test_branching_bounds_the_children():
    nodes = table_tree(100, branching=5)
    assert max(len(node.children) for node in nodes) == 5
    with pytest.raises(ValueError, match="at least 2"):
        table_tree(3, branching=1)


def test_an_image_is_never_split():
    assert [(node.start, node.stop) for node in image_tree()] == [(0, 1)]


def test_video_leaves_are_its_segments_in_seconds_of_the_file():
    segments = [Segment(start=600 + 10 * i, stop=610 + 10 * i) for i in range(3)]
    nodes = video_tree(segments)
    assert (nodes[0].start, nodes[0].stop) == (600, 630)
    assert shape(nodes) == [[(600, 610), (610, 620)], (620, 630)]
    with pytest.raises(ValueError, match="at least one segment"):
        video_tree([])


GOOD = table_tree(4)  # 0 [1 [2 3] 4 [5 6]]
BROKEN = {
    "no root": ((), "at least its root"),
    "wrong index": ((replace(GOOD[0], index=1), *GOOD[1:]), "says that its index"),
    "root with parent": ((replace(GOOD[0], parent=3), *GOOD[1:]), "is its parent"),
    "single child": ((replace(GOOD[0], children=(1,)), *GOOD[1:]), "single child"),
    "reversed": ((replace(GOOD[0], start=9), *GOOD[1:]), "interval"),
    "infinite": ((replace(GOOD[0], stop=float("inf")), *GOOD[1:]), "interval"),
    "wrong parent": ((*GOOD[:2], replace(GOOD[2], parent=0), *GOOD[3:]), "names 0"),
    "overlap": ((*GOOD[:3], replace(GOOD[3], start=0), *GOOD[4:]), "overlaps a sibling"),
    "outside": ((*GOOD[:6], replace(GOOD[6], stop=9)), "leaves its parent"),
    "cycle": ((*GOOD[:4], replace(GOOD[4], children=(1, 5, 6)), *GOOD[5:]), "preorder"),
    "unreachable": ((replace(GOOD[0], children=(1, 4)), *GOOD[1:], GOOD[6]), "unreachable"),
    "swapped": ((GOOD[0], *GOOD[4:], *GOOD[1:4]), "overlaps a sibling"),
}


@pytest.mark.parametrize(("nodes", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_the_check_names_what_is_broken(nodes, message):
    with pytest.raises(TreeError, match=message):
        check_tree(nodes)
