"""The one place that knows concrete parts: from settings to encoders, stores, models, readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from canopy_rag.config import (
    Config,
    EncoderConfig,
    IngestConfig,
    LLMConfig,
    encoder_api_key,
    llm_api_key,
)
from canopy_rag.core.errors import ConfigError, IngestError, StoreError, UnknownNameError
from canopy_rag.core.evidence import Meter
from canopy_rag.core.protocols import (
    LLM,
    Encoder,
    Fingerprint,
    MediaPart,
    MediaPlace,
    Store,
    TokenCounter,
)
from canopy_rag.core.types import Item
from canopy_rag.pipeline.critic import Critic, LLMCritic
from canopy_rag.pipeline.files import FileParser, build_options
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import (
    FRAME_PX,
    IMAGE_PX,
    PICTURE_TOKENS,
    AnswerStyle,
    ExtractiveReader,
    LLMReader,
)
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.pipeline.route import ModalityRouter

if TYPE_CHECKING:
    from canopy_rag.indexing import IndexOptions, IndexReport, Progress, Roots
    from canopy_rag.store import LanceStore
    from canopy_rag.store.location import Location

ENGINES = ("local", "ray")
"""Where files can be parsed and encoded."""


def build_encoder(
    config: EncoderConfig, *, place: MediaPlace | None = None, dim: int | None = None
) -> Encoder:
    """Return the encoder of a configuration; weights load on first use.

    The key of an encoder's server comes from the environment alone.

    Args:
        config: The settings.
        place: Finds pictures and videos of items; None: by absolute path or `data:` URI.
        dim: Dimensions that are expected, as those of an index; None: whatever the encoder has.

    Raises:
        UnknownNameError: If there is no such encoder.
        ConfigError: If a setting cannot work, or an adapter does not belong to the encoder.
    """
    if config.name.partition("+")[0] == "hashing":
        return _hashing_encoder(config)
    from canopy_rag.encoders.registry import from_config

    key = encoder_api_key()
    return from_config(config, place=place, dim=dim, api_key=None if key is None else key.reveal())


def _hashing_encoder(config: EncoderConfig) -> Encoder:
    from canopy_rag.encoders.adapters import read_adapter
    from canopy_rag.encoders.mapped import MappedEncoder
    from canopy_rag.encoders.names import parse
    from canopy_rag.testing.hashing import HashingEncoder

    folder = parse(config.name).adapter
    if folder is None:
        return HashingEncoder(mode=config.mode or "late")
    adapter = read_adapter(Path(folder))
    return MappedEncoder(HashingEncoder(mode=config.mode or adapter.mode), adapter)


def build_llm(config: LLMConfig) -> LLM | None:
    """Return the chat model of a configuration, or None for the extractive reader.

    The key comes from the environment alone.

    Raises:
        UnknownNameError: If the name is neither a URL nor known.
    """
    from canopy_rag.llms.counting import Counting
    from canopy_rag.llms.registry import llm

    key = llm_api_key()
    return llm(
        config.name,
        model=config.model,
        api_key=None if key is None else key.reveal(),
        vision=config.vision or None,
        timeout_s=config.timeout_s,
        max_retries=config.max_retries,
        max_in_flight=config.max_in_flight,
        max_per_server=config.max_per_server,
        max_waiting=config.max_waiting,
        counting=Counting(
            tokenizer=config.tokenizer,
            pictures=config.pictures,
            price_in=config.price_in,
            price_out=config.price_out,
        ),
    )


def encoder_settings(config: Config, stored: Fingerprint, adapter: str = "") -> EncoderConfig:
    """Return the encoder settings for an index: its own encoder unless the user names one.

    What the user leaves open is as the index has it: a map on queries is put on an index by its
    name alone. Whether the encoder fits is for the store to say, which compares fingerprints.

    Args:
        config: The user's.
        stored: Of the index.
        adapter: Folder of the adapter that the index was made with; empty: none.
    """
    named = config.encoder
    if "encoder.name" not in config.origins:
        named = replace(named, name=_own_name(named, stored, adapter))
    elif not same_encoder(named.name, stored.model):
        return named
    return replace(
        named,
        mode=named.mode or stored.mode,
        instruction=stored.instruction if named.instruction is None else named.instruction,
    )


def _own_name(config: EncoderConfig, stored: Fingerprint, adapter: str) -> str:
    """Return the name that makes an index's own encoder again."""
    if adapter:
        return f"{stored.model}+{adapter}"
    if stored.model == "minilm" and config.weights is None:
        from canopy_rag.encoders.registry import packaged

        return packaged(stored) or stored.model
    return stored.model


def same_encoder(name: str, model: str) -> bool:
    """Return whether an encoder's name, adapter aside, is that of a fingerprint."""
    from canopy_rag.encoders.names import parse

    return parse(name).model == model


def adapter_folder(name: str) -> str:
    """Return the absolute path of the adapter in an encoder's name; empty without one."""
    from canopy_rag.encoders.names import parse

    found = parse(name).adapter
    return "" if found is None else str(Path(found).resolve())


def open_store(path: str | Path, config: Config, *, create: bool) -> tuple[LanceStore, Encoder]:
    """Open an index with its encoder.

    Args:
        path: The folder, or `s3://bucket/path` and the like.
        config: Its encoder settings hold for a new index; an index's own encoder is used unless
            they name one.
        create: Make the index if there is none.

    Raises:
        StoreError: If there is none, or it is another encoder's or version's.
    """
    from canopy_rag.store import LanceStore

    location = locate_index(path, config)

    def place(media: str) -> tuple[str, Path | None]:
        return media_place(location.local)(media)

    hybrid = config.retrieval.hybrid or None
    if create and not location.has_index:
        encoder = build_encoder(config.encoder, place=place)
        store = LanceStore.create(
            location,
            encoder.fingerprint,
            hybrid=config.retrieval.hybrid,
            media=encoder.media,
            adapter=adapter_folder(config.encoder.name),
            vectors=config.index.vectors or "int4",
        )
        return store, encoder
    store = LanceStore.open(location, hybrid=hybrid)
    if create and config.index.vectors not in (None, store.precision):
        raise StoreError(
            f"the index in {store.place!r} has vectors in {store.precision}, not in "
            f"{config.index.vectors} as index.vectors says; unset that, or index into a new folder"
        )
    if "encoder.name" not in config.origins and store.fingerprint.model.startswith("http:"):
        from canopy_rag.encoders.http import Unaddressed

        return store, Unaddressed(store.fingerprint, store.media)
    settings = encoder_settings(config, store.fingerprint, store.adapter)
    same = same_encoder(settings.name, store.fingerprint.model)
    encoder = build_encoder(settings, place=place, dim=store.fingerprint.dim if same else None)
    store.check(encoder.fingerprint)
    return store, encoder


def upgrade_index(path: str | Path, config: Config) -> bool:
    """Bring an index to the current format, and to `index.vectors` if that is set.

    Returns:
        Whether there was anything to do.

    Raises:
        StoreError: If there is no index, it cannot be written, or it has less exact vectors.
    """
    from canopy_rag.store import upgrade

    return upgrade(locate_index(path, config), config.index.vectors)


def locate_index(path: str | Path, config: Config) -> Location:
    """Return the place of an index, reached as configured.

    Raises:
        StoreError: If an address is of an unknown kind, or names no bucket.
    """
    from canopy_rag.store.location import locate

    return locate(path, config.index.options(), refresh_s=config.index.refresh_s)


def index_files(
    store: LanceStore,
    encoder: Encoder,
    folder: Path,
    config: Config,
    paths: Sequence[Path],
    *,
    options: IndexOptions,
    engine: str = "local",
    on_progress: Progress | None,
) -> IndexReport:
    """Bring an index up to date with files and folders; see `Index.add`."""
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, ENGINES)
    from canopy_rag.indexing import Limits, SourceReader, settings_key
    from canopy_rag.indexing import index_files as run
    from canopy_rag.ingest import registry

    parse = FileParser(config.ingest, encoder.languages == frozenset({"en"}))
    reader = SourceReader(
        parse=parse,
        supports=registry.is_supported,
        companions=registry.sidecars,
        is_companion=registry.is_sidecar,
    )
    limits = Limits(seconds=config.index.file_timeout_s, memory_mb=config.index.file_memory_mb)
    options = replace(options, limits=limits if config.index.isolate else None)
    if engine == "ray":
        from canopy_rag.pipeline.on_ray import engine_on_ray

        made = engine_on_ray(config, folder, parse, store, options=options)
        options = replace(options, engine=made)
    return run(
        paths,
        folder=folder,
        store=store,
        encoder=encoder,
        reader=reader,
        settings=settings_key(build_options(config.ingest), encoder.fingerprint),
        options=options,
        on_progress=on_progress,
    )


def read_document(
    document: str | dict[str, object] | Path, name: str, config: IngestConfig
) -> list[Item]:
    """Return the items of one document that a caller hands over.

    Raises:
        IngestError: If it cannot be read.
    """
    from canopy_rag.ingest.documents import document_items

    return document_items(document, name, build_options(config), base=Path.cwd())


def load_picture(part: MediaPart, folder: Path, *, anywhere: bool = False) -> str:
    """Return a picture of an index as a `data:` URI.

    Args:
        part: As evidence holds it.
        folder: The index's folder, which knows the roots of its sources.
        anywhere: Whether files may lie outside them, as those of data sets do.

    Raises:
        IngestError: If its file is gone, broken, or outside the indexed folders.
    """
    from canopy_rag import media

    if part.media.startswith("data:"):
        return part.media
    name, root = media_place(folder)(part.media)
    if root is None and not anywhere:  # the index says so, and may be a stranger's
        raise IngestError(part.media, "lies in no folder of this index; index its folder again")
    if part.time is None:
        return media.image_data_uri(name, root, max_px=IMAGE_PX)
    return media.data_uri(media.load_frames(name, [part.time], root)[0], max_px=FRAME_PX)


def media_place(folder: Path) -> MediaPlace:
    """Return how the media of an index's items are found.

    Args:
        folder: The index's folder, which knows the roots of its sources, those of now.
    """
    from canopy_rag.indexing import Roots

    def place(media: str) -> tuple[str, Path | None]:
        return (media, None) if media.startswith("data:") else media_in(Roots(folder), media)

    return place


def media_in(roots: Roots, media: str) -> tuple[str, Path | None]:
    """Return where a picture or video lies, and the indexed folder that it must lie in."""
    path = None
    if Path(media).is_absolute():  # of a list of documents
        path = Path(media)
    elif not media.startswith("data:"):
        path = roots.path(media)
    return (media, None) if path is None else (str(path), roots.root_of(path))


def build_meter(encoder: Encoder, count: TokenCounter | None = None) -> Meter:
    """Return how evidence is counted without a reader: the user's way, or estimated (D8)."""
    if count is not None:
        return Meter(count=count, exact=True)
    return Meter(count=encoder.count_tokens)


def build_critic(
    config: Config, llm: LLM | None, load: Callable[[MediaPart], str] | None
) -> Critic | None:
    """Return who judges the evidence between rounds, or None for one round.

    Raises:
        ConfigError: If a chat model is to judge and there is none.
    """
    wanted = config.retrieval.critic
    if wanted == "rules":
        from canopy_rag.pipeline.critic import RulesCritic

        return RulesCritic()
    if wanted == "llm" and llm is None:
        raise ConfigError("the critic `llm` needs a chat model; give --llm, or use critic `rules`")
    small = config.llm.name == "local"  # measured: its verdict is a constant
    if llm is None or wanted == "none" or (wanted == "auto" and small):
        return None
    return LLMCritic(llm=llm, load=load)


def build_loop(
    config: Config,
    encoder: Encoder,
    store: Store,
    llm: LLM | None,
    *,
    style: AnswerStyle = "cited",
    load: Callable[[MediaPart], str] | None = None,
) -> Loop:
    """Wire the rounds of a question.

    Args:
        config: All settings.
        encoder: Of the index.
        store: The index.
        llm: The reader's model; None: the extractive reader.
        style: How a model answers (D14).
        load: Turns pictures into `data:` URIs, for a model that sees.
    """
    meter = build_meter(encoder)
    reader: LLMReader | ExtractiveReader
    if llm is None:
        reader = ExtractiveReader()
    else:
        sees = llm.vision and load is not None
        reader = LLMReader(
            llm=llm,
            style=style,
            max_tokens=config.llm.max_answer,
            load=load if sees else None,
            window=config.llm.window,
        )
        if sees:
            meter = Meter(count=meter.count, count_media=lambda part: PICTURE_TOKENS)
    retrieval = config.retrieval
    if retrieval.route == "llm" and llm is None:
        raise ConfigError("routing by a model needs one; give --llm, or route softly")
    return Loop(
        retriever=Retriever(encoder=encoder, store=store, hybrid=retrieval.hybrid),
        reader=reader,
        critic=build_critic(config, llm, load if llm is not None and llm.vision else None),
        router=ModalityRouter(llm=llm) if llm is not None and retrieval.route == "llm" else None,
        classifier=llm if retrieval.aggregate else None,
        retrieval=config.retrieval,
        selection=config.select,
        meter=meter,
    )
