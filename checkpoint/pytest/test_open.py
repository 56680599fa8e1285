"""Opens checkpoints with pyarrow, Polars, pandas and DuckDB and compares every value.

usage: test_open.py DIR...

DIR holds checkpoints/NNNNNNNN and expected.json, which the Go tests wrote from
the state itself: for each view and column the values in a spelling that all
libraries can be brought to (see canon in emit_test.go).
"""

import decimal
import hashlib
import json
import pathlib
import struct
import sys
import uuid

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.types as pt

decimal.getcontext().prec = 60


def canon(s, sql_type=""):
    """The spelling of one pyarrow scalar."""
    if isinstance(s, pa.ExtensionScalar):
        s = s.value
    if s is None or not s.is_valid:
        return None
    t = s.type
    if pt.is_map(t):
        return [canon(e) for e in s.values]
    if pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t):
        return [canon(e) for e in s.values]
    if pt.is_struct(t):
        return [canon(s[i]) for i in range(t.num_fields)]
    if pt.is_boolean(t):
        return s.as_py()
    if pt.is_integer(t):
        return str(s.as_py())
    if pt.is_floating(t):
        v = s.as_py()
        return "nan" if v != v else struct.pack(">d", v).hex()
    if pt.is_decimal(t):
        return str(int(s.as_py().scaleb(t.scale)))
    if pt.is_time64(t):
        return str(s.value // (1000 if t.unit == "ns" else 1))
    if pt.is_timestamp(t) or pt.is_date32(t):
        return str(s.value)
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t):
        return uuid.UUID(s.as_py()).hex if sql_type == "UUID" else s.as_py()
    if pt.is_binary(t) or pt.is_large_binary(t) or pt.is_fixed_size_binary(t) or pt.is_binary_view(t):
        return s.as_py().hex()
    raise TypeError(f"no spelling for {t}")


def nested_uuid(sql_type):
    return "UUID" in sql_type and sql_type != "UUID"


def compare(library, view, table):
    want = view["values"]
    assert table.column_names == view["columns"], (library, table.column_names)
    for name, sql_type in zip(view["columns"], view["types"]):
        got = [canon(s, sql_type) for s in table.column(name)]
        expect = want[name]
        if library == "duckdb" and nested_uuid(sql_type):
            got, expect = plain(got), plain(expect)
        for row, (a, b) in enumerate(zip(got, expect, strict=True)):
            assert a == b, f"{library}: {view['file']}: {name} ({sql_type}), row {row}: {a!r}, want {b!r}"


def plain(v):
    """DuckDB gives a nested UUID as text with hyphens."""
    if isinstance(v, list):
        return [plain(e) for e in v]
    return v.replace("-", "") if isinstance(v, str) and len(v) == 36 else v


def check_manifest(root):
    text = (root / "manifest.json").read_bytes()
    body, mark, _ = text.rpartition(b',\n  "checksum": ')
    assert mark, "the manifest has no checksum"
    manifest = json.loads(text)
    assert manifest["checksum"] == "sha256:" + hashlib.sha256(body).hexdigest()
    files = [f for v in manifest["views"] for f in v.get("parts") or [v["file"]]]
    files += [f for f in [manifest["quarantine"]["file"]] if f]
    for f in files:
        data = (root / f["name"]).read_bytes()
        assert len(data) == f["bytes"]
        assert hashlib.sha256(data).hexdigest() == f["sha256"]
    return manifest


def check_file(path, view, columns):
    with pa.OSFile(str(path)) as f:
        reader = pa.ipc.open_file(f)
        table = reader.read_all()
        table.validate(full=True)
        compare("pyarrow", view, table)
        for column in columns:
            meta = reader.schema.field(column["name"]).metadata
            assert meta[b"weir.role"].decode() == column["role"]
            assert meta[b"weir.sql_type"].decode() == column["sql_type"]
            assert meta.get(b"weir.merge", b"").decode() == column.get("merge", "")
        check_index(reader, table)

    dataset = ds.dataset(str(path), format="ipc")
    compare("pyarrow dataset", view, dataset.to_table())

    compare("polars", view, pl.read_ipc(path).to_arrow())
    compare("polars scan", view, pl.scan_ipc(path).collect().to_arrow())

    frame = pd.read_feather(path, dtype_backend="pyarrow")
    compare("pandas", view, pa.table([pa.chunked_array(pa.array(frame[c])) for c in frame.columns], list(frame.columns)))

    db = duckdb.connect(config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    db.register("view", dataset)
    compare("duckdb", view, db.sql("SELECT * FROM view").to_arrow_table())
    twice = db.sql("SELECT (SELECT count(*) FROM view), (SELECT count(*) FROM view a JOIN view b ON a.__slot = b.__slot AND a.__slot < 0)")
    assert twice.fetchone() == (len(view["values"]["__slot"]), 0)


def check_parts(root, v, view):
    """A base and deltas, by the one rule: of the rows with one key, that of the
    last part counts, and if it is __deleted there is none."""
    paths = [root / f["name"] for f in v["parts"]]
    keys = [c["name"] for c in v["columns"] if c["role"] == "key"]
    for path in paths:
        with pa.OSFile(str(path)) as f:
            reader = pa.ipc.open_file(f)
            check_index(reader, reader.read_all())
    assert pa.ipc.open_file(paths[1]).schema.metadata[b"weir.part"] == b"delta"

    # pyarrow alone
    rows = {}
    for path in paths:
        table = pa.ipc.open_file(path).read_all()
        columns = [[canon(s) for s in table.column(n)] for n in table.column_names]
        for row in zip(*columns):
            row = dict(zip(table.column_names, row))
            key = tuple(json.dumps(row[k]) for k in keys)
            rows.pop(key, None)
            if not row.pop("__deleted", False):
                rows[key] = [row[c] for c in view["columns"]]
    want = sorted(zip(*(view["values"][c] for c in view["columns"])), key=json.dumps)
    assert sorted(map(tuple, rows.values()), key=json.dumps) == want

    # Polars, as docs/notebook.md says it
    frame = pl.concat([pl.read_ipc(p).with_columns(part=pl.lit(i)) for i, p in enumerate(paths)], how="diagonal")
    frame = frame.sort("part").unique(keys, keep="last").filter(~pl.col("__deleted").fill_null(False)).select(view["columns"]).to_arrow()
    got = zip(*([canon(s, t) for s in frame.column(c)] for c, t in zip(view["columns"], view["types"])))
    assert sorted(got, key=json.dumps) == want

    # DuckDB, as docs/format.md says it
    db = duckdb.connect(config={"threads": 1})
    for i, path in enumerate(paths):
        db.register(f"part{i}", ds.dataset(str(path), format="ipc"))
    union = " UNION ALL BY NAME ".join(f"SELECT *, {i} AS part FROM part{i}" for i in range(len(paths)))
    names = ", ".join(f'"{k}"' for k in keys)
    table = db.sql(
        f"SELECT * EXCLUDE (part, __deleted) FROM (SELECT * FROM ({union}) "
        f"QUALIFY row_number() OVER (PARTITION BY {names} ORDER BY part DESC) = 1) WHERE __deleted IS NOT TRUE"
    ).to_arrow_table()
    assert table.column_names == view["columns"]
    got = zip(*([canon(s, t) for s in table.column(c)] for c, t in zip(view["columns"], view["types"])))
    assert sorted(got, key=json.dumps) == want


def check_index(reader, table):
    index = json.loads(reader.metadata[b"weir.index"])
    assert index["rows"] == table.num_rows
    assert [b["rows"] for b in index["batches"]] == [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
    first = {}
    for i in range(reader.num_record_batches):
        for row, slot in enumerate(reader.get_batch(i).column("__slot").to_pylist()):
            first.setdefault(str(slot), [i, row])
    assert index.get("slots", {}) == first


def check_quarantine(path):
    table = pa.ipc.open_file(path).read_all()
    assert table.num_rows == pl.read_ipc(path).height
    assert table.column("reason").null_count == 0


def main(dirs):
    for d in map(pathlib.Path, dirs):
        expected = json.loads((d / "expected.json").read_text())
        root = d / expected["checkpoint"]
        manifest = check_manifest(root)
        assert {v["name"] for v in manifest["views"]} == set(expected["views"])
        for v in manifest["views"]:
            if "parts" in v:
                check_parts(root, v, expected["views"][v["name"]])
            else:
                check_file(root / v["file"]["name"], expected["views"][v["name"]], v["columns"])
            print(f"ok: {root.name} {v['name']}: {v['groups']} groups, {len(v['columns'])} columns")
        if manifest["quarantine"]["file"]:
            check_quarantine(root / manifest["quarantine"]["file"]["name"])


if __name__ == "__main__":
    main(sys.argv[1:])
