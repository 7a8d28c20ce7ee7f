"""What further rounds do to the recall of gold and to tokens, without a reader.

Each question goes through the loop as shipped, with different critics; no reader is asked.

- one round of 10 to 60 items: what more items bring without a critic;
- `oracle titles`: the critic knows the gold, and asks for the title of an item that is missing;
- `oracle hops`: MuSiQue's own decomposition, with the answers of earlier hops put in;
- `rules`: the critic that needs no model (`core/bridges.py`);
- `local`: the packaged small model as critic, on few questions, since it takes seconds a call.

`keep` leaves an item found again as it is, `union` adds the regions that the new query selects. A
critic is compared with one round *at equal tokens*: the mixture of the two nearest numbers of items
whose mean tokens are the critic's. Writes `benchmarks/results/loop.json`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import samples
from samples import Asked, Samples

from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.answer import Verdict
from canopy_rag.core.evidence import Evidence, Meter, Repeat
from canopy_rag.core.protocols import LLM
from canopy_rag.core.replies import is_new_query
from canopy_rag.core.select import Select
from canopy_rag.core.trees import leaves
from canopy_rag.evaluation.bootstrap import (
    difference_interval,
    mean_interval,
    ratio_interval,
)
from canopy_rag.pipeline.critic import Critic, Judgement, LLMCritic, RulesCritic
from canopy_rag.pipeline.loop import Gathered, Loop
from canopy_rag.pipeline.reader import ExtractiveReader
from canopy_rag.pipeline.retrieve import Retriever

TITLES = {"hotpotqa": "HotpotQA", "musique": "MuSiQue", "ottqa": "OTT-QA"}
TEXTS = "HotpotQA and MuSiQue"
ROUNDS = 3
KS = (10, 15, 20, 30, 40, 60)
"""Numbers of items of the single rounds that critics are compared with."""
BUDGET = 512
"""Tokens of evidence where all systems get the same number."""
N_LOCAL = 8
"""Questions of each benchmark for the packaged model."""
BASE = "one round, k=10"
MEASURES = ("items", "leaves")
SELECTS: tuple[Select, ...] = ("set", "paper")
REPEATS: tuple[Repeat, ...] = ("keep", "union")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One way to gather evidence."""

    name: str
    critic: str | None = None
    k: int = 10
    rounds: int = ROUNDS
    selection: SelectConfig = field(default_factory=SelectConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a system gathered for one question."""

    items: float
    """Share of the gold items of which something is shown."""
    leaves: float
    """Share of all gold leaves that are shown."""
    tokens: int
    rounds: int
    stop: str
    n_follow_up_hits: int
    n_held: int
    """Hits of later rounds that were shown already (P5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleCritic:
    """Knows what is missing."""

    asked: Mapping[str, Asked]
    """By the text of the question."""
    pooled: Samples
    hops: bool
    """Ask the benchmark's follow-up questions in turn; otherwise for a missing item's title."""

    async def judge(self, question: str, evidence: Evidence, queries: Sequence[str]) -> Judgement:
        """Say what is missing."""
        asked = self.asked[question]
        missing = [item_id for item_id in asked.gold if not evidence.holds(item_id)]
        if not missing:
            return Judgement(verdict=Verdict(sufficient=True), stop="sufficient")
        if self.hops:
            wanted = list(asked.question.follow_ups[len(queries) - 1 :][:1])
        else:
            wanted = [item.title for item in self.pooled.store.get(missing)]
        new = [query for query in wanted if is_new_query(query, queries)]
        verdict = Verdict(sufficient=False, follow_up=new[0] if new else None)
        return Judgement(verdict=verdict, stop=None if new else "repeated_query")


def systems(benchmark: str) -> list[System]:
    """Return what is compared: by selection, without a limit and at the same budget."""
    critics = ["oracle titles", *(["oracle hops"] if benchmark == "musique" else []), "rules"]
    made: list[System] = []
    for select, budget in product(SELECTS, (None, BUDGET)):
        setting = SelectConfig(select=select, budget=budget)
        told = f"; select={select}" + (f", budget {budget}" if budget else "")
        made += [System(name=f"one round, k={k}{told}", k=k, selection=setting) for k in KS]
        for repeat, critic in product(REPEATS, critics):
            selection = replace(setting, repeat=repeat)
            made.append(
                System(name=f"{critic}, {repeat}{told}", critic=critic, selection=selection)
            )
        name = f"rules in two rounds, keep{told}"
        made.append(System(name=name, critic="rules", rounds=2, selection=setting))
    return made


def critic_of(name: str | None, asked: Sequence[Asked], pooled: Samples) -> Critic | None:
    if name is None:
        return None
    if name == "rules":
        return RulesCritic()
    known = {each.question.text: each for each in asked}
    return OracleCritic(asked=known, pooled=pooled, hops=name == "oracle hops")


def loop_of(system: System, critic: Critic | None, pooled: Samples) -> Loop:
    return Loop(
        retriever=Retriever(encoder=pooled.encoder, store=pooled.store),
        reader=ExtractiveReader(),
        critic=critic,
        retrieval=RetrievalConfig(k=system.k, rounds=system.rounds if critic else 1),
        selection=system.selection,
        meter=Meter(count=pooled.encoder.count_tokens),
    )


async def run(loop: Loop, asked: Sequence[Asked]) -> list[Outcome]:
    return [outcome(each, await loop.gather(each.question.text)) for each in asked]


def outcome(asked: Asked, gathered: Gathered) -> Outcome:
    shown = {entry.item.id: entry for entry in gathered.evidence.entries}
    kept = {
        item_id: {leaf for node in entry.kept for leaf in leaves(entry.item.nodes, node)}
        for item_id, entry in shown.items()
        if entry.cut is None
    }
    n_kept = sum(len(ends & kept.get(item_id, set())) for item_id, ends in asked.gold.items())
    later = [hit for each in gathered.rounds[1:] for hit in each.hits]
    return Outcome(
        items=sum(item_id in shown for item_id in asked.gold) / len(asked.gold),
        leaves=n_kept / sum(map(len, asked.gold.values())),
        tokens=gathered.evidence.tokens,
        rounds=len(gathered.rounds),
        stop=gathered.stop,
        n_follow_up_hits=len(later),
        n_held=sum(hit.held for hit in later),
    )


Runs = dict[str, list[Outcome]]


def row(name: str, runs: Runs, base: str) -> dict[str, Any]:
    """Return what is reported of one system."""
    own, first = runs[name], runs.get(base)
    made: dict[str, Any] = {
        "system": name,
        "tokens": round(float(np.mean([each.tokens for each in own])), 1),
    }
    for measure in MEASURES:
        values = [getattr(each, measure) for each in own]
        made[measure] = samples.rounded(mean_interval(values))
        if first is not None and name != base:
            theirs = [getattr(each, measure) for each in first]
            made[f"{measure}_to_one_round"] = samples.rounded(difference_interval(values, theirs))
    later = [each.n_follow_up_hits for each in own]
    made["rounds"] = dict(sorted(Counter(str(each.rounds) for each in own).items()))
    made["stop"] = dict(Counter(each.stop for each in own).most_common())
    if sum(later):
        made["held"] = samples.rounded(ratio_interval([each.n_held for each in own], later))
    return made


def at_equal_tokens(name: str, runs: Runs) -> dict[str, Any] | None:
    """Return the difference to one round with as many tokens; None outside of the numbers tried.

    Under a budget, the largest number stands for what it could not fill.
    """
    setting = name.partition(";")[2]
    singles = [runs[f"one round, k={k};{setting}"] for k in KS]
    means = [float(np.mean([each.tokens for each in one])) for one in singles]
    tokens = float(np.mean([each.tokens for each in runs[name]]))
    for at in range(len(KS) - 1):
        if means[at] <= tokens <= means[at + 1]:
            share = (tokens - means[at]) / max(means[at + 1] - means[at], 1e-9)
            break
    else:
        if "budget" not in setting or tokens < means[0]:
            return None
        at, share = len(KS) - 2, 1.0
    made: dict[str, Any] = {
        "system": name,
        "k": round(KS[at] + share * (KS[at + 1] - KS[at]), 1),
        "tokens": round(tokens, 1),
    }
    for measure in MEASURES:
        mixture = [
            (1 - share) * getattr(few, measure) + share * getattr(many, measure)
            for few, many in zip(singles[at], singles[at + 1], strict=True)
        ]
        own = [getattr(each, measure) for each in runs[name]]
        made[measure] = samples.rounded(difference_interval(own, mixture))
    return made


def union_to_keep(name: str, runs: Runs) -> dict[str, Any]:
    """Return what adding the new regions changes against leaving an item as it is (D7)."""
    union, keep = runs[name], runs[name.replace(", union", ", keep")]
    made: dict[str, Any] = {"system": name}
    for measure in (*MEASURES, "tokens"):
        values = [[getattr(each, measure) for each in one] for one in (union, keep)]
        made[measure] = samples.rounded(difference_interval(*values))
    return made


def run_all(benchmark: str, asked: Sequence[Asked], pooled: Samples) -> Runs:
    """Run every system on the questions of one benchmark."""
    runs: Runs = {}
    for system in systems(benchmark):
        loop = loop_of(system, critic_of(system.critic, asked, pooled), pooled)
        runs[system.name] = asyncio.run(run(loop, asked))
    return runs


def compared(runs: Runs) -> dict[str, Any]:
    """Return everything that is reported of some questions."""
    critics = [name for name in runs if not name.startswith("one round")]
    return {
        "n": len(next(iter(runs.values()))),
        "systems": [row(name, runs, f"{BASE};{name.partition(';')[2]}") for name in runs],
        "at_equal_tokens": [found for name in critics if (found := at_equal_tokens(name, runs))],
        "union_to_keep": [union_to_keep(name, runs) for name in critics if ", union" in name],
    }


def measure_part(part: str, pooled: Samples) -> dict[str, Any]:
    """Return the results of one part, by benchmark, and of the two text benchmarks together."""
    runs = {
        title: run_all(benchmark, pooled.part(part, (benchmark,)), pooled)
        for benchmark, title in TITLES.items()
    }
    texts = [runs[TITLES[benchmark]] for benchmark in ("hotpotqa", "musique")]
    shared = [name for name in texts[0] if name in texts[1]]
    runs[TEXTS] = {name: [each for one in texts for each in one[name]] for name in shared}
    return {title: compared(own) for title, own in runs.items()}


def required(model: LLM | None) -> LLM:
    if model is None:
        raise AssertionError("`local` names a model")
    return model


async def local(asked: Sequence[Asked], pooled: Samples) -> dict[str, Any]:
    """Let the packaged model judge."""
    from canopy_rag.llms.registry import llm

    model = required(llm("local"))
    calls: list[Judgement] = []

    class Watched:
        async def judge(
            self, question: str, evidence: Evidence, queries: Sequence[str]
        ) -> Judgement:
            calls.append(await LLMCritic(llm=model).judge(question, evidence, queries))
            return calls[-1]

    system = System(name="local, keep")
    started = time.perf_counter()
    runs = {
        BASE: await run(loop_of(System(name=BASE), None, pooled), asked),
        "local, keep": await run(loop_of(system, Watched(), pooled), asked),
    }
    seconds = time.perf_counter() - started
    await model.aclose()
    verdicts = [each.verdict for each in calls]
    missing = [each for each in runs[BASE] if each.items < 1]
    return {
        "model": model.name,
        "select": SelectConfig().select,
        "n": len(asked),
        "n_lacking_gold_after_one_round": len(missing),
        "calls": len(calls),
        "seconds_per_call": round(seconds / max(1, len(calls)), 1),
        "said_sufficient": sum(bool(each and each.sufficient) for each in verdicts),
        "no_verdict": sum(each is None for each in verdicts),
        "fallbacks": sum(len(each.fallbacks) for each in calls),
        "systems": [row(name, runs, BASE) for name in runs],
        "follow_ups": [each.follow_up for each in verdicts if each and each.follow_up],
    }


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument("--no-local", action="store_true", help="leave out the packaged model")
    arguments = parser.parse_args()
    data = samples.require(arguments.data, *samples.BENCHMARKS)
    started = time.perf_counter()
    pooled = samples.read(data)
    result: dict[str, Any] = {
        "what": "recall of gold items (something of them is shown) and gold leaves, and tokens of "
        "the evidence that the loop gathers; all gold counts, found or not; no reader; "
        "at_equal_tokens: paired difference to the mixture of the two nearest numbers of items of "
        "one round whose mean tokens are the critic's",
        "encoder": pooled.encoder.fingerprint.model,
        "tokens": "the encoder's tokenizer",
        "rounds": ROUNDS,
        "pool": pooled.sizes(),
        "interval": "95 %, paired bootstrap over questions, 10,000 resamples, seed 0",
        **samples.machine(),
        "parts": {},
    }
    for part in samples.PARTS:
        result["parts"][part] = measure_part(part, pooled)
        for title, found in result["parts"][part].items():
            show(f"{part}, {title}", found)
    if not arguments.no_local:
        few = [
            each
            for benchmark in ("hotpotqa", "musique")
            for each in pooled.part("test", (benchmark,))[:N_LOCAL]
        ]
        result["local"] = asyncio.run(local(few, pooled))
        show("local", {"at_equal_tokens": [], "union_to_keep": [], **result["local"]})
    result["seconds"] = round(time.perf_counter() - started)
    samples.write("loop", result)


def show(name: str, found: dict[str, Any]) -> None:
    print(f"{name}: {found['n']} questions", flush=True)
    for each in found["systems"]:
        held = f"held {each['held']['value']:.2f}" if "held" in each else ""
        print(
            f"  {each['system']:52} items {each['items']['value']:.3f} leaves "
            f"{each['leaves']['value']:.3f} tokens {each['tokens']:7.1f} {held} {each['stop']}"
        )
    for kind in ("at_equal_tokens", "union_to_keep"):
        print(f"  {kind}")
        for each in found[kind]:
            told = [
                f"{measure} {each[measure]['value']:+.3f} "
                f"[{each[measure]['low']:+.3f}, {each[measure]['high']:+.3f}]"
                for measure in MEASURES
            ]
            at = f"k={each['k']}" if "k" in each else ""
            print(f"    {each['system']:50} {at:8} {', '.join(told)}")


if __name__ == "__main__":
    main()
