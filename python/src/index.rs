//! Builds and asks an index: one file that says which of many Parquet files may have a value.

use std::collections::HashSet;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use filterblock_family::replace::dir_of;
use filterblock_parquet::Error;
use filterblock_parquet::index::{
    DistinctHashes, FileIdentity, IndexBuilder, IndexReader, KeyType, ParquetColumn, Settings, SourceKind, Stamp, hash,
};
use filterblock_parquet::values::ParquetValues;
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::args::{self, ErrorRate, Flag, Name, Names, Text};
use crate::errors::{NO_FOLDER, advised, of_io, of_parquet};
use crate::interrupt;
use crate::key::{self, Accepts};
use crate::memory;
use crate::parquet::{files_of, plain};
use crate::save::{self, NewFile};

/// An index over many files: one read says which of them may have a value.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct Index {
    reader: IndexReader<File>,
    /// The column, and the type of its values.
    column: ParquetColumn,
    path: PathBuf,
    base: Option<PathBuf>,
}

#[pymethods]
impl Index {
    /// Always raise TypeError, because `index.build` and `index.open` return objects of this class.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Err(PyTypeError::new_err(
            "open an index with index.open(path), or build one with index.build(path, files, column)",
        ))
    }

    /// Open an index that `index.build` or the command `filterblock index` wrote. Relative paths in
    /// the index are looked up in the folder `base`, by default in the working directory. Raises
    /// DamagedError, UnsupportedError, OSError or ValueError. Then all files may have every value.
    #[staticmethod]
    #[pyo3(signature = (path, *, base=None))]
    fn open(py: Python<'_>, path: Name, base: Option<Name>) -> PyResult<Self> {
        let base = base.map(|base| base.path);
        interrupt::open(py, &path, move |path| Self::of(path, base))
    }

    /// The paths of the files, as they were given to the build.
    #[getter]
    fn files(&self) -> Vec<OsString> {
        (0..self.reader.files().len()).filter_map(|file| self.name(file)).collect()
    }

    /// The column of the Parquet files. It is empty for other files.
    #[getter]
    fn column(&self) -> &str {
        &self.reader.settings().column
    }

    /// The error rate that was requested for each file.
    #[getter]
    fn error_rate(&self) -> f64 {
        self.reader.settings().fpr
    }

    /// Return the paths of the files that may have the value. All other files certainly do not.
    ///
    /// The value has one of the types that `parquet.ParquetFile.row_groups` takes. A file that has
    /// changed since the build, is missing or cannot be read may have every value, and gives a
    /// warning. `changed` names such files.
    fn query(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Vec<OsString>> {
        let this = slf.get();
        let found = Self::ask(slf, vec![this.hashes(value)?])?;
        Ok(found.into_iter().flatten().filter_map(|file| this.name(file)).collect())
    }

    /// Return the answers of `query` for many values, as a list of lists. The files are checked for
    /// changes only once.
    fn query_many(slf: &Bound<'_, Self>, values: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<OsString>>> {
        let this = slf.get();
        if values.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err("a str is one value, not many; give a list of values"));
        }
        let mut asked = Vec::new();
        let several = values.try_iter().map_err(|error| match error.is_instance_of::<PyTypeError>(slf.py()) {
            true => PyTypeError::new_err("query_many takes a list of values; for one value: query(value)"),
            false => error,
        })?;
        for value in several {
            slf.py().check_signals()?;
            memory::push(&mut asked, this.hashes(&value?)?)?;
        }
        let names = |files: Vec<usize>| files.into_iter().filter_map(|file| this.name(file)).collect();
        Ok(Self::ask(slf, asked)?.into_iter().map(names).collect())
    }

    /// Return a dict of the files that have changed since the build, are missing or cannot be read.
    /// It has the path and the reason. Build the index again.
    fn changed<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(slf.py());
        for (file, why) in interrupt::with(slf, true, Self::differences)? {
            told.set_item(slf.get().name(file), why)?;
        }
        Ok(told)
    }

    /// Verify the checksum of every row. Raises DamagedError for the first wrong one. A query of a
    /// damaged row answers with all files.
    fn verify(slf: &Bound<'_, Self>) -> PyResult<()> {
        interrupt::with(slf, true, |this| {
            let mut first = None;
            this.reader.verify(|_, error| first = first.take().or(error));
            first.map_or(Ok(()), |error| Err(of_parquet(error.in_file(&this.path))))
        })?
    }

    /// The number of files.
    fn __len__(&self) -> usize {
        self.reader.files().len()
    }

    /// An index is true even without files.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        let rate = memory::rate(self.error_rate());
        format!(
            "<Index {}: {} files, column {:?}, error rate {rate}>",
            self.path.display(),
            self.__len__(),
            self.column()
        )
    }
}

impl Index {
    fn of(path: &Path, base: Option<PathBuf>) -> PyResult<Self> {
        let file = save::open(path)?;
        let reader = IndexReader::open(file).map_err(|error| of_parquet(error.in_file(path)))?;
        let Settings { key_type, logical_type, .. } = reader.settings().clone();
        let column = ParquetColumn { leaf: 0, key_type, logical_type, integer_bits: None, num_values: 0 };
        Ok(Self { reader, column, path: path.to_path_buf(), base })
    }

    fn name(&self, file: usize) -> Option<OsString> {
        self.reader.files().get(file).map(|file| file.identity.path.as_os_str().to_owned())
    }

    /// Returns the hashes of all encodings of a value, or `None` if no filter can deny the value.
    fn hashes(&self, value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
        if self.column.key_type == KeyType::Bytes {
            return key::with(value, Accepts::BytesOnly, |key| Some(vec![hash(key)]));
        }
        let encoded = plain(&self.column, value)?;
        Ok(encoded.map(|encoded| encoded.iter().map(|bytes| hash(bytes)).collect()))
    }

    /// Returns the files that differ from their records in the index, and the reasons.
    fn differences(&self) -> Vec<(usize, String)> {
        let place = |path: &Path| self.base.as_ref().map_or_else(|| path.to_path_buf(), |base| base.join(path));
        let files = self.reader.files().iter().enumerate();
        files
            .filter_map(|(number, file)| {
                let difference = file.identity.stamp.difference(&place(&file.identity.path), true)?;
                Some((number, difference.to_string()))
            })
            .collect()
    }

    /// Returns the numbers of the files that may have each value.
    fn ask(slf: &Bound<'_, Self>, values: Vec<Option<Vec<u64>>>) -> PyResult<Vec<Vec<usize>>> {
        let num_files = slf.get().__len__();
        let is_long = num_files + values.len() > 100;
        let (found, num_changed, num_degraded) = interrupt::with(slf, is_long, move |this| {
            let all: Vec<usize> = (0..num_files).collect();
            let changed = this.differences();
            let (mut hashes, mut owners, mut found) = (Vec::new(), Vec::new(), Vec::new());
            for (number, value) in values.into_iter().enumerate() {
                // A file is left out only if the index denies each encoding for it.
                found.push(match &value {
                    None => all.clone(),
                    Some(_) => changed.iter().map(|(file, _)| *file).collect(),
                });
                for hash in value.into_iter().flatten() {
                    hashes.push(hash);
                    owners.push(number);
                }
            }
            let mut num_degraded = 0;
            this.reader.candidates_of_many(&hashes, |position, files, answer| {
                num_degraded += usize::from(answer == filterblock_parquet::index::Answer::Degraded);
                if let Some(found) = owners.get(position).and_then(|&number| found.get_mut(number)) {
                    found.extend_from_slice(files);
                }
            });
            for files in &mut found {
                files.sort_unstable();
                files.dedup();
            }
            (found, changed.len(), num_degraded)
        })?;
        let warn = |text: String| {
            let text = CString::new(format!("{}: {text}", slf.get().path.display()))?;
            PyErr::warn(slf.py(), &slf.py().get_type::<PyUserWarning>(), &text, 1)
        };
        if num_changed > 0 {
            warn(format!(
                "{num_changed} of {num_files} files have changed, are missing or cannot be read, so they may have every \
                 value; look at changed(), give base=, or build the index again"
            ))?;
        }
        if num_degraded > 0 {
            warn("a row of the index is damaged, so all files may have its values; build the index again".to_owned())?;
        }
        Ok(found)
    }
}

/// Build an index of a column of many Parquet files, and open it.
///
/// `files` is a path or a list of paths. A folder stands for the files *.parquet, *.parq and *.pq in
/// it at any depth. The index stores the paths as given. Relative paths are looked up in the folder
/// `base`, by default in the working directory. `error_rate` is the share of absent values for which
/// a file is named. The index is written to `path` in one step; `overwrite` replaces an existing
/// file. Raises ValueError for a column that cannot be indexed, or if the types of the columns
/// differ, and DamagedError, UnsupportedError, OSError or MemoryError.
#[pyfunction]
#[pyo3(
    signature = (path, files, column, *, error_rate=ErrorRate(0.01), base=None, overwrite=Flag(false), **others),
    text_signature = "(path, files, column, *, error_rate=0.01, base=None, overwrite=False)"
)]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub fn index_build(
    py: Python<'_>,
    path: Name,
    files: Names,
    column: Text<'_>,
    error_rate: ErrorRate,
    base: Option<Name>,
    overwrite: Flag,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<Index> {
    args::refuse_others(py, "index_build", others)?;
    let base = base.map(|base| base.path);
    let mut inputs = Vec::new();
    for name in &files.0 {
        let place = base.as_ref().map_or_else(|| name.path.clone(), |base| base.join(&name.path));
        for (place, below) in name.told(py, py.detach(|| files_of(&place)))? {
            let stored = below.map_or_else(|| name.path.clone(), |below| name.path.join(below));
            inputs.push(Input { stored, place });
        }
    }
    let built = built(py, &path, inputs, column.get_short()?.to_owned(), error_rate.0, overwrite.0);
    path.told(py, files.told(py, built))?;
    interrupt::open(py, &path, move |path| Index::of(path, base))
}

/// A file of an index.
struct Input {
    /// The path in the index.
    stored: PathBuf,
    /// The path at which the file is opened.
    place: PathBuf,
}

fn built(
    py: Python<'_>,
    path: &Name,
    inputs: Vec<Input>,
    column: String,
    error_rate: f64,
    overwrites: bool,
) -> PyResult<()> {
    let path = path.path.as_path();
    let of_index = |error| advised(py, of_io(&error, Some(path)), "to replace it: overwrite=True", NO_FOLDER);
    let places: HashSet<PathBuf> = inputs.iter().filter_map(|input| input.place.canonicalize().ok()).collect();
    if path.canonicalize().is_ok_and(|path| places.contains(&path)) {
        return Err(PyValueError::new_err(format!(
            "{}: the index is also an input; choose another path",
            path.display()
        )));
    }
    let new = py.detach(|| NewFile::beside(path, overwrites)).map_err(of_index)?;
    let spill = tempfile::tempfile_in(dir_of(path)).map_err(of_index)?;
    let index = path.to_path_buf();
    let bytes = interrupt::run(py, true, move || {
        let builder = collected(inputs, &column, error_rate, spill)?;
        Ok::<_, PyErr>(builder.build().map_err(|error| of_parquet(error.in_file(&index)))?.bytes)
    })??;
    py.detach(|| {
        let mut file = new.file();
        file.write_all(&bytes)?;
        new.publish()
    })
    .map_err(|error| of_io(&error, Some(path)))
}

/// Reads the values of all files.
fn collected(inputs: Vec<Input>, column: &str, fpr: f64, spill: File) -> PyResult<IndexBuilder<File>> {
    let (mut builder, mut spill) = (None, Some(spill));
    for Input { stored, place } in inputs {
        let failed = |error: Error| of_parquet(error.in_file(&place));
        let stamp = || Stamp::of(&place).map_err(|error| of_io(&error, Some(&place)));
        let before = stamp()?;
        let values = ParquetValues::open(save::open(&place)?).map_err(failed)?;
        let found = ParquetColumn::find(values.parsed(), column).map_err(failed)?;
        if let Some(spill) = spill.take() {
            let logical_type = found.logical_type.clone();
            let settings = Settings { column: column.to_owned(), logical_type, key_type: found.key_type, fpr };
            builder = Some((IndexBuilder::new(settings.clone(), spill).map_err(failed)?, settings));
        }
        let Some((builder, settings)) = &mut builder else { continue };
        if let Some(why) = settings.refuses(found.key_type, &found.logical_type) {
            return Err(PyValueError::new_err(format!("{}: {why}", place.display())));
        }
        let mut hashes = DistinctHashes::new();
        found.add_values(&values, &mut hashes).map_err(failed)?;
        if stamp()? != before {
            return Err(failed(Error::Changed));
        }
        let identity = FileIdentity { path: stored, source: SourceKind::ParquetValues, stamp: before };
        builder.add_hashes(identity, hashes).map_err(failed)?;
    }
    let none = || PyValueError::new_err("no file is given; give a list of paths, or a folder");
    builder.map(|(builder, _)| builder).ok_or_else(none)
}
