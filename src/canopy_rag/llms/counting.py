"""How the tokens of a chat model are counted where its server does not tell, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.media_tokens import PICTURE_TOKENS, family_of
from canopy_rag.llms._tokenizers import Tokenizer

PictureCounter = Callable[[int, int], int]
"""Tokens of a picture of this width and height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """Settings."""

    tokenizer: str | None = None
    """A `tokenizer.json`, a folder with one, or `tiktoken:NAME`; None: the server counts."""
    pictures: str | None = None
    """Family of models whose pictures cost alike, a key of `core.media_tokens.PICTURE_TOKENS`;
    None: what the server counts, or else by the model's name."""
    price_in: float | None = None
    """What a million tokens of prompt cost, in any currency."""
    price_out: float | None = None
    """What a million tokens of replies cost."""

    def own_tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer that was named; it loads at the first count.

        Raises:
            ConfigError: If it is not there.
            MissingDependencyError: If tiktoken is wanted and not installed.
        """
        return Tokenizer(self.tokenizer) if self.tokenizer else None

    def named_pictures(self) -> PictureCounter | None:
        """Return the formula of the family that was named.

        Raises:
            UnknownNameError: If it is not known.
        """
        if self.pictures is None:
            return None
        if self.pictures not in PICTURE_TOKENS:
            raise UnknownNameError("family of vision models", self.pictures, PICTURE_TOKENS)
        return PICTURE_TOKENS[self.pictures]

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return what a reply cost; None without prices."""
        if self.price_in is None and self.price_out is None:
            return None
        spent = prompt_tokens * (self.price_in or 0) + completion_tokens * (self.price_out or 0)
        return spent / 1e6


AS_TOLD = Counting()
"""Whatever the server tells; costs are not counted."""


def pictures_of(model: str) -> PictureCounter | None:
    """Return the formula for a model's name, or None if its family is not known."""
    family = family_of(model)
    return None if family is None else PICTURE_TOKENS[family]


def estimated(text: str) -> int:
    """Return a rough number of tokens where nobody can count: a quarter of the UTF-8 bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 4)
