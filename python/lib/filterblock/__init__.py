"""Checksummed filters of keys: Bloom, blocked Bloom, ribbon and fuse filters.

`key in filter` is False if the key was certainly not added, and True if it may have been. A key is str,
bytes or int; README.md has the whole table of types. A value of another type raises TypeError. An
exception never means "absent".
"""

from . import parquet
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
    "instruction_set",
    "key_bytes",
    "kinds",
    "parquet",
    "plan",
    "plan_largest",
]
