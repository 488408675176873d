//! What the command writes: messages, buffered stdout, and files that appear whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use super::failure::{Failure, Outcome};

/// Large enough that a line of output costs no system call of its own.
const BUFFER_LEN_BYTES: usize = 1 << 16;

/// Says something to the user, on stderr.
pub fn message(text: impl std::fmt::Display) {
    anstream::eprintln!("filterblock: {text}");
}

/// Stdout behind a buffer; to be flushed by its user, so that a failure is seen.
pub fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(BUFFER_LEN_BYTES, io::stdout().lock())
}

/// Prints `text` as it is.
pub fn print(text: &str) -> Outcome<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::stdout)
}

/// Prints a report as indented JSON.
pub fn print_json(report: &impl Serialize) -> Outcome<()> {
    print(&json(report)?)
}

/// A report as indented JSON, with a newline at its end.
pub fn json(report: &impl Serialize) -> Outcome<String> {
    let mut text = serde_json::to_string_pretty(report).map_err(|error| Failure::Message(error.to_string()))?;
    text.push('\n');
    Ok(text)
}

/// A file in the making: a temporary beside it, which a failure on the way leaves no trace of.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    temporary: NamedTempFile,
    replace: bool,
}

impl NewFile {
    /// Makes the temporary. An existing `path` is refused now, before any work, unless it is to be replaced; what is
    /// no regular file (a directory, a device) is never replaced.
    pub fn create(path: &Path, replace: bool) -> Outcome<Self> {
        match path.symlink_metadata() {
            Ok(_) if !replace => return Err(exists(path)),
            Ok(found) if !found.is_file() && !found.is_symlink() => {
                return Err(Failure::Message(format!("{}: not a regular file; it is left as it is", path.display())));
            }
            _ => {}
        }
        let name = path.file_name().ok_or_else(|| Failure::Message(format!("{}: not a file name", path.display())))?;
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}.", name.to_string_lossy());
        builder.prefix(&prefix).suffix(".tmp");
        #[cfg(unix)]
        {
            // What a plain create would ask for; the umask takes its part away.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let temporary = builder.tempfile_in(parent(path)).map_err(|error| Failure::file(path, error))?;
        Ok(Self { path: path.to_path_buf(), temporary, replace })
    }

    /// Writes the whole content, makes it durable, and gives the file its name.
    pub fn publish(mut self, content: &[u8]) -> Outcome<()> {
        let file = self.temporary.as_file_mut();
        file.write_all(content).and_then(|()| file.sync_all()).map_err(|error| Failure::file(&self.path, error))?;
        let renamed = match self.replace {
            true => self.temporary.persist(&self.path),
            false => self.temporary.persist_noclobber(&self.path),
        };
        match renamed {
            Ok(_) => {}
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&self.path)),
            Err(refused) => return Err(Failure::file(&self.path, refused.error)),
        }
        sync_dir(parent(&self.path)).map_err(|error| Failure::file(&self.path, error))
    }
}

fn exists(path: &Path) -> Failure {
    Failure::Message(format!("{}: the file exists; --force replaces it", path.display()))
}

/// The directory of a file; a bare name lies in the working directory.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Makes the rename durable, where directories can be opened.
fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}
