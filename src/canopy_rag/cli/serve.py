"""`canopy serve`: the explorer page, REST, OpenAI-compatible chat and MCP over HTTP."""

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
    hide_bars,
    settings,
)
from canopy_rag.cli.output import Output


def serve(
    index: IndexFolder = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; one that others can reach needs a key. Default: 127.0.0.1.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            help="Port; 0: any that is free. Default: 8377.",
            show_default=False,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            help="Key that callers must send. Better in CANOPY_SERVER_API_KEY, where other users "
            "of the machine cannot read it.",
            show_default=False,
        ),
    ] = None,
    allow_upload: Annotated[
        bool,
        typer.Option("--allow-upload", metavar=FLAG, help="Let callers add files to the index."),
    ] = False,
    allow_public: Annotated[
        bool,
        typer.Option(
            "--allow-public",
            metavar=FLAG,
            help="Listen on an address that others can reach without a key.",
        ),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="A further name that this server is called by; may be repeated.",
            show_default=False,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="An origin whose web pages may call the API; may be repeated.",
            show_default=False,
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", metavar=FLAG, help="Do not open the page in a browser.")
    ] = False,
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
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Answer over HTTP: a page to explore, REST, OpenAI-compatible chat, MCP.

    It listens on this machine alone unless told otherwise, and then wants a key. Ctrl-C ends it
    after the requests that run. With --json, one line says where it listens.
    """
    from canopy_rag.cli.serving import run

    output = Output(as_json=as_json, quiet=quiet)
    flags = {
        "index.path": index,
        "server.host": host,
        "server.port": port,
        "server.allow_upload": allow_upload or None,
        "server.allow_public": allow_public or None,
        "server.allow_hosts": ",".join(allow_host) if allow_host else None,
        "server.allow_origins": ",".join(allow_origin) if allow_origin else None,
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
    config = settings(offline=offline, flags=flags)
    hide_bars(output)
    run(output, config, api_key=api_key, opens=not no_open)
