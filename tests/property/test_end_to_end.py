"""From random files to what is shown of them: see `invariants`."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canopy_rag.encoders import locate
from tests.property.invariants import Tally, check_all

needs_packaged_encoder = pytest.mark.skipif(
    not locate.PACKED.is_file() and locate.package_checkpoint() is None,
    reason=f"the embedded encoder's weights are not here; run: {locate.INSTALL}",
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_what_is_shown_stands_in_the_files_in_order_once_and_within_the_budget(seed):
    tally = Tally()
    check_all(seed, tally)
    assert not tally.violations
    assert tally.checks["verbatim at its place"]
    assert tally.checks["kept and dropped make the whole"]


@pytest.mark.slow
def test_another_process_with_other_batches_and_threads_shows_the_same():
    tally = Tally()
    check_all(3, tally, elsewhere=True)
    assert not tally.violations
    assert tally.checks["other processes compare alike"]


@needs_packaged_encoder
def test_the_packaged_encoder_shows_the_same_alone_and_among_others():
    tally = Tally()
    for seed in (1, 2):
        check_all(seed, tally, "minilm")
    assert not tally.violations
    assert tally.checks["nor are its vectors"]


def _shifted(chars):
    def shifted(*args):
        found = chars(*args)
        return found and (found[0] + 1, found[1] + 1)

    return shifted


@pytest.mark.parametrize(
    ("place", "sabotage", "noticed"),
    [
        ("canopy_rag.core.provenance._chars", _shifted, "verbatim at its place"),
        (
            "canopy_rag.api.index.fitted",
            lambda _: lambda evidence, settings: evidence,
            "within the budget",
        ),
        ("canopy_rag.core.render.head_lines", lambda _: lambda item: [], "tables have their"),
        (
            "canopy_rag.api.index.explain",
            lambda explain: lambda *args: explain(*args)[1:],
            "all items are hits",
        ),
    ],
)
def test_what_does_not_hold_is_noticed(monkeypatch, place, sabotage, noticed):
    module, _, name = place.rpartition(".")
    original = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(place, sabotage(original))
    tally = Tally()
    check_all(7, tally)
    assert any(each.startswith(noticed) for each in tally.violations)
