"""Answers for people: the text, the sources it cites, and how it came about."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from canopy_rag.cli.layout import block, single
from canopy_rag.cli.output import Output
from canopy_rag.cli.showing import excerpt, show_evidence, show_totals, source
from canopy_rag.cli.wording import clean, count, one_line
from canopy_rag.core.answer import Answer, Round
from canopy_rag.core.evidence import Evidence, Fragment


def show_answer(output: Output, answer: Answer, *, full: bool = False) -> None:
    """Write an answer, its sources, and the rounds behind it.

    Args:
        output: Where to.
        answer: The answer.
        full: All evidence, whole; otherwise a line for each fragment that is cited.
    """
    output.show(*block(output, Text(clean(answer.text)), 0), "")
    _show_sources(output, answer, full=full)


def show_stream(
    output: Output, events: Iterator[Evidence | str | Answer], *, full: bool = False
) -> None:
    """Write an answer as it comes; as JSON, a line for each event."""
    for event in events:
        if isinstance(event, str):
            output.write(event)
        if output.as_json:
            output.json(_event(event))
        elif isinstance(event, Answer):
            output.write("\n\n")
            _show_sources(output, event, full=full)


def _event(event: Evidence | str | Answer) -> dict[str, object]:
    if isinstance(event, str):
        return {"event": "token", "data": event}
    name = "answer" if isinstance(event, Answer) else "evidence"
    return {"event": name, "data": event.to_dict()}


def _show_sources(output: Output, answer: Answer, *, full: bool) -> None:
    if full:
        show_evidence(output, answer.evidence, full=True)
    else:
        for fragment in cited(answer):
            output.show(source_line(output, fragment))
        if answer.citations:
            output.show("")
        show_totals(output, answer.evidence)
    for each in answer.rounds:
        output.show(Text(_round(each), "dim"))
    _show_cost(output, answer)
    if not answer.usage.llm_calls:
        output.note(
            "No chat model was asked. --llm local uses the small embedded one, --llm "
            "http://HOST:PORT/v1 any OpenAI-compatible server."
        )


def cited(answer: Answer) -> list[Fragment]:
    """Return the fragments that an answer cites, in the order of their first citation."""
    by_number = {fragment.n: fragment for fragment in answer.evidence.fragments}
    numbers = dict.fromkeys(citation.fragment for citation in answer.citations)
    return [by_number[number] for number in numbers if number in by_number]


def source_line(output: Output, fragment: Fragment) -> Text:
    """Return a fragment with its number, file and place on one line."""
    text = Text.assemble(
        (f"[{fragment.n}] ", "green"),
        (source(fragment), "cyan"),
        f"  {excerpt(fragment)[:1000]}",
    )
    return single(output, text, 1)


def _round(each: Round) -> str:
    found = f"{count(len(each.hits), 'hit')}, {each.n_new} new"
    line = f"round {each.number}: {one_line(each.query)!r}, {found}"
    if each.verdict is not None and each.verdict.sufficient:
        return f"{line}; enough"
    if each.verdict is not None and each.verdict.follow_up:
        return f"{line}; still asked: {one_line(each.verdict.follow_up)!r}"
    return line


def _show_cost(output: Output, answer: Answer) -> None:
    usage = answer.usage
    seconds = sum(usage.seconds.values())
    calls = count(usage.llm_calls, "call") + " of a chat model"
    spent = f", {usage.prompt_tokens:,} tokens in, {usage.completion_tokens:,} out"
    output.show(Text(f"{seconds:.2f} s, {calls}{spent if usage.prompt_tokens else ''}", "dim"))
