"""Canopy as one plain function, for any framework that takes functions as tools."""

from __future__ import annotations

import json
from collections.abc import Callable

import canopy_rag as canopy

Retrieve = Callable[[str], list[str]]
PAGES = [
    "The light at Skerry Point has stood on its rock since 1871. The tower is 41 metres high. "
    "The first lamp burned rapeseed oil. Electricity came in 1938. Puffins breed in the turf.",
    "Brew coffee with water between 92 and 96 degrees. Grind the beans just before brewing. "
    "An espresso machine needs a pressure of nine bar. Rinse the paper filter with hot water.",
]


def everything(query: str) -> list[str]:
    """Stands for a retriever of your own."""
    return PAGES


def evidence_for(query: str, retrieve: Retrieve = everything) -> str:
    """Return the parts of the retrieved texts that the query needs, numbered, at most 200 tokens.

    Signature and docstring are what agent libraries show their models.
    """
    evidence = canopy.Compressor(budget=200).compress(query, retrieve(query))
    return "\n".join(f"[{each.n}] {each.text}" for each in evidence.fragments)


TOOL = {
    "type": "function",
    "function": {
        "name": evidence_for.__name__,
        "description": (evidence_for.__doc__ or "").split("\n", maxsplit=1)[0],
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    },
}
"""The same function as OpenAI-compatible servers take it: `tools=[TOOL]`."""


def main() -> None:
    """Call the tool as a model would."""
    arguments = json.dumps({"query": "How high is the lighthouse tower?"})
    print(json.dumps(TOOL, indent=2))
    print(evidence_for(**json.loads(arguments)))


if __name__ == "__main__":
    main()
