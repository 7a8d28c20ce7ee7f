"""The commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from canopy_rag import __version__
from canopy_rag.cli.ask import ask
from canopy_rag.cli.compress import compress
from canopy_rag.cli.config import config
from canopy_rag.cli.datasets import datasets
from canopy_rag.cli.demo import demo
from canopy_rag.cli.diagnose import diagnose
from canopy_rag.cli.doctor import doctor
from canopy_rag.cli.evaluate import evaluate, report
from canopy_rag.cli.explain import explain
from canopy_rag.cli.index import index
from canopy_rag.cli.info import info
from canopy_rag.cli.mcp import mcp
from canopy_rag.cli.options import DEBUG_VARIABLE, FLAG, debugging
from canopy_rag.cli.output import Output, tell_error, tell_unexpected
from canopy_rag.cli.search import search
from canopy_rag.cli.serve import serve
from canopy_rag.cli.train import train
from canopy_rag.cli.upgrade import upgrade
from canopy_rag.cli.verify import verify
from canopy_rag.core.errors import CanopyError, ConfigError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


class Commands(TyperGroup):
    """Turns what a command raises into a message on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except CanopyError as error:
            if debugging(ctx):
                raise
            tell_error(error)
            raise typer.Exit(WRONG_USAGE if isinstance(error, ConfigError) else FAILED) from error
        except BrokenPipeError:
            # Whoever read stdout has seen enough; keep the interpreter from complaining at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            Output().error("interrupted. Nothing that was finished is lost; run it again to go on")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="canopy",
    cls=Commands,
    help="Of each retrieved text, table, image or video, just the part that the question needs.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"canopy-rag {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar=FLAG,
            callback=_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    pass


for _command in (
    index,
    search,
    ask,
    explain,
    compress,
    info,
    verify,
    upgrade,
    config,
    diagnose,
    evaluate,
    report,
    doctor,
    demo,
    datasets,
    train,
    serve,
    mcp,
):
    app.command()(_command)


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is no reason to stop.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace" if stream is sys.stderr else "replace")
    try:
        app(prog_name="canopy")
    except Exception as error:
        if "--debug" in sys.argv or os.environ.get(DEBUG_VARIABLE):
            raise
        tell_unexpected(error)
        raise SystemExit(FAILED) from None
    raise SystemExit(0)
