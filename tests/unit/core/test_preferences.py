"""Decision instances against the paper's definition, by hand and on any tree."""

from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies import scored_trees, trees

from canopy_rag.core.preferences import (
    Preference,
    decides_correctly,
    decision_instances,
    gold_leaves,
)
from canopy_rag.core.refine import refine
from canopy_rag.core.trees import leaves, table_tree

NODES = table_tree(4)  # 0 [1 [2 3] 4 [5 6]]


def test_a_partly_gold_node_wants_its_gold_children_up_and_the_others_down():
    first, second = decision_instances(NODES, {2})
    assert first.preferences == (Preference(1, 0, False), Preference(0, 4, True))
    assert second.preferences == (Preference(2, 1, False), Preference(1, 3, True))


def test_a_fully_gold_node_wants_all_children_below_it_and_ends_the_descent():
    first, second = decision_instances(NODES, {2, 3})
    assert first.node == 0
    assert second.preferences == (Preference(1, 2, True), Preference(1, 3, True))
    only = decision_instances(NODES, {2, 3, 5, 6})
    assert [each.node for each in only] == [0]


def test_an_item_without_gold_or_without_inner_nodes_has_no_instance():
    assert decision_instances(NODES, set()) == []
    assert decision_instances(table_tree(1), {0}) == []


def test_ties_count_for_gold_children_and_against_the_others():
    instance = decision_instances(table_tree(2), {1})[0]
    assert decides_correctly(instance, [0.5, 0.5, 0.4])
    assert not decides_correctly(instance, [0.5, 0.6, 0.5])
    assert not decides_correctly(instance, [0.5, 0.4, 0.4])


def test_gold_leaves_are_those_that_overlap_a_span():
    assert gold_leaves(NODES, [(1, 3)]) == {3, 5}
    assert gold_leaves(NODES, [(1, 1)]) == set()
    assert gold_leaves(NODES, [(0.5, 0.6)]) == {2}


@given(trees(), st.data())
def test_instances_are_the_gold_overlapping_inner_nodes_without_a_fully_gold_ancestor(nodes, data):
    ends = leaves(nodes)
    gold = data.draw(st.sets(st.sampled_from(ends)))
    below = [set(leaves(nodes, node.index)) for node in nodes]

    def has_full_ancestor(index):
        parent = nodes[index].parent
        return parent is not None and (below[parent] <= gold or has_full_ancestor(parent))

    expected = [
        node.index
        for node in nodes
        if node.children and below[node.index] & gold and not has_full_ancestor(node.index)
    ]
    assert [each.node for each in decision_instances(nodes, gold)] == expected


@given(scored_trees(), st.data())
def test_when_every_decision_is_correct_refinement_shows_exactly_the_gold(scored, data):
    nodes, _ = scored
    gold = data.draw(st.sets(st.sampled_from(leaves(nodes)), min_size=1))
    depth = [0] * len(nodes)
    for node in nodes[1:]:
        depth[node.index] = depth[node.parent] + 1
    below = [set(leaves(nodes, node.index)) for node in nodes]
    # rising towards partly gold nodes, falling below fully gold ones and beside them
    values = [0.0] * len(nodes)
    for node in nodes[1:]:
        parent_full = below[node.parent] <= gold
        up = bool(below[node.index] & gold) and not parent_full
        values[node.index] = values[node.parent] + (1 if up else -1)
    assert all(decides_correctly(each, values) for each in decision_instances(nodes, gold))
    kept = refine(nodes, values).kept
    assert {leaf for node in kept for leaf in below[node]} == gold
