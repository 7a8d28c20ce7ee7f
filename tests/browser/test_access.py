"""Without a mouse, without eyes: the keyboard, what is announced, and axe-core's rules."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import props
from tests.browser.stage import Stage
from tests.browser.test_asking import answered, expect
from tests.browser.test_views import PHONE, item

if TYPE_CHECKING:
    from playwright.sync_api import Page

SERIOUS = ("serious", "critical")


def test_a_question_is_asked_and_its_evidence_read_with_the_keyboard_alone(
    page: Page, stage: Stage
) -> None:
    page.goto(stage.url)
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    page.keyboard.type(props.QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    expect(page.locator(".cited-list li")).to_have_count(4)
    page.keyboard.press("Tab")
    expect(page.locator("#cite-2")).to_be_focused()
    expect(page.get_by_role("tooltip")).to_contain_text("In the winter of 1907")
    page.keyboard.press("Enter")
    expect(page.locator("#fragment-2")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#fragment-3")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#fragment-2")).to_be_focused()
    page.keyboard.press("b")
    expect(page.locator("#cite-2")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("jk?")
    expect(page.get_by_role("textbox")).to_have_value("jk?")


def test_items_views_and_rows_are_reached_with_the_keyboard(page: Page, stage: Stage) -> None:
    answered(page, stage)
    page.locator("h1").focus()
    page.keyboard.press("n")
    expect(item(page, "Skerry Point")).to_be_focused()
    page.keyboard.press("t")
    expect(item(page, "Skerry Point").get_by_role("tab", name="Tree")).to_have_attribute(
        "aria-selected", "true"
    )
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    expect(item(page, "Skerry Point").get_by_role("tab", name="Kept only")).to_be_focused()
    page.keyboard.press("Home")
    expect(item(page, "Skerry Point").locator(".dropped").first).to_be_visible()
    item(page, "Harbour trade").get_by_role("region").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.locator("tr[data-row='2']")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".row-detail")).to_contain_text("Row 3")


def test_the_list_of_keys_opens_closes_and_can_switch_them_off(page: Page, stage: Stage) -> None:
    answered(page, stage)
    page.locator("h1").focus()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keyboard")
    expect(keys).to_contain_text("next fragment")
    keys.get_by_label("Single-letter keys").uncheck()
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.locator("h1").focus()
    page.keyboard.press("j")
    expect(page.locator("h1")).to_be_focused()


def test_the_skip_link_leads_past_the_answer_to_the_evidence(page: Page, stage: Stage) -> None:
    answered(page, stage)
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Evidence")).to_be_focused()


def test_an_answer_is_announced_by_the_sentence_while_it_comes(page: Page, stage: Stage) -> None:
    answered(page, stage)
    spoken = page.locator("#speech")
    expect(spoken).to_have_attribute("aria-live", "polite")
    expect(spoken).to_contain_text("Marta Lindqvist kept the light alone for 41 days")
    assert "[2]" not in spoken.inner_text()
    expect(page.get_by_role("status")).to_have_text("The answer is complete.")


def test_the_page_has_its_landmarks_and_one_heading_of_the_first_level(
    page: Page, stage: Stage
) -> None:
    answered(page, stage)
    for role in ("banner", "main", "search"):
        expect(page.get_by_role(role)).to_have_count(1)
    for name in ("Evidence", "How it was found", "Answer"):
        expect(page.get_by_role("region", name=name, exact=True)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text(props.QUESTION)


def violations(page: Page) -> list[str]:
    """Return what axe-core finds serious, with the elements."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert len(found["passes"]) > 15
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize(
    "visit",
    [{}, {"color_scheme": "dark"}, {**PHONE, "color_scheme": "dark"}],
    ids=["light", "dark", "phone"],
    indirect=True,
)
def test_axe_core_finds_nothing_serious(page: Page, stage: Stage) -> None:
    pytest.importorskip("axe_playwright_python", reason="brings axe-core; extra dev has it")
    page.emulate_media(reduced_motion="reduce")
    page.goto(stage.url)
    expect(page.get_by_text("The index holds 7 items")).to_be_visible()
    assert violations(page) == []
    answered(page, stage)
    expect(page.locator(".node")).to_have_count(0)
    assert violations(page) == []
    for card in page.get_by_role("article").all():
        tab = card.get_by_role("tab", name="Page").or_(card.get_by_role("tab", name="Tree")).first
        if tab.count():
            tab.click()
    page.locator(".left-out summary").click()
    expect(page.locator(".node.keep").first).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Keyboard").click()
    assert violations(page) == []
