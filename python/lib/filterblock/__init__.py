"""Checksummed filters of keys: Bloom, blocked Bloom, ribbon and fuse filters.

`key in filter` is False if the key was certainly not added, and True if it may have been. A key is str,
bytes or int; README.md has the whole table of types. A value of another type raises TypeError. An
exception never means "absent".
"""

from typing import NoReturn as _NoReturn

from . import _hints, index, parquet
from ._errors import (
    DamagedError,
    DisplacedError,
    Error,
    LockedError,
    ReadOnlyError,
    SecretError,
    UnexpectedError,
    UnsupportedError,
)
from ._filterblock import (
    Bloom,
    FileFilter,
    Filter,
    LevelDbTable,
    Plan,
    RocksDbTable,
    __version__,
    instruction_set,
    key_bytes,
    kinds,
    plan,
    plan_largest,
)

__all__ = [
    "Bloom",
    "DamagedError",
    "DisplacedError",
    "Error",
    "FileFilter",
    "Filter",
    "LevelDbTable",
    "LockedError",
    "Plan",
    "ReadOnlyError",
    "RocksDbTable",
    "SecretError",
    "UnexpectedError",
    "UnsupportedError",
    "__version__",
    "index",
    "instruction_set",
    "key_bytes",
    "kinds",
    "parquet",
    "plan",
    "plan_largest",
]


def __getattr__(name: str) -> _NoReturn:
    hint = _hints.MODULE.get(name)
    raise AttributeError(f"filterblock has no {name}" + (f": {hint}" if hint else ""))
