"""Take the pictures of docs/explorer.md: the real page over the sample corpus, in a real Chromium.

Run `python tools/explorer_pictures.py [NAME ...]` when the page changes. It needs Chromium, the
extra `dev` and the embedded encoder. Search, refinement and timing are real; the chat model's words
are scripted, so that the pictures stay the same. 2,000 rows of landings are made up for the table.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from canopy_rag import Index
from canopy_rag.config import load
from canopy_rag.core.protocols import ChatRequest
from canopy_rag.server import create_app
from canopy_rag.server.serving import listen, make_server, url_of
from canopy_rag.testing.corpus import FILES
from canopy_rag.testing.scripted import FunctionLLM, prompt_text

ASSETS = Path(__file__).resolve().parent.parent / "docs/assets"
QUESTION = "Who kept the lighthouse alone in 1907, and what pressure makes an espresso?"
FOLLOW_UP = "What pressure does an espresso machine need?"
DESKTOP = {"viewport": {"width": 1360, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True}
PAPER = {"select": "paper"}


def played(request: ChatRequest) -> str:
    """Play critic, classifier and reader; the reader cites where the words really stand."""
    prompt = prompt_text(request)
    if request.schema_name == "aggregate":
        return json.dumps({"aggregate": False})
    if request.schema_name == "critic":
        enough = "Marta Lindqvist" in prompt and "nine bar" in prompt
        return json.dumps({"sufficient": enough, "follow_up": "" if enough else FOLLOW_UP})
    keeper = number(prompt, "Marta Lindqvist")
    pressure = number(prompt, "nine bar")
    return (
        f"**Marta Lindqvist** kept the light alone for 31 nights in the winter of 1907, when both "
        f"of her companions fell ill [{keeper}]. An espresso machine presses the water through at "
        f"nine bar [{pressure}]."
    )


def number(prompt: str, words: str) -> str:
    """Return the number of the fragment that holds some words, as the prompt gives it."""
    before = prompt[: prompt.rindex(words)]
    return re.findall(r"\[(\d+)\]", before)[-1]


def landings(path: Path) -> None:
    """Write a table of 2,000 made-up landings of fish."""
    chosen = random.Random(4)
    ports = ("Northhaven", "Ardmore", "Kirkwick", "Lang Ness", "St Bride")
    kinds = ("Herring", "Cod", "Haddock", "Mackerel", "Ling", "Saithe")
    lines = ["date,port,species,tonnes,remarks"]
    for at in range(2000):
        day = f"{1900 + at // 24}-{at % 24 // 2 + 1:02}-{at % 28 + 1:02}"
        remark = "record catch of lobster" if at == 1204 else chosen.choice(("", "", "fog", "calm"))
        species, tonnes = chosen.choice(kinds), chosen.uniform(0.4, 38)
        lines.append(f"{day},{ports[at * 7 % 5]},{species},{tonnes:.1f},{remark}")
    path.write_text("\n".join(lines), "utf-8")


@contextmanager
def served() -> Iterator[str]:
    """Serve an index of the corpus on a loopback port."""
    with tempfile.TemporaryDirectory() as name:
        sources = Path(name, "files")
        shutil.copytree(FILES, sources)
        landings(sources / "tables" / "landings.csv")
        flags = {"index.path": str(Path(name, "index")), "server.port": 0}
        config = load({**flags, "server.allow_upload": True}, {})
        index = Index.open(create=True, config=config)
        index.add(sources)
        app = create_app(index, config=config, llm=FunctionLLM(played, name="scripted"))
        started = threading.Event()
        server, listener = make_server(app, config.server, started.set), listen(config.server)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        started.wait(60)
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


def opened(browser: Browser, url: str, settled: str, query: dict[str, str], **options: Any) -> Page:
    """Return a page with a result that has come in whole."""
    page = browser.new_context(reduced_motion="reduce", **options).new_page()
    page.set_default_timeout(90_000)
    page.goto(f"{url}/?{urlencode(query)}")
    page.locator(settled).first.wait_for()
    page.wait_for_load_state("networkidle")
    return page


def taken(page: Page, name: str) -> None:
    """Write what the page shows, with as many colours as a picture of a page needs."""
    page.mouse.move(1, 1)
    page.wait_for_timeout(400)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    if name == "video":
        picture.save(ASSETS / f"explorer-{name}.webp", quality=86, method=6)
    else:
        few = picture.quantize(192, dither=Image.Dither.NONE)
        few.save(ASSETS / f"explorer-{name}.png", optimize=True)
    page.context.close()


def answer(browser: Browser, url: str, name: str, **options: Any) -> None:
    """Take an answer with its evidence."""
    page = opened(browser, url, ".cited-list", {"q": QUESTION, "k": "3"}, **options)
    taken(page, name)


def evidence(browser: Browser, url: str, name: str, query: str, kind: str, tab: str | None) -> None:
    """Take one item of a search, in one of its views."""
    page = opened(browser, url, "article", {"s": query, **PAPER}, **DESKTOP)
    card = page.locator(f"article.of-{kind}").first
    if tab:
        card = page.locator("article").filter(has=page.get_by_role("tab", name=tab)).first
        card.get_by_role("tab", name=tab).click()
        page.wait_for_load_state("networkidle")
    else:
        number_of = card.locator("[data-n]").first.get_attribute("data-n")
        page.locator(f".cited-list a[href='#fragment-{number_of}']").click()
    page.wait_for_timeout(1500)
    card.evaluate("each => each.scrollIntoView({block: 'start'})")
    taken(page, name)


PICTURES: dict[str, Callable[[Browser, str], None]] = {
    "light": lambda browser, url: answer(browser, url, "light", **DESKTOP),
    "dark": lambda browser, url: answer(browser, url, "dark", **DESKTOP, color_scheme="dark"),
    "phone": lambda browser, url: answer(browser, url, "phone", **PHONE),
    "tree": lambda browser, url: evidence(
        browser, url, "tree", "pressure of an espresso machine", "text", "Tree"
    ),
    "table": lambda browser, url: evidence(
        browser, url, "table", "record catch of lobster", "table", None
    ),
    "video": lambda browser, url: evidence(
        browser, url, "video", "the bird is hit by a nut", "video", None
    ),
    "pdf": lambda browser, url: evidence(
        browser, url, "pdf", "price of biodiesel in Iowa", "text", "Page"
    ),
}


def main() -> None:
    """Take the pictures that are named, or all."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with served() as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](browser, url)
            print(f"docs/assets/explorer-{name}.*")
        browser.close()


if __name__ == "__main__":
    main()
