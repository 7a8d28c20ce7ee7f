"""What Qwen3-VL-Embedding reads: its conversation as token ids, pictures as patches.

Written out here instead of asking the library's processor, for three reasons: it gives the same
tokens and pixels with and without torchvision; the text of a document is never read as a control
token; and a video has the layout that the model was released with (each pair of frames after its
time, without a further pair of marks around all), which newer versions of the processor changed.
Pictures are resized by Pillow, as the model's own wrapper does; the library normalises them.
"""

from __future__ import annotations

import itertools
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, MissingDependencyError

if TYPE_CHECKING:
    from PIL import Image

FEATURE = "the encoder qwen3-vl"
EXTRA = "qwen"
CELL = 32 * 32
"""Pixels of one visual token: patches of 16 x 16, merged 2 x 2."""
EMPTY = "NULL"
"""What an input without words and pictures is read as, by the model's own wrapper."""
MAX_CHARS_PER_TOKEN = 64
"""A text is cut at this many characters per token before it is tokenised."""
MARKS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
IMAGE, VIDEO = 1, 2
"""Kinds of tokens, as the model numbers them; 0 is text."""

Ids = list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Limits of one input; the defaults are those of the model's own wrapper."""

    max_tokens: int = 8192
    """Longest input, everything counted. Texts are cut; the end of the conversation, on which the
    vector is pooled, stays (the wrapper cuts that off, too)."""
    min_picture_px: int = 4 * CELL
    """Smaller pictures are enlarged."""
    max_picture_px: int = 1800 * CELL
    """Larger pictures are reduced: 1,800 visual tokens."""
    max_frame_px: int = 768 * CELL
    """Most pixels of a video's frame."""
    max_video_px: int = 10 * 768 * CELL
    """Most pixels of all frames of a node: 3,840 visual tokens, since frames count in pairs."""
    max_frames: int = 64
    """Most frames of a node; of more, this many, evenly spread."""

    def __post_init__(self) -> None:
        for name, least in (("max_tokens", 64), ("min_picture_px", CELL), ("max_frames", 1)):
            value = getattr(self, name)
            if value < least:
                raise ConfigError(f"encoder.{name} must be at least {least}, got {value}")
        for name in ("max_picture_px", "max_frame_px"):
            value = getattr(self, name)
            if value < self.min_picture_px:
                raise ConfigError(
                    f"encoder.{name} is {value}, below encoder.min_picture_px, which is "
                    f"{self.min_picture_px}"
                )
        if self.max_video_px < self.max_frames * self.min_picture_px:
            raise ConfigError(
                f"encoder.max_video_px is {self.max_video_px}, too few for encoder.max_frames, "
                f"{self.max_frames}, of encoder.min_picture_px, {self.min_picture_px}"
            )

    def unusual(self) -> dict[str, int]:
        """Return the limits that are not the defaults, by name."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        usual = Budgets()
        return {name: value for name, value in found.items() if value != getattr(usual, name)}


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One sequence that the model reads, right before padding."""

    ids: NDArray[np.int64]
    """`(n_tokens,)`."""
    kinds: NDArray[np.int64]
    """`(n_tokens,)`: 0 text, 1 image, 2 video."""
    images: tuple[Image.Image, ...] = ()
    """As large as they are read."""
    pairs: tuple[tuple[Image.Image, Image.Image], ...] = ()
    """The video's frames, two by two, all of one size."""


def instruction_sentence(text: str) -> str:
    """Return an instruction as the model's wrapper writes it: stripped, with a mark at its end.

    >>> instruction_sentence(" Find the passage ")
    'Find the passage.'
    """
    text = text.strip()
    if text and not unicodedata.category(text[-1]).startswith("P"):
        text += "."
    return text


def pair_times(times: Sequence[float]) -> list[float]:
    """Return the time told for each pair of frames: the mean of both; the last stands for two."""
    padded = [*times, times[-1]] if len(times) % 2 else list(times)
    return [(one + two) / 2 for one, two in zip(padded[::2], padded[1::2], strict=True)]


class Inputs:
    """Builds readings and batches for one checkpoint.

    Args:
        folder: Of the checkpoint: tokenizer, settings for pictures, a chat template.
        config: The checkpoint's configuration.
        budgets: Limits of one input.

    Raises:
        ConfigError: If the checkpoint's marks, chat template or patches are not those of
            Qwen3-VL-Embedding.
        MissingDependencyError: If transformers is missing or too old.
    """

    def __init__(self, folder: Path, config: Any, budgets: Budgets) -> None:
        self.budgets = budgets
        self._folder = folder
        self._tokenizer = _text_tokenizer(folder)
        self._mark = {mark: self._tokenizer.token_to_id(mark) for mark in MARKS}
        self._processor, self._resized = _picture_processor(folder)
        self._check(config)

    @property
    def cell(self) -> int:
        """Side of the square that becomes one visual token, in pixels."""
        return int(self._processor.patch_size * self._processor.merge_size)

    def text_ids(self, text: str, limit: int | None = None) -> Ids:
        """Return the tokens of a text, at most the first `limit`; control tokens are words."""
        if limit is not None:
            text = text[: limit * MAX_CHARS_PER_TOKEN]
        if not text.isascii():  # unpaired surrogates of undecodable bytes are no text
            text = text.encode("utf-8", "replace").decode("utf-8")
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids[:limit])

    def head(self, instruction: str) -> Ids:
        """Return the tokens before the user's content."""
        start, end = self._mark["<|im_start|>"], self._mark["<|im_end|>"]
        system = self.text_ids(f"system\n{instruction}")
        return [start, *system, end, *self.text_ids("\n"), start, *self.text_ids("user\n")]

    @property
    def tail(self) -> Ids:
        """The tokens after the user's content; the vector is pooled on the last."""
        newline = self.text_ids("\n")
        start, end = self._mark["<|im_start|>"], self._mark["<|im_end|>"]
        return [end, *newline, start, *self.text_ids("assistant\n")]

    def reading(
        self,
        instruction: str,
        text: str,
        *,
        images: Sequence[Image.Image] = (),
        frames: Sequence[Image.Image] = (),
        times: Sequence[float] = (),
    ) -> Reading:
        """Return one input: video, then images, then text, each resized or cut to its budget.

        Args:
            instruction: The system message; see `instruction_sentence`.
            text: Stripped; without text and pictures it is `EMPTY`.
            images: Upright, RGB.
            frames: Of one video, ascending.
            times: Seconds of the frames.

        Raises:
            ValueError: If a picture is too narrow, or the pictures alone are above `max_tokens`.
        """
        text = text.strip() or ("" if images or frames else EMPTY)
        pairs, vision, kinds = self._video(frames, times)
        resized = tuple(self._resize(image, self.budgets.max_picture_px) for image in images)
        for image in resized:
            vision += self._framed("<|image_pad|>", self._n_tokens(image))
            kinds += [0, *[IMAGE] * self._n_tokens(image), 0]
        head, tail = self.head(instruction), self.tail
        room = self.budgets.max_tokens - len(head) - len(vision) - len(tail)
        if room < 0:
            raise ValueError(
                f"its pictures are {len(vision)} tokens, above max_tokens "
                f"{self.budgets.max_tokens}; lower encoder.max_picture_px or encoder.max_video_px"
            )
        words = self.text_ids(text, room)
        return Reading(
            np.asarray([*head, *vision, *words, *tail], np.int64),
            np.asarray([*[0] * len(head), *kinds, *[0] * (len(words) + len(tail))], np.int64),
            resized,
            pairs,
        )

    def batch(self, readings: Sequence[Reading]) -> dict[str, NDArray[Any]]:
        """Return the model's arguments for some readings, padded on the right."""
        length = max(len(one.ids) for one in readings)
        shape = (len(readings), length)
        ids, mask, kinds = (np.zeros(shape, np.int64) for _ in range(3))
        for row, one in enumerate(readings):
            ids[row, : len(one.ids)] = one.ids
            mask[row, : len(one.ids)] = 1
            kinds[row, : len(one.ids)] = one.kinds
        batch: dict[str, NDArray[Any]] = {"input_ids": ids, "attention_mask": mask}
        images = [image for one in readings for image in one.images]
        pairs = [pair for one in readings for pair in one.pairs]
        if images:
            batch["pixel_values"], batch["image_grid_thw"] = self._patches(images)
        if pairs:
            first, grid = self._patches([one for one, _ in pairs])
            second, _ = self._patches([two for _, two in pairs])
            batch["pixel_values_videos"] = self._interleaved(first, second)
            begins = np.cumsum([0, *(len(one.pairs) for one in readings)])
            batch["video_grid_thw"] = np.asarray(
                [
                    [stop - begin, *grid[begin][1:]]
                    for begin, stop in itertools.pairwise(begins.tolist())
                    if stop > begin
                ],
                np.int64,
            )
        if images or pairs:
            batch["mm_token_type_ids"] = kinds
        return batch

    def _video(
        self, frames: Sequence[Image.Image], times: Sequence[float]
    ) -> tuple[tuple[tuple[Image.Image, Image.Image], ...], Ids, Ids]:
        if not frames:
            return (), [], []
        limit = min(self.budgets.max_frame_px, self.budgets.max_video_px // len(frames))
        size = self._size(frames[0], max(limit, self.budgets.min_picture_px))
        sized = [self._scaled(frame, size) for frame in frames]
        sized += sized[-1:] if len(sized) % 2 else []
        pairs = tuple(zip(sized[::2], sized[1::2], strict=True))
        ids: Ids = []
        kinds: Ids = []
        n_pads = self._n_tokens(sized[0])
        for time in pair_times(times):
            words = self.text_ids(f"<{time:.1f} seconds>")
            ids += [*words, *self._framed("<|video_pad|>", n_pads)]
            kinds += [*[0] * (len(words) + 1), *[VIDEO] * n_pads, 0]
        return pairs, ids, kinds

    def _framed(self, pad: str, count: int) -> Ids:
        return [
            self._mark["<|vision_start|>"],
            *[self._mark[pad]] * count,
            self._mark["<|vision_end|>"],
        ]

    def _n_tokens(self, image: Image.Image) -> int:
        return int(image.width // self.cell) * int(image.height // self.cell)

    def _resize(self, image: Image.Image, max_px: int) -> Image.Image:
        return self._scaled(image, self._size(image, max_px))

    def _size(self, image: Image.Image, max_px: int) -> tuple[int, int]:
        height, width = self._resized(
            image.height,
            image.width,
            factor=self.cell,
            min_pixels=self.budgets.min_picture_px,
            max_pixels=max_px,
        )
        return int(width), int(height)

    @staticmethod
    def _scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
        from PIL import Image as Pillow

        return image if image.size == size else image.resize(size, Pillow.Resampling.BICUBIC)

    def _patches(self, images: Sequence[Image.Image]) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self._processor(images=list(images), do_resize=False, return_tensors="np")
        return found["pixel_values"], found["image_grid_thw"]

    def _interleaved(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return patches that hold two frames; a picture's own patches hold it twice."""
        side = self._processor.patch_size
        both = first.reshape(len(first), -1, 2, side * side).copy()
        both[:, :, 1] = second.reshape(both.shape)[:, :, 0]
        return both.reshape(len(first), -1)

    def _check(self, config: Any) -> None:
        """Hold the checkpoint to what this file takes for granted."""
        lacking = [mark for mark, number in self._mark.items() if number is None]
        if lacking:
            raise ConfigError(f"{self._folder}: its tokenizer has no {', '.join(lacking)}")
        expected = {
            "image_token_id": self._mark["<|image_pad|>"],
            "video_token_id": self._mark["<|video_pad|>"],
        }
        vision = config.vision_config
        found = {name: getattr(config, name) for name in expected}
        expected |= {"patch_size": vision.patch_size, "merge_size": vision.spatial_merge_size}
        expected["temporal_patch_size"] = vision.temporal_patch_size
        found |= {name: getattr(self._processor, name) for name in expected if name not in found}
        wrong = [name for name in expected if expected[name] != found[name]]
        if wrong:
            raise ConfigError(
                f"{self._folder}: tokenizer, pictures and model disagree about "
                f"{', '.join(wrong)}; its files are of different models"
            )
        if vision.temporal_patch_size != 2:
            raise ConfigError(
                f"{self._folder}: frames are read in twos, not {vision.temporal_patch_size}"
            )
        self._check_template()

    def _check_template(self) -> None:
        """Compare a conversation with what the checkpoint's own template makes of it.

        A vector is pooled on the last token of the opened answer; pooled elsewhere it is of
        another space, and nothing else would show it.
        """
        transformers = require("transformers", extra=EXTRA, feature=FEATURE)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(self._folder))
        template = _chat_template(self._folder, tokenizer)
        user = [{"type": "video", "video": ""}, {"type": "image", "image": ""}]
        conversation = [
            {"role": "system", "content": [{"type": "text", "text": "Read this."}]},
            {"role": "user", "content": [*user, {"type": "text", "text": "Two words."}]},
        ]
        rendered = tokenizer.apply_chat_template(
            conversation, chat_template=template, tokenize=False, add_generation_prompt=True
        )
        theirs = list(tokenizer(rendered, add_special_tokens=False)["input_ids"])
        vision = [*self._framed("<|video_pad|>", 1), *self._framed("<|image_pad|>", 1)]
        ours = [*self.head("Read this."), *vision, *self.text_ids("Two words."), *self.tail]
        if theirs != ours:
            raise ConfigError(
                f"{self._folder}: its chat template writes {rendered!r}, with the last tokens "
                f"{theirs[-len(self.tail) :]}; Qwen3-VL-Embedding ends with an opened answer of "
                f"the assistant, {self.tail}. Other ids give other vectors: use the tokenizer and "
                "template of the released model"
            )


def _text_tokenizer(folder: Path) -> Any:
    tokenizers = require("tokenizers", extra=EXTRA, feature=FEATURE)
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"encoder model {str(folder)!r}: the folder has no tokenizer.json")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigError(f"{path}: cannot be read as a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True  # "<|im_end|>" in a text is a word like others
    return tokenizer


def _picture_processor(folder: Path) -> tuple[Any, Any]:
    """Return the image processor that needs no torchvision, and the rule of sizes."""
    transformers = require("transformers", extra=EXTRA, feature=FEATURE)
    name = "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"
    try:
        module = require(name, extra=EXTRA, feature=FEATURE)
    except MissingDependencyError as error:
        raise MissingDependencyError(
            f"{FEATURE} needs transformers 5 or newer, found {transformers.__version__}. "
            f"Run: pip install -U 'canopy-rag[{EXTRA}]'"
        ) from error
    names = ("preprocessor_config.json", "processor_config.json")  # older and newer files
    if not any((folder / name).is_file() for name in names):
        raise ConfigError(f"encoder model {str(folder)!r}: it has no {names[0]}")
    return module.Qwen2VLImageProcessorPil.from_pretrained(str(folder)), module.smart_resize


def _chat_template(folder: Path, tokenizer: Any) -> str:
    found = tokenizer.chat_template
    path = folder / "chat_template.json"  # where older files have it
    if found is None and path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(found, str):
        raise ConfigError(f"{folder}: it has no chat template; use all files of the model")
    return found
