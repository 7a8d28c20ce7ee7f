"""`canopy upgrade`, killed: the index of before or the one of afterwards, each of them whole."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.faults.crashes import corpus, indices
from tests.faults.crashes.killing import Course, command, undisturbed
from tests.faults.crashes.kinds import OfBase

from canopy_rag.api import Index
from canopy_rag.config import Config, IndexConfig
from canopy_rag.core.errors import CanopyError
from canopy_rag.store import LanceStore, upgrade


class Upgrading(OfBase):
    """Vectors of 16 bits become ones of 4; an older format goes the same way."""

    name = "upgrade"
    n_files = 120

    def prepare(self) -> Course:
        corpus.write(self.folder / "docs", self.n_files)
        config = Config(encoder=indices.CONFIG.encoder, index=IndexConfig(vectors="float16"))
        Index.open(self._base, create=True, config=config).add(self.folder / "docs")
        self.before = indices.known(self._base)
        right = self.folder / "right"
        shutil.copytree(self._base, right)
        course = undisturbed(self._changing(right), [right])
        self.right = indices.known(right)
        return course

    def _changing(self, place: Path) -> list[str]:
        return command("upgrade", "--index", str(place), "--vectors", "int4", "-q")

    def faults(self, trial: Path) -> list[str]:
        place = trial / "index"
        found = indices.faults_of_killed(place, self.right.content)
        is_new = LanceStore.open(place).precision == "int4"
        known = self.right if is_new else self.before
        if indices.content(place)[0] != known.content:
            found.append("it does not hold what it held")
        if indices.answers(place) != known.answers:
            found.append("searches show something else")
        try:
            if upgrade(place, "int4") is is_new:
                found.append("what there was to do was not what was done")
        except CanopyError as error:
            return [*found, f"the next upgrade fails: {error}"]
        if len(list((place / "tables").iterdir())) != 1:
            found.append("a table was left behind")
        return found + indices.faults_of_completed(place, self.right)
