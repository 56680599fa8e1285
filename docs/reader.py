"""Reads Weir's checkpoints, and merges those of several nodes, by docs/format.md.

usage: reader.py CHECKPOINT...

Prints what SQL would show if one node had counted what the nodes of all these
checkpoints did. It needs pyarrow, and DuckDB to compare, merge and compute. It
knows of a view only what the manifest says.
"""

import hashlib
import json
import os
import pathlib
import sys

import duckdb
import pyarrow as pa

# The merge rules, in SQL. All pass over NULL, which changes nothing.
RULES = {"add": "sum({})", "min": "min({})", "max": "max({})", "and": "bool_and({})", "or": "bool_or({})"}


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


def caught_up(manifest, view):
    """Whether the view had read all that its source had: else it has a cursor of its own."""
    return all(s["cursor"] == view["cursor"] for s in manifest["sources"] if s["id"] == view["source"])


def other_engine(manifest):
    """What to know where this DuckDB computes results that another did before, or None."""
    there, here = manifest.get("engine"), f"duckdb v{duckdb.__version__}"
    computed = any(c["role"] == "result" for v in manifest["views"] for c in v["columns"]) or any(v["plan"].get("visible") for v in manifest["views"])
    if there in (None, here) or not computed:  # how accumulators merge depends on no version
        return None
    return f"SQL showed results of {there}, and {here} may have others: pip install duckdb=={there.removeprefix('duckdb v')}"


def read_file(path, file):
    """An Arrow file as a table. Nothing is decoded before its checksum is right."""
    data = path.read_bytes()
    if len(data) != file["bytes"] or hashlib.sha256(data).hexdigest() != file["sha256"]:
        raise ValueError(f"{path} is damaged")
    return pa.ipc.open_file(data).read_all()


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def stored(view):
    """The columns that are the state, by the names that they have in __state."""
    return {c.get("accumulator", c["name"]): c for c in view["columns"] if c["role"] in ("key", "accumulator")}


def exact(table, view):
    """The table with HUGEINT as text, also where a value had too many digits for its column."""
    beyond = {}  # (column, row): value
    for row, stream in enumerate(table["__exact"].to_pylist() if "__exact" in table.column_names else []):
        values = pa.ipc.open_stream(stream).read_all() if stream else pa.table({})
        for name in values.column_names:
            if (c := stored(view)[name])["sql_type"] != "HUGEINT":  # before Python sees a time that it does not have
                raise ValueError(f"{name} of view {view['name']} has a {c['sql_type']} that is not read here")
            beyond[c["name"], row] = int.from_bytes(values[name][0].as_py(), "little", signed=True)
    for name in {c["name"] for c in stored(view).values() if c["sql_type"] == "HUGEINT"}:
        values = (beyond.get((name, row), v) for row, v in enumerate(table[name].to_pylist()))
        table = table.set_column(table.column_names.index(name), name, pa.array([None if v is None else str(v) for v in values], "string"))
    return table


def plain(table):
    """The rows as dicts, times as DuckDB writes them: Python has no infinite ones, and no year before 1."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    db.register("some rows", table)
    for i, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type) or pa.types.is_nested(field.type):
            texts = db.sql(f'SELECT CAST({quoted(field.name)} AS VARCHAR) AS t FROM "some rows"').to_arrow_table()["t"]
            table = table.set_column(i, field.name, texts)
    return table.to_pylist()


def take(table, numbers):
    return table.take(pa.array(numbers, "int64"))


def by_key(view, table):
    """For each group the numbers of its rows in the table, in order, and an error of merging in any of them."""
    rows = table.append_column("row number", pa.array(range(len(table)), "int64"))
    keys = ", ".join(quoted(c["name"]) for c in view["columns"] if c["role"] == "key")
    return duckdb.sql(f"""SELECT list("row number" ORDER BY "row number"), any_value(__error) FILTER (__error_at = 'merge')
                          FROM rows GROUP BY {keys or '()'} HAVING count(*) > 0""").fetchall()


def read_view(root, view):
    """The groups of a view, as a table. Of base and deltas the last row of a key counts."""
    files = view.get("parts") or [view["file"]]
    table = pa.concat_tables([exact(read_file(root / f["name"], f), view) for f in files], promote_options="default")
    if "parts" in view:
        gone = table["__deleted"].to_pylist()
        table = take(table, (numbers[-1] for numbers, _ in by_key(view, table) if not gone[numbers[-1]])).drop_columns("__deleted")
    if len(table) != view["groups"]:
        raise ValueError(f"{root}: view {view['name']} has {len(table)} groups, not {view['groups']}")
    return table


def show(view, rows):
    """What SQL shows of the groups that these rows make when rows with equal keys are merged."""
    columns, keys = [], []
    for name, c in stored(view).items():
        x, merge = quoted(c["name"]), "{}"
        if c["sql_type"] == "INTERVAL":
            x = f"to_months({x}.months) + to_days({x}.days) + to_microseconds({x}.micros)"
        if c["role"] == "key":
            keys.append(f"CAST({x} AS {c['sql_type']})")
        elif (merge := RULES.get(c["merge"])) is None:
            raise ValueError(f"view {view['name']}: merge rule {c['merge']} of {c['name']} is not known here")
        merged = merge.format(f"CAST({x} AS {c['sql_type']})")
        if c["sql_type"].startswith("DECIMAL"):  # of a sum with too many digits only text is refused
            merged = f"CAST({merged} AS VARCHAR)"
        columns.append(f"CAST({merged} AS {c['sql_type']}) AS {quoted(name)}")
    db = duckdb.connect(config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    db.register("merged rows", rows)
    db.execute(f'CREATE TEMP TABLE __state AS SELECT {", ".join(columns)} FROM "merged rows" GROUP BY {", ".join(keys) or "()"} HAVING count(*) > 0')
    return db.sql(view["plan"]["final"]).to_arrow_table()


def results(view, table):
    """What SQL shows, and the groups that are in error or whose sums or results fail."""
    groups = by_key(view, table)
    errors = [(numbers, error) for numbers, error in groups if error]
    good = [numbers for numbers, error in groups if not error]
    try:
        shown = show(view, take(table, (n for numbers in good for n in numbers)))
    except duckdb.Error:  # of one group, perhaps: ask for each
        tables = [show(view, table.slice(0, 0))]
        for numbers in good:
            try:
                tables.append(show(view, take(table, numbers)))
            except duckdb.Error as e:
                errors.append((numbers, str(e)))
        shown = pa.concat_tables(tables)
    return shown, [plain(take(table, numbers[:1]))[0] | {"__error": error} for numbers, error in errors]


def merge(roots):
    """Yields each view with the table that SQL would show, and the groups in error.

    Results that are no accumulators are computed by the DuckDB that is here: for them
    see other_engine.
    """
    roots = [pathlib.Path(r) for r in roots]
    manifests = [read_manifest(r) for r in roots]
    for view in manifests[0]["views"]:
        tables, counted = [], {}
        for root, manifest in zip(roots, manifests):
            mine = next((v for v in manifest["views"] if v["name"] == view["name"]), None)
            if mine is None or mine["fingerprint"] != view["fingerprint"]:
                raise ValueError(f"{root}: view {view['name']} is not that of {roots[0]}")
            if not caught_up(manifest, mine):
                raise ValueError(f"{root}: view {view['name']} still read old records and is not whole: take a checkpoint when it has caught up")
            for p in mine["positions"]:
                if (other := counted.setdefault((p["topic_id"], p["topic"], p["partition"]), root)) is not root:
                    raise ValueError(f"{root} and {other} have both counted partition {p['partition']} of topic {p['topic']}")
            tables.append(read_view(root, mine))
        yield view, *results(view, pa.concat_tables(tables, promote_options="default"))


def main(args):
    if not args or args[0].startswith("-"):
        print("usage: reader.py CHECKPOINT...", file=sys.stderr)
        return 2
    try:
        for view, table, errors in merge(args):
            print(f"{view['name']}: {table.num_rows} rows, {len(errors)} groups in error")
            for row in plain(table):
                print("  ", row)
        for warning in sorted({w for r in args if (w := other_engine(read_manifest(pathlib.Path(r))))}):
            print(f"reader.py: {warning}", file=sys.stderr)
    except ValueError as e:
        print(f"reader.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads, head perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
