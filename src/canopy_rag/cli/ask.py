"""`canopy ask`: an answer with its citations, evidence and rounds."""

from __future__ import annotations

from typing import Annotated

import typer

from canopy_rag.cli.options import (
    FLAG,
    Budget,
    Cap,
    Critic,
    Debug,
    Encoder,
    Full,
    IndexFolder,
    Json,
    K,
    Llm,
    Model,
    Offline,
    Quiet,
    Repeat,
    Rounds,
    Route,
    Select,
    Tokenizer,
    settings,
)
from canopy_rag.cli.output import Output


def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="The question.", show_default=False)
    ],
    index: IndexFolder = None,
    llm: Llm = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    rounds: Rounds = None,
    critic: Critic = None,
    route: Route = False,
    k: K = None,
    repeat: Repeat = None,
    select: Select = None,
    budget: Budget = None,
    cap: Cap = None,
    encoder: Encoder = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            metavar=FLAG,
            help="Show the answer as it comes. With --json: a line for each event "
            "(evidence, token, answer).",
        ),
    ] = False,
    full: Full = False,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Answer a question over an index, with citations.

    Without --llm the answer quotes the best fragments of one round. With a chat model it is
    written by the model from the evidence alone; the model also judges whether the evidence
    suffices, and searches for what is missing in up to three rounds.
    """
    from canopy_rag.api import Canopy
    from canopy_rag.cli.answering import show_answer, show_stream
    from canopy_rag.cli.opening import open_index

    output = Output(as_json=as_json, quiet=quiet)
    flags = {
        "index.path": index,
        "llm.name": llm,
        "llm.model": model,
        "llm.tokenizer": tokenizer,
        "retrieval.rounds": rounds,
        "retrieval.critic": critic,
        "retrieval.route": "llm" if route else None,
        "retrieval.k": k,
        "select.repeat": repeat,
        "select.select": select,
        "select.budget": budget,
        "select.cap": cap,
        "encoder.name": encoder,
    }
    config = settings(offline=offline, output=output, flags=flags)
    canopy = Canopy(open_index(config, output, question), config=config)
    try:
        if stream:
            show_stream(output, canopy.stream(question), full=full)
        elif as_json:
            output.json(canopy.ask(question).to_dict())
        else:
            show_answer(output, canopy.ask(question), full=full)
    finally:
        canopy.close()
