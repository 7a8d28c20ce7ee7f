"""The classes that users meet: `Compressor`, `Index`, `Canopy`."""

from canopy_rag.api.canopy import Canopy
from canopy_rag.api.compressor import Compressor
from canopy_rag.api.index import Index

__all__ = ["Canopy", "Compressor", "Index"]
