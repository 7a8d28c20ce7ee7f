"""Counting which questions of a benchmark were kept and why others were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from canopy_rag.core.questions import Question
from canopy_rag.core.types import Item
from canopy_rag.datasets.base import Loaded, Omitted

CAME_BEFORE = "its id came before in the same file"
NO_ANSWER = "no answer in the file"


class Keeping:
    """The questions of a benchmark while its files are read."""

    def __init__(self) -> None:
        self._questions: list[Question] = []
        self._omitted: list[Omitted] = []
        self._n_total = 0
        self._file_of: dict[str, Path] = {}
        self._n_again: Counter[str] = Counter()

    def is_new(self, question_id: str, path: Path) -> bool:
        """Count a question; return False for one that came before.

        A second question of one id in the same file is omitted. Another file may hold the same
        questions in another form: there they are passed over and counted in a note.
        """
        before = self._file_of.get(question_id)
        if before is not None and before != path:
            self._n_again[path.name] += 1
            return False
        self._n_total += 1
        if before is not None:
            self.omit(question_id, CAME_BEFORE)
            return False
        self._file_of[question_id] = path
        return True

    def keep(self, question: Question) -> None:
        """Keep a question whose gold was located."""
        self._questions.append(question)

    def omit(self, question_id: str, reason: str) -> None:
        """Leave a question out, for one of a loader's fixed reasons."""
        self._omitted.append(Omitted(id=question_id, reason=reason))

    def loaded(
        self, name: str, items: Callable[[], Iterator[Item]], notes: Sequence[str] = ()
    ) -> Loaded:
        """Return what was read."""
        again = [
            f"{file}: questions that came before in another file are not counted again ({n:,})"
            for file, n in self._n_again.items()
        ]
        return Loaded(
            name=name,
            questions=tuple(self._questions),
            items=items,
            omitted=tuple(self._omitted),
            n_total=self._n_total,
            notes=(*notes, *again),
        )
