"""`canopy mcp`: an index for agents, over stdio or HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from canopy_rag.cli.options import (
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
    Rounds,
    Select,
    settings,
)
from canopy_rag.cli.output import Output

if TYPE_CHECKING:
    from canopy_rag.config import Config


def mcp(
    index: IndexFolder = None,
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="stdio: an agent starts this command. http: agents connect to a port."),
    ] = "stdio",
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address of this machine to listen on, for http.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", help="Port to listen on, for http; 0: any free one.")
    ] = 8000,
    llm: Llm = None,
    model: Model = None,
    rounds: Rounds = None,
    critic: Critic = None,
    k: K = None,
    select: Select = None,
    budget: Budget = None,
    cap: Cap = None,
    encoder: Encoder = None,
    as_json: Json = False,
    quiet: Quiet = False,
    offline: Offline = False,
    debug: Debug = False,
) -> None:
    """Serve an index to agents by the Model Context Protocol.

    Tools: search_evidence (what a query needs; in a session only what is new), ask, read_source.
    Over stdio stdout belongs to the protocol. Over HTTP it listens on this machine alone and asks
    for no key; --json prints its address.
    """
    from canopy_rag.api import Index

    output = Output(as_json=as_json, quiet=quiet)
    if transport == "http":
        _check_local(host)
    flags = {
        "index.path": index,
        "llm.name": llm,
        "llm.model": model,
        "retrieval.rounds": rounds,
        "retrieval.critic": critic,
        "retrieval.k": k,
        "select.select": select,
        "select.budget": budget,
        "select.cap": cap,
        "encoder.name": encoder,
    }
    config = settings(offline=offline, output=output, flags=flags)
    _serve(
        Index.open(config=config), config, output, None if transport == "stdio" else (host, port)
    )


def _check_local(host: str) -> None:
    from canopy_rag.core.errors import ConfigError

    if host not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError(
            f"canopy mcp asks for no key, so it listens on this machine alone: --host {host!r} is "
            "not one of 127.0.0.1, ::1 and localhost"
        )


def _serve(index: Any, config: Config, output: Output, address: tuple[str, int] | None) -> None:
    import asyncio

    from canopy_rag._listening import listen
    from canopy_rag.integrations.mcp import create_server

    server = create_server(index, config=config)
    if address is None:
        output.note(f"serving {index.place} by MCP over stdio; an agent starts this command")
        asyncio.run(server.run_stdio_async())
        return
    host, port = address
    listening = listen("127.0.0.1" if host == "localhost" else host, port)
    port = listening.getsockname()[1]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
    output.note(f"serving {index.place} by MCP at {url}")
    if output.as_json:
        output.json({"url": url})
    import uvicorn

    app = server.streamable_http_app(host=host)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
