"""Bloom filters of Parquet files: add them, check them, and ask them."""

from ._filterblock import ParquetFile
from ._filterblock import parquet_add as add
from ._filterblock import parquet_check as check

__all__ = ["ParquetFile", "add", "check"]
