"""Draw the pictures of the README and of docs/concepts by the program itself.

Run `python tools/draw_pictures.py [NAME ...]` when what they show changes: the drawing of trees,
the sample corpus, the embedded encoder (which it needs). No picture is drawn by hand.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from rich.console import Console, RenderableType
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text
from rich.tree import Tree

from canopy_rag import Canopy, Index, refine
from canopy_rag.cli.answering import show_answer
from canopy_rag.cli.drawing import draw, drawings
from canopy_rag.cli.output import Output
from canopy_rag.cli.places import interval
from canopy_rag.cli.showing import show_evidence
from canopy_rag.cli.wording import count, one_line
from canopy_rag.config import Config, EncoderConfig, RetrievalConfig, SelectConfig
from canopy_rag.core.answer import Answer
from canopy_rag.core.protocols import ChatRequest
from canopy_rag.core.render import node_body
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Hit, Item, Node, Source, TextPayload
from canopy_rag.testing.corpus import FILES
from canopy_rag.testing.scripted import FunctionLLM, prompt_text

ASSETS = Path(__file__).resolve().parent.parent / "docs/assets"
ESPRESSO = "What pressure does an espresso machine need?"
CIDER = "Which apples are for cider?"
GRAM = "How much coffee do I need for a litre of water?"
WIDTH = 108


def tree() -> Iterator[RenderableType]:
    """Yield the best item of a guide as the paper's rule cuts it: the README's picture."""
    yield _command(f'canopy explain "{ESPRESSO}" --select paper')
    with _index("guides") as index:
        explained = index.explain(ESPRESSO, k=1, selection=SelectConfig(select="paper"))
    yield from drawings(explained, WIDTH, unicode=True)


def trees() -> Iterator[RenderableType]:
    """Yield whole trees: a text's to its sentences, a table's to its rows, a video's."""
    hashing = Config(encoder=EncoderConfig(name="hashing"))  # trees do not depend on the encoder
    for folder, words in (("guides", "espresso"), ("tables", "cider"), ("videos", "")):
        with _index(folder, config=hashing) as index:
            items = sorted((one.found.item for one in index.explain("?", k=100)), key=_order)
        yield _whole(next(one for one in items if words in _body(one)))
        yield Text()


def _order(item: Item) -> tuple[str, int]:
    return item.source.uri, item.source.ordinal


def _body(item: Item) -> str:
    return node_body(item, item.nodes[0].start, item.nodes[0].stop)


def rule() -> Iterator[RenderableType]:
    """Yield the paper's worked example: made-up similarities, and what the rule does with them."""
    item = _example()
    similarities = [0.50, 0.80, 0.79, 0.10, 0.70, 0.90, 0.20]
    hit = Hit(item_id=item.id, corpus=item.corpus, similarity=0.5, rank=1)
    outcomes = refine(item.nodes, similarities).outcomes
    yield from draw(item, hit, similarities, outcomes, width=WIDTH)


def selection_paper() -> Iterator[RenderableType]:
    """Yield three items, each deciding for itself."""
    yield from _explained("paper")


def selection_set() -> Iterator[RenderableType]:
    """Yield the same three items, decided together."""
    yield from _explained("set")


def budget() -> Iterator[RenderableType]:
    """Yield one search without a budget, and with one."""
    with _index("guides", "tables") as index:
        for most in (None, 60):
            flag = "" if most is None else f" --budget {most}"
            yield _command(f'canopy search "{GRAM}" --k 4{flag}')
            evidence = index.search(GRAM, k=4, selection=SelectConfig(budget=most))
            yield from _shown(lambda output, found=evidence: show_evidence(output, found))
            yield Text()


def rounds() -> Iterator[RenderableType]:
    """Yield an answer of two rounds; in the place of a chat model stands a function."""
    question = "What does a family ticket cost in July, and who kept the light alone?"
    yield _command(f'canopy ask "{question}" --k 1 --llm http://gpu:8000/v1')
    with _index("guides", config=Config(retrieval=RetrievalConfig(k=1))) as index:
        answer = Canopy(index, FunctionLLM(_played)).ask(question)
    yield from _shown(lambda output: show_answer(output, without_times(answer)))


def _played(request: ChatRequest) -> str:
    """Play the critic, the classifier and the reader: both facts have to be in the evidence."""
    prompt = prompt_text(request)
    if '{"aggregate"' in prompt:
        return json.dumps({"aggregate": False})
    if '{"sufficient"' in prompt:
        query = "Who kept the Skerry Point light alone in the winter of 1907?"
        if "£36" not in prompt:
            query = (
                "What do tickets to Skerry Point Lighthouse cost? Prices for adults and families"
            )
        enough = "£36" in prompt and "Marta" in prompt
        return json.dumps({"sufficient": enough, "follow_up": "" if enough else query})
    price, keeper = (re.search(rf"\[(\d+)\][^\[]*{word}", prompt) for word in ("£36", "Marta"))
    if not price or not keeper:
        raise ValueError("the evidence of the picture of rounds lacks a fact; ask otherwise")
    return f"A family ticket costs £36 [{price[1]}]. Marta Lindqvist kept the light [{keeper[1]}]."


def without_times(answer: Answer) -> Answer:
    """Return an answer that took no time, so that its picture is the same tomorrow."""
    return replace(answer, usage=replace(answer.usage, seconds={}))


PICTURES: dict[str, Callable[[], Iterator[RenderableType]]] = {
    "tree": tree,
    "concept-trees": trees,
    "concept-rule": rule,
    "concept-selection-paper": selection_paper,
    "concept-selection-set": selection_set,
    "concept-budget": budget,
    "concept-rounds": rounds,
}
"""File name in docs/assets, without `.svg` -> what yields its lines."""


def _explained(method: Literal["paper", "set"]) -> Iterator[RenderableType]:
    yield _command(f'canopy explain "{ESPRESSO}" --k 3 --select {method}')
    with _index("guides") as index:
        explained = index.explain(ESPRESSO, k=3, selection=SelectConfig(select=method))
    yield from drawings(explained, WIDTH, unicode=True)


@contextmanager
def _index(*folders: str, config: Config | None = None) -> Iterator[Index]:
    """Yield an index of folders of the corpus."""
    with tempfile.TemporaryDirectory() as place:
        index = Index.open(Path(place, "index"), create=True, config=config)
        index.add(*(FILES / name for name in folders))
        yield index


def _command(line: str) -> Text:
    return Text.assemble(("$ ", "dim"), f"{line}\n")


def _whole(item: Item) -> Tree:
    """Return all nodes of an item, before any query."""
    branches: dict[int, Tree] = {}
    for node in item.nodes:
        label = Text.assemble((interval(item, node), "cyan"), no_wrap=True, overflow="ellipsis")
        below = len(leaves(item.nodes, node.index))
        if node.children:
            label.append(f"{', ' * bool(label)}{count(below, 'leaf', 'leaves')}", "dim")
        else:
            label.append(f"  {one_line(node_body(item, node.start, node.stop))}")
        if node.parent is None:
            head = Text.assemble((one_line(item.title), "bold"), f"  {item.modality}  ")
            branches[node.index] = Tree(head.append_text(label), guide_style="dim")
        else:
            branches[node.index] = branches[node.parent].add(label)
    return branches[0]


def _example() -> Item:
    parents = [None, 0, 1, 1, 0, 4, 4]
    children = [(1, 4), (2, 3), (), (), (5, 6), (), ()]
    names = "Sentence a1. Sentence a2. Sentence b1. Sentence b2."
    bounds = [(0, 51), (0, 25), (0, 12), (13, 25), (26, 51), (26, 38), (39, 51)]
    nodes = tuple(
        Node(index=index, parent=parent, children=below, start=start, stop=stop)
        for index, (parent, below, (start, stop)) in enumerate(
            zip(parents, children, bounds, strict=True)
        )
    )
    return Item(
        id="example",
        modality="text",
        title="The worked example of the paper",
        payload=TextPayload(text=names),
        nodes=nodes,
        source=Source(uri="made-up similarities"),
    )


def _shown(show: Callable[[Output], None]) -> Iterator[RenderableType]:
    """Yield what a command writes."""
    output = Output(quiet=True)
    output.console = Console(
        width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False, record=True
    )
    show(output)
    yield Text.from_ansi(output.console.export_text(styles=True))


def picture(name: str) -> str:
    """Return a picture as SVG, without fonts from the network.

    Args:
        name: One of `PICTURES`.
    """
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in PICTURES[name]():
        console.print(line, highlight=False)
    svg = console.export_svg(title="canopy", theme=DIMMED_MONOKAI, unique_id=f"canopy-{name}")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def main(names: list[str]) -> None:
    """Write the pictures of these names; without any, all."""
    ASSETS.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        (ASSETS / f"{name}.svg").write_text(picture(name), encoding="utf-8")
        print(ASSETS / f"{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
