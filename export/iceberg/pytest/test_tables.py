"""Reads the tables of emit_test.go, and what appliance/exportemit_test.go exported, with pyiceberg and with DuckDB."""

import datetime
import json
import pathlib
import sys
from decimal import Decimal
from uuid import UUID

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

UTC = datetime.timezone.utc
HUGE = Decimal("9" * 38)

# What samples_test.go wrote: the type of Iceberg, and the two values that are not NULL.
TYPES = {
    "boolean": ("boolean", True, False),
    "tinyint": ("int", -128, 127),
    "smallint": ("int", -32768, 32767),
    "integer": ("int", -(2**31), 2**31 - 1),
    "bigint": ("long", -(2**63), 2**63 - 1),
    "utinyint": ("int", 0, 255),
    "usmallint": ("int", 0, 65535),
    "uinteger": ("long", 0, 2**32 - 1),
    "ubigint": ("decimal(20, 0)", Decimal(0), Decimal(2**64 - 1)),
    "hugeint": ("decimal(38, 0)", Decimal("-" + "9" * 38), Decimal(1)),
    "uhugeint": ("decimal(38, 0)", Decimal(0), HUGE),
    "float": ("float", -0.5, 3.5),
    "double": ("double", -1e300, 0.1),
    "decimal": ("decimal(12, 2)", Decimal("-0.01"), Decimal("9999999999.99")),
    "varchar": ("string", "", "Zürich 🚀"),
    "json": ("string", '{"a":1}', "[]"),
    "blob": ("binary", b"\x00\xffa", b""),
    "uuid": ("uuid", UUID("80000000-1234-5678-9abc-def012345678"), UUID("f" * 32)),
    "date": ("date", datetime.date(2026, 11, 29), datetime.date(1969, 12, 31)),
    "time": ("time", datetime.time(23, 59, 59, 999999), datetime.time(0)),
    "timestamp_s": ("timestamp", datetime.datetime(2026, 11, 29, 18), datetime.datetime(1900, 1, 1)),
    "timestamp_ms": ("timestamp", datetime.datetime(2026, 11, 29, 18, 0, 0, 123000), datetime.datetime(1900, 1, 1, 0, 0, 0, 1000)),
    "timestamp": ("timestamp", datetime.datetime(2026, 11, 29, 18, 0, 0, 123456), datetime.datetime(1900, 1, 1, 0, 0, 0, 1)),
    "timestamptz": ("timestamptz", datetime.datetime(2026, 11, 29, 18, 0, 0, 123456, UTC), datetime.datetime(1900, 1, 1, 0, 0, 0, 1, UTC)),
    "interval": ("struct<26: months: optional int, 27: days: optional int, 28: micros: optional long>",
                 {"months": 14, "days": -3, "micros": 1000001}, {"months": 0, "days": 0, "micros": 0}),
    "list": ("list<int>", [1, None, 255], []),
    "array": ("list<int>", [1, None], [3, 4]),
    "struct": ("struct<34: a: optional decimal(20, 0), 35: ü b: optional list<string>>",
               {"a": Decimal(2**64 - 1), "ü b": ["x", None]}, {"a": None, "ü b": None}),
    "map": ("map<string, int>", {"a": -1, "b": None}, {}),
    'name.with "dots" and ü': ("string", "x", "y"),
}

# The rows of the table that grew a column, snapshot by snapshot.
GROWS = [
    {("a", 1), ("b", 2)},
    {("a", 10), ("c", 3), (None, 4)},
    {("a", Decimal("1.50"), 11), ("c", None, 3)},
]


def current(table: pathlib.Path) -> str:
    version = (table / "metadata/version-hint.text").read_text()
    return str(table / f"metadata/v{version}.metadata.json")


def plain(value):
    """A map as pyarrow gives it is a list of pairs."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def same(got, want, what):
    assert got == want and all(type(g) is type(w) for g, w in zip(got, want)), f"{what}: {got!r}, not {want!r}"


def test_pyiceberg(root):
    types = StaticTable.from_metadata(current(root / "types"))
    fields = {f.name: str(f.field_type) for f in types.schema().fields}
    rows = types.scan().to_arrow()
    for name, (kind, a, b) in TYPES.items():
        assert fields[name] == kind, (name, fields[name])
        got = [plain(v) for v in rows[name].to_pylist()]
        if name == "map":
            got[1] = dict(got[1])
        if name == "timestamptz":
            got = [v and v.astimezone(UTC) for v in got]
        same(got, [a, b, None], name)
    assert list(fields) == list(TYPES)

    grows = StaticTable.from_metadata(current(root / "grows"))
    snapshots = sorted(grows.snapshots(), key=lambda s: s.sequence_number)
    assert [s.summary["weir.epoch"] for s in snapshots] == ["10", "20", "30"]
    assert [s.summary["weir.positions"] for s in snapshots] == ["orders/0:0", "orders/0:1", "orders/0:2"]
    assert [s.summary.operation.value for s in snapshots] == ["append", "overwrite", "overwrite"]
    for s, want in zip(snapshots, GROWS):
        rows = grows.scan(snapshot_id=s.snapshot_id).to_arrow()
        assert {tuple(r.values()) for r in rows.to_pylist()} == want, (s.snapshot_id, rows)
    # Rows of an old snapshot under the schema of now: the new column is NULL.
    assert grows.scan(row_filter="k = 'a'").to_arrow()["n"].to_pylist() == [11]
    assert [f.field_id for f in grows.schema().fields] == [1, 3, 2]
    files = grows.inspect.entries().to_pylist()
    assert sorted(f["status"] for f in files) == [1, 2], files

    empty = StaticTable.from_metadata(current(root / "empty")).scan().to_arrow()
    assert empty.num_rows == 0 and empty.column_names == ["k", "n"]


def connect():
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for module in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg):
        (file,) = pathlib.Path(module.__file__).parent.rglob("*.duckdb_extension")
        db.execute(f"LOAD '{file}'")
    db.execute("SET TimeZone = 'UTC'")
    return db


def test_duckdb(root):
    db = connect()
    rows = db.sql(f"FROM iceberg_scan('{root / 'types'}')")
    got = dict(zip(rows.columns, zip(*rows.fetchall())))
    for name, (_, a, b) in TYPES.items():
        values = list(got[name])
        if name == "timestamptz":
            values = [v and v.astimezone(UTC) for v in values]
        same(values, [a, b, None], name)
    grows = root / "grows"
    assert set(db.sql(f"FROM iceberg_scan('{grows}')").fetchall()) == GROWS[2]
    for (snapshot, number) in db.sql(f"SELECT snapshot_id, sequence_number FROM iceberg_snapshots('{grows}')").fetchall():
        rows = db.sql(f"FROM iceberg_scan('{grows}', snapshot_from_id = {snapshot}::UBIGINT)")
        assert set(rows.fetchall()) == GROWS[number - 1], (snapshot, rows)
    assert db.sql(f"SELECT count(*) FROM iceberg_scan('{root / 'empty'}')").fetchone() == (0,)


def shown(root):
    """What SQL showed of the checkpoints that an appliance exported, by epoch."""
    out = {}
    for point in json.loads((root / "exported/shown.json").read_text()):
        out[str(point["epoch"])] = {
            (city, n, Decimal(revenue), datetime.datetime.fromisoformat(last)) for city, n, revenue, last in point["rows"]
        }
    assert len(out) == 4 and all(out.values())
    return out


def test_continuous_export(root):
    want = shown(root)
    kept = list(want)[1:]
    table = StaticTable.from_metadata(current(root / "exported/table"))
    snapshots = sorted(table.snapshots(), key=lambda s: s.sequence_number)
    assert [s.summary["weir.epoch"] for s in snapshots] == kept
    assert [s.summary["weir.whole"] for s in snapshots] == ["true"] * 3
    db = connect()
    for s in snapshots:
        epoch = s.summary["weir.epoch"]
        rows = table.scan(snapshot_id=s.snapshot_id).to_arrow()
        assert {tuple(r.values()) for r in rows.to_pylist()} == want[epoch], epoch
        assert rows.num_rows == len(want[epoch])
        rows = db.sql(f"FROM iceberg_scan('{root / 'exported/table'}', snapshot_from_id = {s.snapshot_id}::UBIGINT)").fetchall()
        assert len(rows) == len(want[epoch]) and set(rows) == want[epoch], epoch
    assert set(table.scan().to_arrow()["city"].to_pylist()) == {r[0] for r in want[kept[-1]]}

    folder = root / "exported/folder"
    assert sorted(f.name for f in (folder / "epochs").iterdir()) == [f"{int(e):020}.parquet" for e in kept]
    for epoch in kept:
        assert set(db.sql(f"FROM '{folder}/epochs/{int(epoch):020}.parquet'").fetchall()) == want[epoch]
        said = pq.read_metadata(folder / f"epochs/{int(epoch):020}.parquet").metadata
        assert said[b"weir.epoch"] == epoch.encode() and said[b"weir.view"] == b"as_parquet"
    newest = pq.read_table(folder / "newest.parquet")
    assert {tuple(r.values()) for r in newest.to_pylist()} == want[kept[-1]]


def test_metadata_is_what_the_specification_requires(root):
    m = json.loads(pathlib.Path(current(root / "grows")).read_text())
    for key in ("format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id", "schemas",
                "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "sort-orders", "default-sort-order-id"):
        assert key in m, key
    assert m["last-column-id"] == 3 and m["last-sequence-number"] == 3 and len(m["schemas"]) == 2


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]).resolve()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test(root)
            print("ok", name)
