"""Large inputs through one indexing run: memory, time, and what is left of a run that is killed.

    python benchmarks/bench_large.py csv --megabytes 2000
    python benchmarks/bench_large.py pdf --pages 1000
    python benchmarks/bench_large.py video --hours 3
    python benchmarks/bench_large.py files --files 200000
    python benchmarks/bench_large.py isolation --files 1000   # beside parsing in the run's process

Each case is made, indexed in a process of its own with the parser beside it, and measured: the most
memory that the run and its parser held, each for itself. Then the same is indexed into another
place, killed at `--kill-at` of the first run's time, and taken up. Vectors come from a stand-in
that costs nothing, since the encoder is not the point; index and parsers are the real ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from canopy_rag.config import IngestConfig
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import ItemVectors, NodeVectors
from canopy_rag.testing.hashing import HashingEncoder

RESULT = Path(__file__).parent / "results" / "large.json"
DIM = 8
LOOK_S = 0.1


class StandIn(HashingEncoder):
    """Gives every node the same vector."""

    def __init__(self) -> None:
        super().__init__(mode="node", dim=DIM)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Return one vector for all."""
        vector = np.zeros(DIM, np.float32)
        vector[0] = 1
        return [
            ItemVectors(
                item=vector,
                nodes=NodeVectors(rows=np.tile(vector.astype(np.float16), (len(item.nodes), 1))),
            )
            for item in items
        ]


def index(docs: Path, folder: Path, *, isolated: bool = True) -> None:
    """Index files as `canopy index` does, and print what came of it."""
    from canopy_rag.indexing import IndexOptions, Limits, SourceReader, index_files
    from canopy_rag.ingest import registry
    from canopy_rag.pipeline.files import FileParser
    from canopy_rag.store import LanceStore

    encoder = StandIn()
    if not (folder / "index.json").exists():
        LanceStore.create(folder, encoder.fingerprint)
    told = 0

    def tell(done: int, total: int, current: str, items: int) -> None:
        nonlocal told
        told += 1

    report = index_files(
        [docs],
        folder=folder,
        store=LanceStore.open(folder),
        encoder=encoder,
        reader=SourceReader(
            parse=FileParser(IngestConfig()),
            supports=registry.is_supported,
            companions=registry.sidecars,
            is_companion=registry.is_sidecar,
        ),
        settings="bench",
        options=IndexOptions(limits=Limits() if isolated else None),
        on_progress=tell,
    )
    counts = report.to_dict()["files"]
    sys.stdout.write(json.dumps({"files": counts, "items": report.items, "told": told}))


@dataclass(slots=True)
class Watched:
    """What one run took."""

    seconds: float
    run_mb: float
    parser_mb: float
    said: dict[str, Any]


def watched(
    docs: Path, folder: Path, *, kill_after_s: float | None = None, how: str = "--index"
) -> Watched:
    """Run `index` in a process, watch it, and kill it if asked."""
    begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, __file__, how, str(docs), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        most = {"run": 0.0, "parser": 0.0}
        done = threading.Event()
        watch = threading.Thread(target=_watch, args=(run.pid, most, done))
        watch.start()
        try:
            said, _ = run.communicate(timeout=kill_after_s)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            said, _ = run.communicate()
        done.set()
        watch.join()
    return Watched(
        time.monotonic() - begun, most["run"], most["parser"], json.loads(said) if said else {}
    )


def _watch(pid: int, most: dict[str, float], done: threading.Event) -> None:
    while not done.wait(LOOK_S):
        most["run"] = max(most["run"], _megabytes(pid))
        for child in _children(pid):
            most["parser"] = max(most["parser"], _megabytes(child))


def _megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def make_csv(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write one CSV file of about a kilobyte a row."""
    path, n_rows = folder / "large.csv", 0
    words = " ".join(f"word{n % 97}" for n in range(8))
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(f"column {n}" for n in range(20)) + "\n")
        while file.tell() < arguments.megabytes * 1e6:
            file.writelines(
                ",".join([str(n_rows + n), *[f"{words} {n}"] * 19]) + "\n" for n in range(1000)
            )
            n_rows += 1000
    return {"what": f"one CSV file of {n_rows:,} rows"}


def make_pdf(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write one PDF of text and ruled tables."""
    import fpdf

    document = fpdf.FPDF()
    document.set_font("Helvetica", size=10)
    for page in range(arguments.pages):
        document.add_page()
        line = f"The keeper of light {page} wrote down what the sea did, and what it cost. "
        document.multi_cell(0, 5, f"{line * 12}\n\n{line * 8}")
        with document.table() as table:
            for n in range(8):
                table.row([f"tower {n}", str(1800 + n), str(page * n)])
    document.output(str(folder / "large.pdf"))
    return {"what": f"one PDF of {arguments.pages:,} pages"}


def make_video(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write one video of small frames with a cut every twenty seconds, and its subtitles."""
    import av

    rate, n_frames = 5, int(arguments.hours * 3600 * 5)
    noise = np.random.default_rng(0).integers(0, 255, (64, 36, 64, 3), dtype=np.uint8)
    with av.open(str(folder / "large.mkv"), "w") as output:
        stream = output.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 36, "yuv420p"
        for n in range(n_frames):
            frame = av.VideoFrame.from_ndarray(noise[n // (20 * rate) % 64], format="rgb24")
            frame.pts = n
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    cues = [
        f"{n + 1}\n{_clock(n * 5)} --> {_clock(n * 5 + 4)}\nWhat is said at {n * 5} seconds.\n"
        for n in range(n_frames // rate // 5)
    ]
    (folder / "large.srt").write_text("\n".join(cues), "utf-8")
    return {"what": f"one video of {arguments.hours:g} hours, {n_frames:,} frames"}


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02},000"


def make_files(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Write many small text files, a thousand to a folder."""
    for n in range(arguments.files):
        place = folder / f"{n // 1000:04}"
        if n % 1000 == 0:
            place.mkdir()
        (place / f"{n:07}.txt").write_text(
            f"Note {n}. The lamp was lit in {1800 + n % 200}. Its keeper came home late.\n", "utf-8"
        )
    return {"what": f"{arguments.files:,} text files"}


MAKE: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "csv": make_csv,
    "pdf": make_pdf,
    "video": make_video,
    "files": make_files,
}


def bench(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one case."""
    with tempfile.TemporaryDirectory(dir=arguments.work) as place:
        docs = Path(place) / "docs"
        docs.mkdir()
        about = MAKE[case](docs, arguments)
        n_bytes = sum(path.stat().st_size for path in docs.rglob("*") if path.is_file())
        whole = watched(docs, Path(place) / "index")
        killed = watched(
            docs, Path(place) / "killed", kill_after_s=arguments.kill_at * whole.seconds
        )
        again = watched(docs, Path(place) / "killed")
    return {
        **about,
        "megabytes": round(n_bytes / 1e6, 1),
        "seconds": round(whole.seconds, 1),
        "run_mb": round(whole.run_mb),
        "parser_mb": round(whole.parser_mb),
        "items": whole.said["items"],
        "failed": whole.said["files"]["failed"],
        "times_told": whole.said["told"],
        "killed_after_s": round(killed.seconds, 1),
        "kept_files": again.said["files"]["unchanged"],
        "taken_up_s": round(again.seconds, 1),
        "same_after": again.said["items"] + again.said["files"]["unchanged"] >= whole.said["items"]
        if case == "files"
        else again.said["items"] == whole.said["items"],
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def isolation(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what small files cost with and without a process for their parser, in turns."""
    seconds: dict[str, list[float]] = {"--index": [], "--index-here": []}
    cpu: dict[str, list[float]] = {"--index": [], "--index-here": []}
    with tempfile.TemporaryDirectory(dir=arguments.work) as place:
        docs = Path(place) / "docs"
        docs.mkdir()
        about = make_files(docs, arguments)
        for turn in range(arguments.repeats):
            for how, own in seconds.items():
                before = sum(os.times()[2:4])
                folder = Path(place) / f"index{how}-{turn}"
                own.append(watched(docs, folder, how=how).seconds)
                cpu[how].append(sum(os.times()[2:4]) - before)
    return {
        **about,
        "repeats": arguments.repeats,
        "seconds": {how: round(float(np.median(own)), 2) for how, own in seconds.items()},
        "cpu_seconds": {how: round(float(np.median(own)), 2) for how, own in cpu.items()},
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Run the named cases and put them into the result."""
    if sys.argv[1:2] in (["--index"], ["--index-here"]):
        index(Path(sys.argv[2]), Path(sys.argv[3]), isolated=sys.argv[1] == "--index")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", choices=[*MAKE, "isolation"])
    parser.add_argument("--megabytes", type=float, default=2000)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=3)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5, help="of the isolation case")
    parser.add_argument("--kill-at", type=float, default=0.6, help="share of a whole run's time")
    parser.add_argument("--work", type=Path, help="folder for what is made; default: temporary")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    for case in arguments.cases:
        found = isolation(arguments) if case == "isolation" else bench(case, arguments)
        sys.stdout.write(f"{case}: {json.dumps(found)}\n")
        sys.stdout.flush()
        known = json.loads(arguments.out.read_text("utf-8")) if arguments.out.exists() else {}
        known[case] = found
        arguments.out.write_text(json.dumps(known, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
