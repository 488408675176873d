"""The exceptions of filterblock. An exception never means "absent"."""

from __future__ import annotations

import os


class Error(Exception):
    """The base of the exceptions that filterblock defines."""


class DamagedError(Error, ValueError):
    """Bytes are damaged, cut short, or not what they should be.

    `path` is the file or None, `field` the part that is wrong, and `offset` where it begins in the file.
    """

    path: os.PathLike[str] | None
    field: str | None
    offset: int | None

    def __init__(
        self,
        message: str,
        path: os.PathLike[str] | None = None,
        field: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.field = field
        self.offset = offset


class UnsupportedError(Error, ValueError):
    """The bytes are sound, but this version cannot read them: they are newer or use an unknown feature."""


class UnexpectedError(Error, ValueError):
    """The filter is sound, but it is not the one that the caller expects."""


class SecretError(Error, ValueError):
    """The keys were hashed under a secret, and the caller gave no secret or another one."""


class ReadOnlyError(Error, ValueError):
    """The filter was opened for reading only, so it cannot be changed."""


class LockedError(Error, OSError):
    """Another process, or another object, has the file open for writing."""


class DisplacedError(Error, OSError):
    """Another program moved, replaced or changed the file, or an earlier write failed."""
