"""Runs the cells of docs/notebook.md, one after the other.

usage: test_notebook.py NODES notebook.md

NODES is what appliance's TestNodes wrote. The cells read checkpoint 42.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile

import duckdb


def main(nodes, page):
    page = pathlib.Path(page).resolve()
    nodes = pathlib.Path(nodes).resolve()
    text = page.read_text()
    cells = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(cells) >= 8, f"{page} has {len(cells)} cells"
    assert re.search(r"^```sql\n(.*?)^```", text, re.M | re.S).group(1) in (nodes / "views.sql").read_text()
    sys.path.insert(0, str(page.parent))
    names = {}
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(nodes / "node0" / "00000002", pathlib.Path(d) / "checkpoints" / "00000042")
        os.chdir(d)
        for cell in cells:
            exec(compile(cell, str(page), "exec"), names)
        os.chdir("/")

    # What the page says of them.
    assert names["errors"].height == 0 and names["state"].height > names["shown"].height > 100
    assert names["top"].height == 5 and names["top"]["city"].null_count() == 1
    assert not names["right"].equals(names["wrong"])
    assert str(names["frame"]["most_items"].dtype) == "int64[pyarrow]" and names["lossy"]["most_items"].dtype == "float64"
    assert len(names["by_city"]) == 5
    assert dict(names["best"]) == dict(names["top"].select("city", "revenue").iter_rows())
    assert names["first"] == names["state"].height and names["second"] == (0 if duckdb.__version__ < "2" else None)
    rows, broken = names["rows"], names["broken"]
    assert rows.num_rows == names["shown"].height and not broken
    print(f"ok: {len(cells)} cells of {page.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
