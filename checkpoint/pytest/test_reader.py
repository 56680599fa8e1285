"""Compares docs/reader.py with the state, and with DuckDB over all records, and
the libraries' rows of a checkpoint with what SQL showed of it.

usage: test_reader.py EMITTED NODES

EMITTED is what TestEmit wrote: a view there is a base and a delta. NODES is what
appliance's TestNodes wrote: the checkpoints of two nodes, and the records that
they counted.
"""

import collections
import decimal
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "docs"))
import reader  # noqa: E402
from test_open import canon  # noqa: E402
from test_sql import rows  # noqa: E402


def check_emitted(emitted):
    """Keys and accumulators of a view of base and delta are those that the state had."""
    expected = json.loads((emitted / "expected.json").read_text())
    root = emitted / expected["checkpoint"]
    views = [v for v in reader.read_manifest(root)["views"] if "parts" in v]
    for view in views:
        table = reader.read_view(root, view)
        columns = [c["name"] for c in reader.stored(view).values()]
        got = zip(*([canon(s) for s in table[name]] for name in columns))
        want = zip(*(expected["views"][view["name"]]["values"][name] for name in columns))
        assert sorted(got, key=json.dumps) == sorted(want, key=json.dumps), view["name"]
        print(f"ok: {view['name']}: {len(table)} groups of {len(view['parts'])} parts")
    assert views, "no view is a base and a delta"


def oracle(records, sql):
    """DuckDB over the records at once: the rows, and None where DuckDB refuses."""
    db = duckdb.connect(config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    db.execute("CREATE TABLE s (city VARCHAR, shop INTEGER, amount DECIMAL(12,2), score DOUBLE, big HUGEINT, n BIGINT, ok BOOLEAN, placed TIMESTAMP)")
    names = ["city", "shop", "amount", "score", "big", "n", "ok", "placed"]
    db.register("text", pa.table({n: pa.array([None if r.get(n) is None else str(r[n]) for r in records], "string") for n in names}))
    db.execute("INSERT INTO s SELECT * FROM text")
    return db.sql(sql).to_arrow_table()


def bag(table):
    def spell(s):
        return str(s.as_py()) if pa.types.is_interval(s.type) else str(canon(s))

    return collections.Counter(tuple(map(spell, row)) for row in zip(*table.columns))


def check_merged(nodes):
    roots = [nodes / "node0" / "00000002", nodes / "node1" / "00000002"]
    records = json.loads((nodes / "records.json").read_text(), parse_float=str, parse_int=str)
    failing = {"huge": {100}, "logs": {39}}  # the sum overflows only where the nodes' meet; ln of a negative sum
    seen = set()
    for view, table, errors in reader.merge(roots):
        name = view["name"]
        seen.add(name)
        assert {e.get("shop") for e in errors} == failing.get(name, set()), (name, errors)
        good = [r for r in records if r.get("shop") is None or int(r["shop"]) not in failing.get(name, set())]
        want = oracle(good, view["plan"]["select"])
        assert table.column_names == want.column_names, name
        assert bag(table) == bag(want), (name, bag(table) - bag(want), bag(want) - bag(table))
        for shop in failing.get(name, set()):
            try:
                oracle([r for r in records if r.get("shop") == str(shop)], view["plan"]["select"])
            except duckdb.Error:
                continue
            raise AssertionError(f"DuckDB has a result for shop {shop} in {name}")
        print(f"ok: {name}: {table.num_rows} rows of two nodes are those of one, {len(errors)} groups in error")
    assert len(seen) == 6


def check_sql(node):
    """What AT (VERSION => 2) answered is what each library reads."""
    answer = json.loads((node / "sales.json").read_text(), parse_float=decimal.Decimal)
    names, types = zip(*((c["name"], c["type"]) for c in answer["columns"]))
    want = rows(types, answer["rows"])
    root = node / "00000002"
    (view,) = (v for v in reader.read_manifest(root)["views"] if v["name"] == "sales")
    path = root / view["file"]["name"]
    table = pa.ipc.open_file(str(path)).read_all()
    frame = pd.read_feather(path, dtype_backend="pyarrow")
    frame = frame[frame["__visible"] & frame["__error"].isna()]
    db = duckdb.connect()
    db.register("sales", ds.dataset(str(path), format="ipc"))
    got = {
        "pyarrow": zip(*(table.filter(pc.field("__visible") & pc.field("__error").is_null())[n].to_pylist() for n in names)),
        "polars": pl.scan_ipc(path).filter(pl.col("__visible") & pl.col("__error").is_null()).select(names).collect().rows(),
        "pandas": zip(*(pa.array(frame[n]).to_pylist() for n in names)),
        "duckdb": db.sql(f"SELECT {', '.join(names)} FROM sales WHERE __visible AND __error IS NULL").fetchall(),
    }
    for library, data in got.items():
        assert rows(types, data) == want, library
    assert len(want) > 100
    print(f"ok: {node.name}: {len(want)} rows in SQL, {', '.join(got)}")


def check_rules():
    """Sums at the ends of their types, for two groups of which one fails, and rules that are not known."""
    wide = decimal.Context(prec=50)
    for sql_type, a, b, arrow in [
        ("BIGINT", 2**63 - 2, 1, pa.int64()),
        ("HUGEINT", 2**126, 2**126 - 1, pa.string()),
        ("DECIMAL(38,2)", decimal.Decimal("6e35"), wide.subtract(decimal.Decimal("4e35"), decimal.Decimal("0.01")), pa.decimal128(38, 2)),
    ]:
        one = 1 if sql_type != "DECIMAL(38,2)" else decimal.Decimal("0.01")
        view = {
            "name": "v",
            "columns": [
                {"name": "k", "role": "key", "sql_type": "VARCHAR"},
                {"name": 's"', "accumulator": "__sum", "role": "accumulator", "sql_type": sql_type, "merge": "add"},
            ],
            "plan": {"final": "SELECT k, __sum FROM __state"},
        }

        def rows(*values):
            values = [v if arrow != pa.string() else str(v) for v in values]
            return pa.table({"k": ["fits", "fails"], 's"': pa.array(values, arrow), "__error": pa.nulls(2, pa.string()), "__error_at": pa.nulls(2, pa.string())})

        table, errors = reader.results(view, pa.concat_tables([rows(a, a), rows(b, wide.add(b, one) if isinstance(b, decimal.Decimal) else b + one)]))
        assert [str(v) for row in table.to_pylist() for v in row.values()] == ["fits", str(wide.add(a, b) if isinstance(a, decimal.Decimal) else a + b)], (sql_type, table)
        assert [e["k"] for e in errors] == ["fails"], (sql_type, errors)
        view["columns"][1]["merge"] = "union"
        try:
            reader.results(view, rows(a, a))
        except ValueError as e:
            assert "merge rule union" in str(e), e
        else:
            raise AssertionError("a rule that nobody knows was applied")
    print("ok: sums at the ends of their types")


def refused(what, *roots):
    try:
        list(reader.merge(roots))
    except ValueError as e:
        assert what in str(e), e
        return
    raise AssertionError(f"{roots} were merged")


def changed(root, to, change):
    """A copy of a checkpoint whose manifest was changed, with the right checksum."""
    shutil.copytree(root, to)
    manifest = json.loads((to / "manifest.json").read_text())
    change(manifest)
    del manifest["checksum"]
    body = json.dumps(manifest, indent=2).encode().removesuffix(b"\n}")
    (to / "manifest.json").write_bytes(body + b',\n  "checksum": ' + f'"sha256:{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode())
    return to


def behind(manifest):
    """A view gets a cursor of its own, as one has that still reads old records."""
    view = manifest["views"][-1]
    (cursor,) = (c for c in manifest["cursors"] if c["id"] == view["cursor"])
    view["cursor"] = manifest["next_cursor"]
    manifest["cursors"].append(cursor | {"id": view["cursor"]})
    manifest["next_cursor"] += 1


def check_engine(nodes):
    """The manifest names the DuckDB that the tests are pinned to; with another there is a warning."""
    root = nodes / "node0" / "00000002"
    assert reader.read_manifest(root)["engine"] == f"duckdb v{duckdb.__version__}"
    with tempfile.TemporaryDirectory() as d:

        def run(root):
            done = subprocess.run([sys.executable, reader.__file__, root], capture_output=True, text=True)
            assert done.returncode == 0, done
            return done.stderr

        def exact(manifest):
            manifest["engine"] = "duckdb v0.1.2"
            manifest["views"] = [v for v in manifest["views"] if all(c["role"] != "result" for c in v["columns"]) and not v["plan"].get("visible")]
            assert manifest["views"], "no view has only accumulators"

        assert run(root) == ""
        assert run(changed(root, pathlib.Path(d) / "older", lambda m: m.pop("engine"))) == ""
        assert run(changed(root, pathlib.Path(d) / "exact", exact)) == ""
        warning = run(changed(root, pathlib.Path(d) / "other", lambda m: m.update(engine="duckdb v0.1.2")))
        assert warning.startswith("reader.py: ") and warning.endswith("pip install duckdb==0.1.2\n") and warning.count("\n") == 1, warning
    print("ok: another engine is told")


def check_plain():
    """Times that Python does not have are printed as DuckDB writes them."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    types = ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMPTZ", "DATE"]
    columns = [f"'{sign}infinity'::{t}" for t in types for sign in ("", "-")]
    columns += ["DATE '0044-03-15 (BC)'", "['infinity'::TIMESTAMP]", "{'t': '-infinity'::DATE}", "TIMESTAMP '2026-01-31 12:00:00'", "7", "'x'"]
    sql = "SELECT " + ", ".join(f"{x} AS c{i}" for i, x in enumerate(columns))
    (got,) = reader.plain(db.sql(sql).to_arrow_table())
    want = db.sql(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})").fetchall()[0]
    assert tuple(map(str, got.values())) == want and got[f"c{len(columns) - 2}"] == 7, got
    print("ok: times that Python does not have")


def check_exact_times():
    """A time that Python does not have, among the exact values of a row, is refused by name."""
    beyond = pa.array([9_000_000_000_000], pa.timestamp("s"))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("__max_t", beyond.type)])) as w:
        w.write_batch(pa.record_batch([beyond], names=["__max_t"]))
    view = {"name": "v", "columns": [{"name": "last", "accumulator": "__max_t", "role": "accumulator", "sql_type": "TIMESTAMP_S"}]}
    table = pa.table({"last": pa.array([None], pa.timestamp("us")), "__exact": pa.array([sink.getvalue()], "binary")})
    try:
        reader.exact(table, view)
    except ValueError as e:
        assert "__max_t of view v has a TIMESTAMP_S that is not read here" in str(e), e
    else:
        raise AssertionError("it was read")
    print("ok: exact times that Python does not have")


def check_refusals(nodes):
    one = nodes / "node0" / "00000002"
    refused("have both counted partition", one, nodes / "node0" / "00000001")
    with tempfile.TemporaryDirectory() as d:
        for name in ["manifest.json", "views/by_day.arrow"]:
            bad = pathlib.Path(d) / name.replace("/", "-")
            shutil.copytree(one, bad)
            data = bytearray((bad / name).read_bytes())
            data[len(data) // 2] ^= 1
            (bad / name).write_bytes(data)
            refused("is damaged", bad)
        refused("version 3 is not known here", changed(one, pathlib.Path(d) / "newer", lambda m: m.update(format_version=3)))
        young = changed(one, pathlib.Path(d) / "young", behind)
        refused("still read old records and is not whole", young)
        refused("still read old records and is not whole", nodes / "node1" / "00000002", young)


def check_command_line(nodes):
    def run(*args):
        return subprocess.run([sys.executable, reader.__file__, *args], capture_output=True, text=True)

    none, shelf, nothing = run(), run(nodes / "node0"), run(nodes)
    assert none.returncode == 2 and none.stderr.startswith("usage:"), none
    assert shelf.returncode == 1 and "is a directory of checkpoints: name one of them" in shelf.stderr, shelf
    assert nothing.returncode == 1 and "it has no manifest.json" in nothing.stderr, nothing
    assert "Traceback" not in none.stderr + shelf.stderr + nothing.stderr
    assert run(nodes / "node0" / "00000002").returncode == 0
    gone, pipe = os.pipe()
    os.close(gone)  # as head does once it has seen enough
    done = subprocess.run([sys.executable, reader.__file__, nodes / "node0" / "00000002"], stdout=pipe, stderr=subprocess.PIPE, text=True)
    os.close(pipe)
    assert done.returncode == 1 and done.stderr == "", done


if __name__ == "__main__":
    emitted, nodes = map(pathlib.Path, sys.argv[1:])
    check_emitted(emitted)
    check_merged(nodes)
    check_sql(nodes / "node0")
    check_sql(nodes / "node1")
    check_refusals(nodes)
    check_rules()
    check_engine(nodes)
    check_plain()
    check_exact_times()
    check_command_line(nodes)
