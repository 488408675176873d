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
    """Sound bytes of a newer version, or with a feature that this version cannot read."""


class UnexpectedError(Error, ValueError):
    """A sound filter, but not the one that the caller expects."""


class SecretError(Error, ValueError):
    """The keys were hashed under a secret, and none or another one was given."""


class ReadOnlyError(Error, ValueError):
    """A change of a filter that was opened for reading only."""


class LockedError(Error, OSError):
    """Another process, or another object, has the file open for writing."""


class DisplacedError(Error, OSError):
    """The file was moved, replaced or changed by another program, or an earlier write failed."""
