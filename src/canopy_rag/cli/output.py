"""Where a command's words go: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from canopy_rag.cli.wording import clean


class Output:
    """The two streams of one command.

    Args:
        as_json: stdout gets JSON documents, one a line, and nothing else.
        quiet: stderr gets errors and nothing else.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.console = Console(highlight=False, markup=False, emoji=False)
        self.err = Console(stderr=True, highlight=False, markup=False, emoji=False)

    @property
    def unicode(self) -> bool:
        """Whether stdout takes characters beyond ASCII."""
        return self.console.encoding.lower().startswith("utf")

    @property
    def width(self) -> int:
        """Columns of stdout."""
        return self.console.width

    def json(self, document: Any) -> None:
        """Write one JSON document on a line of its own, at once."""
        line = json.dumps(document, ensure_ascii=False, allow_nan=False)
        if not self.unicode or not _is_utf8(line):
            line = json.dumps(document, allow_nan=False)
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def show(self, *lines: RenderableType) -> None:
        """Write a result for people; nothing when stdout is for JSON."""
        if not self.as_json:
            for line in lines:
                self.console.print(line)

    def write(self, text: str) -> None:
        """Write text to stdout without wrapping; nothing when stdout is for JSON.

        A file or pipe gets it as it is, a terminal without control characters.
        """
        if not self.as_json:
            safe = clean(text) if self.console.is_terminal else text
            sys.stdout.write(_printable(safe, self.console.encoding))
            sys.stdout.flush()

    def note(self, message: str | Text) -> None:
        """Tell something in passing."""
        if not self.quiet:
            self.err.print(message, style="dim", soft_wrap=True)

    def warn(self, message: str) -> None:
        """Tell what the user should know."""
        if not self.quiet:
            self.err.print(Text.assemble(("warning: ", "bold yellow"), message), soft_wrap=True)

    def error(self, message: str) -> None:
        """Tell what went wrong."""
        self.err.print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def tell_error(error: BaseException) -> None:
    """Write an error and its notes to stderr."""
    Output().error("\n".join([str(error), *getattr(error, "__notes__", ())]))


def tell_unexpected(error: BaseException) -> None:
    """Write an error that no part of canopy raised on purpose to stderr."""
    if isinstance(error, OSError):
        tell_error(error)
        return
    Output().error(
        f"{type(error).__name__}: {error}\nThis is a fault of canopy. Run it again with --debug "
        "for the traceback, and please report that."
    )


def _is_utf8(text: str) -> bool:
    """Whether `text` can be written as UTF-8: a file name that is no text cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _printable(text: str, encoding: str) -> str:
    """Return `text` with a `?` for each character that `encoding` lacks."""
    return text.encode(encoding, "replace").decode(encoding)
