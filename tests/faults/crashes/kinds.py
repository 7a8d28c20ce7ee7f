"""What is killed: each kind of run, what holds after a kill, and after the run that follows."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.crashes import corpus, indices
from tests.faults.crashes.killing import (
    Course,
    Killed,
    Moment,
    command,
    environment,
    run_and_kill,
    undisturbed,
)
from typer.testing import CliRunner

from canopy_rag.api import Index
from canopy_rag.cli import app
from canopy_rag.core.errors import CanopyError
from canopy_rag.evaluation.journal import read as read_journal
from canopy_rag.training.folder import UNFINISHED


class Kind(ABC):
    """A kind of run.

    Args:
        folder: Where inputs and trials go; there already.
    """

    name: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def prepare(self) -> Course:
        """Make the inputs, run once undisturbed, and note what is right."""

    @abstractmethod
    def disturb(self, trial: Path, moment: Moment, course: Course) -> Killed:
        """Begin a run in a folder that is there, and kill it."""

    @abstractmethod
    def faults(self, trial: Path) -> list[str]:
        """Return what is wrong after the kill, then after the run that goes on."""


class Indexing(Kind):
    """`canopy index` of a folder, the first time."""

    name = "index"
    options: tuple[str, ...] = ()
    n_files = 15

    def prepare(self) -> Course:
        corpus.write(self.docs, self.n_files)
        course = undisturbed(self._command(self.folder / "right"), [self.folder / "right"])
        self.right = indices.known(self.folder / "right")
        return course

    @property
    def docs(self) -> Path:
        """What is indexed."""
        return self.folder / "docs"

    def disturb(self, trial: Path, moment: Moment, course: Course) -> Killed:
        place = trial / "index"
        return run_and_kill(self._command(place), [place], moment, course)

    def faults(self, trial: Path) -> list[str]:
        place = trial / "index"
        found = indices.faults_of_killed(place, self.right.content)
        return found + self._completed(place)

    def _completed(self, place: Path, *, prune: bool = False, gone: str = "") -> list[str]:
        """Run again, twice: the first run completes the index, the second has nothing to do."""
        try:
            reports = [
                Index.open(place, create=True, config=indices.CONFIG).add(self.docs, prune=prune)
                for _ in range(2)
            ]
        except CanopyError as error:
            return [f"the next run fails: {error}"]
        found = [f"the next run: {each.path}: {each.reason}" for each in reports[0].failed]
        if reports[1].items or reports[1].removed:
            found.append("the run after the next one still found something to do")
        return found + indices.faults_of_completed(place, self.right, gone)

    def _command(self, place: Path, *more: str) -> list[str]:
        return command(
            "index", str(self.docs), "--index", str(place), "--encoder", "hashing", "-q",
            *self.options, *more,
        )  # fmt: skip


class IndexingWithWorkers(Indexing):
    """`canopy index` with processes that parse."""

    name = "index, workers"
    options = ("--workers", "2")


class IndexingOnRay(Indexing):
    """`canopy index` on a Ray cluster; the cluster runs and goes by `RAY_ADDRESS`."""

    name = "index, Ray"
    options = ("--engine", "ray", "--workers", "1")


class OfBase(Kind):
    """A run that changes an index that is there: each trial begins with a copy of it."""

    @property
    def _base(self) -> Path:
        return self.folder / "base"

    @abstractmethod
    def _changing(self, place: Path) -> list[str]:
        """Return the command that changes the index of a folder."""

    def disturb(self, trial: Path, moment: Moment, course: Course) -> Killed:
        place = trial / "index"
        shutil.copytree(self._base, place)
        return run_and_kill(self._changing(place), [place], moment, course)


class Pruning(OfBase, Indexing):
    """`canopy index --prune` after files were removed, changed and added."""

    name = "prune"

    def prepare(self) -> Course:
        corpus.write(self.docs, self.n_files)
        Index.open(self._base, create=True, config=indices.CONFIG).add(self.docs)
        self.before = indices.known(self._base)
        if not indices.holding(self._base, corpus.REMOVED):
            raise RuntimeError("what is to be removed cannot be seen in the files of the index")
        corpus.change(self.docs, self.n_files)
        right = self.folder / "right"
        shutil.copytree(self._base, right)
        course = undisturbed(self._changing(right), [right])
        self.right = indices.known(right)
        return course

    def _changing(self, place: Path) -> list[str]:
        return self._command(place, "--prune")

    def faults(self, trial: Path) -> list[str]:
        place = trial / "index"
        found = indices.faults_of_killed(place, self.before.content, self.right.content)
        there, _ = indices.content(place)
        kept = self.before.content.keys() & self.right.content.keys()
        found += [f"{uri}: lost" for uri in kept - there.keys()]
        return found + self._completed(place, prune=True, gone=corpus.REMOVED)


class Evaluating(Kind):
    """`canopy evaluate` with two methods and the extractive reader."""

    name = "evaluate"
    n_questions = 150

    def prepare(self) -> Course:
        write_questions(self.folder / "own.jsonl", self.n_questions)
        right = self.folder / "right"
        course = undisturbed(self._command(right), [right])
        self.right = _results(right)
        return course

    def disturb(self, trial: Path, moment: Moment, course: Course) -> Killed:
        return run_and_kill(self._command(trial / "run"), [trial / "run"], moment, course)

    def faults(self, trial: Path) -> list[str]:
        run = trial / "run"
        path = run / "predictions.jsonl"
        before = path.read_bytes() if path.exists() else b""
        whole = before[: before.rfind(b"\n") + 1]
        done = invoke(*self._arguments(run))
        if done:
            return [f"the next run fails: {done}"]
        found = []
        if not path.read_bytes().startswith(whole):
            found.append("a line that was there is lost or changed")
        results = _results(run)
        if len(results["predictions"]) != len(list(read_journal(path))):
            found.append("a question is answered twice")
        found += [
            f"another result: {name}: {_first_difference(results[name], self.right[name])}"
            for name in results
            if results[name] != self.right[name]
        ]
        return found

    def _arguments(self, run: Path) -> list[str]:
        return [
            "evaluate", "-b", f"jsonl={self.folder / 'own.jsonl'}", "--out", str(run),
            "--method", "canopy", "--method", "vanilla", "--llm", "none", "--encoder", "hashing",
            "-q",
        ]  # fmt: skip

    def _command(self, run: Path) -> list[str]:
        return command(*self._arguments(run))


class Training(Kind):
    """`canopy train`: an adapter of the packaged encoder, with a checkpoint at every step."""

    name = "train"

    def prepare(self) -> Course:
        write_questions(self.folder / "own.jsonl", 20)
        place = self.folder / "right"
        place.mkdir()
        course = undisturbed(self._command(place), [place])
        self.right = _files(place / "tuned")
        return course

    def disturb(self, trial: Path, moment: Moment, course: Course) -> Killed:
        return run_and_kill(self._command(trial), [trial], moment, course)

    def faults(self, trial: Path) -> list[str]:
        out = trial / "tuned"
        was_done, found = out.exists(), []
        if was_done and _files(out) != self.right:
            found.append("the result was there before it was whole")
        if not was_done and (done := invoke(*self._arguments(trial))):
            return [*found, f"the next run fails: {done}"]
        made = _files(out)
        found += [
            f"another result: {name}" for name in self.right if made.get(name) != self.right[name]
        ]
        # A kill between the last two steps leaves the checkpoint of a run that is finished.
        there = {out.name, f"{out.name}{UNFINISHED}"} if was_done else {out.name}
        found += [f"left behind: {each.name}" for each in trial.iterdir() if each.name not in there]
        return found

    def _arguments(self, place: Path) -> list[str]:
        return [
            "train", "-b", f"jsonl={self.folder / 'own.jsonl'}", "--encoder", "minilm",
            "--preset", "minilm", "--epochs", "2", "--batch", "8", "--evaluate-every", "1",
            "--out", str(place / "tuned"), "-q",
        ]  # fmt: skip

    def _command(self, place: Path) -> list[str]:
        return command(*self._arguments(place))


def write_questions(path: Path, n: int) -> None:
    """Write questions and the texts that answer them as JSON Lines."""
    lines: list[dict[str, Any]] = []
    for number in range(n):
        metal = ("brass", "iron", "oak", "silver", "pine", "copper")[number % 6]
        text = (
            f"House {number} has many lamps. The lamp in hall {number} is made of {metal}. "
            "It was bought in 1863. Nobody knows who paid for it."
        )
        gold = [{"item": f"p{number}", "quote": metal}]
        question = f"What is the lamp in hall {number} made of?"
        lines.append({"id": f"p{number}", "title": f"House {number}", "text": text})
        lines.append({"id": f"q{number}", "question": question, "answers": [metal], "gold": gold})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def invoke(*arguments: str) -> str:
    """Run a command in this process; return what went wrong, or nothing."""
    result = CliRunner().invoke(app, list(arguments), env=environment())
    if result.exit_code == 0:
        return ""
    return f"{result.exit_code}: {result.stderr.strip()[-300:]} {result.exception!r}"


_TIMES = ("seconds", "latency", "_s", "_ms", "time", "started", "ended", "sha256")


def _timeless(value: Any) -> Any:
    """Return a result without what depends on the clock."""
    if isinstance(value, Mapping):
        return {
            name: _timeless(each)
            for name, each in value.items()
            if not any(name == mark or name.endswith(mark) for mark in _TIMES)
        }
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    return value


def _results(run: Path) -> dict[str, Any]:
    predictions = {
        (each["benchmark"], each["method"], each["question"]): _timeless(each)
        for each in read_journal(run / "predictions.jsonl")
    }
    metrics = json.loads((run / "metrics.json").read_text("utf-8"))
    return {"predictions": predictions, "metrics": _timeless(metrics)}


def _files(folder: Path) -> dict[str, Any]:
    """Return the content of a trained adapter's files, the description without times."""
    found: dict[str, Any] = {}
    for path in folder.iterdir():
        if path.name == "adapter.json":
            found[path.name] = _timeless(json.loads(path.read_text("utf-8")))
        else:
            found[path.name] = path.read_bytes()
    return found


def _first_difference(found: Any, wanted: Any, where: str = "") -> str:
    """Return where two results differ first, and how."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*wanted, *(each for each in found if each not in wanted)]:
            if found.get(key) != wanted.get(key):
                return _first_difference(found.get(key), wanted.get(key), f"{where}/{key}")
    return f"{where}: {found!r}, not {wanted!r}"
