"""Runs the Python in docs/format.md.

usage: test_docs.py DIR format.md

DIR is what TestEmit wrote. The examples read checkpoint 42.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile


def main(emitted, page):
    blocks = re.findall(r"^```python\n(.*?)^```", pathlib.Path(page).read_text(), re.M | re.S)
    assert len(blocks) >= 5, f"{page} has {len(blocks)} examples"
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(pathlib.Path(emitted) / "checkpoints" / "00000002", pathlib.Path(d) / "checkpoints" / "00000042")
        os.chdir(d)
        for block in blocks:
            names = {}
            exec(compile(block, page, "exec"), names)
            for name in ("table", "top", "frame"):
                if name in names:
                    assert len(names[name]) > 0, f"{name} is empty"
    print(f"ok: {len(blocks)} examples of {page}")


if __name__ == "__main__":
    main(*sys.argv[1:])
