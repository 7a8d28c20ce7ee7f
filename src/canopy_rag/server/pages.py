"""The explorer page and the page that asks a browser for the key."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
_SIGN_IN = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>canopy: sign in</title>
</head>
<body>
<main>
<h1>canopy</h1>
<form method="post" action="/v1/session">
<p><label for="key">The key of this server</label></p>
<p><input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
<button>Sign in</button></p>
{message}
<p>It is the one that the server was started with: <code>--api-key</code> or
<code>CANOPY_SERVER_API_KEY</code>.</p>
</form>
</main>
</body>
</html>
"""


class PageFiles(StaticFiles):
    """The page's files: kept by the browser, which asks each time whether they are still current.

    With `no-store`, fonts would come anew, and text move, at every visit.
    """

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, or that it has not changed."""
        reply = await super().get_response(path, scope)
        reply.headers["Cache-Control"] = "no-cache"
        return reply


def sign_in_page(message: str = "") -> Response:
    """Return the page, with status 401; it holds nothing of the index.

    Args:
        message: Said above the explanation; no markup.
    """
    alert = f'<p role="alert">{message}</p>' if message else ""
    # Under the other pages' `no-referrer` a browser sends the form with `Origin: null`.
    headers = {"WWW-Authenticate": "Bearer", "Referrer-Policy": "same-origin"}
    return HTMLResponse(_SIGN_IN.replace("{message}", alert), 401, headers)
