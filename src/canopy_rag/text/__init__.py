"""Sentences and languages: what `core` is told about text, behind its `SentenceSplitter`."""

from canopy_rag.text.language import looks_non_english
from canopy_rag.text.splitter import DefaultSplitter

__all__ = ["DefaultSplitter", "looks_non_english"]
