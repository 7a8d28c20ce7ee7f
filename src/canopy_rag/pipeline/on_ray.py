"""From settings to the Ray engine, whose workers make their parts from settings again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from canopy_rag.config import Config, EncoderConfig
from canopy_rag.core.protocols import Encoder
from canopy_rag.indexing import IndexOptions, Roots
from canopy_rag.indexing.engine import Engine, MakeEngine
from canopy_rag.indexing.on_ray import RayEngine, RaySettings
from canopy_rag.indexing.ray_worker import Recipe
from canopy_rag.pipeline.factory import build_encoder, encoder_settings, media_in, same_encoder
from canopy_rag.pipeline.files import FileParser
from canopy_rag.store import LanceStore


@dataclass(frozen=True, slots=True)
class WorkerEncoder:
    """Makes the encoder of an index in another process."""

    config: EncoderConfig
    dim: int | None
    roots: Roots
    """Where the run found its files; a worker has to find pictures and videos there, too."""

    def __call__(self) -> Encoder:
        """Return the encoder."""
        return build_encoder(self.config, place=partial(media_in, self.roots), dim=self.dim)


def engine_on_ray(
    config: Config,
    folder: Path,
    parse: FileParser,
    store: LanceStore,
    *,
    options: IndexOptions,
) -> MakeEngine:
    """Return what makes the Ray engine of a run.

    Args:
        config: The settings.
        folder: Of the index, which knows the roots of its sources when the engine is made.
        parse: Reads one file.
        store: The index.
        options: Say how many workers, and what the parser of one file may take.
    """
    encoder = encoder_settings(config, store.fingerprint, store.adapter)
    if encoder.threads is None:  # as many as a worker is given, not as its machine has
        encoder = replace(encoder, threads=max(1, round(config.ray.worker_cpus)))
    same = same_encoder(encoder.name, store.fingerprint.model)
    dim = store.fingerprint.dim if same else None
    settings = RaySettings(
        address=config.ray.address,
        workers=options.workers,
        worker_cpus=config.ray.worker_cpus,
        worker_gpus=config.ray.worker_gpus,
        start_s=config.ray.start_s,
    )

    def make(n_files: int, stopping: Callable[[], bool]) -> Engine:
        recipe = Recipe(
            parse=parse,
            make_encoder=WorkerEncoder(encoder, dim, Roots(folder)),  # by now those of this run
            fingerprint=store.fingerprint,
            packer=store.packer,
            parsers=config.ray.worker_parsers,
            limits=options.limits,
        )
        return RayEngine(recipe, settings, n_files, stopping)

    return make
