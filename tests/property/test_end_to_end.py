"""From random files to what is shown of them: see `invariants`."""

from __future__ import annotations

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
