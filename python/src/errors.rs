//! Turns the errors of the crates into exceptions. `lib/filterblock/_errors.py` defines the
//! classes.

use std::fmt::Display;
use std::io::{self, Read, Seek, SeekFrom};
use std::iter;
use std::path::Path;

use filterblock_family as variants;
use filterblock_foreign::{self as foreign, FileKind};
use filterblock_parquet as parquet;
use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyMemoryError, PyOSError, PyValueError};
use pyo3::types::PyAnyMethods;
use pyo3::{PyErr, Python};

/// The classes that Python defines.
mod classes {
    use pyo3::import_exception;

    import_exception!(filterblock._errors, Error);
    import_exception!(filterblock._errors, DamagedError);
    import_exception!(filterblock._errors, UnsupportedError);
    import_exception!(filterblock._errors, UnexpectedError);
    import_exception!(filterblock._errors, SecretError);
    import_exception!(filterblock._errors, LockedError);
    import_exception!(filterblock._errors, DisplacedError);
    import_exception!(filterblock._errors, ReadOnlyError);
}

/// Returns the exception for a file that another writer has open, or that the parent process
/// opened.
pub fn locked(message: String) -> PyErr {
    classes::LockedError::new_err(message)
}

/// Returns the exception of a bug of the library.
pub fn panicked(message: &'static str) -> PyErr {
    classes::Error::new_err(message)
}

/// Returns the exception of an I/O error. Python chooses the subclass of `OSError` by the error
/// number, if the error has one.
pub fn of_io(error: &io::Error, path: Option<&Path>) -> PyErr {
    match (number_of(error), path) {
        (Some(number), Some(path)) => PyOSError::new_err((number, text_of(number), path.as_os_str().to_owned())),
        (Some(number), None) => PyOSError::new_err((number, text_of(number))),
        (None, Some(path)) => PyOSError::new_err(format!("{}: {error}", path.display())),
        (None, None) => PyOSError::new_err(error.to_string()),
    }
}

/// What to do if a new file cannot be made because its folder is missing.
pub const NO_FOLDER: &str = "make its folder first";

/// Adds to an `OSError` about a file that exists, or is missing, what to do next.
pub fn advised(py: Python<'_>, error: PyErr, if_exists: &str, if_missing: &str) -> PyErr {
    // The type of a new exception is `OSError`. Its value has the subclass.
    let value = error.value(py);
    let next = match () {
        () if value.is_instance_of::<PyFileExistsError>() => if_exists,
        () if value.is_instance_of::<PyFileNotFoundError>() => if_missing,
        () => "",
    };
    if !next.is_empty() {
        let text = value.getattr("strerror").map_or_else(|_| String::new(), |text| text.to_string());
        // Without memory, the exception keeps its text.
        let _ = value.setattr("strerror", format!("{text}; {next}"));
    }
    error
}

/// Adds to a `DamagedError` how to open the file, if the file is not of the type of `class`.
pub fn with_type(py: Python<'_>, error: PyErr, path: &Path, class: &str) -> PyErr {
    if let Some((found, how)) = type_of(path)
        && found != class
        && error.is_instance_of::<classes::DamagedError>(py)
    {
        let value = error.value(py);
        // Without memory, the exception keeps its text.
        let _ = value.setattr("args", (format!("{value}; the file looks like {how}"),));
    }
    error
}

/// Returns the class of a file by its first and last bytes, and what the file is.
pub fn type_of(path: &Path) -> Option<(&'static str, &'static str)> {
    let (mut front, mut back) = ([0; 8], [0; 8]);
    let mut file = filterblock::open_regular_file(path).ok()?;
    file.read_exact(&mut front).ok()?;
    file.seek(SeekFrom::End(-8)).ok()?;
    file.read_exact(&mut back).ok()?;
    match FileKind::of(&[front, back].concat()) {
        _ if front == *b"\x89FLBfile" => Some(("FileFilter", "a FileFilter: use FileFilter.open")),
        _ if front.starts_with(&parquet::index::MAGIC) => Some(("Index", "an index: use filterblock.index.open")),
        _ if back.ends_with(&filterblock::layout::MAGIC) => Some(("Filter", "a filter block: use Filter.open")),
        Some(FileKind::ParquetFile) => {
            Some(("ParquetFile", "a Parquet file: use filterblock.parquet.ParquetFile.open"))
        }
        Some(FileKind::LevelDbTable) => Some(("LevelDbTable", "a LevelDB table: use LevelDbTable.open")),
        Some(FileKind::RocksDbTable) => Some(("RocksDbTable", "a RocksDB table: use RocksDbTable.open")),
        None => None,
    }
}

/// Returns the error number of the operating system. If Rust code made the error, returns the first
/// number that has the same `ErrorKind`. Returns `None` if there is no such number, or if the text
/// of the error says more than a number.
fn number_of(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let by_kind = |number: &i32| io::Error::from_raw_os_error(*number).kind() == error.kind();
        // For these kinds only the text says what failed, and a number would replace the text.
        let has_text = matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::InvalidInput);
        // Linux has the error numbers 1 to 133. A file without permission gives EACCES, which is 13, not EPERM.
        if has_text { None } else { iter::once(13).chain(1..=133).find(by_kind) }
    })
}

/// Returns the error text of the operating system without the number, because Python adds the
/// number.
fn text_of(number: i32) -> String {
    let text = io::Error::from_raw_os_error(number).to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

fn damaged(message: String, path: Option<&Path>, field: impl Display, offset: u64) -> PyErr {
    classes::DamagedError::new_err((message, path.map(Path::to_path_buf), field.to_string(), offset))
}

/// Returns the exception of an error of a filter block.
pub fn of_block(error: filterblock::Error) -> PyErr {
    use filterblock::Error as E;
    let path = if let E::InFile { path, .. } = &error { Some(path.as_path()) } else { None };
    of_core(error.root(), error.to_string(), path)
}

fn of_core(root: &filterblock::Error, message: String, path: Option<&Path>) -> PyErr {
    use filterblock::Error as E;
    match root {
        E::Io(error) => of_io(error, path),
        E::Corrupt { field, offset } | E::ChecksumMismatch { field, offset, .. } => {
            damaged(message, path, field, *offset)
        }
        E::Unsupported { .. } => classes::UnsupportedError::new_err(message),
        E::Secret { .. } => classes::SecretError::new_err(message),
        E::Unexpected { .. } => classes::UnexpectedError::new_err(message),
        // A builder says so if the keys or the filter do not fit in memory.
        E::Invalid { what: "filter", reason, .. } if reason.contains("memory") => PyMemoryError::new_err(message),
        E::Invalid { .. } => PyValueError::new_err(message),
        E::TooLarge { .. } => PyMemoryError::new_err(message),
        _ => classes::Error::new_err(message),
    }
}

/// Returns the exception of an error of the module [`variants`].
pub fn of_variant(error: variants::Error) -> PyErr {
    use variants::Error as E;
    let path = if let E::InFile { path, .. } = &error { Some(path.as_path()) } else { None };
    let message = error.to_string();
    match error.root() {
        E::Io(error) => of_io(error, path),
        E::Corrupt { field, offset } | E::ChecksumMismatch { field, offset, .. } => {
            damaged(message, path, field, *offset)
        }
        E::Unsupported { .. } => classes::UnsupportedError::new_err(message),
        E::Locked => locked(message),
        E::Displaced { .. } | E::Poisoned { .. } => classes::DisplacedError::new_err(message),
        E::ReadOnly => classes::ReadOnlyError::new_err(message),
        E::Invalid { .. } | E::Unlike { .. } => PyValueError::new_err(message),
        E::TooLarge { .. } => PyMemoryError::new_err(message),
        E::Filter(error) => of_core(error, message, path),
        _ => classes::Error::new_err(message),
    }
}

/// Returns the exception of an error of a LevelDB or RocksDB table.
pub fn of_foreign(error: foreign::Error) -> PyErr {
    use foreign::Error as E;
    let path = if let E::InFile { path, .. } = &error { Some(path.as_path()) } else { None };
    let message = error.to_string();
    match error.root() {
        E::Io(error) => of_io(error, path),
        E::Corrupt { field, offset } | E::ChecksumMismatch { field, offset, .. } => {
            damaged(message, path, field, *offset)
        }
        E::Unsupported { .. } => classes::UnsupportedError::new_err(message),
        E::Invalid { .. } => PyValueError::new_err(message),
        E::Filter(error) => of_core(error, message, path),
        _ => classes::Error::new_err(message),
    }
}

/// Returns the exception of an error of the crate `filterblock-parquet`.
pub fn of_parquet(error: parquet::Error) -> PyErr {
    use parquet::Error as E;
    let path = if let E::InFile { path, .. } = &error { Some(path.as_path()) } else { None };
    let message = error.to_string();
    match error.root() {
        E::Io(error) => of_io(error, path),
        E::Corrupt { field, offset } => damaged(message, path, field, *offset),
        E::ChunkMismatch { offset, .. } => damaged(message, path, "column chunk", *offset),
        E::DamagedIndex { part, offset, .. } => damaged(message, path, part, *offset),
        E::TooLarge { .. } => PyMemoryError::new_err(message),
        E::Unsupported { .. } => classes::UnsupportedError::new_err(message),
        E::Invalid { .. } => PyValueError::new_err(message),
        _ => classes::Error::new_err(message),
    }
}
