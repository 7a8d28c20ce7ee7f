"""The page as `canopy serve` serves it, over an index of real files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.browser.test_asking import expect
from tests.browser.test_views import item

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Visit

KEY = "the-key-of-the-tests"
BIODIESEL = "price of biodiesel in Iowa"


@contextmanager
def serving(folder: Path, key: str | None) -> Iterator[str]:
    """Serve an index on a loopback port."""
    pytest.importorskip("fastapi", reason="the extra server brings it")
    from canopy_rag._listening import listen
    from canopy_rag.api import Index
    from canopy_rag.config import Secret, load
    from canopy_rag.server import create_app
    from canopy_rag.server.serving import make_server, url_of

    flags = {"index.path": str(folder), "llm.name": "none", "server.port": 0}
    config = load({**flags, "server.allow_upload": True, "server.grace_s": 2.0}, {})
    app = create_app(Index.open(config=config), config=config, key=Secret(key) if key else None)
    started = threading.Event()
    server = make_server(app, config.server, started.set)
    listener = listen(config.server.host, config.server.port)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert started.wait(30)
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index of the sample corpus."""
    from canopy_rag.api import Index
    from canopy_rag.config import load
    from canopy_rag.testing import corpus

    sources = tmp_path_factory.mktemp("sources")
    corpus.copy_to(sources)
    made = tmp_path_factory.mktemp("served") / "index"
    config = load({"index.path": str(made), "encoder.name": "hashing"}, {})
    assert Index.open(create=True, config=config).add(sources).failed == []
    return made


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder, None) as found:
        yield found


def test_an_answer_over_real_files_cites_what_it_shows(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.get_by_text("The index holds")).to_contain_text("3 images, 1 video")
    page.get_by_role("textbox", name="Question").fill(BIODIESEL)
    page.keyboard.press("Enter")
    cited = page.locator("#answer-text .cite").first
    words = page.locator("#answer-text li").first.inner_text().split()
    n = cited.get_attribute("data-cite")
    cited.click()
    expect(page.locator(f"#fragment-{n}")).to_be_focused()
    expect(page.locator(f"article:has(#fragment-{n})")).to_contain_text(" ".join(words[:3]))
    expect(page.get_by_role("region", name="How it was found")).to_contain_text("no critic")


def test_a_page_of_a_real_pdf_has_its_box_over_the_words(page: Page, url: str) -> None:
    page.goto(f"{url}/?s={quote(BIODIESEL)}")
    card = page.get_by_role("article").filter(has=page.get_by_role("tab", name="Page")).first
    card.get_by_role("tab", name="Page").click()
    picture = card.get_by_role("img", name="Page 1")
    page.wait_for_function("each => each.naturalWidth > 0", arg=picture.element_handle())
    sheet, box = picture.bounding_box(), card.locator(".box").first.bounding_box()
    assert sheet is not None
    assert box is not None
    assert sheet["x"] < box["x"] < box["x"] + box["width"] < sheet["x"] + sheet["width"]
    assert sheet["y"] < box["y"] < box["y"] + box["height"] < sheet["y"] + sheet["height"]


def test_the_tree_of_a_real_item_says_what_became_of_its_parts(page: Page, url: str) -> None:
    page.goto(f"{url}/?s={quote('brewing coffee grams litre water')}")
    card = page.get_by_role("article").filter(has=page.get_by_role("tab", name="Tree")).first
    card.get_by_role("tab", name="Tree").click()
    expect(card.locator(".node").first).to_contain_text("0.")
    assert card.locator(".node.keep, .node.split").count() >= 1


def test_a_real_video_plays_from_the_range_that_was_kept(page: Page, url: str) -> None:
    page.goto(f"{url}/?s={quote('purple bird hit by a nut')}")
    card = page.get_by_role("article").filter(has=page.locator("video")).first
    card.locator("video").evaluate("each => { each.muted = true }")
    card.locator(".range").first.click()
    page.wait_for_function("() => document.querySelector('video').readyState >= 2")
    expect(card.locator(".segments .kept").first).to_be_visible()


def test_a_file_that_is_added_is_found_at_once(page: Page, url: str, tmp_path: Path) -> None:
    file = tmp_path / "zebra.md"
    file.write_text("# Zebras\n\nThe zebra crossing was painted in 1951.\n", "utf-8")
    page.goto(url)
    with page.expect_file_chooser() as choosing:
        page.get_by_role("button", name="Add files").click()
    choosing.value.set_files(file)
    expect(page.locator(".files > li")).to_contain_text("in the index: 1 item", timeout=30_000)
    page.get_by_role("radio", name="Search").check()
    page.get_by_role("textbox").fill("zebra crossing painted")
    page.keyboard.press("Enter")
    expect(item(page, "Zebras")).to_contain_text("The zebra crossing was painted in 1951.")


def test_with_a_key_the_page_asks_for_it_and_then_shows_pictures_too(
    visit: Visit, folder: Path
) -> None:
    page = visit.page
    with serving(folder, KEY) as url:
        page.goto(url)
        page.locator("input[type=password]").fill(KEY)
        page.keyboard.press("Enter")
        expect(page.get_by_role("textbox", name="Question")).to_be_visible()
        page.goto(f"{url}/?s={quote('Falcon 9 rocket satellite')}")
        picture = page.locator(".picture img").first
        page.wait_for_function("each => each.naturalWidth > 0", arg=picture.element_handle())
        page.context.clear_cookies()
        page.get_by_role("button", name="Search", exact=True).click()
        dialog = page.get_by_role("dialog", name="This server needs its key")
        dialog.get_by_label("API key").fill(KEY)
        dialog.get_by_role("button", name="Use the key").click()
        expect(page.get_by_role("article").first).to_be_visible()
    assert all("401" in each for each in visit.problems)  # the browser's own words of the refusals
    visit.problems.clear()
