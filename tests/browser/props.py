"""The made-up items of the stage: one of every kind, the awkward ones among them."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import canopy_rag.testing

if TYPE_CHECKING:
    from tests.browser.stage import Stage

CORPUS = Path(canopy_rag.testing.__file__).parent / "corpus" / "files"

LIGHTHOUSE = """# Skerry Point \U0001f5fc

Skerry Point lighthouse stands on the northern tip of the island. It was built in 1861 by the \
engineer David Alstad. The tower is 34 metres high. Its beam reaches 19 nautical miles.

## Keepers

Until 1979 two keepers lived at the station. They kept hens. They kept a goat. They kept a log. \
Supplies came by boat on Mondays. Mail came with the supplies. In storms the boat stayed away. \
Then they lived on salted cod. The log tells of nine such weeks. In the winter of 1907 Marta \
Lindqvist kept the light alone for 41 days. She was awarded a medal. The medal hangs in the hall.

## Visits

The lighthouse is open from May to September. A family ticket costs £36 in July. \
Dogs are welcome."""

HOSTILE = """The lamp <script>window.hacked = 1</script> was replaced in 1952. \
<img src=x onerror="window.hacked = 2"> It now burns <b>12 volts</b>. \
</mark></p><svg onload="window.hacked = 3"> [3] The end."""

ARABIC = "بُنيت المنارة عام 1861. يصل ضوؤها إلى 19 ميلًا بحريًا. سكنها حارسان حتى عام 1979."

QUESTION = "Who kept the lighthouse alone, and how far does its beam reach?"
FOLLOW_UP = "range of the Skerry Point beam in nautical miles"
ANSWER = (
    "**Marta Lindqvist** kept the light alone for 41 days in the winter of 1907 [2], "
    "and its beam reaches 19 nautical miles [1, 3].\n\n"
    "- The trade table has the lamp's purchase [4].\n"
    "- Nothing is known of a fragment [99]."
)


def sentences(text: str) -> list[list[int]]:
    """Return the intervals of a text's sentences, headings left out."""
    found = re.finditer(r"[^\s#][^\n]*?(?:[.!?](?=\s|$)|$)", text, re.MULTILINE)
    return [
        [each.start(), each.end()]
        for each in found
        if text[each.start() - 2 : each.start()] != "# "
    ]


def tree(n_leaves: int, bounds: list[list[float]], kept: Iterable[int]) -> list[dict[str, Any]]:
    """Return a tree of halves over leaves, with similarities that make `kept` stand out."""
    wanted, nodes = set(kept), []

    def grow(low: int, high: int, parent: int | None, reached: bool) -> None:
        index = len(nodes)
        inside = wanted & set(range(low, high))
        outcome = None
        if reached:
            outcome = "keep" if len(inside) == high - low else "split" if inside else "drop"
        similarity = 0.12 + 0.55 * len(inside) / (high - low) + 0.004 * (low % 9)
        nodes.append(
            {
                "index": index,
                "parent": parent,
                "start": bounds[low][0],
                "stop": bounds[high - 1][1],
                "similarity": similarity,
                "outcome": outcome,
            }
        )
        if high - low > 1:
            middle = (low + high) // 2
            grow(low, middle, index, outcome == "split")
            grow(middle, high, index, outcome == "split")

    grow(0, n_leaves, None, True)
    return nodes


def source(uri: str, **more: Any) -> dict[str, Any]:
    """Return a fragment's place."""
    empty = {
        "places": [],
        "char": None,
        "sheet": None,
        "range": None,
        "rows": None,
        "time": None,
        "anchor": None,
    }
    return {"uri": uri, **empty, **more}


class Kit:
    """Makes items and their entries in the evidence together."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.entries: list[dict[str, Any]] = []
        self.n = 0

    def add(
        self,
        item_id: str,
        modality: str,
        title: str,
        uri: str,
        *,
        kept: list[int],
        leaves: list[list[float]],
        unit: str,
        content: dict[str, Any],
        fragments: list[dict[str, Any]],
        **entry: Any,
    ) -> None:
        """Put an item on the stage and into the evidence."""
        self.stage.items[item_id] = {
            "id": item_id,
            "corpus": "main",
            "modality": modality,
            "title": title,
            "section": [],
            "unit": unit,
            "start": leaves[0][0],
            "stop": leaves[-1][1],
            "leaves": leaves,
            "source": {"uri": uri, "ordinal": 0, "sheet": None, "range": None, "first_row": 0},
            "previous": None,
            "next": None,
            "media": None,
            "pages": [],
            **content,
        }
        self.stage.trees[item_id] = tree(len(leaves), leaves, kept)
        for each in fragments:
            self.n += 1
            each |= {
                "n": self.n,
                "node": 1,
                "unit": unit,
                "media": None,
                "similarity": 0.67,
                "parent_similarity": 0.41,
            }
        self.entries.append(
            {
                "id": item_id,
                "corpus": "main",
                "modality": modality,
                "title": title,
                "section": [],
                "round": 1,
                "query": QUESTION,
                "rank": len(self.entries) + 1,
                "similarity": 0.61 - 0.04 * len(self.entries),
                "why": "refined",
                "n_leaves": len(leaves),
                "n_leaves_kept": len(kept),
                "fragments": fragments,
                **entry,
            }
        )

    def text(
        self, item_id: str, title: str, uri: str, text: str, kept: list[int], **more: Any
    ) -> None:
        """Add a text whose sentences `kept` are kept."""
        leaves = sentences(text)
        heads = [
            {"start": each.start(), "stop": each.end(), "level": len(each[1]), "text": each[2]}
            for each in re.finditer(r"^(#+) (.*)$", text, re.MULTILINE)
        ]
        fragments = [
            {
                "start": leaves[at][0],
                "stop": leaves[at][1],
                "text": text[leaves[at][0] : leaves[at][1]],
                "source": source(uri, char=leaves[at]),
            }
            for at in kept
        ]
        content = {"text": {"start": 0, "stop": len(text), "text": text, "headings": heads}}
        self.add(
            item_id,
            "text",
            title,
            uri,
            kept=kept,
            leaves=leaves,
            unit="char",
            content=content,
            fragments=fragments,
            **more,
        )


def furnish(stage: Stage) -> None:
    """Put everything on the stage."""
    kit = Kit(stage)
    kit.text("light", "Skerry Point", "guides/lighthouse.md", LIGHTHOUSE, [3, 13])
    kit.text("arabic", "المنارة", "guides/منارة.md", ARABIC, [1], round=2, query=FOLLOW_UP)
    _table(kit)
    kit.text("hostile", "<img src=x onerror=window.hacked=4>", "notes/<script>.md", HOSTILE, [1])
    _picture(kit)
    _film(kit)
    _pdf(kit)
    _hour(stage)
    evidence = _evidence(kit.entries)
    stage.evidences[QUESTION] = evidence
    stage.answers[QUESTION] = _answer(evidence)
    alone = Kit(stage)
    _long_video(alone)
    stage.evidences["one hour"] = _evidence(alone.entries)
    stage.failures["busy"] = (503, {"type": "overloaded", "message": "too many"})
    stage.failures["broken"] = (502, {"type": "model_error", "message": "the model <b>failed</b>"})


def _table(kit: Kit) -> None:
    rows = [
        [str(1850 + at % 170), f"ship {at}", f"{at * 17 % 9973}", "x" * (at % 60)]
        for at in range(2000)
    ]
    rows[1400] = ["1952", "Lamp, 12 volts", "880", "bought from the <b>Alstad</b> works"]
    kept = [3, 1400, 1401]
    fragments = [
        {
            "start": 3,
            "stop": 4,
            "text": " | ".join(rows[3]),
            "source": source("tables/trade.csv", rows=[3]),
        },
        {
            "start": 1400,
            "stop": 1402,
            "text": " | ".join(rows[1400]),
            "source": source("tables/trade.csv", rows=[1400, 1401]),
        },
    ]
    content = {
        "table": {
            "caption": "Landings at Skerry harbour",
            "header": ["year", "ship", "tons", "remarks"],
            "n_rows": 2000,
            "start": 0,
            "stop": 2000,
            "rows": rows,
        }
    }
    kit.add(
        "trade",
        "table",
        "Harbour trade",
        "tables/trade.csv",
        kept=kept,
        leaves=[[at, at + 1] for at in range(2000)],
        unit="row",
        content=content,
        fragments=fragments,
    )


def _picture(kit: Kit) -> None:
    content = {
        "image": {
            "width": 640,
            "height": 427,
            "caption": "A rocket on its pad at dusk",
            "ocr": "FALCON",
        },
        "media": "/v1/items/rocket/media",
    }
    fragments = [
        {
            "start": 0,
            "stop": 1,
            "text": "A rocket on its pad at dusk",
            "source": source("pictures/rocket.jpg"),
        }
    ]
    kit.stage.media["rocket"] = ((CORPUS / "pictures" / "rocket.jpg").read_bytes(), "image/jpeg")
    kit.add(
        "rocket",
        "image",
        "rocket",
        "pictures/rocket.jpg",
        kept=[0],
        leaves=[[0, 1]],
        unit="image",
        content=content,
        fragments=fragments,
        why="image",
    )


def _film(kit: Kit) -> None:
    leaves: list[list[float]] = [[at * 5.0, at * 5.0 + 5] for at in range(6)]
    segments = [
        {"start": start, "stop": stop, "subtitles": f"Line spoken at {start:.0f} seconds."}
        for start, stop in leaves
    ]
    content = {
        "video": {
            "duration_s": 30.0,
            "width": 640,
            "height": 360,
            "caption": "",
            "segments": segments,
        },
        "media": "/v1/items/film/media",
    }
    fragments = [
        {
            "start": 10.0,
            "stop": 20.0,
            "text": "Line spoken at 10 seconds.\nLine spoken at 15 seconds.",
            "source": source("videos/film.webm", time=[10.0, 20.0]),
        }
    ]
    kit.stage.media["film"] = (
        (CORPUS / "videos" / "big_buck_bunny_0_30.webm").read_bytes(),
        "video/webm",
    )
    kit.add(
        "film",
        "video",
        "Big Buck Bunny",
        "videos/film.webm",
        kept=[2, 3],
        leaves=leaves,
        unit="second",
        content=content,
        fragments=fragments,
    )


def _pdf(kit: Kit) -> None:
    text = (
        "Biodiesel sold for 2.85 dollars in Iowa. Ethanol sold for 1.38 dollars. Corn was steady."
    )
    width, height, page = _drawn(text)
    kit.stage.pages["report", 1] = page
    kit.text("report", "Energy round-up", "documents/report.pdf", text, [0])
    kit.stage.items["report"]["pages"] = [
        {"page": 1, "width": width, "height": height, "image": "/v1/items/report/pages/1"}
    ]
    kit.entries[-1]["fragments"][0]["source"] |= {
        "char": None,
        "places": [{"page": 1, "box": [60, 84, 262, 98]}],
    }


@cache
def _drawn(text: str) -> tuple[float, float, bytes]:
    """Return a PDF page's size in points, and the page as a PNG."""
    import pypdfium2 as pdfium
    from fpdf import FPDF

    paper = FPDF(unit="pt", format=(420, 300))
    paper.add_page()
    paper.set_font("helvetica", size=11)
    paper.text(60, 60, "Energy round-up")
    for at, sentence in enumerate(text.split(". ")):
        paper.text(60, 94 + 18 * at, sentence.rstrip(".") + ".")
    document = pdfium.PdfDocument(bytes(paper.output()))
    out = io.BytesIO()
    document[0].render(scale=2).to_pil().save(out, "PNG")
    document.close()
    return 420.0, 300.0, out.getvalue()


def _hour(stage: Stage) -> None:
    stage.media["hour"] = (hour_long(), "video/webm")


@cache
def hour_long() -> bytes:
    """Return an hour of video, a frame every ten seconds."""
    import av
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hour.webm")
        with av.open(str(path), "w") as file:
            stream = file.add_stream("libvpx", rate=Fraction(1, 10))
            stream.width, stream.height, stream.pix_fmt = 96, 54, "yuv420p"
            for at in range(361):
                pixels = np.full((54, 96, 3), at % 255, dtype=np.uint8)
                file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            file.mux(stream.encode(None))
        return path.read_bytes()


def _long_video(kit: Kit) -> None:
    leaves: list[list[float]] = [[at * 5.0, at * 5.0 + 5] for at in range(720)]
    segments = [
        {"start": start, "stop": stop, "subtitles": f"At {start:.0f} seconds something is said."}
        for start, stop in leaves
    ]
    kept = [10, 300, 301, 700]
    fragments = [
        {
            "start": start,
            "stop": stop,
            "text": f"At {start:.0f} seconds",
            "source": source("videos/hour.webm", time=[start, stop]),
        }
        for start, stop in ((50.0, 55.0), (1500.0, 1510.0), (3500.0, 3505.0))
    ]
    content = {
        "video": {
            "duration_s": 3600.0,
            "width": 96,
            "height": 54,
            "caption": "",
            "segments": segments,
        },
        "media": "/v1/items/hour/media",
    }
    kit.add(
        "hour",
        "video",
        "An hour",
        "videos/hour.webm",
        kept=kept,
        leaves=leaves,
        unit="second",
        content=content,
        fragments=fragments,
    )


def _evidence(entries: list[dict[str, Any]]) -> dict[str, Any]:
    left = [{"id": "report", "rank": 9, "reason": "nothing stands out"}] if len(entries) > 1 else []
    return {
        "tokens": 612,
        "tokens_full": 21480,
        "tokens_are": "estimated",
        "items": entries,
        "left_out": left,
        "fallbacks": [],
    }


def _answer(evidence: dict[str, Any]) -> dict[str, Any]:
    hits = [
        {"item_id": each["id"], "rank": at, "similarity": each["similarity"], "held": False}
        for at, each in enumerate(evidence["items"], 1)
    ]
    first = {
        "number": 1,
        "query": QUESTION,
        "routed": [],
        "hits": hits,
        "n_new": 7,
        "verdict": {"sufficient": False, "follow_up": FOLLOW_UP},
        "fallbacks": [],
    }
    second = {
        "number": 2,
        "query": FOLLOW_UP,
        "routed": ["text"],
        "hits": [{**each, "held": True} for each in hits],
        "n_new": 1,
        "verdict": {"sufficient": True, "follow_up": None},
        "fallbacks": [{"stage": "critic", "reason": "the reply had to be repaired"}],
    }
    return {
        "question": QUESTION,
        "text": ANSWER,
        "citations": [{"n": n, "fragment": n} for n in (2, 1, 3, 4)],
        "evidence": evidence,
        "rounds": [first, second],
        "stop": "sufficient",
        "usage": {
            "llm_calls": 3,
            "prompt_tokens": 2210,
            "completion_tokens": 187,
            "cost": None,
            "seconds": {
                "retrieve": 0.021,
                "search": 0.009,
                "refine": 0.004,
                "critic": 1.31,
                "read": 2.4,
            },
        },
    }
