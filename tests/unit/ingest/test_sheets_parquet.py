from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canopy_rag.core.errors import IngestError
from canopy_rag.core.types import Item, TablePayload
from canopy_rag.ingest import sheets
from canopy_rag.ingest.options import IngestOptions


def read(path: Path, options: IngestOptions) -> list[Item]:
    return list(sheets.parse(path, path.name, options))


def test_values_are_written_as_in_json(tmp_path: Path, options: IngestOptions) -> None:
    # The type says the order of the fields, which pyarrow has inferred in two ways.
    box = pa.struct([("w", pa.int64()), ("raw", pa.binary())])
    table = pa.table(
        {
            "name": ["Ada", None],
            "n": [7, None],
            "x": pa.array([0.1, float("nan")], pa.float32()),
            "ok": [True, False],
            "tags": [["a", "ä"], []],
            "box": pa.array([{"w": 1, "raw": b"12345"}, None], box),
            "raw": [b"\x89PNG\r\n", b""],
            "day": [dt.date(2024, 2, 29), None],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (item,) = read(tmp_path / "a.parquet", options)
    assert isinstance(item.payload, TablePayload)
    assert item.payload.header == tuple(table.column_names)
    assert item.payload.rows[0] == (
        "Ada", "7", "0.1", "true", '["a", "ä"]', '{"w": 1, "raw": "<5 bytes>"}', "<6 bytes>",
        "2024-02-29",
    )  # fmt: skip
    assert item.payload.rows[1] == ("", "", "", "false", "[]", "", "<0 bytes>", "")


def test_row_groups_are_read_one_after_the_other(tmp_path: Path, options: IngestOptions) -> None:
    table = pa.table({"id": list(range(2500))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    items = read(tmp_path / "a.parquet", options)
    rows = [row for item in items for row in item.payload.rows]  # type: ignore[union-attr]
    assert rows == [(str(at),) for at in range(2500)]
    assert [item.source.first_row for item in items[-2:]] == [2200, 2400]


def test_a_file_without_rows_is_its_header(tmp_path: Path, options: IngestOptions) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    (item,) = read(tmp_path / "a.parquet", options)
    assert isinstance(item.payload, TablePayload)
    assert (item.payload.header, item.payload.rows) == (("a",), ())


def test_a_cut_file_is_named(tmp_path: Path, options: IngestOptions) -> None:
    path = tmp_path / "cut.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(IngestError, match=r"cut\.parquet.*damaged or no Parquet"):
        read(path, options)
