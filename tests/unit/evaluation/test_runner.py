"""The runner asks every question once, whatever happens in between."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.evaluation.evaluations import Fixed, question, work

from canopy_rag.core.errors import DataError, LLMError
from canopy_rag.evaluation.folder import BATCHES, FAILURES, PREDICTIONS, RunFolder
from canopy_rag.evaluation.journal import Journal, read
from canopy_rag.evaluation.runner import Runner

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


async def test_every_question_of_every_method_is_asked_once_in_batches(folder):
    methods = [Fixed(name="vanilla"), Fixed(name="canopy")]
    outcome = await Runner(folder, batch=4).run([work(10, method) for method in methods])
    assert (outcome.n_done, outcome.n_before, outcome.failures) == (20, 0, [])
    names = Counter((each["method"], each["question"]) for each in read(folder / PREDICTIONS))
    assert names == {(m, f"q{n}"): 1 for m in ("vanilla", "canopy") for n in range(10)}
    assert [each["n"] for each in read(folder / BATCHES)] == [4, 4, 2] * 2


async def test_a_second_run_asks_nothing(folder):
    await Runner(folder).run([work(5)])
    again = Fixed()
    outcome = await Runner(folder).run([work(5, again)])
    assert (again.asked, outcome.n_done, outcome.n_before) == ([], 0, 5)


async def test_a_failed_question_is_noted_and_asked_again(folder):
    failing = Fixed(fails={"q1": LLMError("no reply")})
    outcome = await Runner(folder).run([work(3, failing)])
    assert outcome.failures == ["toy, canopy, q1: LLMError: no reply"]
    assert [each["question"] for each in read(folder / FAILURES)] == ["q1"]
    again = Fixed()
    await Runner(folder).run([work(3, again)])
    assert again.asked == ["q1"]


async def test_a_batch_of_which_every_question_fails_ends_the_run(folder):
    down = Fixed(fails={f"q{number}": LLMError("refused") for number in range(2, 9)})
    with pytest.raises(LLMError, match="refused") as raised:
        await Runner(folder, batch=2).run([work(9, down)])
    assert "run it again to go on" in raised.value.__notes__[0]
    assert len(down.asked) == 4
    assert [each["question"] for each in read(folder / PREDICTIONS)] == ["q0", "q1"]


async def test_a_fault_of_a_method_is_no_answer(folder):
    with pytest.raises(ExceptionGroup) as raised:
        await Runner(folder).run([work(3, Fixed(fails={"q1": ZeroDivisionError()}))])
    assert raised.group_contains(ZeroDivisionError)


async def test_a_prediction_that_stands_there_twice_is_an_error(folder):
    await Runner(folder).run([work(2)])
    first = next(read(folder / PREDICTIONS))
    with Journal(folder / PREDICTIONS) as journal:
        journal.append(first)
    with pytest.raises(DataError, match="twice"):
        await Runner(folder).run([work(2)])


async def test_two_questions_with_one_id_are_an_error(folder):
    twice = work(2)
    with pytest.raises(DataError, match="one id"):
        await Runner(folder).run(
            [type(twice)(benchmark="toy", metric="squad", questions=[question(1)] * 2,
                         method=Fixed())]
        )  # fmt: skip


async def test_running_scores_count_what_was_answered_before(folder):
    await Runner(folder).run([work(2, Fixed(right=frozenset({0})))])
    told = []
    await Runner(folder, tell=lambda running: told.append((running.n, running.score))).run(
        [work(3, Fixed(right=frozenset({0})))]
    )
    assert told == [(2, 1.0), (3, 1.0)]


def start(folder):
    script = Path(__file__).with_name("killed_run.py")
    return subprocess.Popen(
        [sys.executable, "-u", str(script), str(folder.path)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_kill_9_twice_loses_no_prediction_and_doubles_none(folder):
    seen = 0
    for stop_after in (37, 30):
        with start(folder) as process:
            assert process.stdout is not None
            for _ in range(stop_after):
                assert process.stdout.readline()
            process.kill()
        assert process.returncode == -9
        kept = [each["question"] for each in read(folder / PREDICTIONS)]
        assert len(kept) == len(set(kept))
        assert len(kept) >= seen + stop_after - 1  # the first line tells what was there before
        seen = len(kept)
    with start(folder) as process:
        process.communicate()
    assert process.returncode == 0
    found = [each["question"] for each in read(folder / PREDICTIONS)]
    assert sorted(found) == sorted(f"q{number}" for number in range(400))


def test_a_folder_is_held_by_one_process(folder):
    with (
        folder.held(),
        pytest.raises(DataError, match="another evaluation"),
        RunFolder(folder.path).held(),
    ):
        pass


def test_memory_holds_one_batch(folder):
    """No more questions are at work than a batch has."""
    at_work, most = 0, 0

    class Counting(Fixed):
        async def answer(self, question):
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1
            return await super().answer(question)

    asyncio.run(Runner(folder, batch=5).run([work(23, Counting())]))
    assert most == 5
