"""Implements the class of pybloomfiltermmap3 with `filterblock.FileFilter` and `filterblock.Bloom`.

`run.py` runs that package's own tests against this class. The class bridges these differences:

* The package silently replaces an existing file. FileFilter raises FileExistsError.
* In the package, `union` and `intersection` change the left filter. In other packages they do not, so
  filterblock has only the operators.
* The package has one class for files and memory. filterblock has two classes.
* The package lets several objects write one file, and each may lose the keys of the others. FileFilter
  raises LockedError. In this class, a new writer closes the earlier writer.
* The package adds keys that are not str, bytes or int as `hash(key)`, which differs between processes.
  FileFilter and Bloom raise TypeError.
* The package has `bit_array`, an integer with the bits of `data_array`. Its `hash_seeds` is an array.
"""

import array
import os
import weakref

import filterblock

WRITERS = weakref.WeakValueDictionary()


class BloomFilter:
    def __init__(self, capacity, error_rate, filename=None, perm=0o755, hash_seeds=None, data_array=None):
        if capacity is None:
            return
        seeds = None if hash_seeds is None else list(hash_seeds)
        if filename is None:
            seed = 0 if seeds is None else self._seed(seeds)
            self._filter = filterblock.Bloom(capacity, error_rate, seed=seed)
        else:
            self._write(filterblock.FileFilter(capacity, error_rate, self._free(filename), perm, seeds))

    @staticmethod
    def _seed(seeds):
        if len(seeds) != 1 or not isinstance(seeds[0], int) or not 0 <= seeds[0] < 2**64:
            raise ValueError("hash_seeds must be one integer of 64 bits")
        return seeds[0]

    @staticmethod
    def _free(filename):
        BloomFilter._close_writer(filename)
        if os.path.exists(filename):
            os.unlink(filename)
        return filename

    @staticmethod
    def _close_writer(filename):
        writer = WRITERS.pop(filename, None)
        if writer is not None:
            writer._filter.close()

    def _write(self, filter):
        self._filter = filter
        WRITERS[filter.filename] = self

    @classmethod
    def _of(cls, filter):
        made = cls(None, None)
        made._filter = filter
        if not filter.read_only:
            made._write(filter)
        return made

    @staticmethod
    def _key(key):
        return key if isinstance(key, (str, bytes, int)) else hash(key)

    @property
    def _file(self):
        if isinstance(self._filter, filterblock.Bloom):
            raise NotImplementedError("a filter in memory has no file")
        return self._filter

    @classmethod
    def open(cls, filename, mode="rw"):
        if "w" in mode:
            cls._close_writer(filename)
        return cls._of(filterblock.FileFilter.open(filename, mode))

    @classmethod
    def from_base64(cls, filename, text, perm=0o755):
        return cls._of(filterblock.FileFilter.from_base64(cls._free(filename), text, perm))

    def copy(self, filename):
        return self._of(self._file.copy(self._free(filename)))

    def copy_template(self, filename, perm=0o755):
        return self._of(self._file.copy_template(self._free(filename), perm))

    def add(self, key):
        return self._filter.add(self._key(key))

    def update(self, keys):
        self._filter.update([self._key(key) for key in keys])

    def __contains__(self, key):
        return self._key(key) in self._filter

    def __len__(self):
        return len(self._filter)

    def union(self, other):
        self._change(other, "union")
        return self

    def intersection(self, other):
        self._change(other, "intersection")
        return self

    def _change(self, other, name):
        if type(self._filter) is not type(other._filter):
            if getattr(self._filter, "read_only", False):
                self._filter.sync()  # raises
            raise ValueError(
                "a filter in a file and a filter in memory are not united; use copies of one template"
            )
        if name == "union":
            self._filter |= other._filter
        else:
            self._filter &= other._filter

    __ior__, __iand__ = union, intersection

    def clear_all(self):
        self._filter.clear()

    def sync(self):
        self._file.sync()

    def close(self):
        self._file.close()

    def to_base64(self):
        return self._file.to_base64()

    def __repr__(self):
        capacity, error = self.capacity, self.error_rate
        return f"<BloomFilter capacity: {capacity}, error: {error:0.3f}, num_hashes: {self.num_hashes}>"

    @property
    def filename(self):
        return self._file.filename

    @property
    def name(self):
        return self.filename.encode()

    @property
    def read_only(self):
        return getattr(self._filter, "read_only", False)

    @property
    def hash_seeds(self):
        return array.array("Q", self._filter.hash_seeds)

    @property
    def bit_array(self):
        return int.from_bytes(self._filter.data_array, "big")

    def __getattr__(self, name):
        if name in (
            "capacity",
            "error_rate",
            "num_hashes",
            "num_bits",
            "bit_count",
            "data_array",
            "approx_len",
        ):
            return getattr(self._filter, name)
        raise AttributeError(name)
