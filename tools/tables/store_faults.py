"""What became of writers whose disk was full, who were killed, raced, or let down by storage."""

from __future__ import annotations

from typing import Any

import benchmark_tables


def table() -> str:
    """Return one line for each kind of fault."""
    result = benchmark_tables.read("store-faults")
    full, kills = result["full"], result["bucket_kills"]
    races, failures = result["bucket_races"], result["bucket_failures"]
    n_full = full.get("disks", 0) + full.get("limits of file size", 0)
    lines = [
        [
            f"disks that were too small ({full.get('disks', 0)}), files that could not grow "
            f"({full.get('limits of file size', 0)})",
            str(n_full),
            f"{full.get('refused', 0)} ended, {full.get('told to make room', 0)} told to make room",
            *_after(full),
        ],
        [
            "killed in a bucket, at a random request",
            str(_runs(kills)),
            f"{kills['killed']} killed before they were done",
            *_after(kills),
        ],
        [
            "two writers of a bucket at once",
            str(races["pairs"]),
            f"{races['one was told who writes']} times one was told who writes, "
            f"{races['both went through, one after the other']} times both went through in turn",
            *_after(races),
        ],
        [
            "a bucket that refused requests",
            str(failures["runs"]),
            f"{failures['requests refused']:,} requests refused; "
            f"{failures.get('went through at once', 0)} runs went through, "
            f"{failures.get('gave up with a reason', 0)} gave up with a reason",
            *_after(failures),
        ],
    ]
    return benchmark_tables.table(["fault", "runs", "what happened", "completed", "sound"], lines)


def _after(counts: dict[str, Any]) -> list[str]:
    return [str(counts["completed by the next run"]), str(counts["sound afterwards"])]


def _runs(counts: dict[str, Any]) -> int:
    return int(counts["runs"])
