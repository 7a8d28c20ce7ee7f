"""The paper's latency: moments at which a question was at work, vector search left out."""

from canopy_rag.evaluation.latency import Batch, Timeline, covered
from canopy_rag.evaluation.summary import latency


def test_moments_count_once_however_many_questions_are_at_work():
    assert covered([(0, 4), (1, 2), (3, 6), (8, 9)]) == 7


def test_search_counts_only_where_something_else_goes_on():
    timeline = Timeline()
    timeline("retrieve", 0, 1)
    timeline("search", 1, 5)
    timeline("read", 5, 7)
    timeline("critic", 2, 3)
    assert timeline.counted_s == 1 + 1 + 2
    assert timeline.search_s == 4


def batch(**changes):
    base = Batch("toy", "canopy", n=10, counted_s=5.0, wall_s=7.0, search_s=2.0, n_cached=0)
    return base._replace(**changes)


def test_batches_are_weighted_by_their_questions():
    found = latency([batch(), batch(n=30, counted_s=5.0)])
    assert (found["value"], found["n"], found["n_batches"]) == (0.25, 40, 2)


def test_batches_with_replies_from_the_cache_say_nothing_of_latency():
    assert latency([batch(n_cached=1)]) is None
    assert latency([batch(n_cached=1), batch()])["value"] == 0.5


def test_a_batch_without_an_answer_says_nothing_of_latency():
    assert latency([batch(n=0)]) is None
