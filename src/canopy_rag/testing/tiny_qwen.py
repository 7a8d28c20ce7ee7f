"""A Qwen3-VL checkpoint of the real architecture with random weights, made in a second.

About 300,000 parameters, a tokenizer trained on a few sentences, the chat template's shape, the
image processor's settings: whatever reads a real checkpoint reads this one. Its vectors mean
nothing. Needs the `qwen` extra.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from canopy_rag._optional import require

EXTRA = "qwen"
FEATURE = "a tiny Qwen3-VL"
PAD = "<|endoftext|>"
SPECIAL = (
    PAD,
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- for content in message.content %}"
    "{%- if content.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif content.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{%- else %}{{- content.text }}{%- endif %}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
TRAINING_TEXT = (
    "system user assistant Represent the user's input. seconds",
    "Ada Lovelace wrote the first program for the Analytical Engine. castle castle castle",
    "The castle lies on a steep hill above the river, and the lake freezes over in winter.",
)


def write_tiny_qwen(folder: Path, *, seed: int = 0, n_layers: int = 2) -> Path:
    """Write a checkpoint into a folder, which is made.

    Args:
        folder: Where to.
        seed: Of its weights; equal seeds give equal files.
        n_layers: Of the language model, at least 2.

    Returns:
        The folder.

    Raises:
        MissingDependencyError: If torch or transformers are not installed.
    """
    torch = require("torch", extra=EXTRA, feature=FEATURE)
    transformers = require("transformers", extra=EXTRA, feature=FEATURE)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(transformers)
    tokenizer.save_pretrained(str(folder))
    processor = transformers.Qwen2VLImageProcessorPil(
        patch_size=16,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        size={"shortest_edge": 4 * 32 * 32, "longest_edge": 1800 * 32 * 32},
    )
    processor.save_pretrained(str(folder))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.Qwen3VLForConditionalGeneration(
            _config(transformers, tokenizer, n_layers)
        )
        _stir(torch, model)
    model.save_pretrained(str(folder))
    return folder


def _config(transformers: Any, tokenizer: Any, n_layers: int) -> Any:
    numbers = {mark: tokenizer.convert_tokens_to_ids(mark) for mark in SPECIAL}
    return transformers.Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": n_layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 16384,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
            "pad_token_id": numbers[PAD],
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 64,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
        tie_word_embeddings=True,
    )


def _stir(torch: Any, model: Any) -> None:
    """Enlarge the first weights, so that the last token's state depends on the whole input."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "embed" not in name:
                parameter.mul_(8.0)


def _tokenizer(transformers: Any) -> Any:
    tokenizers = require("tokenizers", extra=EXTRA, feature=FEATURE)
    pre_tokenizers = require("tokenizers.pre_tokenizers", extra=EXTRA, feature=FEATURE)
    decoders = require("tokenizers.decoders", extra=EXTRA, feature=FEATURE)
    models = require("tokenizers.models", extra=EXTRA, feature=FEATURE)
    trainers = require("tokenizers.trainers", extra=EXTRA, feature=FEATURE)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    repeated = itertools.chain.from_iterable(itertools.repeat(TRAINING_TEXT, 4))
    tokenizer.train_from_iterator(repeated, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token=PAD,
        additional_special_tokens=list(SPECIAL),
        padding_side="right",
        chat_template=TEMPLATE,
    )
