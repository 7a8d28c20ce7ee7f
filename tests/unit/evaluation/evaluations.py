"""A made-up benchmark for the runner: one passage per question, and a method without a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from canopy_rag.core.answer import Answer, Round, RoundHit, Usage, Verdict
from canopy_rag.core.evidence import Evidence, Shown
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.trees import text_tree
from canopy_rag.core.types import Item, Source, TextPayload
from canopy_rag.evaluation.runner import Work
from canopy_rag.pipeline.clock import Clock


def passage(name: str, *sentences: str) -> Item:
    """A text whose leaves are the sentences."""
    spans, position = [], 0
    for sentence in sentences:
        spans.append((position, position + len(sentence)))
        position += len(sentence) + 1
    text = " ".join(sentences)
    return Item(
        id=name,
        modality="text",
        title=name,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [spans]),
        source=Source(uri=name),
    )


def question(number: int) -> Question:
    """Question `number`; its answer stands in the first sentence of its passage."""
    return Question(
        id=f"q{number}",
        text=f"Who made thing {number}?",
        answers=(f"Maker {number}",),
        kind="bridge" if number % 2 else "comparison",
        gold=(GoldSpan(item_id=f"thing {number}", start=0, stop=10),),
    )


def item(number: int) -> Item:
    """Its passage: four sentences, the first one gold."""
    maker = f"Maker {number} made thing {number}."
    return passage(f"thing {number}", maker, "It is big.", "It is red.", "It is old.")


@dataclass
class Fixed:
    """Shows the kept nodes of the question's passage, and answers by a rule."""

    name: str = "canopy"
    verbatim: bool = True
    kept: tuple[int, ...] = (0,)
    right: frozenset[int] | None = None
    """Numbers of the questions that it answers right; None: all."""
    fails: dict[str, Exception] = field(default_factory=dict)
    """By the id of a question."""
    asked: list[str] = field(default_factory=list)

    async def answer(self, question: Question) -> Answer:
        """Answer without a model."""
        self.asked.append(question.id)
        if question.id in self.fails:
            raise self.fails[question.id]
        number = int(question.id[1:])
        clock = Clock()
        with clock.stage("read"):
            shown = item(number)
            text = question.answers[0] if self.right is None or number in self.right else "nobody"
        entry = Shown(
            item=shown,
            kept=self.kept,
            why="whole" if self.kept == (0,) and self.name == "vanilla" else "refined",
            query=question.text,
            round=1,
            rank=1,
            similarity=0.5,
            node_similarities=tuple(0.5 + 0.01 * node for node in range(len(shown.nodes))),
        )
        hit = RoundHit(item_id=shown.id, rank=1, similarity=0.5, held=False)
        again = RoundHit(item_id=shown.id, rank=1, similarity=0.5, held=True)
        follow_up = Verdict(sufficient=False, follow_up=f"maker {number}")
        return Answer(
            question=question.text,
            text=text,
            citations=(),
            evidence=Evidence(entries=(entry,)),
            rounds=(
                Round(
                    number=1, query=question.text, routed=(), hits=(hit,), n_new=1,
                    verdict=follow_up,
                ),
                Round(number=2, query=f"maker {number}", routed=(), hits=(again,), n_new=0),
            ),
            stop="nothing_new",
            usage=Usage(llm_calls=2, prompt_tokens=10, completion_tokens=2, seconds=clock.seconds),
        )  # fmt: skip


def work(n: int, method: Fixed | None = None, benchmark: str = "toy") -> Work:
    """A piece of work of `n` questions."""
    return Work(
        benchmark=benchmark,
        metric="squad",
        questions=[question(number) for number in range(n)],
        method=method or Fixed(),
    )


def settings(*benchmarks: str, llm: str = "scripted") -> dict[str, object]:
    """What `config.json` holds, as far as results need it."""
    about = {
        "title": "Toy",
        "group": "in_domain",
        "metric": "squad",
        "n_total": 30,
        "n_kept": 25,
        "n_questions": 20,
        "items": {"text": 20},
        "gold_items": {"text": 20},
    }
    return {
        "benchmarks": {name: dict(about) for name in benchmarks or ("toy",)},
        "models": {"llm": llm, "encoder": {"name": "hashing"}},
    }
