"""Each kind of item as a whole, with what was kept lit; hostile and large ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.browser import props
from tests.browser.stage import Stage
from tests.browser.test_asking import answered, expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def item(page: Page, title: str) -> Locator:
    return page.get_by_role("article", name=title)


def test_a_text_shows_kept_sentences_lit_and_the_others_dimmed(page: Page, stage: Stage) -> None:
    answered(page, stage)
    text = item(page, "Skerry Point").locator(".text")
    expect(text.locator("mark.kept")).to_have_text(
        [
            "1Its beam reaches 19 nautical miles.",
            "2In the winter of 1907 Marta Lindqvist kept the light alone for 41 days.",
        ]
    )
    expect(text.locator(".dropped").first).to_have_text(props.LIGHTHOUSE[18:83])
    expect(text.locator(".heading")).to_have_text(["Skerry Point \U0001f5fc", "Keepers", "Visits"])


def test_a_long_dropped_run_is_folded_and_opens_on_demand(page: Page, stage: Stage) -> None:
    answered(page, stage)
    text = item(page, "Skerry Point").locator(".text")
    expect(text).not_to_contain_text("Supplies came by boat on Mondays.")
    text.get_by_role("button", name="Show 5 sentences that were dropped").click()
    expect(text).to_contain_text("They kept a goat. They kept a log. Supplies came by boat on")


def test_kept_only_shows_what_the_reader_was_given(page: Page, stage: Stage) -> None:
    answered(page, stage)
    card = item(page, "Skerry Point")
    card.get_by_role("tab", name="Kept only").click()
    expect(card.locator("mark")).to_have_count(2)
    expect(card.locator(".dropped")).to_have_count(0)


def test_the_tree_tells_what_was_kept_split_and_dropped_and_by_which_similarity(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    card = item(page, "Skerry Point")
    card.get_by_role("tab", name="Tree").click()
    kept = card.locator(".node.keep")
    expect(kept).to_have_count(2)
    expect(kept.nth(0)).to_contain_text("Its beam reaches 19 nautical miles.")
    expect(kept.nth(0)).to_contain_text("0.68, +0.28 to its parent")
    expect(card.locator(".node.split").first).to_contain_text("19 sentences")
    dropped = card.locator(".node.drop").filter(has_text="She was awarded a medal.")
    dropped.get_by_role("button").click()
    expect(card.locator(".node.none").filter(has_text="The medal hangs").last).to_be_visible()
    assert {"query": props.QUESTION, "item": "light"} in stage.bodies


def test_right_to_left_text_runs_right_to_left(page: Page, stage: Stage) -> None:
    answered(page, stage)
    paragraph = item(page, "المنارة").locator(".text p")
    assert paragraph.evaluate("each => getComputedStyle(each).direction") == "rtl"
    expect(paragraph.locator("mark")).to_have_text("3يصل ضوؤها إلى 19 ميلًا بحريًا.")


def test_markup_in_documents_is_shown_and_never_obeyed(page: Page, stage: Stage) -> None:
    answered(page, stage)
    card = item(page, "<img src=x onerror=window.hacked=4>")
    expect(card.locator(".text p")).to_have_text(props.HOSTILE.replace("<img", "6<img", 1))
    card.get_by_role("tab", name="Tree").click()
    expect(card.locator(".node.keep")).to_contain_text('<img src=x onerror="window.hacked = 2">')
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main b, .text img, .text svg, .node img").count() == 0
    assert not [path for _, path in stage.requests if path.endswith("/x")]


def test_a_table_of_2000_rows_keeps_few_of_them_in_the_page_and_shows_the_right_ones(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    card = item(page, "Harbour trade")
    rows = card.locator("tbody tr[data-row]")
    expect(rows.nth(3)).to_have_class("kept cited")
    area = card.get_by_role("region", name="Rows of Harbour trade")
    for at in range(0, 2000, 333):
        area.evaluate("(each, top) => { each.scrollTop = top }", at * 30)
        row = card.locator(f"tr[data-row='{at}']")
        expect(row).to_contain_text(str(1850 + at % 170))
        expect(row.locator("td").nth(1)).to_have_text(f"ship {at}")
        assert rows.count() < 60
    area.scroll_into_view_if_needed()
    header = card.locator("thead th").nth(1)
    expect(header).to_have_text("year")
    expect(header).to_be_in_viewport()
    expect(card.locator("table")).to_have_attribute("aria-rowcount", "2001")


def test_kept_rows_far_apart_are_stepped_through(page: Page, stage: Stage) -> None:
    answered(page, stage)
    card = item(page, "Harbour trade")
    card.get_by_role("button", name="Next kept row").click()
    expect(card.locator("tr[data-row='3']")).to_be_focused()
    card.get_by_role("button", name="Next kept row").click()
    expect(card.locator("tr[data-row='1400']")).to_be_focused()
    expect(card.locator("tr[data-row='1400']")).to_contain_text(
        "bought from the <b>Alstad</b> works"
    )
    expect(card.locator("tr[data-row='1401']")).to_have_class("kept")
    page.keyboard.press("Enter")
    expect(card.locator(".row-detail dd").nth(3)).to_have_text(
        "bought from the <b>Alstad</b> works"
    )


def test_kept_rows_alone_can_be_shown(page: Page, stage: Stage) -> None:
    answered(page, stage)
    card = item(page, "Harbour trade")
    card.get_by_role("tab", name="Kept only").click()
    expect(card.locator("tbody tr")).to_have_count(3)
    expect(card.locator("tbody tr").nth(1)).to_contain_text("Lamp, 12 volts")
    expect(card).to_contain_text("1,997 rows dropped")


def test_an_image_is_shown_with_its_caption_and_the_words_in_it(page: Page, stage: Stage) -> None:
    answered(page, stage)
    picture = page.get_by_role("img", name="A rocket on its pad at dusk")
    picture.scroll_into_view_if_needed()
    page.wait_for_function("each => each.naturalWidth > 0", arg=picture.element_handle())
    card = item(page, "rocket")
    card.get_by_text("Text in the picture").click()
    expect(card).to_contain_text("FALCON")


def seconds(page: Page) -> float:
    return float(page.evaluate("document.querySelector('video').currentTime"))


def test_a_kept_range_of_a_video_is_sought_on_click(page: Page, stage: Stage) -> None:
    answered(page, stage)
    card = item(page, "Big Buck Bunny")
    expect(card.locator(".segments .kept")).to_have_count(2)
    page.evaluate("document.querySelector('video').muted = true")
    card.get_by_role("button", name="Go to 0:25").click()
    page.wait_for_function("() => document.querySelector('video').currentTime >= 25")
    card.get_by_role("button", name="Fragment 8: play from 0:10 to 0:20").click()
    page.wait_for_function("() => !document.querySelector('video').seeking")
    assert 10 <= seconds(page) < 20
    expect(card.locator(".segments li[aria-current]")).to_contain_text("10 seconds")


def test_an_hour_of_video_keeps_its_list_short_and_its_ranges_in_place(
    page: Page, stage: Stage
) -> None:
    page.goto(f"{stage.url}?s=one%20hour")
    card = item(page, "An hour")
    expect(card.locator(".range")).to_have_count(3)
    assert card.locator(".segments li").count() < 40
    width = card.locator(".timeline").bounding_box()
    second = card.locator(".range").nth(1).bounding_box()
    assert width is not None
    assert second is not None
    assert (second["x"] - width["x"]) / width["width"] == pytest.approx(1500 / 3600, abs=0.005)
    page.locator(".cited-list a").nth(2).click()
    expect(card.locator("#fragment-3")).to_be_focused()
    page.wait_for_function("() => Math.abs(document.querySelector('video').currentTime - 3500) < 1")
    card.get_by_role("button", name="Show 6 segments that were dropped").click()
    expect(card.locator(".segments")).to_contain_text("At 20 seconds something is said.")


def test_a_page_of_a_pdf_shows_the_box_of_what_was_kept(page: Page, stage: Stage) -> None:
    answered(page, stage)
    card = item(page, "Energy round-up")
    card.get_by_role("tab", name="Page").click()
    picture = card.get_by_role("img", name="Page 1 of Energy round-up")
    page.wait_for_function("each => each.naturalWidth > 0", arg=picture.element_handle())
    sheet, box = picture.bounding_box(), card.locator(".box").bounding_box()
    assert sheet is not None
    assert box is not None
    assert (box["x"] - sheet["x"]) / sheet["width"] == pytest.approx(58 / 420, abs=0.01)
    assert (box["y"] - sheet["y"]) / sheet["height"] == pytest.approx(82 / 300, abs=0.01)
    assert box["width"] / sheet["width"] == pytest.approx(206 / 420, abs=0.02)


def test_an_item_whose_original_is_gone_still_shows_what_was_kept(
    page: Page, stage: Stage, visit: object
) -> None:
    del stage.items["arabic"]
    answered(page, stage)
    card = item(page, "المنارة")
    expect(card).to_contain_text("The original could not be loaded")
    expect(card.locator("mark")).to_contain_text("يصل ضوؤها")
    visit.problems.clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_on_a_phone_everything_fits_and_a_citation_leads_down_and_back(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("[data-cite='3']").tap()
    expect(page.locator("#fragment-3")).to_be_in_viewport()
    page.get_by_role("button", name="↑ Answer").tap()
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    for card in page.get_by_role("article").all():
        if card.get_by_role("tab", name="Tree").count():
            card.get_by_role("tab", name="Tree").tap()
    expect(page.locator(".node.keep").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_dark_follows_the_system_until_a_theme_is_chosen_and_is_remembered(
    page: Page, stage: Stage
) -> None:
    def lightness() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    page.goto(f"{stage.url}?q={quote(props.QUESTION)}")
    assert lightness() < 200
    page.get_by_role("button", name="Theme: as the system").click()
    assert lightness() > 600
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
    assert lightness() > 600
