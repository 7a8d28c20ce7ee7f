"""The options that several commands share, and how they become settings."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import typer

from canopy_rag.cli.output import Output
from canopy_rag.config import Config, load

_COMMON = "Common options"
_SETTINGS = "Settings (flag > environment > canopy.toml > default)"
FLAG = " "
"""Metavar of an option that takes no value; an empty one counts as none given."""
DEBUG_VARIABLE = "CANOPY_DEBUG"


def _set_debug(context: typer.Context, value: bool) -> bool:
    if value:
        context.find_root().meta[DEBUG_VARIABLE] = True
    return value


def debugging(context: typer.Context) -> bool:
    """Whether errors are to be shown with their traceback."""
    return bool(context.find_root().meta.get(DEBUG_VARIABLE) or os.environ.get(DEBUG_VARIABLE))


Json = Annotated[
    bool,
    typer.Option(
        "--json",
        metavar=FLAG,
        help="Print JSON on stdout and nothing else there.",
        rich_help_panel=_COMMON,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        metavar=FLAG,
        help="No progress, notes or warnings on stderr; errors only.",
        rich_help_panel=_COMMON,
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        metavar=FLAG,
        help="Forbid any download. The default set-up needs none.",
        rich_help_panel=_COMMON,
    ),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        metavar=FLAG,
        help="Show the traceback of an error; CANOPY_DEBUG=1 does the same.",
        rich_help_panel=_COMMON,
        callback=_set_debug,
        is_eager=True,
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full", metavar=FLAG, help="Show whole fragments instead of the first lines of each."
    ),
]
IndexFolder = Annotated[
    str | None,
    typer.Option(
        "--index",
        metavar="DIR",
        help="Folder of the index, or s3://BUCKET/PATH. Default: CANOPY_INDEX, then ./.canopy.",
        show_default=False,
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        "--vectors",
        metavar="int4|int8|float16",
        help="How vectors of nodes are stored. Default: int4 in a new index, else as they are.",
        show_default=False,
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="Encoder: minilm (the embedded default), qwen3-vl, hf:MODEL or http:URL#MODEL; +DIR "
        "adds an adapter.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Mode = Annotated[
    Literal["late", "node"] | None,
    typer.Option(
        "--mode",
        help="late: one pass per item, nodes pooled from it. node: one pass per node.",
        show_default=False,
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        "--k",
        metavar="N",
        help="Items to retrieve per round.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Select = Annotated[
    Literal["paper", "set"] | None,
    typer.Option(
        "--select",
        help="paper: each item decides for itself. set: over the whole retrieved set.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget",
        metavar="TOKENS",
        help="Most tokens of evidence.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Cap = Annotated[
    Literal["tail", "margin"] | None,
    typer.Option(
        "--cap",
        help="What goes first over budget: the least similar fragments (margin), or the latest "
        "retrieved.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Llm = Annotated[
    str | None,
    typer.Option(
        "--llm",
        metavar="URL_OR_NAME",
        help="Base URL of an OpenAI-compatible server (commas between replicas), local, or none. "
        "Its key: CANOPY_LLM_API_KEY or OPENAI_API_KEY.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Model to ask the server for. Default: the first it lists.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="PATH",
        help="The model's own tokenizer.json, for exact budgets where its server counts none.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        metavar="N",
        help="Most retrieval rounds.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Route = Annotated[
    bool,
    typer.Option(
        "--route",
        metavar=FLAG,
        help="Let the chat model choose the modalities of every query.",
        rich_help_panel=_SETTINGS,
    ),
]
Critic = Annotated[
    Literal["auto", "llm", "rules", "none"] | None,
    typer.Option(
        "--critic",
        help="Who asks for what is missing between rounds.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]
Repeat = Annotated[
    Literal["keep", "union"] | None,
    typer.Option(
        "--repeat",
        help="A later round finds an item again: keep its regions, or add the new ones.",
        rich_help_panel=_SETTINGS,
        show_default=False,
    ),
]


def settings(
    *, offline: bool = False, output: Output | None = None, flags: dict[str, Any] | None = None
) -> Config:
    """Return the settings with a command's flags on top.

    Args:
        offline: Forbid model hubs any download, in this process and those it starts.
        output: Where log records of level WARNING and above go, and whether model libraries show
            bars; None: nowhere new, and they do.
        flags: `section.field` -> value; None as a value means that the flag was not given.
    """
    if offline:
        os.environ.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"})
    if output is not None:
        _show_log(output)
        hide_bars(output)
    return load(flags=flags or {})


def hide_bars(output: Output) -> None:
    """Keep the bars of model libraries off stderr where it is quiet or stdout is for a program.

    By the hub's own variable, which transformers goes by too ("Loading weights") and which worker
    processes inherit. Without `--quiet` and `--json` the user's own choice holds.
    """
    if output.quiet or output.as_json:
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


def _show_log(output: Output) -> None:
    import logging

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.warn(record.getMessage())

    logger = logging.getLogger("canopy_rag")
    logger.handlers = [Handler(level=logging.WARNING)]
    logger.propagate = False
