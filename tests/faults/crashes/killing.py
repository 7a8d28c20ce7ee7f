"""Start a process, kill it at a random moment, and see that nothing of it lives on.

Half of the moments are uniform in time, from the first change in what the process writes to its
end. The others follow a random one of those changes by a few milliseconds at most: that is where
files are being renamed and commits are under way, which take too little of the time to be hit.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CHECKOUT = Path(__file__).resolve().parents[3]
CHILD = Path(__file__).with_name("child.py")
GROUP_NODES = 40
_LOOK_S = 0.002
_MOST_S = 300.0
_ORPHANS_S = 30.0
_MOST_DELAY_S = 0.02
Folders = Sequence[Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a run went that was left alone."""

    first_s: float
    """When it first changed something."""
    seconds: float
    n_changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When to kill: at a share of the time between the first change and the end, or of changes."""

    aim: Literal["time", "change"]
    share: float
    delay_s: float = 0.0

    @classmethod
    def draw(cls, dice: random.Random) -> Moment:
        """Return a random one."""
        if dice.random() < 0.5:
            return cls(aim="time", share=dice.random())
        return cls(aim="change", share=dice.random(), delay_s=dice.random() * _MOST_DELAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """How a run went that was to be killed."""

    killed: bool
    """False: it ended before the moment came."""
    orphans: tuple[str, ...] = ()
    """Processes of it that lived on."""


def command(*arguments: str) -> list[str]:
    """Return the command line of `canopy` as a child."""
    return [sys.executable, str(CHILD), str(GROUP_NODES), *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return the variables of a child: those of this process without settings of canopy's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("CANOPY_")}
    paths = [str(CHECKOUT / "src"), *filter(None, [own.get("PYTHONPATH")])]
    return {**own, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **more}


class Watched:
    """A process in a group of its own, and the folders that it writes to.

    Args:
        arguments: Its command line.
        folders: What it writes to.
        variables: Its environment.
    """

    def __init__(
        self, arguments: Sequence[str], folders: Folders, variables: Mapping[str, str] | None = None
    ) -> None:
        self._folders = folders
        self._seen = _signature(folders)
        self._started = time.perf_counter()
        self.n_changes = 0
        self.first_s = 0.0
        self.process = subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,
            env=dict(variables or environment()),
        )

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.perf_counter() - self._started

    def look(self) -> None:
        """Count a change, if there is one."""
        now = _signature(self._folders)
        if now != self._seen:
            self.first_s = self.first_s or self.seconds
            self._seen = now
            self.n_changes += 1

    def watch(self, until: Callable[[Watched], bool]) -> bool:
        """Look on until something holds, or the process ends: then return False."""
        while self.process.poll() is None:
            self.look()
            if until(self):
                return True
            if self.seconds > _MOST_S:
                self.end()
                raise TimeoutError(f"it went on for {_MOST_S:.0f} s: {self.process.args}")
            time.sleep(_LOOK_S)
        return False

    def kill(self) -> tuple[str, ...]:
        """Kill the process alone; return those of its children that live on, and end them."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        begin = time.perf_counter()
        while (orphans := _living(self.process.pid)) and time.perf_counter() - begin < _ORPHANS_S:
            time.sleep(0.02)
        self.end()
        return orphans

    def end(self) -> None:
        """End it with all its children."""
        for pid in _members(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def undisturbed(
    arguments: Sequence[str], folders: Folders, variables: Mapping[str, str] | None = None
) -> Course:
    """Run to the end."""
    watched = Watched(arguments, folders, variables)
    watched.watch(lambda _: False)
    watched.look()
    code = watched.process.returncode
    watched.end()
    if code:
        raise RuntimeError(f"it ended with {code}: {watched.process.args}")
    return Course(
        first_s=watched.first_s, seconds=watched.seconds, n_changes=max(1, watched.n_changes)
    )


def run_and_kill(
    arguments: Sequence[str],
    folders: Folders,
    moment: Moment,
    course: Course,
    variables: Mapping[str, str] | None = None,
) -> Killed:
    """Run, and kill at the moment."""
    watched = Watched(arguments, folders, variables)
    if not watched.watch(due(moment, course)):
        watched.end()
        return Killed(killed=False)
    time.sleep(moment.delay_s)
    return Killed(killed=True, orphans=watched.kill())


def due(moment: Moment, course: Course) -> Callable[[Watched], bool]:
    """Return what tells whether a moment has come, in a run that goes like another one did."""
    if moment.aim == "change":
        wanted = 1 + int(moment.share * course.n_changes)
        return lambda watched: watched.n_changes >= wanted
    span = course.seconds - course.first_s
    return lambda watched: (
        watched.n_changes > 0 and watched.seconds >= watched.first_s + moment.share * span
    )


def _signature(folders: Folders) -> int:
    """Return a number that changes with the names, sizes and times of all files."""
    return hash(tuple(each for folder in folders for each in _entries(folder)))


def _entries(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                state = entry.stat(follow_symlinks=False)
                found.append((entry.path, state.st_size, state.st_mtime_ns))
                if entry.is_dir(follow_symlinks=False):
                    found += _entries(Path(entry.path))
    except OSError:  # gone while it was looked at: a change, too
        found.append((str(folder), -1, -1))
    return found


def _members(group: int) -> list[int]:
    """Return the processes of a group that are not dead."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            state = (each / "stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(state[2]) == group and state[0] not in "ZX":
            found.append(int(each.name))
    return found


def _living(group: int) -> tuple[str, ...]:
    told = []
    for pid in _members(group):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        told.append(b" ".join(words[:4]).decode("utf-8", "replace")[:200])
    return tuple(told)
