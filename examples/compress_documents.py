"""Documents of your own, down to the parts that a query needs."""

from __future__ import annotations

import canopy_rag as canopy

DOCUMENTS = [
    {
        "title": "Skerry Point",
        "text": "The light at Skerry Point has stood on its rock since 1871. "
        "The tower is 41 metres high. Its walls are two metres thick at the bottom. "
        "The first lamp burned rapeseed oil. Electricity came in 1938. "
        "In clear air the beam reaches 19 nautical miles. Puffins breed in the turf.",
    },
    {
        "title": "Tickets",
        "table": {
            "header": ["season", "adult", "family"],
            "rows": [["April to June", "12", "29"], ["July and August", "15", "36"]],
        },
    },
    "Brew coffee with water between 92 and 96 degrees. Grind the beans just before brewing.",
]


def main() -> None:
    """Compress and show what is left, and where each part stands in its document."""
    compressor = canopy.Compressor(budget=60)
    evidence = compressor.compress("How high is the lighthouse tower?", DOCUMENTS)
    print(evidence.text)
    print(f"\n{evidence.tokens} of {evidence.tokens_full} tokens")
    for fragment in evidence.fragments:
        source = fragment.source
        print(f"[{fragment.n}] {source.uri} chars={source.char} rows={source.rows}")


if __name__ == "__main__":
    main()
