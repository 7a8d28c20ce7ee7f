from __future__ import annotations

from dataclasses import replace

import pytest

import canopy_rag as canopy
from canopy_rag.core.errors import ConfigError, DataError
from canopy_rag.core.trees import leaves
from canopy_rag.integrations import _sessions
from canopy_rag.integrations._sessions import Session, Sessions, coarsest


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def evidence() -> canopy.Evidence:
    text = "One is red. Two is blue. Three is green. Four is white."
    found = canopy.Compressor("hashing", min_tokens=0).compress("one", [{"id": "a", "text": text}])
    return replace(found, entries=(replace(found.entries[0], kept=(0,)),))


def showing(evidence: canopy.Evidence, *kept: int) -> canopy.Evidence:
    return replace(evidence, entries=(replace(evidence.entries[0], kept=kept),))


def leaf_sets(evidence: canopy.Evidence) -> list[int]:
    nodes = evidence.entries[0].item.nodes
    return sorted(leaf for node in evidence.entries[0].kept for leaf in leaves(nodes, node))


def test_what_was_shown_does_not_come_back(evidence) -> None:
    session = Session()
    assert session.take(evidence).entries == evidence.entries
    assert session.take(evidence).entries == ()
    assert (session.n_calls, session.n_fragments) == (2, 1)


def test_of_a_region_shown_in_part_the_rest_comes(evidence) -> None:
    nodes = evidence.entries[0].item.nodes
    every = leaves(nodes)
    session = Session()
    session.take(showing(evidence, every[0]))
    rest = session.take(evidence)
    assert leaf_sets(rest) == list(every[1:])
    assert len(rest.entries[0].kept) == 2  # the other leaf of its half, and the other half whole


def test_an_item_with_another_content_is_new(evidence) -> None:
    session = Session()
    session.take(evidence)
    entry = evidence.entries[0]
    changed = replace(entry.item, payload=replace(entry.item.payload, text="x" * 60))
    assert session.take(replace(evidence, entries=(replace(entry, item=changed),))).entries


def test_what_was_cut_short_comes_again_in_full(evidence) -> None:
    from canopy_rag.core.render import Cut

    first = leaves(evidence.entries[0].item.nodes)[0]
    whole = showing(evidence, first)
    cut = replace(whole, entries=(replace(whole.entries[0], cut=Cut(chars=3)),))
    session = Session()
    assert session.take(cut).entries == cut.entries
    assert session.take(whole).entries == whole.entries


def test_a_full_session_says_so(evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sessions, "MAX_LEAVES", 4)
    session = Session(id="s")
    session.take(evidence)
    with pytest.raises(DataError, match="session 's' is full; go on in a new one"):
        session.take(evidence)


def test_the_coarsest_nodes_hold_just_the_chosen_leaves(evidence) -> None:
    nodes = evidence.entries[0].item.nodes
    every = leaves(nodes)
    assert coarsest(nodes, set(every)) == (0,)
    assert coarsest(nodes, {every[1]}) == (every[1],)
    assert coarsest(nodes, set()) == ()


def test_one_name_is_one_session_and_no_name_is_none() -> None:
    sessions = Sessions()
    assert sessions.get("a") is sessions.get("a")
    assert sessions.get("a") is not sessions.get("b")
    assert sessions.get(None) is not sessions.get(None)
    assert sessions.get("").id is None
    assert len(sessions) == 2


def test_new_sessions_have_names_of_their_own() -> None:
    sessions = Sessions()
    first, second = sessions.get("new"), sessions.get("new")
    assert first.id != second.id
    assert first.id is not None
    assert len(first.id) >= 16
    assert sessions.get(first.id) is first


def test_two_owners_do_not_share_a_name() -> None:
    sessions = Sessions()
    assert sessions.get("a", "x") is not sessions.get("a", "y")


def test_an_idle_session_is_forgotten() -> None:
    clock = Clock()
    sessions = Sessions(idle_s=10, clock=clock)
    old = sessions.get("a")
    clock.now = 9
    assert sessions.get("a") is old
    clock.now = 19
    assert len(sessions) == 0
    assert sessions.get("a") is not old


def test_the_one_that_was_idle_longest_makes_room() -> None:
    sessions = Sessions(limit=2)
    first, second = sessions.get("a"), sessions.get("b")
    assert sessions.get("a") is first
    sessions.get("c")
    assert len(sessions) == 2
    assert sessions.get("a") is first
    assert sessions.get("b") is not second


def test_a_name_too_long_and_bounds_that_cannot_work_are_refused() -> None:
    with pytest.raises(DataError, match="at most 200"):
        Sessions().get("x" * 201)
    with pytest.raises(ConfigError, match="at least 1"):
        Sessions(limit=0)
    with pytest.raises(ConfigError, match="above 0"):
        Sessions(idle_s=0)
