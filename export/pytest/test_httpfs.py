"""Reads the views of a running demo with DuckDB's httpfs and compares them with SQL."""

import json
import pathlib
import re
import subprocess
import sys
import threading
import urllib.request

import duckdb
import duckdb_extension_httpfs

TOKEN = "a-token-of-this-test-alone"


class Weir:
    def __init__(self, out: pathlib.Path):
        self.process = subprocess.Popen(
            [out / "weir", "demo", "--addr", "127.0.0.1:0", "--data", out / "data"],
            env={"WEIR_TOKEN": TOKEN}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in self.process.stdout:  # it says where it listens, and then serves
            said.append(line)
            if found := re.search(r"Weir listens on http://(127\.0\.0\.1:\d+)", line):
                break
        else:
            raise AssertionError("the demo ended: " + "".join(said))
        self.addr = found[1]
        self.url = f"http://{self.addr}/api/v1"
        threading.Thread(target=lambda: all(self.process.stdout), daemon=True).start()  # or it would wait for its reader

    def ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        r = urllib.request.Request(self.url + path, data, {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(r) as a:
            return a.headers, json.loads(a.read() or "null") if method != "HEAD" else None

    def filled(self):
        """Waits, commit by commit, until every view has groups."""
        epoch = 0
        while True:
            headers, answer = self.ask(f"/views?min_epoch={epoch}&timeout=60")
            if all(v["groups"] for v in answer["views"] if v["kind"] == "materialized"):
                return
            epoch = int(headers["Weir-Epoch"]) + 1

    def rows(self, sql):
        return sorted(map(tuple, self.ask("/sql", {"sql": sql})[1]["rows"]), key=str)


def database(weir):
    db = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (file,) = pathlib.Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension")
    db.execute(f"LOAD '{file}'")
    db.execute("SET TimeZone = 'UTC'")
    db.execute(f"CREATE SECRET weir (TYPE http, BEARER_TOKEN '{TOKEN}', SCOPE 'http://{weir.addr}')")
    return db


def test_checkpoints(weir):
    db = database(weir)
    checkpoint = weir.ask("/checkpoints", {}, "POST")[1]
    assert len(checkpoint["views"]) > 3, checkpoint
    for view in checkpoint["views"]:
        columns = [c["name"] for c in weir.ask(f"/views/{view}")[1]["columns"]]
        texts = ", ".join(f'"{c}"::VARCHAR' for c in columns)
        want = weir.rows(f"SELECT {texts} FROM {view} AT (VERSION => {checkpoint['id']})")
        url = f"{weir.url}/checkpoints/{checkpoint['id']}/{view}.parquet"
        got = sorted(db.sql(f"SELECT {texts} FROM '{url}' WHERE __visible AND __error IS NULL").fetchall(), key=str)
        assert want and got == want, (view, len(got), len(want))


def test_live_views(weir):
    db = database(weir)
    for view in [v["name"] for v in weir.ask("/views")[1]["views"] if v["kind"] == "materialized"]:
        path = f"/views/{view}/scan.parquet"
        headers, _ = weir.ask(path, method="HEAD")
        url = f"{weir.url}{path}?epoch={headers['Weir-Epoch']}"
        columns = db.sql(f"FROM '{url}'").columns
        assert columns[-1] == "__error", columns
        whole = db.sql(f"SELECT count(*), count(__error) FROM '{url}'").fetchone()
        assert whole[0] > 0 and whole[1] == 0, (view, whole)
        assert db.sql(f"SELECT count(*) FROM (FROM '{url}' LIMIT 1)").fetchone() == (1,)


def test_what_is_gone_is_an_error(weir):
    db = database(weir)
    view = weir.ask("/views")[1]["views"][0]["name"]
    for path in (f"/views/{view}/scan.parquet?epoch=1", "/views/nope/scan.parquet", f"/checkpoints/999/{view}.parquet"):
        try:
            db.sql(f"SELECT count(*) FROM '{weir.url}{path}'").fetchall()
        except duckdb.Error:
            continue
        raise AssertionError(f"{path} was read")
    anonymous = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (file,) = pathlib.Path(duckdb_extension_httpfs.__file__).parent.rglob("*.duckdb_extension")
    anonymous.execute(f"LOAD '{file}'")
    try:
        anonymous.sql(f"FROM '{weir.url}/views/{view}/scan.parquet'").fetchall()
    except duckdb.Error:
        return
    raise AssertionError("a view was read without the token")


if __name__ == "__main__":
    weir = Weir(pathlib.Path(sys.argv[1]).resolve())
    try:
        weir.filled()
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test(weir)
                print("ok", name)
    finally:
        weir.process.terminate()
        weir.process.wait()
