"""Runs the Python examples of README.md in an empty folder."""

import os
import pathlib
import re
import tempfile

page = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
examples = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
assert examples, "README.md has no example"
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    names: dict[str, object] = {}
    for example in examples:
        exec(example, names)
print(f"{len(examples)} examples of README.md run")
