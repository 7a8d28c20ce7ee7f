"""The one place that knows concrete parts: from settings to encoders, stores, models, readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from canopy_rag.config import Config, EncoderConfig, IngestConfig, LLMConfig, llm_api_key
from canopy_rag.core.evidence import Meter
from canopy_rag.core.protocols import LLM, Encoder, Fingerprint, MediaPart, Store, TokenCounter
from canopy_rag.ingest.options import IngestOptions
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import AnswerStyle, ExtractiveReader, LLMReader
from canopy_rag.pipeline.retrieve import Retriever

PICTURE_PX = 1024
"""Longest side of a picture sent to a model, in pixels."""
PICTURE_TOKENS = 1024
"""What a picture of that size costs at most with a patch of 32 x 32 pixels a token."""


def build_encoder(config: EncoderConfig) -> Encoder:
    """Return the encoder of a configuration; weights load on first use.

    Raises:
        UnknownNameError: If there is no such encoder.
    """
    if config.name == "hashing":
        from canopy_rag.testing.hashing import HashingEncoder

        return HashingEncoder(mode=config.mode)
    from canopy_rag.encoders.registry import encoder

    weights = None if config.weights is None else Path(config.weights)
    return encoder(config.name, mode=config.mode, weights=weights, threads=config.threads)


def build_options(
    config: IngestConfig, note: Callable[[str, str], None] | None = None
) -> IngestOptions:
    """Return how files become items.

    Args:
        config: The settings.
        note: Called with a source's uri and what of it could not be used.
    """
    from canopy_rag.text import DefaultSplitter

    return IngestOptions(
        splitter=DefaultSplitter(),
        target_chars=config.target_chars,
        max_rows=config.max_rows,
        branching=config.branching,
        video_item_s=config.video_item_s,
        segment_s=config.segment_s,
        max_frames=config.max_frames,
        ocr=config.ocr,
        max_image_px=config.max_image_px,
        note=note,
    )


def build_llm(config: LLMConfig) -> LLM | None:
    """Return the chat model of a configuration, or None for the extractive reader.

    The key comes from the environment alone.

    Raises:
        UnknownNameError: If the name is neither a URL nor known.
    """
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
    )


def encoder_settings(config: Config, stored: Fingerprint) -> EncoderConfig:
    """Return the encoder settings for an index: its own encoder unless the user names one.

    Raises:
        StoreError: Never here; the store compares fingerprints and names both.
    """
    named = {key for key in ("encoder.name", "encoder.mode") if key in config.origins}
    if named:
        return config.encoder
    return EncoderConfig(
        name=stored.model,
        mode=stored.mode,
        threads=config.encoder.threads,
        weights=config.encoder.weights,
    )


def build_meter(encoder: Encoder, count: TokenCounter | None = None) -> Meter:
    """Return how evidence is counted without a reader: the user's way, or estimated (D8)."""
    if count is not None:
        return Meter(count=count, exact=True)
    return Meter(count=encoder.count_tokens)


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
        reader = LLMReader(llm=llm, style=style, load=load if sees else None)
        if sees:
            meter = Meter(count=meter.count, count_media=lambda part: PICTURE_TOKENS)
    retriever = Retriever(encoder=encoder, store=store, hybrid=config.retrieval.hybrid)
    return Loop(
        retriever=retriever,
        reader=reader,
        retrieval=config.retrieval,
        selection=config.select,
        meter=meter,
    )
