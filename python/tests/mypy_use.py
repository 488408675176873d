"""Uses the package as a program with types does. mypy checks this file, and nobody runs it."""

import pathlib
from typing import assert_type

import numpy as np
import numpy.typing as npt
from filterblock import Bloom, FileFilter, Filter, LevelDbTable, Plan, RocksDbTable, index, parquet, plan

assert_type(Filter(["a"], error_rate=0.01), Filter)
assert_type(Filter.build(np.arange(5), "bloom:10"), Filter)
assert_type(Filter.open("path") | Filter.from_bytes(b""), Filter)
assert_type(Filter(["a"]).contains_many(["a"]), npt.NDArray[np.bool_])
assert_type({Filter(["a"]): 1}, dict[Filter, int])
assert_type(Bloom(10) & Bloom(10), Bloom)
assert_type(FileFilter.open(b"path", "a", capacity=10), FileFilter)
assert_type(LevelDbTable.open("path"), LevelDbTable)
assert_type("a" in RocksDbTable.open("path"), bool)
assert_type(plan("bloom:10", 5), Plan)
assert_type(parquet.ParquetFile.open("path").row_groups("id", 5), list[int])
parquet.add("lake", advised=True, in_place=True)
assert_type(index.build("path", [pathlib.Path("a")], "id"), index.Index)
assert_type(index.open("path", base=b"lake").query_many([1, "a"]), list[list[str]])
