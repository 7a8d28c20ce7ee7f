"""What `canopy serve` does: index, application, socket, page."""

from __future__ import annotations

import os
import sys
import webbrowser

from canopy_rag._optional import require
from canopy_rag.api import Index
from canopy_rag.cli.output import Output
from canopy_rag.config import Config, encoder_api_key, llm_api_key, server_api_key


def run(output: Output, config: Config, *, api_key: str | None, opens: bool) -> None:
    """Serve until the process is told to stop.

    Args:
        output: Where to tell the address.
        config: All settings.
        api_key: The flag.
        opens: Open the page in a browser, where a person is likely to sit before one.

    Raises:
        ConfigError: If the address cannot be listened on, or strangers could ask without a key.
        StoreError: If there is no index and files may not be added.
    """
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, extra="server", feature="canopy serve")
    from canopy_rag._listening import listen
    from canopy_rag.server import create_app
    from canopy_rag.server.serving import log_to_stderr, make_server, url_of

    key = server_api_key(flag=api_key)
    log_to_stderr([key, llm_api_key(), encoder_api_key()], quiet=output.quiet)
    index = Index.open(create=config.server.allow_upload, config=config)
    app = create_app(index, config=config, key=key)
    listener = listen(config.server.host, config.server.port)
    url = url_of(listener)

    def started() -> None:
        if output.as_json:
            output.json(
                {
                    "url": url,
                    "index": index.place,
                    "key": key is not None,
                    "uploads": config.server.allow_upload,
                }
            )
        output.show(f"{url}  (index {index.place}; Ctrl-C ends it)")
        if opens and not output.as_json and _has_screen():
            webbrowser.open(url)

    make_server(app, config.server, started).run(sockets=[listener])


def _has_screen() -> bool:
    """Whether a person is likely to see a browser that is opened."""
    if not sys.stderr.isatty() or os.environ.get("SSH_CONNECTION"):
        return False
    graphical = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or bool(graphical)
