"""Reads Weir's checkpoints, and merges those of several nodes, by docs/format.md.

usage: reader.py CHECKPOINT...

Prints what SQL would show if one node had counted what the nodes of all these
checkpoints did. It needs pyarrow, and DuckDB for the results that are computed.
It knows of a view only what the manifest says.
"""

import decimal
import hashlib
import json
import pathlib
import sys

import duckdb
import pyarrow as pa

decimal.getcontext().prec = 80  # Python's 28 digits would round sums of 38
LIMITS = {"BIGINT": 2**63, "HUGEINT": 2**127}
TIMES = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_date)  # read as numbers: Python's own have smaller ranges


def read_manifest(root):
    """The manifest of the checkpoint in a directory, verified."""
    if not (root / "manifest.json").is_file():
        inside = sorted(p.parent for p in root.glob("*/manifest.json"))
        if inside:
            raise ValueError(f"{root} is a directory of checkpoints: name one of them, such as {inside[-1]}")
        raise ValueError(f"{root} is no checkpoint: it has no manifest.json")
    text = (root / "manifest.json").read_bytes()
    body, _, checksum = text.rpartition(b',\n  "checksum": ')
    if checksum != f'"sha256:{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode():
        raise ValueError(f"{root}: manifest.json is damaged")
    manifest = json.loads(text)
    if manifest["format"] != "weir-checkpoint" or manifest["format_version"] not in (1, 2):
        raise ValueError(f"{root}: {manifest['format']} version {manifest['format_version']} is not known here")
    return manifest


def read_file(path, file):
    """The schema and rows of an Arrow file. Nothing is decoded before its checksum is right."""
    data = path.read_bytes()
    if len(data) != file["bytes"] or hashlib.sha256(data).hexdigest() != file["sha256"]:
        raise ValueError(f"{path} is damaged")
    table = pa.ipc.open_file(data).read_all()
    schema = table.schema
    for i, field in enumerate(schema):
        if any(is_a(field.type) for is_a in TIMES):
            table = table.set_column(i, field.name, table[i].cast(f"int{field.type.bit_width}"))
    return schema, table.to_pylist()


def stored(view):
    """The columns that are the state, by the names that they have in __state."""
    return {c.get("accumulator", c["name"]): c for c in view["columns"] if c["role"] in ("key", "accumulator")}


def read_view(root, view):
    """The schema of a view and its groups by key: the base, and what each delta changed."""
    groups, schema, columns = {}, None, stored(view)
    keys = [c["name"] for c in columns.values() if c["role"] == "key"]
    for file in view.get("parts") or [view["file"]]:
        types, rows = read_file(root / file["name"], file)
        schema = schema or types
        for row in rows:
            exact = pa.ipc.open_stream(row["__exact"]).read_all().to_pylist()[0] if row.get("__exact") else {}
            for name, value in exact.items():  # what did not fit its column
                if columns[name]["sql_type"] != "HUGEINT":
                    raise ValueError(f"{root}: {name} of view {view['name']} has a {columns[name]['sql_type']} that is not read here")
                row[columns[name]["name"]] = decimal.Decimal(int.from_bytes(value, "little", signed=True))
            key = repr([row[k] for k in keys])  # equal keys have one spelling
            groups.pop(key, None)
            if not row.get("__deleted"):
                groups[key] = row
    if len(groups) != view["groups"]:
        raise ValueError(f"{root}: view {view['name']} has {len(groups)} groups, not {view['groups']}")
    return schema, groups


def order(v):
    """A sort key in DuckDB's order: NaN is above all numbers, a NULL within a value above all."""
    if v is None or v != v:
        return (1, v is None)
    if isinstance(v, dict) and list(v) == ["months", "days", "micros"]:
        return (0, (v["months"] * 30 + v["days"]) * 86_400_000_000 + v["micros"])
    if isinstance(v, (dict, list, tuple)):
        return (0, [order(e) for e in (v.values() if isinstance(v, dict) else v)])
    return (0, v)


def add(a, b, sql_type):
    total, limit = a + b, LIMITS.get(sql_type)
    fits = -limit <= total < limit if limit else not isinstance(total, decimal.Decimal) or len(total.as_tuple().digits) <= 38
    if not fits:
        raise OverflowError(f"overflow of {sql_type}")
    return total


RULES = {
    "add": add,
    "min": lambda a, b, _: b if order(b) < order(a) else a,
    "max": lambda a, b, _: b if order(b) > order(a) else a,
    "and": lambda a, b, _: a and b,
    "or": lambda a, b, _: a or b,
}


def merge_into(row, other, columns):
    """Merges the accumulators of two groups of one key, each by its rule; NULL changes nothing."""
    try:
        if "merge" in (failed := {r["__error_at"]: r["__error"] for r in (row, other)}):
            raise OverflowError(failed["merge"])
        for c in columns:
            a, b = row[c["name"]], other[c["name"]]
            if c["role"] == "accumulator" and b is not None:
                row[c["name"]] = b if a is None else RULES[c["merge"]](a, b, c["sql_type"])
    except OverflowError as e:
        row.update(__error=str(e), __error_at="merge")


def state(view, schema, rows):
    """The SELECT that makes __state of a table `rows`, and that table."""
    arrays, sql = [], []
    for i, (name, c) in enumerate(stored(view).items()):
        values, t, x = [r[c["name"]] for r in rows], schema.field(c["name"]).type, f"c{i}"
        if c["sql_type"] == "HUGEINT":  # of 39 digits, perhaps
            arrays.append(pa.array([None if v is None else str(v) for v in values], "string"))
        elif any(is_a(t) for is_a in TIMES):
            arrays.append(pa.array(values, f"int{t.bit_width}").cast(t))
        else:
            arrays.append(pa.array(values, t))
        if c["sql_type"] == "INTERVAL":
            x = f"to_months({x}.months) + to_days({x}.days) + to_microseconds({x}.micros)"
        sql.append(f"CAST({x} AS {c['sql_type']}) AS " + '"' + name.replace('"', '""') + '"')
    return f"SELECT {', '.join(sql)} FROM rows", pa.table(arrays, [f"c{i}" for i in range(len(arrays))])


def results(view, schema, rows):
    """What SQL shows of groups, as a table, and the groups whose results fail."""
    db = duckdb.connect(config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")

    def run(some):
        sql, table = state(view, schema, some)
        db.register("rows", table)
        db.execute(f"CREATE OR REPLACE TEMP TABLE __state AS {sql}")
        return db.sql(view["plan"]["final"]).to_arrow_table()

    try:
        return run(rows), []
    except duckdb.Error:  # of one group, perhaps: ask for each
        shown, failed = [run([])], []
        for row in rows:
            try:
                shown.append(run([row]))
            except duckdb.Error as e:
                failed.append(row | {"__error": str(e), "__error_at": "result"})
        return pa.concat_tables(shown), failed


def merge(roots):
    """Yields each view with the table that SQL would show, and the groups in error."""
    roots = [pathlib.Path(r) for r in roots]
    manifests = [read_manifest(r) for r in roots]
    for view in manifests[0]["views"]:
        groups, schema, counted = {}, None, {}
        for root, manifest in zip(roots, manifests):
            mine = next((v for v in manifest["views"] if v["name"] == view["name"]), None)
            if mine is None or mine["fingerprint"] != view["fingerprint"]:
                raise ValueError(f"{root}: view {view['name']} is not that of {roots[0]}")
            for p in mine["positions"]:
                if (other := counted.setdefault((p["topic_id"], p["topic"], p["partition"]), root)) is not root:
                    raise ValueError(f"{root} and {other} have both counted partition {p['partition']} of topic {p['topic']}")
            types, rows = read_view(root, mine)
            schema = schema or types
            for key, row in rows.items():
                if key in groups:
                    merge_into(groups[key], row, view["columns"])
                else:
                    groups[key] = row
        broken = [r for r in groups.values() if r["__error_at"] == "merge"]
        table, failed = results(view, schema, [r for r in groups.values() if r["__error_at"] != "merge"])
        yield view, table, broken + failed


def main(args):
    if not args or args[0].startswith("-"):
        print("usage: reader.py CHECKPOINT...", file=sys.stderr)
        return 2
    try:
        for view, table, errors in merge(args):
            print(f"{view['name']}: {table.num_rows} rows, {len(errors)} groups in error")
            for row in table.to_pylist():
                print("  ", row)
    except ValueError as e:
        print(f"reader.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
