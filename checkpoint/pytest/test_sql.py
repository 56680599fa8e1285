"""Compares the newest checkpoint of a running appliance with what its SQL says.

usage: test_sql.py URL CHECKPOINTS_DIR

Takes a checkpoint, reads each view with AT (VERSION => n) over HTTP, and wants
the same rows from the file in pyarrow, Polars and DuckDB.
"""

import base64
import datetime
import decimal
import json
import math
import os
import pathlib
import sys
import urllib.request
import uuid

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT"}


def query(url, sql):
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token := os.environ.get("WEIR_TOKEN"):
        headers["Authorization"] = "Bearer " + token
    body = json.dumps({"sql": sql}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/api/v1/sql", body, headers)) as r:
        answer = json.load(r)
        assert not answer.get("truncated"), sql
        return answer


def norm(sql_type, v):
    """One spelling of a value, whether it comes from JSON or from a library."""
    if v is None:
        return "NULL"
    if sql_type in INTEGERS or sql_type.startswith("DECIMAL"):
        return str(decimal.Decimal(v).normalize(decimal.Context(prec=60)) + 0)
    if sql_type in ("FLOAT", "DOUBLE"):
        v = float(v)
        return "nan" if math.isnan(v) else v.hex()
    if sql_type == "BOOLEAN":
        return str(bool(v))
    if sql_type in ("VARCHAR", "JSON"):
        return repr(v)
    if sql_type == "BLOB":
        return (base64.b64decode(v) if isinstance(v, str) else v).hex()
    if sql_type == "UUID":
        return uuid.UUID(bytes=v).hex if isinstance(v, bytes) else uuid.UUID(str(v)).hex
    if sql_type == "DATE":
        return str(datetime.date.fromisoformat(v) if isinstance(v, str) else v)
    if sql_type == "TIME":
        return str(datetime.time.fromisoformat(v) if isinstance(v, str) else v)
    if sql_type in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"):
        t = datetime.datetime.fromisoformat(v) if isinstance(v, str) else v
        return t.replace(tzinfo=None).isoformat()
    raise TypeError(f"no spelling for {sql_type}")


def rows(types, data):
    return sorted(tuple(norm(t, v) for t, v in zip(types, row, strict=True)) for row in data)


def main(url, directory):
    taken = query(url, "CHECKPOINT")["rows"][0][0]
    root = pathlib.Path(directory) / f"{taken:08d}"
    manifest = json.loads((root / "manifest.json").read_text())
    assert manifest["checkpoint"] == taken
    for v in manifest["views"]:
        if "parts" in v:
            print(f"not compared: {v['name']}, a base and deltas")
            continue
        answer = query(url, f'SELECT * FROM "{v["name"]}" AT (VERSION => {taken})')
        names = [c["name"] for c in answer["columns"]]
        types = [c["type"] for c in answer["columns"]]
        want = rows(types, answer["rows"])

        path = root / v["file"]["name"]
        columns = sorted((c for c in v["columns"] if "result" in c), key=lambda c: c["result"])
        assert [c["name"] for c in columns] == names, (v["name"], names)
        assert [c["sql_type"] for c in columns] == types, (v["name"], types)

        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        table = table.filter(table["__visible"]).filter(pc.is_null(table.filter(table["__visible"])["__error"]))
        got = {"pyarrow": zip(*(table[n].to_pylist() for n in names))}
        frame = pl.read_ipc(path).filter(pl.col("__visible") & pl.col("__error").is_null())
        got["polars"] = frame.select(names).rows()
        db = duckdb.connect()
        db.execute("SET TimeZone = 'UTC'")
        db.register("file", ds.dataset(str(path), format="ipc"))
        quoted = ", ".join('"' + n.replace('"', '""') + '"' for n in names)
        got["duckdb"] = db.sql(f"SELECT {quoted} FROM file WHERE __visible AND __error IS NULL").fetchall()
        for library, data in got.items():
            assert rows(types, data) == want, f"{library} and SQL differ on {v['name']}"
        print(f"ok: checkpoint {taken}, epoch {manifest['epoch']}, {v['name']}: {len(want)} rows in SQL, pyarrow, Polars and DuckDB")


if __name__ == "__main__":
    main(*sys.argv[1:])
