//! Asks, adds and checks the Bloom filters of Parquet files.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use filterblock::SharedBytes;
use filterblock_family::replace::Version;
use filterblock_parquet::ParquetFile as Parquet;
use filterblock_parquet::advice;
use filterblock_parquet::append::{self, Request};
use filterblock_parquet::check::{self, Size, State};
use filterblock_parquet::filters::{Budget, Sizing};
use filterblock_parquet::folder;
use filterblock_parquet::index::{KeyType, ParquetColumn};
use filterblock_parquet::values::{FileStart, ParquetValues};
use filterblock_parquet::{Error, Footer, PhysicalType};
use pyo3::exceptions::{PyFileNotFoundError, PyOverflowError, PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyString};

use crate::args::{self, ErrorRate, Flag, Name, Names, Text, Texts};
use crate::buffer;
use crate::errors::{NO_FOLDER, advised, of_io, of_parquet};
use crate::interrupt;
use crate::memory::{self, copied};
use crate::save::{self, NewFile};

/// A Parquet file. Its filters say which row groups may have a value.
#[pyclass(frozen, weakref, module = "filterblock")]
#[derive(Debug)]
pub struct ParquetFile {
    file: Parquet<SharedBytes>,
    path: PathBuf,
}

#[pymethods]
impl ParquetFile {
    /// Always raise TypeError, because `ParquetFile.open` returns objects of this class.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Err(PyTypeError::new_err("open a file with ParquetFile.open(path)"))
    }

    /// Open a file, and read its metadata. The file is mapped, so no program may change it while it
    /// is open. With mapped=False the file is read into memory. Raises DamagedError,
    /// UnsupportedError, ValueError (not a regular file), OSError or MemoryError.
    #[staticmethod]
    #[pyo3(signature = (path, *, mapped=Flag(true)), text_signature = "(path, *, mapped=True)")]
    fn open(py: Python<'_>, path: Name, mapped: Flag) -> PyResult<Self> {
        interrupt::open(py, &path, move |path| {
            let file = Parquet::open(save::read(path, mapped.0)?).map_err(|error| of_parquet(error.in_file(path)))?;
            Ok(Self { file, path: path.to_path_buf() })
        })
    }

    /// The number of row groups.
    #[getter]
    fn num_row_groups(&self) -> usize {
        self.file.num_row_groups()
    }

    /// The columns that have a filter in at least one row group.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for chunk in self.file.column_chunks().iter().filter(|chunk| chunk.filter.is_some()) {
            if !names.iter().any(|name| **name == *chunk.path) {
                names.push(chunk.path.to_string());
            }
        }
        names
    }

    /// The number of filters that cannot be used: damaged, contradicted by the footer, or without a
    /// set bit in a row group that may have values. Their row groups may have every value. Reads
    /// the header of every filter.
    #[getter]
    fn unusable_filters(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.file.num_unusable_filters())
    }

    /// Return the numbers of the row groups that may have the value. A row group without a readable
    /// filter is always among them.
    ///
    /// The value is an int, float, str, bytes or UUID, or a scalar of NumPy, as the column's type
    /// requires. A UUID asks a column of the logical type UUID, never a text. For dates,
    /// times and decimals give the stored bytes, because a number does not tell its unit. Raises
    /// ValueError for a column that is unknown or cannot be asked, or for bytes whose length the
    /// column does not have. Raises TypeError for a value of another type, OverflowError for an int
    /// out of range, and UnicodeEncodeError for a str with surrogates.
    fn row_groups(&self, py: Python<'_>, column: Text<'_>, value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let column = column.get_short()?;
        let found = ParquetColumn::find(self.file.metadata(), column)
            .map_err(|error| PyValueError::new_err(format!("{}: {error}", self.path.display())))?;
        let Some(encoded) = plain(&found, value)? else { return Ok((0..self.num_row_groups()).collect()) };
        let may_contain = |group: &usize| match self.file.column_chunk(*group, column) {
            Some(chunk) => !chunk.is_empty() && encoded.iter().any(|value| self.file.may_contain(chunk, value)),
            None => true,
        };
        Ok(py.detach(|| (0..self.num_row_groups()).filter(may_contain).collect()))
    }

    /// Read the header of every filter, and return the number of filters. Raises DamagedError if a
    /// header is damaged, or UnsupportedError for an unknown algorithm, hash or compression.
    /// Filters of Parquet have no checksums. `parquet.check` with values=True finds bits that were
    /// cleared.
    fn verify(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.file.verify()).map_err(|error| of_parquet(error.in_file(&self.path)))
    }

    fn __repr__(&self) -> String {
        format!("<ParquetFile {}>", self.path.display())
    }
}

/// Returns the plain encodings of a value. A floating-point zero has two encodings, because it has
/// two signs. Returns `None` for a value that no filter can deny.
pub fn plain(column: &ParquetColumn, value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Vec<u8>>>> {
    let value = &of_numpy(value)?;
    let KeyType::Parquet { physical_type, type_len_bytes } = column.key_type else { return Ok(None) };
    let (logical, one) = (column.logical_type.as_str(), |bytes: Vec<u8>| Ok(Some(vec![bytes])));
    if logical == "uuid" && value.is_instance(&value.py().import("uuid")?.getattr("UUID")?)? {
        return one(value.getattr("bytes")?.extract()?);
    }
    if let Some(bytes) = bytes_of_value(value)? {
        let len = match physical_type {
            PhysicalType::Int32 | PhysicalType::Float => Some(4),
            PhysicalType::Int64 | PhysicalType::Double => Some(8),
            PhysicalType::Int96 => Some(12),
            PhysicalType::FixedLenByteArray => Some(type_len_bytes as usize),
            _ => None,
        };
        if len.is_some_and(|len| len != bytes.len()) {
            return Err(PyValueError::new_err(format!(
                "the length of the value in bytes is {}, but the column requires {}; give the stored bytes",
                bytes.len(),
                len.unwrap_or(0)
            )));
        }
        return one(bytes);
    }
    let is_plain = logical.is_empty();
    let is_int = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    match physical_type {
        PhysicalType::Int32 | PhysicalType::Int64 if is_int && (is_plain || logical.starts_with("uint")) => {
            one(integer(column, value)?)
        }
        PhysicalType::Float | PhysicalType::Double if is_plain && value.is_instance_of::<PyFloat>() => {
            float(physical_type, value.extract()?)
        }
        PhysicalType::ByteArray
            if value.is_instance_of::<PyString>() && ["", "string", "enum", "json"].contains(&logical) =>
        {
            one(copied(value.cast::<PyString>()?.to_str()?.as_bytes())?)
        }
        _ => {
            let has_text = logical.starts_with("uint") || ["string", "enum", "json", "uuid"].contains(&logical);
            let next = match (is_plain || has_text) && physical_type != PhysicalType::Int96 {
                true => match physical_type {
                    PhysicalType::Int32 | PhysicalType::Int64 => "give an int, or the bytes that the column stores",
                    PhysicalType::Float | PhysicalType::Double => "give a float, or the bytes that the column stores",
                    _ => "give a str, a UUID or the bytes, as the column stores them",
                },
                // The number of a date, time or decimal does not tell its unit.
                false => "give the bytes that the column stores",
            };
            let logical = if is_plain { String::new() } else { format!(" ({logical})") };
            Err(PyTypeError::new_err(format!(
                "a column of type {}{logical} cannot be asked for a value of type {}; {next}",
                physical_type.name(),
                memory::type_name(value)
            )))
        }
    }
}

/// Returns the plain encodings of a float: both for a zero, and `None` for a NaN, which has many.
fn float(physical_type: PhysicalType, number: f64) -> PyResult<Option<Vec<Vec<u8>>>> {
    #[expect(clippy::cast_possible_truncation, reason = "the column stores the nearest 32-bit number")]
    let narrow = number as f32;
    if physical_type == PhysicalType::Float && narrow.is_infinite() && number.is_finite() {
        return Err(out_of_range("the float is out of the range of the column's type"));
    }
    let encode = |wide: f64, narrow: f32| match physical_type {
        PhysicalType::Float => narrow.to_le_bytes().to_vec(),
        _ => wide.to_le_bytes().to_vec(),
    };
    let is_zero = match physical_type {
        PhysicalType::Float => narrow == 0.0,
        _ => number == 0.0,
    };
    Ok(match (number.is_nan(), is_zero) {
        (true, _) => None,
        (_, true) => Some(vec![encode(0.0, 0.0), encode(-0.0, -0.0)]),
        _ => Some(vec![encode(number, narrow)]),
    })
}

/// Returns the Python value of a scalar of NumPy, and other values as they are. Times stay as they
/// are, because NumPy turns some of them into integers without a unit. Texts and bytes stay, too,
/// because `item` removes NULs at their end.
fn of_numpy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = value.py().import("numpy")?;
    let is_a = |name| value.is_instance(&numpy.getattr(name)?);
    let is_whole = is_a("datetime64")? || is_a("timedelta64")? || is_a("character")?;
    if is_a("generic")? && !is_whole { value.call_method0("item") } else { Ok(value.clone()) }
}

/// Returns the plain encoding of an int. The parser of written values checks its range.
fn integer(column: &ParquetColumn, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let number = value.extract::<i128>().map_err(|_| out_of_range("the int is out of the range of every column"))?;
    let encoded = RefCell::new(Vec::new());
    let asked = column.column_type().map(|of| {
        of.encoding(false, None)?.ask(number.to_string().as_bytes(), |bytes| {
            *encoded.borrow_mut() = bytes.to_vec();
            false
        })
    });
    match asked {
        Some(Err(why)) => Err(out_of_range(&why)),
        _ => Ok(encoded.into_inner()),
    }
}

fn out_of_range(why: &str) -> PyErr {
    PyOverflowError::new_err(format!("{why}; give a value in the range"))
}

/// Returns the bytes of a `bytes` or `bytearray`, and `None` for other values.
fn bytes_of_value(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(copied(bytes.as_bytes())?));
    }
    if value.is_instance_of::<PyByteArray>() {
        return Ok(Some(copied(buffer::content(value)?.as_bytes())?));
    }
    Ok(None)
}

fn values(file: File, footer: &Footer) -> Result<ParquetValues<FileStart>, Error> {
    ParquetValues::of(FileStart::new(file, footer.file_len_bytes()), footer)
}

/// Returns the numbers of the leaf columns with these names, each once.
fn leaves_of(footer: &Footer, path: &Path, names: &[String]) -> PyResult<Vec<usize>> {
    let refused = |why: String| Err(PyValueError::new_err(format!("{}: {why}", path.display())));
    let mut found = Vec::new();
    for name in names {
        let mut same = footer.leaves().iter().enumerate().filter(|(_, leaf)| *leaf.path == **name);
        let Some((number, leaf)) = same.next() else {
            let columns: Vec<&str> = footer.leaves().iter().take(20).map(|leaf| &*leaf.path).collect();
            return refused(format!(
                "there is no column {name:?}; choose another column, such as {}",
                columns.join(", ")
            ));
        };
        if same.next().is_some() {
            return refused(format!("several columns have the path {name:?}; rename one of them"));
        }
        if leaf.physical_type == Some(PhysicalType::Boolean) {
            return refused(format!(
                "column {name:?} is Boolean: engines use no filter for two values; omit this column"
            ));
        }
        if !found.contains(&number) {
            found.push(number);
        }
    }
    Ok(found)
}

/// Returns a Parquet file, or the Parquet files in a folder. Each has its path, and its path
/// relative to the folder.
pub fn files_of(path: &Path) -> PyResult<Vec<(PathBuf, Option<PathBuf>)>> {
    if !path.is_dir() {
        if folder::is_companion(path) {
            return Err(PyValueError::new_err(format!(
                "{}: this file has no data, only the footers or the schema of other files; give the files with the data",
                path.display()
            )));
        }
        if !path.exists() && path.to_string_lossy().contains(['*', '?', '[']) {
            let why = "patterns are not expanded; give the folder, or glob.glob(pattern)";
            // The error number of a missing file is 2.
            return Err(PyFileNotFoundError::new_err((2, why, path.as_os_str().to_owned())));
        }
        return Ok(vec![(path.to_path_buf(), None)]);
    }
    let found = folder::files_in(path, folder::EXTENSIONS).map_err(of_parquet)?;
    if found.is_empty() {
        return Err(PyValueError::new_err(format!(
            "{}: the folder has no files *.parquet, *.parq or *.pq; names that begin with a dot or an underscore do not \
             count; give another folder",
            path.display()
        )));
    }
    Ok(found.into_iter().map(|below| (path.join(&below), Some(below))).collect())
}

/// Works like [`files_of`] for all paths.
fn all_files_of(py: Python<'_>, paths: &Names) -> PyResult<Vec<(PathBuf, Option<PathBuf>)>> {
    let mut files = Vec::new();
    for name in &paths.0 {
        files.extend(name.told(py, py.detach(|| files_of(&name.path)))?);
    }
    Ok(files)
}

/// The columns that get filters.
#[derive(Debug, Clone)]
enum Columns {
    Named(Vec<String>),
    /// Those that a check advises.
    Advised,
}

impl Columns {
    fn leaves(&self, footer: &Footer, file: &File, path: &Path, sizing: Sizing) -> PyResult<Vec<usize>> {
        if let Self::Named(names) = self {
            return leaves_of(footer, path, names);
        }
        let leaves: Vec<usize> = (0..footer.leaves().len()).collect();
        let request = check::Request { leaves, sizing, max_fpr: 1.0, looks_up_values: false };
        let checked = run_check(file, footer, &request).map_err(|error| of_parquet(error.in_file(path)))?;
        let ranges = footer.ranges(&request.leaves);
        let mut same: HashMap<&str, usize> = HashMap::new();
        footer.leaves().iter().for_each(|leaf| *same.entry(&leaf.path).or_default() += 1);
        let is_advised = |leaf: &usize| {
            let chunks: Vec<_> = checked.iter().filter(|chunk| chunk.leaf == *leaf).collect();
            let column = footer.leaves().get(*leaf).zip(ranges.get(*leaf));
            column.is_some_and(|(column, ranges)| {
                let is_ambiguous = same.get(&*column.path).is_some_and(|num| *num > 1);
                advice::Column { footer, leaf: *leaf, chunks: &chunks, is_ambiguous, ranges }.is_advised()
            })
        };
        Ok(request.leaves.iter().copied().filter(is_advised).collect())
    }
}

/// Add Bloom filters for columns to Parquet files. The data pages do not change. `path` is a file, a
/// folder or a list of both. In a folder, all files *.parquet, *.parq and *.pq at any depth get
/// filters, except those whose names begin with a dot or an underscore.
///
/// The files with filters are written to `out`, a file or a folder. Or with in_place=True they
/// replace the old files. `columns` is a list of names. Or with advised=True the columns are those
/// for which the command `filterblock parquet check` advises filters: an engine may use them, and
/// readers cannot skip row groups without them. Raises UnsupportedError for a column whose type
/// makes an engine lose rows if it has a filter.
///
/// Looks up every value of the columns in its new filter before the complete new file is renamed.
/// After an exception, each file is as before or complete. Returns a list with a dict for each new
/// filter.
///
/// `error_rate` is the maximum error rate of each filter. `bits_per_value` sets the size of each
/// filter instead. A filter takes at most 128 MiB, even if its error rate is then higher. Without
/// `exact_size`, the size is rounded up to a power of two; some readers do not accept other sizes.
/// `replace` replaces filters that exist. `overwrite` replaces files in `out` that exist.
#[pyfunction]
#[pyo3(
    signature = (path, out=None, columns=None, *, advised=Flag(false), in_place=Flag(false), error_rate=None, bits_per_value=None, exact_size=Flag(false), replace=Flag(false), overwrite=Flag(false), **others),
    text_signature = "(path, out=None, columns=None, *, advised=False, in_place=False, error_rate=0.01, bits_per_value=None, exact_size=False, replace=False, overwrite=False)"
)]
#[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
pub fn parquet_add<'py>(
    py: Python<'py>,
    path: Names,
    out: Option<Name>,
    columns: Option<Texts>,
    advised: Flag,
    in_place: Flag,
    error_rate: Option<ErrorRate>,
    bits_per_value: Option<f64>,
    exact_size: Flag,
    replace: Flag,
    overwrite: Flag,
    others: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    args::refuse_others(py, "parquet_add", others)?;
    let columns = match (columns, advised) {
        (Some(columns), Flag(false)) if columns.0.is_empty() => {
            return Err(PyTypeError::new_err("columns is empty; name a column, or give advised=True"));
        }
        (Some(columns), Flag(false)) => Columns::Named(columns.0),
        (None, Flag(true)) => Columns::Advised,
        _ => {
            return Err(PyTypeError::new_err("give either the columns, for example columns=[\"id\"], or advised=True"));
        }
    };
    if out.is_some() == in_place.0 {
        return Err(PyTypeError::new_err("give either out, the path of the new file or folder, or in_place=True"));
    }
    let budget = match (error_rate, bits_per_value) {
        (Some(_), Some(_)) => {
            return Err(PyTypeError::new_err("error_rate and bits_per_value both choose the size; give one of them"));
        }
        (rate, None) => Budget::Fpr(rate.map_or(0.01, |rate| rate.0)),
        (None, Some(bits)) => Budget::BitsPerValue(bits),
    };
    let sizing = Sizing::new(budget, exact_size.0).map_err(of_parquet)?;
    let files = all_files_of(py, &path)?;
    let targets = match &out {
        None => files.iter().map(|(path, _)| path.clone()).collect(),
        Some(out) => targets_below(py, &path, &out.path, &files)?,
    };
    let mut told = Vec::new();
    for ((file, below), target) in files.into_iter().zip(targets) {
        if let Some((table, format)) = in_place.0.then(|| folder::table_around(&target)).flatten() {
            let text = CString::new(format!(
                "{}: the metadata of this {format} table record the length of each file, so readers may refuse the replaced \
                 files; write new files with out= and register them",
                table.display()
            ))?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        let folder = below.and(target.parent());
        let missing = folder.map(|folder| folder.ancestors().take_while(|folder| !folder.exists()).collect::<Vec<_>>());
        if let Some(folder) = folder {
            fs::create_dir_all(folder).map_err(|error| of_io(&error, Some(folder)))?;
        }
        let work = Work { columns: columns.clone(), sizing, replace: replace.0 };
        let added = path.told(py, work.add(py, file, &target, in_place.0, overwrite.0)).inspect_err(|_| {
            // No empty folder stays. A folder that has other files is not removed.
            missing.iter().flatten().for_each(|folder| drop(fs::remove_dir(folder)));
        });
        let (footer, added) = if let Some(out) = &out { out.told(py, added)? } else { added? };
        for filter in added {
            let found = PyDict::new(py);
            found.set_item("path", target.as_os_str())?;
            found.set_item("row_group", filter.row_group)?;
            found.set_item("column", footer.leaves().get(filter.leaf).map(|leaf| &*leaf.path))?;
            found.set_item("offset", filter.range.offset)?;
            found.set_item("len_bytes", filter.range.len_bytes)?;
            found.set_item("distinct", filter.distinct)?;
            found.set_item("error_rate", filter.fpr)?;
            told.push(found);
        }
    }
    Ok(told)
}

/// Returns the path of each new file in `out`. Raises `ValueError` if a new file would replace an
/// input or another new file, or if `out` lies in a folder of `paths`: the next call would read the
/// new files.
fn targets_below(
    py: Python<'_>,
    paths: &Names,
    out: &Path,
    files: &[(PathBuf, Option<PathBuf>)],
) -> PyResult<Vec<PathBuf>> {
    let real = |path: &Path| py.import("os.path")?.call_method1("realpath", (path,))?.extract::<PathBuf>();
    let refused = |target: &Path, why: &str| {
        Err(PyValueError::new_err(format!(
            "{}: {why}; to replace the files themselves: in_place=True",
            target.display()
        )))
    };
    for Name { path, .. } in &paths.0 {
        if path.is_dir() && real(out)?.starts_with(real(path)?) {
            return refused(out, "the new folder is the old folder or lies in it; choose a folder beside it");
        }
    }
    let mut taken: HashSet<PathBuf> = files.iter().filter_map(|(file, _)| file.canonicalize().ok()).collect();
    let mut targets = Vec::new();
    for (file, below) in files {
        let target = match below {
            Some(below) => out.join(below),
            None if out.is_dir() => out.join(file.file_name().unwrap_or_default()),
            None => out.to_path_buf(),
        };
        if !taken.insert(real(&target)?) {
            return refused(&target, "this file is also an input or the new file of another input; choose another out");
        }
        targets.push(target);
    }
    Ok(targets)
}

/// The filters that each file gets.
struct Work {
    columns: Columns,
    sizing: Sizing,
    replace: bool,
}

impl Work {
    /// Writes `target`, a copy of a file with filters. Returns the footer of the file, and the new
    /// filters. If the file itself is replaced, but gets no filter, writes nothing.
    fn add(
        self,
        py: Python<'_>,
        path: PathBuf,
        target: &Path,
        is_in_place: bool,
        overwrites: bool,
    ) -> PyResult<(Footer, Vec<append::Added>)> {
        let of_target =
            |error: io::Error| advised(py, of_io(&error, Some(target)), "to replace it: overwrite=True", NO_FOLDER);
        // A file is replaced under its lock, so it is locked before it is read.
        let new = py.detach(|| NewFile::beside(target, overwrites || is_in_place)).map_err(of_target)?;
        let copy = new.file().try_clone().map_err(of_target)?;
        let source = path.clone();
        let (version, footer, added) = interrupt::run(py, true, move || {
            let failed = |error: io::Error| of_io(&error, Some(&source));
            let in_file = |error: Error| of_parquet(error.in_file(&source));
            let file = save::open(&source)?;
            let version = Version::of(&file).map_err(failed)?;
            let footer = Footer::read(&mut &file).map_err(in_file)?;
            let leaves = self.columns.leaves(&footer, &file, &source, self.sizing)?;
            let request = Request { leaves, sizing: self.sizing, replace: self.replace, forced: Vec::new() };
            let added = fill(&file, &footer, &request, &copy).map_err(in_file)?;
            Ok::<_, PyErr>((version, footer, added))
        })??;
        if is_in_place && added.is_empty() {
            return Ok((footer, added));
        }
        py.detach(|| {
            // If the file changed while it was copied, the copy may mix two versions of it.
            let is_same = path.canonicalize().is_ok_and(|path| version.is_at(&path));
            if !is_same || is_in_place && !new.replaces(&version) {
                return Err(of_parquet(Error::Changed.in_file(&path)));
            }
            new.publish().map_err(|error| of_io(&error, Some(target)))
        })?;
        Ok((footer, added))
    }
}

/// Copies the file and appends the filters. The filters are built from the values in the copy, so
/// they match the copy even if the file changes meanwhile.
fn fill(mut file: &File, footer: &Footer, request: &Request, mut copy: &File) -> Result<Vec<append::Added>, Error> {
    file.seek(SeekFrom::Start(0)).map_err(Error::Io)?;
    io::copy(&mut file.take(footer.file_len_bytes()), &mut copy).map_err(Error::Io)?;
    if !footer.is_at_end_of(&mut copy)? {
        return Err(Error::Changed);
    }
    let values = values(copy.try_clone().map_err(Error::Io)?, footer);
    append::check_kept(footer, values.as_ref().ok(), request, &mut copy)?;
    if request.chunks(footer).next().is_none() {
        return Ok(Vec::new());
    }
    let values = values?;
    append::add(footer, &values, request, &mut copy, &mut |_| {})
}

/// Check the Bloom filters of Parquet files. `path` is a file, a folder or a list of both. Returns a
/// list with a dict for each column chunk of `columns`, or of all columns.
///
/// "state" is "missing", "damaged", "undersized" (the error rate is above `max_error_rate`),
/// "oversized" (at least four times the size that `error_rate` needs), "unsafe" (an engine loses rows
/// with a filter of the column's type; "error" says which) or "right". With values=True the values
/// are looked up in their filters. If "false_negatives" is above 0, readers of the file can lose
/// rows. If it is None, not all values of the chunk were looked up.
#[pyfunction]
#[pyo3(
    signature = (path, columns=None, *, error_rate=ErrorRate(0.01), max_error_rate=0.06, values=Flag(false)),
    text_signature = "(path, columns=None, *, error_rate=0.01, max_error_rate=0.06, values=False)"
)]
pub fn parquet_check<'py>(
    py: Python<'py>,
    path: Names,
    columns: Option<Texts>,
    error_rate: ErrorRate,
    max_error_rate: f64,
    values: Flag,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let columns = columns.map(|columns| columns.0);
    let sizing = Sizing::new(Budget::Fpr(error_rate.0), false).map_err(of_parquet)?;
    if !(0.0..=1.0).contains(&max_error_rate) {
        return Err(PyValueError::new_err("max_error_rate must be from 0 to 1; pass for example 0.06"));
    }
    let mut told = Vec::new();
    for (file, _) in all_files_of(py, &path)? {
        let (source, columns) = (file.clone(), columns.clone());
        let checked = interrupt::run(py, true, move || {
            let path = source.as_path();
            let file = save::open(path)?;
            let footer = Footer::read(&mut &file).map_err(|error| of_parquet(error.in_file(path)))?;
            let leaves = match &columns {
                Some(names) => leaves_of(&footer, path, names)?,
                None => (0..footer.leaves().len()).collect(),
            };
            let request = check::Request { leaves, sizing, max_fpr: max_error_rate, looks_up_values: values.0 };
            let checked = run_check(&file, &footer, &request).map_err(|error| of_parquet(error.in_file(path)))?;
            Ok::<_, PyErr>((footer, checked))
        })?;
        let (footer, checked) = path.told(py, checked)?;
        for chunk in &checked {
            told.push(told_of_chunk(py, &footer, chunk, &file)?);
        }
    }
    Ok(told)
}

fn run_check(file: &File, footer: &Footer, request: &check::Request) -> Result<Vec<check::CheckedChunk>, Error> {
    let source = values(file.try_clone().map_err(Error::Io)?, footer);
    let source = if request.looks_up_values { Some(source?) } else { source.ok() };
    let mut file = file;
    check::check(footer, source.as_ref(), request, &mut file, &mut |_| {})
}

fn told_of_chunk<'py>(
    py: Python<'py>,
    footer: &Footer,
    chunk: &check::CheckedChunk,
    path: &Path,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("path", path.as_os_str())?;
    told.set_item("row_group", chunk.row_group)?;
    told.set_item("column", footer.leaves().get(chunk.leaf).map(|leaf| &*leaf.path))?;
    told.set_item("distinct", chunk.distinct)?;
    told.set_item("unread", chunk.unread.as_ref().map(ToString::to_string))?;
    let state = match &chunk.state {
        State::Missing => "missing",
        State::Damaged { range, error } => {
            told.set_item("offset", range.offset)?;
            told.set_item("error", error.to_string())?;
            "damaged"
        }
        State::Sound(filter) => {
            told.set_item("offset", filter.offset)?;
            told.set_item("len_bytes", filter.len_bytes)?;
            told.set_item("error_rate", filter.fpr)?;
            told.set_item("false_negatives", filter.false_negatives)?;
            match (filter.loss, filter.size) {
                (Some(loss), _) => {
                    told.set_item("error", format!("the column has {loss}"))?;
                    "unsafe"
                }
                (None, Size::Right) => "right",
                (None, Size::Oversized) => "oversized",
                (None, Size::Undersized) => "undersized",
            }
        }
    };
    told.set_item("state", state)?;
    Ok(told)
}
