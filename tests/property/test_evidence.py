"""What holds for evidence and budgets on any items."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from canopy_rag.core.budget import fit, never_longer
from canopy_rag.core.evidence import Evidence, Meter
from canopy_rag.core.render import node_body
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import TextPayload
from tests.property.strategies import rounds

PLAIN = Meter()
NUMBERED = Meter(numbered=True)
caps = st.sampled_from(["margin", "tail"])
meters = st.sampled_from([PLAIN, NUMBERED])


def shown_leaves(evidence):
    return {
        (entry.item.id, leaf)
        for entry in evidence.entries
        for node in entry.kept
        for leaf in leaves(entry.item.nodes, node)
    }


@given(rounds(), st.integers(1, 200), caps, meters)
def test_a_budget_is_never_exceeded_and_never_empties(shown, budget, cap, meter):
    fitted = fit(Evidence(meter=meter).add(shown), budget, cap)
    assert fitted.entries
    assert fitted.tokens <= budget
    has_words = any(node_body(each.item, 0, each.item.nodes[0].stop).split() for each in shown)
    assert fitted.parts() or not has_words


@given(rounds(), st.integers(1, 200), caps)
def test_a_budget_only_removes(shown, budget, cap):
    evidence = Evidence().add(shown)
    assert shown_leaves(fit(evidence, budget, cap)) <= shown_leaves(evidence)


@given(rounds(), st.integers(1, 200), caps)
def test_every_item_is_shown_or_named_as_left_out(shown, budget, cap):
    fitted = fit(Evidence().add(shown), budget, cap)
    ids = {e.item.id for e in fitted.entries} | {e.item_id for e in fitted.left_out}
    assert ids == {each.item.id for each in shown}


@given(rounds(), st.integers(1, 200))
def test_the_tail_cap_keeps_no_item_after_one_it_left_out(shown, budget):
    fitted = fit(Evidence().add(shown), budget, "tail")
    if fitted.fallbacks:
        return  # not even one fragment fitted
    last = max(entry.rank for entry in fitted.entries)
    assert all(each.rank > last for each in fitted.left_out)


@given(rounds())
def test_a_sufficient_budget_changes_nothing(shown):
    evidence = Evidence().add(shown)
    assert fit(evidence, evidence.tokens) == evidence


@given(rounds(), meters)
def test_evidence_is_never_longer_than_the_whole_items(shown, meter):
    evidence = Evidence(meter=meter).add([never_longer(each, meter) for each in shown])
    assert evidence.tokens <= evidence.tokens_full


@given(rounds())
def test_adding_held_items_again_changes_nothing(shown):
    evidence = Evidence().add(shown)
    again = [replace(each, kept=(0,), query="other", round=2) for each in shown]
    assert evidence.add(again) == evidence


@given(rounds(), rounds())
def test_a_union_keeps_what_was_shown_and_adds_what_is_new(first, second):
    same = {each.item.id: each for each in first}
    again = [
        replace(same[each.item.id], kept=(len(same[each.item.id].item.nodes) - 1,))
        for each in second
        if each.item.id in same
    ]
    united = Evidence().add(first).add(again, "union")
    assert shown_leaves(united) == shown_leaves(Evidence().add(first)) | shown_leaves(
        Evidence().add(again)
    )
    for entry in united.entries:
        covered = [leaf for node in entry.kept for leaf in leaves(entry.item.nodes, node)]
        assert len(covered) == len(set(covered))


@given(rounds())
def test_fragments_are_verbatim_and_numbered_in_order(shown):
    evidence = Evidence().add(shown)
    assert [each.n for each in evidence.fragments] == list(range(1, len(evidence.fragments) + 1))
    items = {entry.item.id: entry.item for entry in evidence.entries}
    for fragment in evidence.fragments:
        payload = items[fragment.item_id].payload
        if isinstance(payload, TextPayload):
            expected = payload.text[int(fragment.start) : int(fragment.stop)]
            assert (fragment.text or "") == expected
            assert expected in evidence.text
