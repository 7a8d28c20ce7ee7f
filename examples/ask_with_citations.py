"""Answers with citations: `python ask_with_citations.py [local | http://HOST:PORT/v1]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import canopy_rag as canopy
from canopy_rag.testing.corpus import FILES

QUESTIONS = ("How high is the lighthouse tower?", "What pressure does an espresso machine need?")


def main(llm: str) -> None:
    """Ask two questions at once and print each answer with the places it cites."""
    with tempfile.TemporaryDirectory() as folder:
        index = canopy.Index.open(Path(folder, "my.canopy"), create=True)
        index.add(FILES / "guides")
        rag = canopy.Canopy(index, llm=llm)
        for answer in rag.ask_many(QUESTIONS):
            print(f"\n{answer.question}\n{answer.text}")
            for citation in answer.citations:
                fragment = answer.evidence.fragments[citation.fragment - 1]
                print(f"  [{citation.n}] {fragment.source.uri} {fragment.source.char or ''}")
            print(f"  {answer.evidence.tokens} of {answer.evidence.tokens_full} tokens")
        rag.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "none")
