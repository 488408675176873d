//! Opens tables of LevelDB and RocksDB. Their filters answer as in the engine.

use std::path::{Path, PathBuf};

use filterblock::SharedBytes;
use filterblock_foreign::leveldb::LevelDbTable as LevelDb;
use filterblock_foreign::rocksdb::RocksDbTable as RocksDb;
use filterblock_foreign::{self as foreign, ForeignFilterInfo, KeyForm, Verified};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::{Bytes, Flag, Name, Text, Whole};
use crate::errors::of_foreign;
use crate::interrupt;
use crate::key::{self, Accepts};
use crate::keys::{self, Keys};
use crate::save;

fn in_file(path: &Path) -> impl Fn(foreign::Error) -> PyErr + '_ {
    |error| of_foreign(error.in_file(path))
}

fn verified<'py>(py: Python<'py>, found: Verified) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("blocks", found.blocks)?;
    told.set_item("keys", found.keys)?;
    told.set_item("denied_keys", found.denied_keys)?;
    Ok(told)
}

fn info<'py>(py: Python<'py>, found: &ForeignFilterInfo) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("kind", found.kind)?;
    told.set_item("len_bytes", found.len_bytes)?;
    told.set_item("num_hashes", found.probes)?;
    told.set_item("estimated_keys", found.estimated_keys)?;
    told.set_item("error_rate", found.expected_fpr)?;
    Ok(told)
}

/// A table of LevelDB. Keys are user keys, as bytes or str. Integers raise TypeError.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct LevelDbTable {
    table: LevelDb<SharedBytes>,
    path: PathBuf,
}

#[pymethods]
impl LevelDbTable {
    /// Always raise TypeError, because `LevelDbTable.open` returns objects of this class.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Err(PyTypeError::new_err("open a table with LevelDbTable.open(path)"))
    }

    /// Open a table, and verify the footer, the metaindex, the index and the filters.
    ///
    /// `key_form` is "user", or "internal" for the table of a database: internal keys have eight
    /// more bytes than user keys. With None, `open` detects the form. If both forms fit, a query
    /// asks the filters for both. The file is mapped, so no program may change it while it is open.
    /// With mapped=False the file is read into memory. Raises DamagedError, UnsupportedError,
    /// ValueError, OSError or MemoryError.
    #[staticmethod]
    #[pyo3(
        signature = (path, *, key_form=None, mapped=Flag(true)),
        text_signature = "(path, *, key_form=None, mapped=True)"
    )]
    fn open(py: Python<'_>, path: Name, key_form: Option<Text<'_>>, mapped: Flag) -> PyResult<Self> {
        let form = match key_form.as_ref().map(Text::get).transpose()? {
            None => None,
            Some("user") => Some(KeyForm::User),
            Some("internal") => Some(KeyForm::Internal),
            Some(form) => {
                return Err(PyValueError::new_err(format!(
                    "there is no key_form {form:?}; use \"user\", \"internal\" or None"
                )));
            }
        };
        interrupt::open(py, &path, move |path| {
            let bytes = save::read(path, mapped.0)?;
            let table = match form {
                None => LevelDb::open(bytes),
                Some(form) => LevelDb::open_as(bytes, form),
            };
            Ok(Self { table: table.map_err(in_file(path))?, path: path.to_path_buf() })
        })
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        key::with(key, Accepts::BytesOnly, |key| self.table.may_contain(key))
    }

    /// Ask for many keys at once. Returns a NumPy array of bool in the order of the keys.
    #[pyo3(signature = (keys, *, width=None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        width: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = Keys::of(keys, width, Accepts::BytesOnly)?;
        keys::ask_each(py, &keys, |key| self.table.may_contain(key))
    }

    /// Read the whole table, and ask its filters for all of its keys. Returns a dict with the
    /// numbers of blocks, keys and denied keys. Raises DamagedError if a block is damaged,
    /// UnsupportedError for an unknown compression, or ValueError if no form of keys fits.
    fn verify<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let found = interrupt::with(slf, true, |this| this.table.verify().map_err(in_file(&this.path)))??;
        verified(slf.py(), found)
    }

    /// Return a dict that describes the table and its filters.
    fn inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        told.set_item("policy", self.table.policy())?;
        told.set_item("num_data_blocks", self.table.num_data_blocks())?;
        told.set_item("has_known_filters", self.table.has_known_filters())?;
        told.set_item(
            "key_form",
            self.table.key_form().map(|form| match form {
                KeyForm::User => "user",
                KeyForm::Internal => "internal",
            }),
        )?;
        let filters = self.table.filters().map(|place| info(py, &self.table.filter_info(&place)));
        told.set_item("filters", filters.collect::<PyResult<Vec<_>>>()?)?;
        Ok(told)
    }

    fn __repr__(&self) -> String {
        format!("<LevelDbTable {}>", self.path.display())
    }
}

/// A block-based table of RocksDB. Keys are user keys, as bytes or str. Integers raise TypeError.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct RocksDbTable {
    table: RocksDb<SharedBytes>,
    path: PathBuf,
}

#[pymethods]
impl RocksDbTable {
    /// Always raise TypeError, because `RocksDbTable.open` returns objects of this class.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Err(PyTypeError::new_err("open a table with RocksDbTable.open(path)"))
    }

    /// Open a table, and verify the footer, the metaindex, the properties and the filters.
    ///
    /// `secret` is for filters of filterblock that were built with a secret. Without the secret,
    /// these filters answer True. The file is mapped, so no program may change it while it is open.
    /// With mapped=False the file is read into memory. Raises DamagedError, UnsupportedError,
    /// SecretError, ValueError, OSError or MemoryError.
    #[staticmethod]
    #[pyo3(
        signature = (path, *, secret=None, mapped=Flag(true)),
        text_signature = "(path, *, secret=None, mapped=True)"
    )]
    fn open(py: Python<'_>, path: Name, secret: Option<Bytes<'_>>, mapped: Flag) -> PyResult<Self> {
        let secret = secret.map(|secret| secret.secret()).transpose()?;
        interrupt::open(py, &path, move |path| {
            let mut table = RocksDb::open(save::read(path, mapped.0)?).map_err(in_file(path))?;
            if let Some(secret) = secret {
                table.unlock(&secret).map_err(in_file(path))?;
            }
            Ok(Self { table, path: path.to_path_buf() })
        })
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        key::with(key, Accepts::BytesOnly, |key| self.table.may_contain(key))
    }

    /// Ask for many keys at once. Returns a NumPy array of bool in the order of the keys.
    #[pyo3(signature = (keys, *, width=None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        width: Option<Whole>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = Keys::of(keys, width, Accepts::BytesOnly)?;
        keys::ask_each(py, &keys, |key| self.table.may_contain(key))
    }

    /// Return whether the table may have a key with the prefix of `seek_key`. The extractor that
    /// the table names takes the prefix. The answer is also True if this extractor is unknown, if
    /// it takes no prefix from `seek_key`, or if no filter has its prefixes.
    fn prefix_may_match(&self, seek_key: &Bound<'_, PyAny>) -> PyResult<bool> {
        key::with(seek_key, Accepts::BytesOnly, |key| self.table.prefix_may_match(key))
    }

    /// Read the whole table, and ask its filters for all of its keys. Returns a dict with the
    /// numbers of blocks, keys and denied keys. Raises DamagedError if a block is damaged, or
    /// UnsupportedError for an unknown layout or compression.
    fn verify<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let found = interrupt::with(slf, true, |this| this.table.verify().map_err(in_file(&this.path)))??;
        verified(slf.py(), found)
    }

    /// Return a dict that describes the table and its filters.
    fn inspect<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (told, properties) = (PyDict::new(py), self.table.properties());
        told.set_item("format_version", self.table.format_version())?;
        told.set_item("policy", &properties.filter_policy)?;
        told.set_item("comparator", &properties.comparator)?;
        told.set_item("prefix_extractor", &properties.prefix_extractor)?;
        told.set_item("whole_key_filtering", properties.whole_key_filtering)?;
        told.set_item("num_entries", properties.num_entries)?;
        let mut filters = Vec::new();
        self.table.for_each_filter(|place| {
            filters.push(self.table.filter_bytes(&place).map(|bytes| self.table.filter_info(bytes)));
            true
        });
        let filters = filters.iter().flatten().map(|found| info(py, found));
        told.set_item("filters", filters.collect::<PyResult<Vec<_>>>()?)?;
        Ok(told)
    }

    fn __repr__(&self) -> String {
        format!("<RocksDbTable {}>", self.path.display())
    }
}
