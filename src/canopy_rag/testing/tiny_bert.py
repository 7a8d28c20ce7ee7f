"""A sentence-transformers model of two BERT layers with random weights, made in a second.

Its vectors mean nothing. Needs torch, transformers and sentence-transformers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from canopy_rag._optional import require

EXTRA = "hf"
FEATURE = "a tiny sentence-transformers model"
TEXT = "ada wrote the first program castle hill query births name born title : ; . ?"
WORDS = tuple(TEXT.split())
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WINDOW = 64


def write_tiny_bert(
    folder: Path, *, prompts: Mapping[str, str] | None = None, seed: int = 0
) -> Path:
    """Write a model with mean pooling into a folder.

    Args:
        folder: Where to.
        prompts: By name, such as `query` and `document`.
        seed: Of its weights.

    Returns:
        The folder.

    Raises:
        MissingDependencyError: If one of the libraries is not installed.
    """
    torch = require("torch", extra=EXTRA, feature=FEATURE)
    transformers = require("transformers", extra=EXTRA, feature=FEATURE)
    library = require("sentence_transformers", extra=EXTRA, feature=FEATURE)
    modules = require(
        "sentence_transformers.sentence_transformer.modules", extra=EXTRA, feature=FEATURE
    )
    config = transformers.BertConfig(
        vocab_size=len(MARKS) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=WINDOW,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as plain:
        torch.manual_seed(seed)
        transformers.BertModel(config).save_pretrained(plain)
        tiny_tokenizer(WINDOW).save_pretrained(plain)
        parts = [modules.Transformer(plain), modules.Pooling(config.hidden_size)]
        model = library.SentenceTransformer(
            modules=parts, prompts=dict(prompts or {}), device="cpu"
        )
        model.save(str(folder))
    return folder


def tiny_tokenizer(window: int) -> Any:
    """Return a tokenizer that knows `WORDS`; the others are unknown."""
    transformers = require("transformers", extra=EXTRA, feature=FEATURE)
    tokenizers = require("tokenizers", extra=EXTRA, feature=FEATURE)
    models = require("tokenizers.models", extra=EXTRA, feature=FEATURE)
    processors = require("tokenizers.processors", extra=EXTRA, feature=FEATURE)
    vocabulary = {word: number for number, word in enumerate((*MARKS, *WORDS))}
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = require(
        "tokenizers.normalizers", extra=EXTRA, feature=FEATURE
    ).BertNormalizer()
    made.pre_tokenizer = require(
        "tokenizers.pre_tokenizers", extra=EXTRA, feature=FEATURE
    ).BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        bos_token="[CLS]",
        eos_token="[SEP]",
        model_max_length=window,
    )
