"""Progress bars on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from canopy_rag.cli.output import Output
from canopy_rag.cli.wording import one_line

if TYPE_CHECKING:
    from canopy_rag.indexing import Progress as OnProgress

LINES_EVERY = 100
"""Files between two lines where stderr is no terminal."""


@contextmanager
def showing_progress(output: Output) -> Iterator[OnProgress | None]:
    """Show how far an indexing run is: a bar with rate and time left, or now and then a line.

    Args:
        output: Where to; a quiet one shows nothing.

    Yields:
        What the run is to call, or None.
    """
    if output.quiet:
        yield None
    elif not output.err.is_terminal:
        yield _lines(output)
    else:
        with _bar(output) as progress:
            task = progress.add_task("scanning", total=None, rate="", current="")
            yield _updating(progress, task)


def _lines(output: Output) -> OnProgress:
    def on_progress(done: int, total: int, current: str, items: int) -> None:
        if done and (done % LINES_EVERY == 0 or (done == total and done > LINES_EVERY)):
            output.note(f"{done:,} of {total:,} files, {items:,} items")

    return on_progress


def _bar(output: Output) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("files {task.fields[rate]}", style="dim"),
        TimeElapsedColumn(),
        TextColumn("left", style="dim"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[current]}", style="dim"),
        console=output.err,
        transient=True,
    )


def _updating(progress: Progress, task: TaskID) -> OnProgress:
    def on_progress(done: int, total: int, current: str, items: int) -> None:
        elapsed = progress.tasks[0].elapsed or 0.0
        rate = _rate(done, items, elapsed)
        progress.update(
            task,
            description="indexing",
            completed=done,
            total=total or None,
            rate=rate,
            current=_tail(one_line(current), 24),
        )

    return on_progress


def _rate(done: int, items: int, elapsed_s: float) -> str:
    """Return items per second; files per second until items have been written."""
    if elapsed_s < 1 or not done:
        return ""
    n, noun = (items, "items") if items else (done, "files")
    return f"{n / elapsed_s:.1f} {noun}/s"


def _tail(text: str, width: int) -> str:
    """Return the end of a path, which tells more than its beginning."""
    return text if len(text) <= width else f"...{text[3 - width :]}"
