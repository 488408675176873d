//! What the command writes: messages, buffered stdout, and files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use super::failure::{Failure, Outcome};

/// Large enough that a line of output costs no system call of its own.
const BUFFER_LEN_BYTES: usize = 1 << 16;
/// Symbolic links followed one after the other, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Says something to the user, on stderr.
pub fn message(text: impl std::fmt::Display) {
    // A message that nobody can be told must not end the command: what it does and its exit status stay.
    let _ = writeln!(anstream::stderr(), "filterblock: {text}");
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

/// Writes bytes that are no text to stdout, which must not be a terminal.
pub fn print_binary(bytes: &[u8]) -> Outcome<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::stdout)
}

/// Refuses to write what is no text to a terminal.
pub fn refuse_terminal() -> Outcome<()> {
    match io::stdout().is_terminal() {
        true => Err(Failure::Message("standard output: a terminal; redirect the block to a file or a pipe".into())),
        false => Ok(()),
    }
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

/// A file to be made: it appears whole or not at all, and whatever ends the command before leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    /// Behind any symbolic links.
    target: PathBuf,
    replace: bool,
}

impl NewFile {
    /// Checks, before any work, that the file can be made. An existing one is refused unless it is to be replaced; what
    /// is no regular file (a directory, a device, a pipe) is never replaced. Symbolic links are followed and stay.
    pub fn create(path: &Path, replace: bool) -> Outcome<Self> {
        match path.metadata() {
            Ok(found) if !found.is_file() => {
                return Err(Failure::Message(format!("{}: not a regular file; it is left as it is", path.display())));
            }
            Ok(_) if !replace => return Err(exists(path)),
            _ => {}
        }
        let file = Self { target: follow_links(path)?, replace };
        // Made and removed at once: it only shows that there is a directory that can be written to.
        file.temporary()?;
        Ok(file)
    }

    /// A file beside the target, which is removed when it is dropped.
    fn temporary(&self) -> Outcome<NamedTempFile> {
        let path = &self.target;
        let name = path.file_name().ok_or_else(|| Failure::Message(format!("{}: not a file name", path.display())))?;
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}.", name.to_string_lossy());
        builder.prefix(&prefix).suffix(".tmp");
        #[cfg(unix)]
        {
            // What a plain create would ask for; the umask takes its part away.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        builder.tempfile_in(parent(path)).map_err(|error| Failure::file(path, without_path(error)))
    }

    /// Writes the whole content, makes it durable, and gives the file its name.
    pub fn publish(self, content: &[u8]) -> Outcome<()> {
        let mut temporary = self.temporary()?;
        let file = temporary.as_file_mut();
        let written = file.write_all(content).and_then(|()| file.sync_all());
        written.map_err(|error| Failure::file(&self.target, without_path(error)))?;
        let renamed = match self.replace {
            true => temporary.persist(&self.target),
            false => temporary.persist_noclobber(&self.target),
        };
        match renamed {
            Ok(_) => {}
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&self.target)),
            Err(refused) => return Err(Failure::file(&self.target, refused.error)),
        }
        sync_dir(parent(&self.target)).map_err(|error| Failure::file(&self.target, error))
    }
}

/// The file that `path` leads to, which need not exist: a rename would replace a link, not what it points to.
fn follow_links(path: &Path) -> Outcome<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        // An error says that this is no link; any other reason comes up again when the file is made.
        let Ok(next) = fs::read_link(&target) else { return Ok(target) };
        target = parent(&target).join(next);
    }
    Err(Failure::Message(format!("{}: too many symbolic links", path.display())))
}

/// The error without the name of a temporary file, which the user never gave; its crate only has it as text.
pub fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
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
