"""What holds for refinement on any tree."""

from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.core.refine import refine
from canopy_rag.core.trees import check_tree, leaves
from tests.property.strategies import scored_trees, trees


def ancestors(nodes, index):
    while (index := nodes[index].parent) is not None:
        yield index


def slow_refine(nodes, values, index=0):
    """The rule as the prose says it."""
    qualifying = [c for c in nodes[index].children if values[c] >= values[index]]
    if not qualifying:
        return [index]
    return [kept for child in qualifying for kept in slow_refine(nodes, values, child)]


@given(scored_trees())
def test_it_equals_the_rule_written_recursively(scored):
    nodes, values = scored
    assert list(refine(nodes, values).kept) == sorted(slow_refine(nodes, values))


@given(scored_trees())
def test_kept_nodes_form_an_antichain(scored):
    nodes, values = scored
    kept = set(refine(nodes, values).kept)
    assert kept
    assert all(kept.isdisjoint(ancestors(nodes, index)) for index in kept)


@given(scored_trees())
def test_a_kept_node_is_at_least_as_similar_as_each_ancestor(scored):
    nodes, values = scored
    for index in refine(nodes, values).kept:
        assert all(values[index] >= values[above] for above in ancestors(nodes, index))


@given(scored_trees())
def test_the_root_is_kept_exactly_when_no_child_qualifies(scored):
    nodes, values = scored
    stands_out = any(values[child] >= values[0] for child in nodes[0].children)
    assert (refine(nodes, values).kept == (0,)) == (not stands_out)


@given(scored_trees())
def test_an_increasing_map_of_the_similarities_changes_nothing(scored):
    nodes, values = scored
    order = {value: rank for rank, value in enumerate(sorted(set(values)))}
    assert refine(nodes, values) == refine(nodes, [order[value] for value in values])


@given(scored_trees())
def test_outcomes_partition_the_leaves(scored):
    nodes, values = scored
    outcomes = refine(nodes, values).outcomes
    ended = [i for i, outcome in outcomes.items() if outcome != "split"]
    covered = [leaf for index in ended for leaf in leaves(nodes, index)]
    assert sorted(covered) == list(leaves(nodes))


@given(trees())
def test_every_built_tree_passes_the_check(nodes):
    check_tree(nodes)


@given(trees(), st.data())
def test_leaves_of_a_node_are_those_of_its_children_in_order(nodes, data):
    index = data.draw(st.integers(0, len(nodes) - 1))
    kids = nodes[index].children
    expected = tuple(leaf for kid in kids for leaf in leaves(nodes, kid)) if kids else (index,)
    assert leaves(nodes, index) == expected
