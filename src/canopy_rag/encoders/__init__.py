"""Text, tables, images and videos to vectors, behind `core.protocols.Encoder`."""

from canopy_rag.encoders.registry import encoder

__all__ = ["encoder"]
