"""The explorer page and the page that asks a browser for the key."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import HTMLResponse, Response

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


def sign_in_page(message: str = "") -> Response:
    """Return the page, with status 401; it holds nothing of the index.

    Args:
        message: Said above the explanation; no markup.
    """
    alert = f'<p role="alert">{message}</p>' if message else ""
    return HTMLResponse(_SIGN_IN.replace("{message}", alert), 401, {"WWW-Authenticate": "Bearer"})
