"""Mutated and hostile files through every parser, in processes with limits of time and memory.

    python benchmarks/fuzz_ingest.py --count 12000            # the committed result
    python benchmarks/fuzz_ingest.py --again                  # what broke something, after a fix
    python benchmarks/fuzz_ingest.py --only pdf:123 --keep .  # one case again, its file kept

Each case is a format and a number: the same ones give the same file everywhere that the same seeds
are found. Slices that are done are in the folder `--work`, so that a campaign can be taken up where
it was ended; remove the folder to begin anew. Files that break something are kept there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_checks import CheckedParser
from fuzz_mutations import made_up, mutate
from fuzz_seeds import seeds

from canopy_rag.config import IngestConfig
from canopy_rag.indexing import Limits
from canopy_rag.indexing.parsing import Parsed, PoolParser, Work

RESULTS = Path(__file__).parent / "results"
SLICE = 200
MANY = 1_000_000_000
LIMITS = Limits(seconds=60, memory_mb=1500)
BESIDE_VIDEO = frozenset({".srt", ".vtt", ".ass"})
SLOW = frozenset({".pdf", ".jpg", ".tiff", ".webp", ".png"})
FORBIDDEN = {
    "crash": "ended the process that parsed it",
    "hang": "its parser was ended after",
    "memory": "its parser was ended when it held",
    "broken promise": "InvariantError",
    "no clear error": "the parser failed with",
}
"""What must not happen, and how the reason of a failed file says it."""
NET = re.compile(r"is damaged or not what its suffix says \((\w+)")


@dataclass(frozen=True, slots=True)
class Case:
    """A mutated file."""

    suffix: str
    number: int
    content: bytes
    how: str

    @property
    def name(self) -> str:
        """The case, as `--only` takes it."""
        return f"{self.suffix[1:]}:{self.number}"


class Cases:
    """Makes cases by format and number."""

    def __init__(self, n_made_up: int) -> None:
        self._seeds = seeds()
        self._made_up: dict[str, list[bytes]] = defaultdict(list)
        for suffix, content in made_up(n_made_up):
            self._made_up[suffix].append(content)

    @property
    def suffixes(self) -> list[str]:
        """The formats."""
        return sorted(self._seeds)

    def of(self, suffix: str, number: int) -> Case:
        """Return a case: the made-up files of a format first, then its mutations."""
        made = self._made_up[suffix]
        if number < len(made):
            return Case(suffix, number, made[number], "made up")
        rng = random.Random(f"{suffix} {number}")
        own = self._seeds[suffix]
        content, how = mutate(rng.choice(own), suffix, rng, own)
        return Case(suffix, number, content, how)

    def written(self, case: Case, folder: Path) -> Path:
        """Write a case and return the file that is to be parsed: a subtitle's is its video."""
        stem = folder / f"{case.suffix[1:]}-{case.number}"
        path = stem.with_suffix(case.suffix)
        path.write_bytes(case.content)
        if case.suffix not in BESIDE_VIDEO:
            return path
        video = stem.with_suffix(".mkv")
        video.write_bytes(self._seeds[".mkv"][0])
        return video


def outcome_of(parsed: Parsed) -> str:
    """Return what became of a file, in a word or two."""
    if parsed.reason is None:
        return "parsed, with notes" if parsed.notes else "parsed"
    for name, words in FORBIDDEN.items():
        if words in parsed.reason:
            return name
    return "net" if NET.match(parsed.reason) else "clear error"


def run(cases: Cases, chosen: list[tuple[str, int]], workers: int, keep: Path) -> list[Any]:
    """Parse cases; return name, outcome, how and reason of each. What broke something is kept."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        made = [cases.of(*each) for each in chosen]
        work = [
            Work(path=path, uri=path.name, about=case)
            for case in made
            for path in [cases.written(case, Path(place))]
        ]
        parser = PoolParser(CheckedParser(IngestConfig()), MANY, workers, limits=LIMITS)
        with closing(parser):
            for each, parsed in parser.parsed(work):
                outcome = outcome_of(parsed)
                found.append([each.about.name, outcome, each.about.how, parsed.reason])
                if outcome in FORBIDDEN or outcome == "net":
                    keep.mkdir(parents=True, exist_ok=True)
                    name = f"{outcome.replace(' ', '-')}-{each.about.name.replace(':', '-')}"
                    (keep / f"{name}{each.about.suffix}").write_bytes(each.about.content)
    return found


def choose(suffixes: list[str], count: int) -> list[tuple[str, int]]:
    """Return formats in turn; of those that take long, two in five."""
    turn = [
        (suffix, n)
        for n in range(-(-2 * count // len(suffixes)))
        for suffix in suffixes
        if suffix not in SLOW or n % 5 < 2
    ]
    return turn[:count]


def campaign(arguments: argparse.Namespace) -> None:
    """Run what is left of a campaign, slice by slice, and write its result."""
    cases = Cases(arguments.made_up)
    chosen = choose(cases.suffixes, arguments.count)
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    for begin in range(0, len(chosen), SLICE):
        part = chosen[begin : begin + SLICE]
        key = hashlib.sha256(json.dumps([part, arguments.made_up]).encode()).hexdigest()[:8]
        file = work / f"slice-{begin // SLICE:04}-{key}.json"
        if file.exists():
            continue
        if arguments.minutes and time.monotonic() - begun > 60 * arguments.minutes:
            sys.stdout.write("time is up; the same command goes on\n")
            return
        found = run(cases, part, arguments.workers, work / "kept")
        file.write_text(json.dumps(found), "utf-8")
        counts = Counter(outcome for _, outcome, _, _ in found)
        sys.stdout.write(f"{begin + len(part):,} of {len(chosen):,}: {dict(counts)}\n")
        sys.stdout.flush()
    write_result(arguments)


def again(arguments: argparse.Namespace) -> None:
    """Run the cases of a campaign that broke something once more, and write its result anew."""
    cases = Cases(arguments.made_up)
    for file in sorted(arguments.work.glob("slice-*.json")):
        found = json.loads(file.read_text("utf-8"))
        bad = {each[0] for each in found if each[1] in FORBIDDEN or each[1] == "net"}
        if not bad:
            continue
        chosen = [(f".{name.partition(':')[0]}", int(name.partition(":")[2])) for name in bad]
        kept = arguments.work / "kept"
        new = {each[0]: each for each in run(cases, chosen, arguments.workers, kept)}
        found = [[*new[each[0]][:4], each[1]] if each[0] in new else each for each in found]
        file.write_text(json.dumps(found), "utf-8")
        sys.stdout.write(f"{file.name}: {[each[:2] for each in new.values()]}\n")
    write_result(arguments)


def write_result(arguments: argparse.Namespace) -> None:
    """Write the result of all slices that are done."""
    found = [
        each
        for file in sorted(arguments.work.glob("slice-*.json"))
        for each in json.loads(file.read_text("utf-8"))
    ]
    result = {"count": len(found), **summary(found), **machine(arguments)}
    (arguments.out or RESULTS / "fuzz-ingest.json").write_text(
        json.dumps(result, indent=2) + "\n", "utf-8"
    )


def summary(found: list[Any]) -> dict[str, Any]:
    """Return outcomes by format, what the last net caught, and every forbidden case."""
    formats: dict[str, Counter[str]] = defaultdict(Counter)
    net: Counter[str] = Counter()
    for name, outcome, _, reason, *_ in found:
        suffix = name.partition(":")[0]
        formats[suffix][outcome] += 1
        if outcome == "net":
            caught = NET.match(reason)
            net[f"{suffix} {caught[1] if caught else ''}"] += 1
    kinds = Counter(kind for _, _, how, *_ in found for kind in how.split("+"))
    return {
        "outcomes": dict(Counter(outcome for _, outcome, *_ in found)),
        "formats": {name: dict(counts) for name, counts in sorted(formats.items())},
        "mutations": dict(kinds.most_common()),
        "caught_by_type": dict(net.most_common()),
        "before_fixes": dict(Counter(each[4] for each in found if len(each) > 4)),
        "forbidden": [each for each in found if each[1] in FORBIDDEN],
    }


def machine(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "limits": {"seconds": LIMITS.seconds, "memory_mb": LIMITS.memory_mb},
        "samples": bool(os.environ.get("CANOPY_SAMPLES")),
        "made_up": arguments.made_up,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> None:
    """Run the campaign, or one case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=12_000)
    parser.add_argument("--made-up", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="stop before the next slice")
    parser.add_argument("--work", type=Path, default=Path("build/fuzz-ingest"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="FORMAT:NUMBER")
    parser.add_argument("--keep", type=Path, help="folder for the files of --only")
    arguments = parser.parse_args()
    if not arguments.only:
        (again if arguments.again else campaign)(arguments)
        return
    cases = Cases(arguments.made_up)
    for named in arguments.only:
        suffix, _, number = named.partition(":")
        case = (f".{suffix}", int(number))
        if arguments.keep:
            cases.written(cases.of(*case), arguments.keep)
        for each in run(cases, [case], 1, arguments.work / "kept"):
            sys.stdout.write(f"{each}\n")


if __name__ == "__main__":
    main()
