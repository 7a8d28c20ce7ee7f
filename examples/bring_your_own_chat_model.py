"""Evidence as messages for a client of your own; here one that only counts words."""

from __future__ import annotations

from typing import Any

import canopy_rag as canopy

DOCUMENTS = [
    "The tower is 41 metres high. Its walls are two metres thick at the bottom. It was built of "
    "granite. The first lamp burned oil. The last keeper left in 1986.",
]


def my_client(messages: list[dict[str, Any]]) -> str:
    """Stand in for `client.chat.completions.create(messages=...)`."""
    words = sum(len(part["text"].split()) for each in messages for part in each["content"])
    return f"(a model would now answer from {words} words)"


def main() -> None:
    """Compress with the reader's own token counter, and hand the messages over."""
    compressor = canopy.Compressor(count_tokens=lambda text: len(text.split()), budget=20)
    question = "How high is the tower?"
    evidence = compressor.compress(question, DOCUMENTS)
    ask = {"role": "user", "content": [{"type": "text", "text": question}]}
    print(evidence.text)
    print(my_client([*evidence.to_messages(), ask]))


if __name__ == "__main__":
    main()
