"""An index over many Parquet files: one read says which of them may have a value."""

from ._filterblock import Index
from ._filterblock import index_build as build

open = Index.open

__all__ = ["Index", "build", "open"]
