"""Damages indices, fills disks, kills and races writers, lets storage fail; counts what was lost.

Nothing may be lost in silence: a damage is named by `canopy verify` or hurts nobody, a search of a
damaged index answers as before or says why not, and the same command again completes what a
writer left. Each injection is drawn from a seed; `tests/faults/test_store_faults.py` runs some.

    python benchmarks/bench_store_faults.py                 # some minutes on two cores
    python benchmarks/bench_store_faults.py --n 10 --out faults.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from canopy_rag import Index
from canopy_rag.cli.verify import report_of
from canopy_rag.config import Config, load
from canopy_rag.core.errors import StoreError
from canopy_rag.testing.s3 import S3Server

RESULT = Path(__file__).parent / "results" / "store-faults.json"
KINDS = {
    "data": "tables/*/data/*",
    "versions": "tables/*/_versions/*.manifest",
    "indices": "tables/*/_indices/*/*",
    "transactions": "tables/*/_transactions/*",
    "index.json": "index.json",
    "checksums.json": "checksums.json",
    "roots.json": "roots.json",
    "manifest.sqlite": "manifest.sqlite",
}
RERUN = {"index.json", "checksums.json", "roots.json", "manifest.sqlite"}
"""What the next run reads before it does anything."""
INJURIES = ("flip", "truncate", "zero", "empty", "delete")
QUERY = "what does file 7 say about herons"
WORDS = ["heron", "reed", "pond", "bee", "hive", "honey", "apple", "pear", "gate", "night"]


def documents(folder: Path, n_files: int, n_lines: int = 6) -> Path:
    """Write text files and tables, and return their folder."""
    folder.mkdir(parents=True)
    draw = random.Random(n_files)
    for n in range(n_files):
        lines = [
            f"File {n} line {m} says {' '.join(draw.choices(WORDS, k=9))}." for m in range(n_lines)
        ]
        name = f"{n}.csv" if n % 4 == 3 else f"{n}.txt"
        text = (
            "\n".join(f"{m},{line}" for m, line in enumerate(lines))
            if n % 4 == 3
            else "\n\n".join(lines)
        )
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def config_of(place: str) -> Config:
    """Return settings with the encoder of the tests."""
    flags = {"index.path": place, "encoder.name": "hashing", "index.refresh_s": 0.0}
    return load(flags, {})


def indexed(place: str, docs: Path) -> Index:
    """Index documents, here, and return the index."""
    index = Index.open(create=True, config=config_of(place))
    report = index.add(docs, prune=True)
    assert not report.failed, report.failed
    return index


def digest(place: str) -> str:
    """Return the digest of an index's contents."""
    return str(Index.open(config=config_of(place)).store.digest())


def answer(place: str) -> Any:
    """Return what a search finds."""
    return Index.open(config=config_of(place)).search(QUERY, k=5).to_dict()


def injure(file: Path, how: str, draw: random.Random) -> None:
    """Damage a file."""
    data = bytearray(file.read_bytes())
    place = draw.randrange(len(data)) if data else 0
    if how == "delete":
        file.unlink()
        return
    if how == "flip" and data:
        data[place] ^= 1 << draw.randrange(8)
    elif how == "truncate":
        del data[place:]
    elif how == "zero":
        data[place : place + 512] = bytes(len(data[place : place + 512]))
    elif how == "empty":
        data.clear()
    file.write_bytes(data)


def damage(base: Path, docs: Path, n: int, seed: int, work: Path) -> dict[str, Any]:
    """Damage copies of an index, and see what verifying, searching and a further run make of it."""
    draw = random.Random(seed)
    before, contents = answer(str(base)), digest(str(base))
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for number in range(n):
        kind = list(KINDS)[number % len(KINDS)]
        copy = work / "copy"
        shutil.copytree(base, copy)
        file = draw.choice(sorted(copy.glob(KINDS[kind])))
        was = file.read_bytes()
        injure(file, draw.choice(INJURIES), draw)
        if file.exists() and file.read_bytes() == was:  # zeros that were zeros
            counts[kind]["unchanged"] += 1
        else:
            for outcome in _outcomes(copy, docs, kind, before, contents):
                counts[kind][outcome] += 1
        shutil.rmtree(copy)
    return {kind: dict(sorted(each.items())) for kind, each in counts.items()}


def _outcomes(copy: Path, docs: Path, kind: str, before: Any, contents: str) -> Iterator[str]:
    yield "injected"
    place = str(copy)
    try:
        found = report_of(config_of(place))
        yield "named" if not found["sound"] else "not named"
        is_named = not found["sound"]
    except StoreError:
        yield "named"  # there is no index any more
        is_named = True
    try:
        is_same = answer(place) == before
        yield "search answers" if is_same else "search answers otherwise"
    except StoreError:
        is_same = True
        yield "search says why not"
    if kind in RERUN:
        try:
            indexed(place, docs)
            whole = digest(place) == contents
            yield "next run completes" if whole else "next run loses"
        except StoreError:
            yield "next run says why not"
    if not is_named and not is_same:
        yield "silent"


def child(place: str, docs: Path, **more: Any) -> subprocess.Popen[str]:
    """Start a process that indexes."""
    command = [sys.executable, __file__, "--child", place, str(docs)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def full_disks(docs: Path, n: int, seed: int, work: Path) -> dict[str, int]:
    """Index on disks that are too small, or with files that may not grow; then with room."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    contents = digest(str(indexed(str(work / "whole"), docs).path))
    size = sum(path.stat().st_size for path in (work / "whole").rglob("*") if path.is_file())
    for number in range(n):
        folder = work / "disk"
        folder.mkdir()
        room = draw.randrange(size // 20, size)
        on_disk = number % 2 == 0 and _mount(folder, room)
        try:
            limit = None if on_disk else partial(_limit_files, room // 4)
            with child(str(folder / "index"), docs, preexec_fn=limit) as process:
                told = process.communicate()[1]
            counts["disks" if on_disk else "limits of file size"] += 1
            if process.returncode:
                counts["refused"] += 1
                counts["told to make room"] += "make room" in told
            if on_disk:
                subprocess.run(["mount", "-o", "remount,size=1g", folder], check=True)
            _complete(str(folder / "index"), docs, contents, counts)
        finally:
            if on_disk:
                subprocess.run(["umount", folder], check=True)
            shutil.rmtree(folder)
    return dict(counts)


def _mount(folder: Path, n_bytes: int) -> bool:
    """Put a small disk in the place of a folder; needs the right to."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _limit_files(n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _complete(place: str, docs: Path, contents: str, counts: Counter[str]) -> None:
    """Run again, and count whether all is there, once."""
    indexed(place, docs)
    counts["completed by the next run"] += digest(place) == contents
    counts["sound afterwards"] += report_of(config_of(place))["sound"]


@contextmanager
def storage() -> Iterator[S3Server]:
    """Run a server of S3 that every process here and below uses."""
    with S3Server() as server:
        before = {name: os.environ.get(name) for name in server.environment}
        os.environ.update(server.environment)
        try:
            yield server
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def bucket_kills(server: S3Server, docs: Path, contents: str, n: int, seed: int) -> dict[str, int]:
    """Kill writers of a bucket at random moments, and run again."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    place = f"{server.make_bucket()}/timed"
    begun = len(server.requests)
    with child(place, docs) as process:
        process.communicate()
    n_requests = len(server.requests) - begun
    for _ in range(n):
        place = f"{server.make_bucket()}/index"
        at = len(server.requests) + draw.randrange(1, n_requests)
        with child(place, docs) as process:
            while len(server.requests) < at and process.poll() is None:
                time.sleep(0.001)
            counts["runs"] += 1
            counts["killed"] += process.poll() is None
            process.kill()
            process.communicate()
        _complete(place, docs, contents, counts)
    return dict(counts)


def bucket_races(server: S3Server, docs: Path, contents: str, n: int) -> dict[str, int]:
    """Start two writers of one bucket at once."""
    counts: Counter[str] = Counter()
    for _ in range(n):
        place = f"{server.make_bucket()}/index"
        both = [child(place, docs) for _ in range(2)]
        told = [process.communicate()[1] for process in both]
        codes = [process.returncode for process in both]
        counts["pairs"] += 1
        counts["one was told who writes"] += codes.count(0) == 1 and any(
            "being written" in each or "there is an index" in each for each in told
        )
        counts["both went through, one after the other"] += codes == [0, 0]
        counts["neither went through"] += 0 not in codes
        _complete(place, docs, contents, counts)
    return dict(counts)


def bucket_failures(
    server: S3Server, docs: Path, contents: str, n: int, seed: int
) -> dict[str, int]:
    """Refuse requests at random while an index is written."""
    counts: Counter[str] = Counter()
    for number in range(n):
        place = f"{server.make_bucket()}/index"
        server.fail_some(share=(0.02, 0.1, 0.3)[number % 3], seed=seed + number)
        try:
            indexed(place, docs)
            counts["went through at once"] += 1
        except StoreError:
            counts["gave up with a reason"] += 1
        finally:
            counts["requests refused"] += server.fail_some(share=0.0, seed=0)
        counts["runs"] += 1
        _complete(place, docs, contents, counts)
    return dict(counts)


def part(name: str, n: int, seed: int) -> dict[str, Any]:
    """Return the counts of one kind of fault; needs nothing of the others."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if name in {"damaged", "full"}:
            docs = documents(work / "docs", 60)
            if name == "full":
                return full_disks(docs, max(2, n // 10), seed, work)
            indexed(str(work / "base"), docs)
            return damage(work / "base", docs, n, seed, work)
        docs = documents(work / "docs", 12)
        contents = digest(str(indexed(str(work / "index"), docs).path))
        with storage() as server:
            if name == "bucket_kills":
                return bucket_kills(server, docs, contents, max(2, n // 10), seed)
            if name == "bucket_races":
                return bucket_races(server, docs, contents, max(1, n // 20))
            return bucket_failures(server, docs, contents, max(3, n // 8), seed)


PARTS = ("damaged", "full", "bucket_kills", "bucket_races", "bucket_failures")


def run(n: int, seed: int, jobs: int) -> dict[str, Any]:
    """Return all counts."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = {name: pool.submit(part, name, n, seed) for name in PARTS}
        found = {}
        for name, result in waiting.items():
            found[name] = result.result()
            print(f"{name}: {json.dumps(found[name])}", flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--n", type=int, default=400, help="files to damage; the rest in proportion"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="kinds of fault at work at once")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--child", nargs=2, metavar=("PLACE", "DOCS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        try:
            indexed(options.child[0], Path(options.child[1]))
        except StoreError as error:
            sys.exit(str(error))
        return
    begun = time.monotonic()
    found = run(options.n, options.seed, options.jobs)
    result = {
        **found,
        "n": options.n,
        "seed": options.seed,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
