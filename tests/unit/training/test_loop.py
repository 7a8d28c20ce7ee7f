"""The steps of training, on a linear layer over hashed words: everything but a real model."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra `train`)")

from canopy_rag.core.errors import ConfigError, DataError, ModelError  # noqa: E402
from canopy_rag.core.vectors import node_matrix  # noqa: E402
from canopy_rag.testing.hashing import HashingEncoder  # noqa: E402
from canopy_rag.training import PAPER, Recipe  # noqa: E402
from canopy_rag.training.folder import Checkpoint  # noqa: E402
from canopy_rag.training.loop import Fitted, factor, fit  # noqa: E402
from canopy_rag.training.maps import fit_maps, known  # noqa: E402
from canopy_rag.training.processes import Processes  # noqa: E402
from canopy_rag.training.run import frozen_likeness  # noqa: E402
from canopy_rag.training.trainable import Compared, trained  # noqa: E402

RECIPE = replace(PAPER, learning_rate=0.02, batch=4, epochs=3, dropout=0.3, weight_decay=0.0)


class Tiny:
    """A `Trainable`: one matrix over the hashing encoder's vectors, and one that is frozen."""

    def __init__(self, recipe: Recipe = RECIPE, *, bad: str = "") -> None:
        self.base = {"model": "hashing", "revision": "1"}
        self.mode = "late"
        self._encoder = HashingEncoder()
        self._bad = bad
        self.module = torch.nn.Sequential(
            torch.nn.Dropout(recipe.dropout), torch.nn.Linear(64, 64, bias=False)
        )
        with torch.no_grad():
            self.module[1].weight.copy_(torch.eye(64))
        self.module.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def similarities(self, batch):
        found = []
        for each in batch:
            query = torch.tensor(self._encoder.encode_queries([each.query]).node[0])
            (vectors,) = self._encoder.encode_items([each.item])
            nodes = torch.tensor(node_matrix(each.item.nodes, vectors.nodes)[list(each.nodes)])
            moved = self.module(query)
            values = nodes @ (moved / moved.norm())
            found.append(values * float("nan") if each.question_id == self._bad else values)
        return found

    def count_tokens(self, item):
        return 1

    def write(self, folder):
        raise AssertionError


class TinyTrunk(Tiny):
    """A `Trunk`: the same, and all of a batch compared."""

    lexical_weight = None

    def count_words(self, items):
        self.counted = [each.id for each in items]

    def vectors_alone(self):
        return nullcontext()

    def compare(self, batch):
        items = {each.item.id: each.item for each in batch}
        encoded = self._encoder.encode_items(list(items.values()))
        rows = [
            node_matrix(item.nodes, each.nodes)
            for item, each in zip(items.values(), encoded, strict=True)
        ]
        moved = self.module(
            torch.tensor(self._encoder.encode_queries([each.query for each in batch]).node)
        )
        cosines = (moved / moved.norm(dim=1, keepdim=True)) @ torch.tensor(np.concatenate(rows)).T
        bad = torch.tensor(
            [[float("nan") if each.question_id == self._bad else 1.0] for each in batch]
        )
        cosines = cosines * bad
        return Compared(items=tuple(items.values()), cosines=cosines, similarities=cosines)


ACROSS = replace(RECIPE, unit="item", across=0.5, neighbours=2)


def alike(learned):
    return frozen_likeness(learned.examples, HashingEncoder())


def tensors(trainable: Any) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy().copy() for name, value in trained(trainable)}


def same(one: Any, two: Any) -> bool:
    first, second = tensors(one), tensors(two)
    return all(np.array_equal(first[name], second[name]) for name in first)


class Killed(BaseException):
    """Ends a run as a signal does."""


def killing_at(*steps):
    def on_progress(now):
        if now.step in steps:
            raise Killed

    return on_progress


def test_the_loss_goes_down_and_more_decisions_are_right(learned, judged):
    progress = []
    fitted = fit(Tiny(), learned, judged, RECIPE, on_progress=progress.append)
    assert np.mean([each.loss for each in progress[-4:]]) < np.mean(
        [each.loss for each in progress[:4]]
    )
    assert fitted.after.accuracy > fitted.before.accuracy
    assert [each.step for each in progress] == list(range(1, fitted.n_steps + 1))


def test_only_what_asks_for_gradients_moves(learned):
    tiny = Tiny()
    fit(tiny, learned, None, RECIPE)
    assert torch.equal(tiny.module.frozen, torch.ones(3))
    assert not torch.equal(tiny.module[1].weight, torch.eye(64))


@pytest.mark.parametrize("kill_at", [(1,), (5,), (2, 9)])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(learned, judged, tmp_path, kill_at):
    recipe = replace(RECIPE, checkpoint_every=2, evaluate_every=3)
    whole = Tiny()
    expected = fit(whole, learned, judged, recipe)
    checkpoint = Checkpoint(tmp_path / "out", "run")
    for step in kill_at:
        with pytest.raises(Killed):
            fit(
                Tiny(),
                learned,
                judged,
                recipe,
                checkpoint=checkpoint,
                on_progress=killing_at(step),
            )
    resumed = Tiny()
    found = fit(resumed, learned, judged, recipe, checkpoint=checkpoint)
    assert same(resumed, whole)
    assert replace(found, seconds=0) == replace(expected, seconds=0)


def test_the_world_outside_keeps_its_random_numbers(learned):
    tiny = Tiny()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(tiny, learned, None, replace(RECIPE, epochs=1))
    assert torch.equal(torch.rand(3), expected)


def test_another_runs_checkpoint_is_refused(learned, tmp_path):
    with pytest.raises(Killed):
        fit(
            Tiny(),
            learned,
            None,
            replace(RECIPE, checkpoint_every=1),
            checkpoint=Checkpoint(tmp_path / "out", "one"),
            on_progress=killing_at(2),
        )
    with pytest.raises(ConfigError, match="--fresh"):
        fit(Tiny(), learned, None, RECIPE, checkpoint=Checkpoint(tmp_path / "out", "two"))


def test_a_broken_checkpoint_says_what_to_delete(learned, tmp_path):
    checkpoint = Checkpoint(tmp_path / "out", "one")
    checkpoint.save({"step": 1})
    (checkpoint.folder / "state.pt").write_bytes(b"half")
    with pytest.raises(DataError, match=r"delete '.*out\.training'"):
        fit(Tiny(), learned, None, RECIPE, checkpoint=checkpoint)


def test_parts_of_a_batch_make_the_same_step(learned):
    recipe = replace(RECIPE, dropout=0.0, epochs=1)
    whole, parted = Tiny(recipe), Tiny(recipe)
    fit(whole, learned, None, recipe)
    fit(parted, learned, None, replace(recipe, accumulate=3))
    for name, value in tensors(whole).items():
        assert tensors(parted)[name] == pytest.approx(value, abs=1e-5)


def test_a_loss_that_is_no_number_names_its_instances(learned, tmp_path):
    bad = learned.examples[0]
    checkpoint = Checkpoint(tmp_path / "out", "run")
    with pytest.raises(ModelError, match=f"question '{bad.question_id}', item '{bad.item.id}'"):
        fit(Tiny(bad=bad.question_id), learned, None, RECIPE, checkpoint=checkpoint)
    saved = checkpoint.load()
    assert saved is None or all(torch.isfinite(each).all() for each in saved["tensors"].values())


def test_training_ends_early_when_nothing_gets_better(learned, judged):
    recipe = replace(RECIPE, learning_rate=1e-9, evaluate_every=1, patience=2)
    fitted = fit(Tiny(), learned, judged, recipe)
    assert fitted.stopped_early
    assert fitted.n_steps == 3
    assert fitted.kept_step == 1


def test_the_best_step_is_kept_or_the_last(learned, judged):
    recipe = replace(RECIPE, evaluate_every=1)
    fitted: Fitted = fit(Tiny(), learned, judged, recipe)
    looks = {each["step"]: each["accuracy"] for each in fitted.history}
    assert fitted.after.accuracy == max(looks.values())
    assert looks[fitted.kept_step] == fitted.after.accuracy
    last = fit(Tiny(), learned, judged, replace(recipe, keep="last"))
    assert (last.kept_step, last.after.accuracy) == (last.n_steps, looks[last.n_steps])


def test_bfloat16_learns_too(learned, judged):
    fitted = fit(Tiny(), learned, judged, replace(RECIPE, precision="bf16"))
    assert fitted.after.accuracy > fitted.before.accuracy


def test_the_learning_rate_follows_its_schedule():
    cosine = Recipe(schedule="cosine", warmup=0.0)
    assert [round(factor(cosine, step, 4), 3) for step in range(4)] == [1.0, 0.854, 0.5, 0.146]
    constant = Recipe(schedule="constant", warmup=0.5)
    assert [factor(constant, step, 4) for step in range(4)] == [0.5, 1.0, 1.0, 1.0]


def test_a_map_in_numpy_takes_the_same_steps(learned):
    """The same objective on the same vectors: a query matrix, by torch and by hand."""
    recipe = replace(RECIPE, dropout=0.0, unit="item", schedule="constant", warmup=0.0, epochs=2)
    tiny = Tiny(recipe)
    fit(tiny, learned, None, recipe)
    vectors = known(learned.examples, HashingEncoder())
    maps, _ = fit_maps(vectors, [], replace(recipe, kind="map"))
    assert maps.query == pytest.approx(tiny.module[1].weight.detach().numpy(), abs=1e-3)


def test_comparing_across_items_each_part_of_the_loss_is_told_and_goes_down(learned, judged):
    progress = []
    fitted = fit(
        TinyTrunk(), learned, judged, ACROSS, likeness=alike(learned), on_progress=progress.append
    )
    for each in progress:
        parts = each.parts
        assert set(parts) == {"decisions", "leaves", "roots"}
        assert each.loss == pytest.approx(
            parts["decisions"] + 0.5 * (parts["leaves"] + parts["roots"]), rel=1e-5
        )
    assert progress[-1].parts["leaves"] < progress[0].parts["leaves"]
    assert set(fitted.parts) == {"decisions", "leaves", "roots"}
    assert fitted.after.by_benchmark == {"jsonl": fitted.after.accuracy}


def test_a_killed_run_across_items_goes_on_as_if_nothing_had_happened(learned, judged, tmp_path):
    recipe = replace(ACROSS, checkpoint_every=2, evaluate_every=3)
    whole = TinyTrunk()
    expected = fit(whole, learned, judged, recipe, likeness=alike(learned))
    checkpoint = Checkpoint(tmp_path / "out", "run")
    with pytest.raises(Killed):
        fit(
            TinyTrunk(),
            learned,
            judged,
            recipe,
            likeness=alike(learned),
            checkpoint=checkpoint,
            on_progress=killing_at(5),
        )
    resumed = TinyTrunk()
    found = fit(resumed, learned, judged, recipe, likeness=alike(learned), checkpoint=checkpoint)
    assert same(resumed, whole)
    assert replace(found, seconds=0) == replace(expected, seconds=0)


def test_items_are_compared_only_by_what_reads_them_whole(learned):
    with pytest.raises(ConfigError, match="whole items"):
        fit(Tiny(), learned, None, replace(ACROSS, neighbours=1))


def test_several_processes_do_not_compare_across_items(learned, monkeypatch):
    monkeypatch.setattr(Processes, "__init__", several)
    with pytest.raises(ConfigError, match="one process"):
        fit(TinyTrunk(), learned, None, replace(ACROSS, neighbours=1))


def several(self):
    self.rank, self.count, self.device = 0, 2, torch.device("cpu")


def test_neighbours_need_to_know_what_is_alike(learned):
    with pytest.raises(ValueError, match="likeness"):
        fit(TinyTrunk(), learned, None, ACROSS)


def test_a_loss_across_items_that_is_no_number_names_its_question(learned):
    bad = learned.examples[0]
    with pytest.raises(ModelError, match=f"question '{bad.question_id}', item '{bad.item.id}'"):
        fit(TinyTrunk(bad=bad.question_id), learned, None, ACROSS, likeness=alike(learned))


def test_words_are_counted_in_what_is_learned_from_alone(learned, judged):
    trunk = TinyTrunk()
    fit(trunk, learned, judged, replace(ACROSS, epochs=1), likeness=alike(learned))
    assert trunk.counted == [each.item.id for each in learned.examples]
