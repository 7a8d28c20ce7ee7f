"""Canopy and its ablations: settings of the loop, nothing of their own.

`canopy` is the pipeline as it is configured; `configs/paper.toml` configures it as the paper does.
The others change one thing each: `canopy-norefine` shows retrieved items whole ("w/o Projection"),
`canopy-oneround` stops after one round, `canopy-f0` compares nodes with the frozen encoder, and
`canopy-routed` (Canopy-dagger) lets a router choose the corpora of every query. Parameters combine
them: `canopy-routed:refine=false`.

Differences from the paper:

- Without refinement the aggregate classifier is not asked: every table is whole already.
- After the last allowed round the critic is not asked: it could change nothing (D5).
- A multiple-choice question searches with its text alone; critic and reader get its options too.
- In the paper the frozen encoder finds the items. Where the adapter finds them too (`minilm`, D12),
  it does so for every method, `canopy-f0` included: `f0` takes its place for nodes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from canopy_rag.baselines._selectors import whole
from canopy_rag.baselines.base import LoopMethod, Method, Parts, Spec, with_rounds
from canopy_rag.config.values import Least
from canopy_rag.pipeline.route import ModalityRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class CanopySettings:
    """What of the pipeline is changed."""

    encoder: Literal["f_theta", "f0"] = "f_theta"
    """Compares nodes: the fine-tuned or the frozen one."""
    refine: bool = True
    """Select regions, or show items whole."""
    rounds: Annotated[int, Least(1)] | None = None
    """Most rounds; unset: as configured."""
    routed: bool = False
    """Let the chat model route every query."""
    select: Literal["paper", "set"] | None = None
    """Scope of selection (D11); unset: as configured."""
    repeat: Literal["keep", "union"] | None = None
    """What happens to an item found again (D7); unset: as configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedSettings(CanopySettings):
    """Canopy-dagger."""

    routed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSettings(CanopySettings):
    """Without refinement."""

    refine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRoundSettings(CanopySettings):
    """Without iteration."""

    rounds: Annotated[int, Least(1)] | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSettings(CanopySettings):
    """Without the adapter."""

    encoder: Literal["f_theta", "f0"] = "f0"


def build(name: str, parts: Parts, settings: CanopySettings) -> Method:
    """Return the pipeline with what the settings change.

    Raises:
        ConfigError: If the frozen encoder or the chat model is wanted and missing.
    """
    loop = with_rounds(parts.loop, settings.rounds)
    if settings.select is not None:
        loop = replace(loop, selection=replace(loop.selection, select=settings.select))
    if settings.repeat is not None:
        loop = replace(loop, selection=replace(loop.selection, repeat=settings.repeat))
    if not settings.refine:
        loop = replace(loop, selector=whole, classifier=None)
    return LoopMethod(
        name=name,
        loop=replace(
            loop,
            retriever=parts.retriever(name, settings.encoder),
            router=ModalityRouter(llm=parts.chat(name)) if settings.routed else None,
        ),
    )


def _spec(name: str, summary: str, settings: type[CanopySettings] = CanopySettings) -> Spec:
    return Spec(name=name, summary=summary, module=__name__, build=build, settings=settings)


SPECS = (
    _spec("canopy", "retrieve, refine, judge; up to the configured rounds"),
    _spec("canopy-routed", "canopy with a router on every query", RoutedSettings),
    _spec("canopy-norefine", "canopy that shows the retrieved items whole", WholeSettings),
    _spec("canopy-oneround", "canopy that never retrieves again", OneRoundSettings),
    _spec("canopy-f0", "canopy that compares nodes with the frozen encoder", FrozenSettings),
)
