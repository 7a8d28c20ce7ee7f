"""Canopy inside a DSPy program: `pip install canopy-rag dspy`.

Without arguments a stand-in answers, so that it runs offline; `python dspy_module.py MODEL` asks a
model by DSPy's name for it, such as `openai/gpt-4o-mini`.
"""

from __future__ import annotations

import sys

import dspy
from dspy.utils import DummyLM

import canopy_rag as canopy

PAGES = [
    "The light at Skerry Point has stood on its rock since 1871. The tower is 41 metres high. "
    "The first lamp burned rapeseed oil. Electricity came in 1938. Puffins breed in the turf.",
    "Brew coffee with water between 92 and 96 degrees. Grind the beans just before brewing. "
    "An espresso machine needs a pressure of nine bar. Rinse the paper filter with hot water.",
]


class Answer(dspy.Module):
    """Answers from the parts of the passages that the question needs."""

    def __init__(self, budget: int = 200) -> None:
        super().__init__()
        self.compressor = canopy.Compressor(budget=budget)
        self.respond = dspy.Predict("context: list[str], question -> answer")

    def forward(self, question: str, passages: list[str]) -> dspy.Prediction:
        """Answer; the prediction carries the evidence with its sources."""
        evidence = self.compressor.compress(question, passages)
        context = [each.text for each in evidence.fragments if each.text]
        predicted = self.respond(context=context, question=question)
        return dspy.Prediction(answer=predicted.answer, context=context, evidence=evidence)


def main(model: str | None) -> None:
    """Ask one question and show what the model was given."""
    lm = dspy.LM(model) if model else DummyLM([{"answer": "41 metres"}])
    with dspy.context(lm=lm):
        predicted = Answer()(question="How high is the lighthouse tower?", passages=PAGES)
    print(predicted.answer)
    evidence = predicted.evidence
    print(f"{evidence.tokens} of {evidence.tokens_full} tokens: {predicted.context}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
