"""A real Chromium: Debian's, or the one that CANOPY_CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_MS = 60_000


def find_chromium() -> str | None:
    """Return the path of an installed Chromium."""
    named = os.environ.get("CANOPY_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")  # a driver that outlives its module would keep its event loop
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright drives the browser tests; extra dev brings it"
    )
    sync_api.expect.set_options(timeout=LIMIT_MS)
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium found; install Debian's `chromium` or set CANOPY_CHROMIUM")
    with sync_api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as found:
        yield found


class Visit:
    """A page, and what went wrong on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._said)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Open a page; a parameter holds the context's options. The test fails if the page erred."""
    options = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True}
    context = browser.new_context(**{**options, **getattr(request, "param", {})})
    context.set_default_timeout(LIMIT_MS)
    found = Visit(context.new_page())
    yield found
    context.close()
    assert found.problems == []


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page
