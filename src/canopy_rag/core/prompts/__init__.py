"""Prompts, and evidence inside them as data that cannot pass itself off as anything else.

A prompt is a Markdown file: what the system says, a line `---`, what the user says, `{fields}` in
either. Evidence stands in a fence whose code is a hash of what it holds, so no document can hold
the end of its own fence. What looks like a control token of a chat template, or like an evidence
tag, gets a space inside, in the prompt only: records keep the text as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal

from canopy_rag.core.protocols import MediaPart, Message

ReaderStyle = Literal["cited", "short"]

_FIELD = re.compile(r"\{(\w+)\}")
_BREAK = "\n---\n"
_CODE_CHARS = 16
_MAX_REPLY_CHARS = 4000

# Control tokens by family: `<|im_start|>` (ChatML, Llama 3, Qwen, Phi, gpt-oss) and DeepSeek's with
# a full-width bar; `<start_of_turn>` and other bare tags (Gemma, Llama 2, SmolVLM, InternVL, T5,
# llama.cpp's media marker); `<<SYS>>`; `[INST]` (Llama 2, Mistral).
_BARE_TAGS = (
    r"s|bos|eos|pad|unk|mask|cls|sep|sot|eot|eod|im_start|im_end|endoftext|start_of_turn|"
    r"end_of_turn|start_of_image|end_of_image|image_soft_token|end_of_utterance|think|tool_call|"
    r"tool_response|tools?|image|img|img_context|video|audio|fake_token_around_image|global-img|"
    r"row_\d+_col_\d+|quad|ref|box|__\w+__|(?:unused|extra_id_|reserved_special_token_)\d+"
)
_TOKENS = (
    re.compile(r"<(?=[|｜])"),
    re.compile(r"(?<=[|｜])(?=>)"),
    re.compile(rf"<(?=/?(?:{_BARE_TAGS})>)", re.IGNORECASE),
    re.compile(r"<(?=</?sys>>)", re.IGNORECASE),
    re.compile(r"<(?=\s*+/?\s*+evidence\b)", re.IGNORECASE),
    re.compile(
        r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|"
        r"CALL_ID|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|THINK|PREFIX|MIDDLE|SUFFIX)\])"
    ),
)
_NUMBERS = re.compile(r"[\[［【](?=\^?\d)")


@cache
def _template(name: str) -> str:
    """Return a prompt as it stands in its file.

    Raises:
        ValueError: If there is none of this name.
    """
    file = resources.files(__name__) / f"{name}.md"
    if not re.fullmatch(r"\w+", name) or not file.is_file():
        raise ValueError(f"there is no prompt {name!r}")
    return file.read_text(encoding="utf-8").replace("\r\n", "\n").strip()


def render(name: str, **fields: str) -> str:
    """Return a prompt with its fields filled in; braces inside values stay as they are.

    Args:
        name: File name without `.md`.
        **fields: All fields of the prompt, by name.

    Raises:
        ValueError: If the prompt is unknown, a field is missing, or one too many is given.
    """
    template = _template(name)
    _check_fields(name, template, fields)
    return _filled(template, fields)


def reader_messages(
    question: str, evidence_parts: Sequence[str | MediaPart], style: ReaderStyle
) -> tuple[Message, ...]:
    """Return what the reader is asked (D14).

    Args:
        question: The user's question.
        evidence_parts: Rendered evidence in order. For `cited` its fragments carry `[n]`; numbers
            in brackets inside the documents' own text have been through `neutral_numbers`, which
            only the one who writes the numbers can do.
        style: `cited`: sentences with fragment numbers; `short`: the answer alone.

    Returns:
        A system message that is the same for all questions, so that servers can keep it, and a
        user message with the evidence and the question.
    """
    return evidence_messages(f"reader_{style}", evidence_parts, question=question)


def critic_messages(
    question: str, evidence_parts: Sequence[str | MediaPart], queries: Sequence[str]
) -> tuple[Message, ...]:
    """Return what the critic is asked (P7).

    Args:
        question: The user's question.
        evidence_parts: Rendered evidence in order, without fragment numbers: it cites nothing.
        queries: What was searched so far, the question included.
    """
    searched = "\n".join(f"- {' '.join(query.split())}" for query in queries)
    return evidence_messages("critic", evidence_parts, question=question, queries=searched)


def aggregate_messages(question: str) -> tuple[Message, ...]:
    """Return what the aggregate classifier is asked: the question alone (P6)."""
    return question_messages("aggregate", question=question)


def router_messages(query: str) -> tuple[Message, ...]:
    """Return what the modality router is asked: the query alone (P8)."""
    return question_messages("router", query=query)


def repair_messages(reply: str, schema: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return what a model is asked to make of a reply that is not of its schema (D15).

    Args:
        reply: As it came; its beginning is shown.
        schema: JSON schema of the object that it should have been.
    """
    shown = reply[:_MAX_REPLY_CHARS]
    return evidence_messages("repair", [shown], schema=json.dumps(schema))


def evidence_messages(
    name: str, evidence_parts: Sequence[str | MediaPart], **fields: str
) -> tuple[Message, ...]:
    """Return the messages of a prompt that shows evidence.

    Texts that follow each other become one, with an empty line between. Control tokens are
    neutralised in the evidence and in the fields.

    Args:
        name: File name without `.md`; the prompt has the fields `code` and `evidence`.
        evidence_parts: Texts and pictures in order.
        **fields: All its other fields.

    Raises:
        ValueError: If the prompt is unknown, a field is missing, or one too many is given.
    """
    parts = [neutral(part) if isinstance(part, str) else part for part in evidence_parts]
    safe = {field: neutral(value) for field, value in fields.items()}
    safe["code"] = _code([*parts, *safe.values()])
    template = _template(name)
    _check_fields(name, template, [*safe, "evidence"])
    system, _, user = template.partition(_BREAK)
    before, _, after = user.partition("{evidence}")
    content = _joined([_filled(before.lstrip(), safe), *_spaced(parts), _filled(after, safe)])
    return (
        Message(role="system", content=(_filled(system.rstrip(), safe),)),
        Message(role="user", content=content),
    )


def question_messages(name: str, **fields: str) -> tuple[Message, ...]:
    """Return the messages of a prompt that shows no evidence.

    Args:
        name: File name without `.md`.
        **fields: All its fields.

    Raises:
        ValueError: If the prompt is unknown, a field is missing, or one too many is given.
    """
    safe = {field: neutral(value) for field, value in fields.items()}
    system, _, user = render(name, **safe).partition(_BREAK)
    return (
        Message(role="system", content=(system.rstrip(),)),
        Message(role="user", content=(user.lstrip(),)),
    )


def neutral(text: str) -> str:
    """Return `text` with a space inside all that could pass for a control token or evidence tag.

    Doing it twice changes nothing more.

    >>> neutral("a <|im_end|> b </s> c [/INST] d <b>")
    'a < |im_end| > b < /s> c [ /INST] d <b>'
    """
    for token in _TOKENS[:1] + _TOKENS[2:]:
        text = token.sub(lambda found: f"{found.group()} ", text)
    return _TOKENS[1].sub(" ", text)


def neutral_numbers(text: str) -> str:
    """Return a document's text with a space inside all that could pass for a fragment number.

    To be applied before fragments are numbered. Doing it twice changes nothing more.

    >>> neutral_numbers("as shown [3], x[0], [4, 7-9], [sic]")
    'as shown [ 3], x[ 0], [ 4, 7-9], [sic]'
    """
    return _NUMBERS.sub(lambda found: f"{found.group()} ", text)


def _code(parts: Iterable[str | MediaPart]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        text = part if isinstance(part, str) else part.media
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()[:_CODE_CHARS]


def _check_fields(name: str, template: str, given: Iterable[str]) -> None:
    wanted, got = set(_FIELD.findall(template)), set(given)
    if missing := sorted(wanted - got):
        raise ValueError(f"prompt {name!r} lacks its fields: {', '.join(missing)}")
    if extra := sorted(got - wanted):
        raise ValueError(f"prompt {name!r} has no such fields: {', '.join(extra)}")


def _filled(template: str, fields: dict[str, str]) -> str:
    return _FIELD.sub(lambda found: fields[found.group(1)], template)


def _spaced(parts: Sequence[str | MediaPart]) -> list[str | MediaPart]:
    """Put an empty line between texts that follow each other."""
    spaced: list[str | MediaPart] = []
    for part in parts:
        if spaced and isinstance(part, str) and isinstance(spaced[-1], str):
            spaced.append("\n\n")
        spaced.append(part)
    return spaced


def _joined(parts: Sequence[str | MediaPart]) -> tuple[str | MediaPart, ...]:
    """Join texts that follow each other."""
    joined: list[str | MediaPart] = []
    for part in parts:
        if joined and isinstance(part, str) and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return tuple(joined)
