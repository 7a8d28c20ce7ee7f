"""Rows of node vectors as small whole numbers, and their dot products with a query.

A row is cut into blocks of 64 entries. A block is stored as a scale and one code per entry, in 8
bits or in 4, two to a byte. Codes reach one further below zero than above it (-8 to 7), so the
scale has the sign with which the entry of largest magnitude takes the lowest code; that is GGML's
Q4_0, there with 32 to a block, and comes an eighth nearer than -7 to 7. The scale is then fitted to
the codes. One scale per row would let one large entry take the precision of all others. What each
width costs in bytes and in quality is measured in docs/speed.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Precision = Literal["int4", "int8", "float16"]
"""How the rows of an index are stored."""
BLOCK = 64
"""Entries that share a scale."""
_LOWEST = {8: -128, 4: -8}
"""Code of each width for the entry of largest magnitude. Zero is exact."""
_SHIFT = 8
"""What is added to a code of 4 bits, which is stored without sign."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedRows:
    """Rows of one length; the width of a code is told by the type of `codes`."""

    codes: NDArray[np.int8] | NDArray[np.uint8]
    """int8, `(n_rows, padded)`; or uint8, `(n_rows, padded / 2)`: byte j holds entry j in its low
    and entry j + padded / 2 in its high half. `padded` is `dim` filled up to whole blocks."""
    scales: NDArray[np.float16]
    """`(n_rows, n_blocks)`, of either sign; an entry is its code times its block's scale."""
    dim: int
    """Entries of a row."""

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> CodedRows:
        return CodedRows(codes=self.codes[rows], scales=self.scales[rows], dim=self.dim)

    @property
    def shape(self) -> tuple[int, int]:
        """`(n_rows, dim)`."""
        return len(self.codes), self.dim

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self.codes.nbytes + self.scales.nbytes

    def dense(self) -> NDArray[np.float32]:
        """Return the rows as numbers, `(n_rows, dim)`."""
        blocks = self._blocks()
        if self.codes.dtype == np.uint8:
            blocks -= _SHIFT
        blocks *= self.scales[:, :, None]
        return blocks.reshape(len(self), blocks.shape[1] * BLOCK)[:, : self.dim]

    def dots(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the dot product of each row with a query, `(n_rows,)`.

        A value does not depend on which rows stand beside it; equal rows have equal values.

        Args:
            query: `(dim,)`.
        """
        blocks = self._blocks()
        parts = np.zeros((blocks.shape[1], BLOCK), np.float32)
        parts.reshape(-1)[: self.dim] = query
        # Not `@`: BLAS may round equal rows differently.
        sums = np.einsum("nbk,bk->nb", blocks, parts)
        if self.codes.dtype == np.uint8:
            sums -= _SHIFT * parts.sum(axis=1)
        return np.asarray(np.einsum("nb,nb->n", sums, self.scales.astype(np.float32)))

    def _blocks(self) -> NDArray[np.float32]:
        """Return the codes as they are stored, `(n_rows, n_blocks, BLOCK)`."""
        codes = self.codes
        if codes.dtype == np.uint8:
            codes = np.stack([codes & 15, codes >> 4], axis=1)
        return codes.reshape(len(codes), self.scales.shape[1], BLOCK).astype(np.float32)


Rows = NDArray[np.floating] | CodedRows
"""Rows of vectors as numbers or coded, `(n_rows, dim)`."""


def padded(dim: int, bits: int) -> int:
    """Return how many entries a row of `dim` has once it is filled up to whole blocks.

    Codes of 4 bits come in pairs of blocks, so that each half of the bytes holds whole ones.

    >>> padded(384, 4), padded(300, 4), padded(300, 8)
    (384, 384, 320)
    """
    unit = BLOCK * (2 if bits == 4 else 1)
    return -(-dim // unit) * unit


def code(rows: Rows, bits: int) -> CodedRows:
    """Return rows in codes of `bits` bits, each entry the code nearest to it.

    Args:
        rows: `(n_rows, dim)`, finite.
        bits: 8 or 4.

    Raises:
        ValueError: If `bits` is another number.
    """
    if bits not in _LOWEST:
        raise ValueError(f"codes have 4 or 8 bits, not {bits}")
    numbers = dense(rows)
    n_rows, dim = numbers.shape
    filled = np.zeros((n_rows, padded(dim, bits)), np.float32)
    filled[:, :dim] = numbers
    blocks = filled.reshape(n_rows, filled.shape[1] // BLOCK, BLOCK)
    lowest = _LOWEST[bits]
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2)[:, :, None], axis=2)
    scales = (largest[:, :, 0] / lowest).astype(np.float16)
    # A scale that is too small for float16 makes its block zero.
    divisors = np.where(scales, scales, 1).astype(np.float32)
    codes = np.rint(blocks / divisors[:, :, None]).clip(lowest, -lowest - 1)
    # Of all scales for these codes the nearest; above all, it makes each row as much too short.
    squares = np.einsum("nbk,nbk->nb", codes, codes)
    fitted = np.einsum("nbk,nbk->nb", codes, blocks) / np.where(squares, squares, 1)
    scales, codes = fitted.astype(np.float16), codes.reshape(filled.shape)
    if bits == 8:
        return CodedRows(codes=codes.astype(np.int8), scales=scales, dim=dim)
    low, high = np.split((codes + _SHIFT).astype(np.uint8), 2, axis=1)
    return CodedRows(codes=low | (high << 4), scales=scales, dim=dim)


def stored(rows: Rows, precision: Precision) -> Rows:
    """Return rows as an index of that precision holds them.

    >>> stored(np.ones((2, 384), np.float16), "int4").nbytes
    408
    """
    if precision == "float16":
        return dense(rows).astype(np.float16)
    return code(rows, 4 if precision == "int4" else 8)


def dense(rows: Rows) -> NDArray[np.float32]:
    """Return rows as numbers, float32, `(n_rows, dim)`."""
    return rows.dense() if isinstance(rows, CodedRows) else np.asarray(rows, np.float32)


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several parts as one: coded if all are and alike, else as float32.

    Args:
        parts: At least one, all of one dimension.
    """
    coded = [part for part in parts if isinstance(part, CodedRows)]
    if len(coded) < len(parts) or len({part.codes.dtype for part in coded}) > 1:
        numbers = [part.dense() if isinstance(part, CodedRows) else part for part in parts]
        return np.concatenate(numbers, dtype=np.float32)
    return CodedRows(
        codes=np.concatenate([part.codes for part in coded]),
        scales=np.concatenate([part.scales for part in coded]),
        dim=coded[0].dim,
    )


def dots(parts: Sequence[Rows], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the dot product of each row of several parts with a query, one part after the other.

    Parts of one form are taken together, in fewer and larger steps; a value does not depend on it.

    Args:
        parts: At least one.
        query: `(dim,)`.
    """
    forms = {part.codes.dtype if isinstance(part, CodedRows) else None for part in parts}
    if len(forms) > 1:
        return np.concatenate([dots([part], query) for part in parts])
    rows = joined(parts)
    if isinstance(rows, CodedRows):
        return rows.dots(query)
    # Not `@`: BLAS may round equal rows differently, and equal similarities must tie (D3).
    return np.asarray(np.einsum("ij,j->i", rows, query), np.float32)
