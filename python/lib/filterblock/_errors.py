"""The exceptions of filterblock. An exception never means "absent"."""

from __future__ import annotations

import os


class Error(Exception):
    """The base of the exceptions that filterblock defines."""


class DamagedError(Error, ValueError):
    """The bytes are damaged, cut short, or not in the expected format.

    `path` is the path of the file, or None. `field` names the damaged part. `offset` is the offset of
    this part in the file or the bytes.
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
    """This version cannot read the bytes: they are of a newer version or use an unknown feature.

    An unknown version may also be damage.
    """


class UnexpectedError(Error, ValueError):
    """The filter is sound, but it is not the one that the caller expects."""


class SecretError(Error, ValueError):
    """The keys were hashed with a secret, and the caller gave no secret or another secret."""


class ReadOnlyError(Error, ValueError):
    """The filter was opened for reading only, so it cannot be changed."""


class LockedError(Error, OSError):
    """Another process or object has the file open for writing, or the filter is of the parent process.

    A forked child cannot write to a `FileFilter` of its parent. It cannot use a `FileFilter` or a `Bloom`
    that another thread of the parent used at the fork.
    """


class DisplacedError(Error, OSError):
    """Another program moved, replaced or changed the file, or an earlier `clear` or `intersection` failed."""
