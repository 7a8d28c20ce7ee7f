"""A whole training: data, model, steps, and the folder that is written at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from canopy_rag.config import EncoderConfig
from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import Encoder
from canopy_rag.datasets.splits import Part
from canopy_rag.encoders.names import parse, without_adapter
from canopy_rag.pipeline import factory
from canopy_rag.training.batches import Likeness
from canopy_rag.training.data import (
    Example,
    Portion,
    Source,
    portion,
    require_examples,
    without_long_items,
)
from canopy_rag.training.folder import (
    MANIFEST,
    WEIGHTS_MANIFEST,
    Checkpoint,
    check_out,
    digest,
    manifest,
    write_folder,
)
from canopy_rag.training.judge import as_results
from canopy_rag.training.maps import ENCODED_AT_ONCE, Stored, fit_maps, known
from canopy_rag.training.recipe import MAP, MINILM, PAPER, Kind, Recipe
from canopy_rag.training.trainable import Trunk

if TYPE_CHECKING:
    from canopy_rag.training.loop import Fitted, OnProgress
    from canopy_rag.training.trainable import Trainable

TRAINABLE = ("minilm", "qwen3-vl")
"""Encoders whose weights can be trained; maps work for all."""
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is trained on what, and where the result goes."""

    encoder: EncoderConfig
    sources: Sequence[Source]
    out: Path
    recipe: Recipe
    part: Part = "train"
    """Which part is learned; `validation` decides unless it is the one that is learned."""
    fresh: bool = False
    """Begin anew where an unfinished run of the same place is found."""
    built: Encoder | None = None
    """The encoder as an index uses it, for a map; None: as the settings have it."""
    stored: Stored | None = None
    """Node vectors that the index holds already, for a map."""


def train(
    job: Job, *, on_progress: OnProgress | None = None, note: Note = lambda _: None
) -> dict[str, Any]:
    """Train, write the folder, and return what its manifest says.

    Args:
        job: What to do.
        on_progress: Called after every step (a map: every epoch).
        note: Told what the user should know on the way.

    Raises:
        ConfigError: If the encoder cannot be trained so, or the place is not free.
        DataError: If there is nothing to learn from, or gold that points nowhere.
        ModelError: If the loss is not a number. Nothing was written then.
    """
    check_out(job.out)
    if job.recipe.kind != "map":
        _check_trainable(job.encoder, job.recipe)
    if parse(job.encoder.name).adapter is not None:
        raise ConfigError(
            f"encoder {job.encoder.name!r}: an adapter is trained on an encoder without one; leave "
            "out what follows the +"
        )
    learned = portion(job.sources, job.part, undecided=job.recipe.across > 0)
    require_examples(learned)
    judged = portion(job.sources, "validation") if job.part != "validation" else None
    if judged is None or not judged.examples:
        note("there is no validation part: the last step is kept, however good it is")
    if job.recipe.kind == "map":
        return _train_maps(job, learned, judged, on_progress, note)
    return _train_model(job, learned, judged, on_progress, note)


def default_recipe(encoder: str, kind: Kind | None, mode: str | None = None) -> Recipe:
    """Return the recipe for an encoder, unless the user names one."""
    if kind == "map":
        return MAP
    recipe = MINILM if parse(encoder).scheme == "minilm" else PAPER
    if mode == "node":  # each node is read on its own: nothing to compare items by
        recipe = replace(recipe, across=0.0, neighbours=1, lexical=False)
    if kind == "full":  # a folder of weights has no place for the lexical term
        recipe = replace(recipe, lexical=False)
    return recipe if kind is None else replace(recipe, kind=kind)


def build_trainable(config: EncoderConfig, recipe: Recipe) -> Trainable:
    """Return an encoder as a module that can be trained.

    Raises:
        ConfigError: If it can only be used.
        MissingDependencyError: If the `train` extra is not installed.
    """
    scheme = parse(config.name).scheme
    if scheme == "minilm":
        from canopy_rag.training.minilm import MiniLMTrunk

        weights = None if config.weights is None else Path(config.weights)
        return MiniLMTrunk(recipe, mode=config.mode or "late", weights=weights)
    if scheme == "qwen3-vl":
        from canopy_rag.encoders.qwen3_vl import Qwen3VL
        from canopy_rag.training.qwen3_vl import Qwen3VLBackbone

        encoder = factory.build_encoder(config)
        if isinstance(encoder, Qwen3VL):
            return Qwen3VLBackbone(encoder, recipe)
    raise _not_trainable(config.name)


def _base(config: EncoderConfig) -> EncoderConfig:
    """Return the settings of the encoder without the adapter that may come with it."""
    return replace(config, name=without_adapter(config.name) or config.name)


def _check_trainable(config: EncoderConfig, recipe: Recipe) -> None:
    scheme = parse(config.name).scheme
    if scheme not in TRAINABLE:
        raise _not_trainable(config.name)
    late = scheme == "minilm" and (config.mode or "late") == "late"
    if (recipe.across or recipe.lexical) and not late:
        asked = "across" if recipe.across else "lexical"
        raise ConfigError(
            f"encoder {config.name!r}: {asked} needs an encoder that reads an item once for all "
            "its nodes, which is minilm with the mode late; use --across 0 --no-lexical"
        )


def _not_trainable(name: str) -> ConfigError:
    return ConfigError(
        f"encoder {name!r}: its weights cannot be trained here; train a map on its vectors with "
        "--kind map, which works for every encoder"
    )


def _train_model(
    job: Job, learned: Portion, judged: Portion | None, on_progress: OnProgress | None, note: Note
) -> dict[str, Any]:
    from canopy_rag.training.loop import fit
    from canopy_rag.training.processes import Processes

    first = Processes().is_first  # before anything is put on a device
    trainable = build_trainable(job.encoder, job.recipe)
    learned, n_long = without_long_items(
        learned, job.recipe.max_item_tokens, trainable.count_tokens
    )
    if n_long:
        limit = job.recipe.max_item_tokens
        note(f"{n_long:,} questions' items have more than {limit:,} tokens and are not learned")
    require_examples(learned)
    config = job.recipe.to_dict()
    data = _data(learned, judged)
    place = digest(config, dict(trainable.base), trainable.mode, data, learned.counts())
    checkpoint = _checkpoint(job, place, note)
    fitted = fit(
        trainable,
        learned,
        judged,
        job.recipe,
        likeness=_likeness(job, learned, note),
        checkpoint=checkpoint,
        on_progress=on_progress,
    )
    is_adapter = job.recipe.kind == "lora"
    results = _results(learned, judged, fitted) | {"items_too_long": n_long}
    body = manifest(
        job.recipe.kind,
        trainable.base,
        trainable.mode,
        config=config,
        data=data,
        results=results,
        retrieves=job.recipe.across > 0,
        lexical_weight=trainable.lexical_weight if isinstance(trainable, Trunk) else None,
    )
    if first:
        name = MANIFEST if is_adapter else WEIGHTS_MANIFEST
        write_folder(job.out, name, body, trainable.write)
        checkpoint.remove()
    return body


def _checkpoint(job: Job, what: str, note: Note) -> Checkpoint:
    """Return where the run is saved; `what` tells one run from another of the same place."""
    checkpoint = Checkpoint(job.out, what)
    if job.fresh:
        checkpoint.remove()
    saved = checkpoint.load()
    if saved is not None:
        note(f"going on after step {saved['step']:,}")
    return checkpoint


def _likeness(job: Job, learned: Portion, note: Note) -> Likeness | None:
    if job.recipe.neighbours == 1:
        return None
    note("reading the gold items with the frozen encoder: like ones share a batch")
    return frozen_likeness(learned.examples, factory.build_encoder(_base(job.encoder)))


def frozen_likeness(examples: Sequence[Example], encoder: Encoder) -> Likeness:
    """Return how alike examples are for an encoder that is not trained.

    Args:
        examples: Questions with an item each.
        encoder: Encodes both; the same vectors each time.
    """
    items = list({each.item.id: each.item for each in examples}.values())
    queries = list(dict.fromkeys(each.query for each in examples))
    item_rows = {
        item.id: vectors.item
        for start in range(0, len(items), ENCODED_AT_ONCE)
        for item, vectors in zip(
            items[start : start + ENCODED_AT_ONCE],
            encoder.encode_items(items[start : start + ENCODED_AT_ONCE]),
            strict=True,
        )
    }
    query_rows = {
        query: row
        for start in range(0, len(queries), ENCODED_AT_ONCE)
        for query, row in zip(
            queries[start : start + ENCODED_AT_ONCE],
            encoder.encode_queries(queries[start : start + ENCODED_AT_ONCE]).retrieval,
            strict=True,
        )
    }
    return Likeness(
        queries=np.stack([query_rows[each.query] for each in examples]),
        items=np.stack([item_rows[each.item.id] for each in examples]),
        names=[(f"{each.benchmark}\0{each.question_id}", each.item.id) for each in examples],
    )


def _train_maps(
    job: Job, learned: Portion, judged: Portion | None, on_progress: OnProgress | None, note: Note
) -> dict[str, Any]:
    encoder = job.built or factory.build_encoder(job.encoder)
    if job.stored is None:
        note("encoding the gold items and the questions; training itself takes seconds")
    vectors = known(learned.examples, encoder, job.stored)
    others = known(judged.examples, encoder, job.stored) if judged is not None else []
    maps, fitted = fit_maps(vectors, others, job.recipe, on_progress)
    fingerprint = encoder.fingerprint
    body = manifest(
        "map",
        {"model": fingerprint.model, "revision": fingerprint.revision},
        fingerprint.mode,
        config=job.recipe.to_dict(),
        data=_data(learned, judged),
        results=_results(learned, judged, fitted),
    )
    write_folder(job.out, MANIFEST, body, maps.write)
    return body


def _data(learned: Portion, judged: Portion | None) -> dict[str, str]:
    return {**learned.digests, **(judged.digests if judged is not None else {})}


def _results(learned: Portion, judged: Portion | None, fitted: Fitted) -> dict[str, Any]:
    return {
        learned.part: learned.counts(),
        "validation": judged.counts() if judged is not None else None,
        "decision_accuracy": as_results(fitted.before, fitted.after),
        "loss": fitted.loss,
        "loss_parts": dict(fitted.parts),
        "steps": fitted.n_steps,
        "kept_step": fitted.kept_step,
        "stopped_early": fitted.stopped_early,
        "seconds": round(fitted.seconds, 1),
        "history": list(fitted.history),
    }
