"""From a question to the fragments behind its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.browser import props
from tests.browser.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Visit


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as playwright_expect

    return playwright_expect(locator)


def ask(page: Page, stage: Stage, question: str = props.QUESTION) -> None:
    page.goto(stage.url)
    page.get_by_role("textbox", name="Question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()


def answered(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}?q={quote(props.QUESTION)}")
    expect(page.get_by_role("list").filter(has_text="Ended: the evidence suffices")).to_be_visible()


def test_evidence_stands_before_the_answer_and_the_answer_grows_as_it_comes(
    page: Page, stage: Stage
) -> None:
    stage.gate.clear()
    ask(page, stage)
    expect(page.get_by_role("article")).to_have_count(7)
    expect(page.locator("#answer-text")).to_be_empty()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    stage.gate.set()
    expect(page.locator("#answer-text")).to_contain_text("its beam reaches 19 nautical miles")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert stage.bodies[0] == {"question": props.QUESTION, "stream": True, "progress": True}


def test_a_citation_leads_to_its_fragment_and_its_number_leads_back(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    page.locator("[data-cite='2']").click()
    fragment = page.locator("#fragment-2")
    expect(fragment).to_be_focused()
    expect(fragment).to_be_in_viewport()
    expect(fragment).to_contain_text("Lindqvist kept the light alone for 41 days.")
    assert page.url.endswith("#fragment-2")
    fragment.get_by_role("button", name="Fragment 2, cited: back to the answer").click()
    expect(page.locator("#cite-2")).to_be_focused()


def test_what_is_cited_is_listed_in_its_own_words_with_its_place(page: Page, stage: Stage) -> None:
    answered(page, stage)
    listed = page.locator(".cited-list li")
    expect(listed).to_have_count(4)
    expect(listed.nth(0)).to_contain_text("In the winter of 1907 Marta Lindqvist kept the light")
    expect(listed.nth(3)).to_contain_text("row 4")


def test_a_citation_of_no_fragment_is_no_link(page: Page, stage: Stage) -> None:
    answered(page, stage)
    expect(page.locator(".cite.unknown")).to_have_text("99")
    expect(page.locator("#answer-text a")).to_have_count(4)


def test_pointing_at_a_citation_shows_its_words_beside_it(page: Page, stage: Stage) -> None:
    answered(page, stage)
    page.locator("[data-cite='1']").hover()
    expect(page.get_by_role("tooltip")).to_contain_text("Its beam reaches 19 nautical miles.")
    page.mouse.move(5, 5)
    expect(page.get_by_role("tooltip")).to_be_hidden()


def test_rounds_tokens_and_time_tell_how_it_was_found(page: Page, stage: Stage) -> None:
    answered(page, stage)
    how = page.get_by_role("region", name="How it was found")
    expect(how).to_contain_text("612 of 21,480 tokens kept")
    expect(how).to_contain_text("3 model calls, 2,210 tokens in, 187 out")
    expect(how).to_contain_text("critic 1.31 s")
    rounds = how.locator(".rounds > li")
    expect(rounds).to_have_count(2)
    expect(rounds.nth(0)).to_contain_text(props.FOLLOW_UP)
    expect(rounds.nth(1)).to_contain_text("7 items found, 1 new in the evidence, 7 held already")
    expect(rounds.nth(1)).to_contain_text("Degraded, critic: the reply had to be repaired")


def test_what_was_left_out_is_listed_with_the_reason_and_can_be_read(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    left = page.locator(".left-out details")
    expect(left).to_contain_text("nothing stands out")
    left.locator("summary").click()
    expect(left.locator(".left-body .text")).to_contain_text("Corn was steady.")


def test_a_search_shows_evidence_without_an_answer(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    page.get_by_role("radio", name="Search").check()
    page.get_by_role("textbox", name="Search query").fill("one hour")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page.locator(".cited-block")).to_contain_text("25:00–25:10")
    assert page.url == f"{stage.url}?s=one+hour"


def test_a_search_with_options_asks_for_them_and_keeps_them_in_the_address(
    page: Page, stage: Stage
) -> None:
    page.goto(f"{stage.url}?s={quote(props.QUESTION)}")
    expect(page.get_by_role("article")).to_have_count(7)
    page.locator("summary[aria-label='Options']").click()
    page.get_by_label("Items per round").fill("3")
    page.get_by_label("Selection").select_option("paper")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**k=3&select=paper")
    expect(page.get_by_role("article")).to_have_count(7)
    assert stage.bodies[-1] == {"query": props.QUESTION, "k": 3, "select": "paper"}


def test_an_address_opens_the_same_answer_at_the_same_fragment(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}?q={quote(props.QUESTION)}&k=5#fragment-5")
    expect(page.locator("#fragment-5")).to_be_focused()
    expect(page.locator("#fragment-5")).to_contain_text("Lamp, 12 volts")
    assert stage.bodies[0]["k"] == 5


def test_going_back_shows_the_result_again_without_asking_again(page: Page, stage: Stage) -> None:
    answered(page, stage)
    page.get_by_role("radio", name="Search").check()
    page.get_by_role("textbox").fill("one hour")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article")).to_have_count(1)
    n_asked = len(stage.bodies)
    page.go_back()
    expect(page.get_by_role("article")).to_have_count(7)
    expect(page.locator("#answer-text")).to_contain_text("Marta Lindqvist")
    assert len(stage.bodies) == n_asked


def test_an_answer_can_be_stopped_and_what_came_stays(page: Page, stage: Stage) -> None:
    stage.gate.clear()
    ask(page, stage)
    expect(page.get_by_role("article")).to_have_count(7)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".status")).to_have_text("Stopped.")
    expect(page.get_by_role("article")).to_have_count(7)
    expect(page.get_by_role("button", name="Ask", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("question", "told"),
    [("busy", "Try again in 7 seconds"), ("broken", "the model <b>failed</b>")],
)
def test_a_refusal_is_told_in_words_and_can_be_tried_again(
    visit: Visit, stage: Stage, question: str, told: str
) -> None:
    page = visit.page
    ask(page, stage, question)
    expect(page.get_by_role("alert").filter(has_text="That did not work")).to_contain_text(told)
    stage.failures.clear()
    stage.answers[question] = stage.answers[props.QUESTION]
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("article")).to_have_count(7)
    assert all("Failed to load resource" in each for each in visit.problems)  # by the browser
    visit.problems.clear()


def test_an_answer_that_breaks_off_says_so(page: Page, stage: Stage) -> None:
    stage.answers["half"] = {**stage.answers[props.QUESTION], "text": "One", "breaks": True}
    ask(page, stage, "half")
    expect(page.get_by_role("alert").filter(has_text="broke off")).to_be_visible()
    expect(page.get_by_role("article")).to_have_count(7)


def saved(page: Page, name: str) -> str:
    page.locator("summary[aria-label='Export']").click()
    with page.expect_download() as coming:
        page.get_by_role("button", name=name).click()
    return Path(coming.value.path()).read_text("utf-8")


def test_json_is_exported_as_the_server_gave_it(page: Page, stage: Stage) -> None:
    answered(page, stage)
    assert json.loads(saved(page, "JSON")) == stage.answers[props.QUESTION]


def test_markdown_is_exported_with_places_and_without_a_documents_markup(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    text = saved(page, "Markdown")
    assert text.startswith(f"# {props.QUESTION}\n")
    assert "**[5]** rows 1,401–1,402" in text
    assert "\n> In the winter of 1907 Marta Lindqvist kept the light alone for 41 days." in text
    assert "\\<img src=x onerror=" in text
    assert "\n<" not in text
    assert " <img" not in text


@pytest.mark.parametrize(
    "visit", [{"permissions": ["clipboard-read", "clipboard-write"]}], indirect=True
)
def test_the_address_can_be_copied(page: Page, stage: Stage) -> None:
    answered(page, stage)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".toast")).to_have_text("The link is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_files_are_added_with_their_progress_and_a_refused_one_says_why(
    page: Page, stage: Stage
) -> None:
    page.goto(stage.url)
    with page.expect_file_chooser() as choosing:
        page.get_by_role("button", name="Add files").click()
    choosing.value.set_files(
        [
            {"name": "harbour <b>.md", "mimeType": "text/markdown", "buffer": b"# Harbour"},
            {"name": "noise.bin", "mimeType": "application/octet-stream", "buffer": b"\0"},
        ]
    )
    rows = page.locator(".files > li")
    expect(rows.nth(0)).to_contain_text("harbour <b>.md")
    expect(rows.nth(0).get_by_role("progressbar")).to_be_visible()
    expect(rows.nth(0)).to_contain_text("in the index: 3 items")
    expect(rows.nth(1)).to_contain_text("Not added: no reader for .bin files")


DROP = """() => {
  const carried = new DataTransfer();
  carried.items.add(new File(["# Pier"], "pier.md"));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(
      new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
  }
}"""


def test_files_can_be_dropped_on_the_page(page: Page, stage: Stage) -> None:
    page.goto(stage.url)
    expect(page.get_by_role("button", name="Add files")).to_be_visible()
    page.evaluate(DROP)
    expect(page.locator(".files > li")).to_contain_text("in the index: 3 items")
    expect(page.locator(".drop-veil")).to_be_hidden()


def test_a_server_that_takes_no_files_says_so(page: Page, stage: Stage) -> None:
    stage.takes_uploads = False
    page.goto(stage.url)
    expect(page.get_by_text("The index holds 7 items")).to_be_visible()
    expect(page.get_by_role("button", name="Add files")).to_be_hidden()
    page.evaluate(DROP)
    expect(page.locator(".files > li")).to_contain_text("--allow-upload")
    assert ("POST", "/v1/uploads") not in stage.requests
