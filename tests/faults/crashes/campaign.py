"""Kills of one kind of run, each followed by a look at what is left and by the run that goes on."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.crashes.killing import Moment
from tests.faults.crashes.kinds import Kind

_MOST_MISSES = 5  # for each kill that is wanted


@dataclass(slots=True)
class Outcome:
    """What came of a number of kills."""

    kills: int = 0
    survived: int = 0
    """Kills after which nothing was wrong."""
    ended_before: int = 0
    """Runs that ended before their moment came; they do not count."""
    moments: list[Moment] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return what is written down."""
        return {
            "kills": self.kills,
            "survived": self.survived,
            "by_time": sum(each.aim == "time" for each in self.moments),
            "after_a_change": sum(each.aim == "change" for each in self.moments),
            "ended_before": self.ended_before,
            "faults": self.faults,
        }


def kills(kind: Kind, n: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    """Kill `n` runs, each at a moment of its own.

    Args:
        kind: What to kill.
        n: Number of kills.
        seed: Of the moments.
        tell: Told of every kill.
    """
    dice, outcome = random.Random(f"{kind.name} {seed}"), Outcome()
    course = kind.prepare()
    tell(f"{kind.name}: {course}")
    for number in range(n * _MOST_MISSES):
        if outcome.kills == n:
            break
        moment = Moment.draw(dice)
        trial = kind.folder / f"trial-{number}"
        trial.mkdir()
        killed = kind.disturb(trial, moment, course)
        if not killed.killed:
            outcome.ended_before += 1
            shutil.rmtree(trial)
            continue
        found = [f"lives on: {each}" for each in killed.orphans] + kind.faults(trial)
        outcome.kills += 1
        outcome.survived += not found
        outcome.moments.append(moment)
        tell(f"{kind.name} {outcome.kills} of {n}, {moment}: {found or 'sound'}")
        if found:
            outcome.faults.append(
                {"aim": moment.aim, "share": round(moment.share, 4), "found": found[:5]}
            )
        else:
            shutil.rmtree(trial)
    return outcome
