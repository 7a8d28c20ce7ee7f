"""Ruling lines of a PDF page: the straight, axis-parallel pieces of the paths that it draws."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in points from the page's top left corner."""
Placer = Callable[[float, float], tuple[float, float]]
"""From the page's own coordinates to those of the displayed page."""
Matrix = tuple[float, float, float, float, float, float]

MAX_PATH_POINTS = 60_000
"""A page with more points in its paths is a drawing; its lines are not looked at."""
_MAX_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Edge:
    """A straight ruling line: horizontal if `top` equals `bottom`, otherwise vertical."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def horizontal(self) -> bool:
        """Whether it runs from left to right."""
        return self.top == self.bottom


def union(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around `boxes`, of which there is at least one."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def drawn(raw: Any, page: Any, place: Placer) -> tuple[tuple[Edge, ...], bool]:
    """Return the straight lines of a page's paths and whether it shows a picture."""
    edges: list[Edge] = []
    has_picture = False
    budget = MAX_PATH_POINTS
    for kind, thing, matrix in _objects(raw, page):
        has_picture = has_picture or kind == raw.FPDF_PAGEOBJ_IMAGE
        if kind != raw.FPDF_PAGEOBJ_PATH:
            continue
        budget -= raw.FPDFPath_CountSegments(thing)
        if budget < 0:
            return (), has_picture
        edges += _edges(raw, thing, matrix, place)
    return tuple(edges), has_picture


def _objects(raw: Any, page: Any) -> Iterator[tuple[int, Any, Matrix]]:
    """Yield kind, handle and matrix of the page's objects, those inside forms included."""
    found = raw.FS_MATRIX()
    stack: list[tuple[Any, Any, Any, Matrix, int]] = [
        (raw.FPDFPage_CountObjects, raw.FPDFPage_GetObject, page.raw, (1, 0, 0, 1, 0, 0), 0)
    ]
    while stack:
        count, get, parent, outer, depth = stack.pop()
        for index in range(count(parent)):
            thing = get(parent, index)
            kind = raw.FPDFPageObj_GetType(thing)
            raw.FPDFPageObj_GetMatrix(thing, ctypes.byref(found))
            matrix = _product((found.a, found.b, found.c, found.d, found.e, found.f), outer)
            if kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
                inner = (raw.FPDFFormObj_CountObjects, raw.FPDFFormObj_GetObject)
                stack.append((*inner, thing, matrix, depth + 1))
            else:
                yield kind, thing, matrix


def _product(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    u, v, w, x, y, z = then
    return (
        a * u + b * w,
        a * v + b * x,
        c * u + d * w,
        c * v + d * x,
        e * u + f * w + y,
        e * v + f * x + z,
    )


def _mapped(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _edges(raw: Any, path: Any, matrix: Matrix, place: Placer) -> Iterator[Edge]:
    """Yield the straight, axis-parallel pieces of a path; a thin filled box is one line."""
    points: list[tuple[float, float]] = []
    pieces: list[tuple[tuple[float, float], tuple[float, float]]] = []
    start = (0.0, 0.0)
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(raw.FPDFPath_CountSegments(path)):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = place(*_mapped(matrix, x.value, y.value))
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            return
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        else:
            pieces.append((points[-1] if points else start, point))
        points.append(point)
        if raw.FPDFPathSegment_GetClose(segment):
            pieces.append((point, start))
    if not pieces:
        return
    left, top, right, bottom = union((*one, *one) for piece in pieces for one in piece)
    if bottom - top <= 3 < right - left:
        middle = (top + bottom) / 2
        yield Edge(left, middle, right, middle)
    elif right - left <= 3 < bottom - top:
        middle = (left + right) / 2
        yield Edge(middle, top, middle, bottom)
    elif bottom - top > 3:
        yield from _straight(pieces)


def _straight(
    pieces: Iterable[tuple[tuple[float, float], tuple[float, float]]],
) -> Iterator[Edge]:
    for (x0, y0), (x1, y1) in pieces:
        if abs(y1 - y0) < 0.5 < abs(x1 - x0):
            middle = (y0 + y1) / 2
            yield Edge(min(x0, x1), middle, max(x0, x1), middle)
        elif abs(x1 - x0) < 0.5 < abs(y1 - y0):
            middle = (x0 + x1) / 2
            yield Edge(middle, min(y0, y1), middle, max(y0, y1))
