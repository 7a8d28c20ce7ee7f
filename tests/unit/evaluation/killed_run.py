"""Runs 400 questions into the folder that is named, and tells each answer; to be killed."""

import asyncio
import sys
from pathlib import Path

from tests.unit.evaluation.evaluations import Fixed, work

from canopy_rag.evaluation.folder import RunFolder
from canopy_rag.evaluation.runner import Runner


def tell(running):
    sys.stdout.write(f"{running.n}\n")
    sys.stdout.flush()


class Slow(Fixed):
    """Lets others go on, so that several answers are under way at any time."""

    async def answer(self, question):
        for _ in range(int(question.id[1:]) % 7):
            await asyncio.sleep(0)
        return await super().answer(question)


if __name__ == "__main__":
    folder = RunFolder(Path(sys.argv[1]))
    folder.path.mkdir(exist_ok=True)
    with folder.held():
        asyncio.run(Runner(folder, batch=8, tell=tell).run([work(400, Slow())]))
