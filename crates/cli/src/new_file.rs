//! Files that appear whole or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::failure::{Failure, Outcome};
use super::interrupt::Temporary;
use super::kept::Kept;
use super::output::message;

/// Symbolic links followed one after the other, as many as Linux follows.
const LINKS_MAX: usize = 40;
/// Temporary files are named by this and random letters, whatever the target is called: a name that was made of the
/// target's could be longer than the file system allows.
const PREFIX: &str = ".filterblock.";

/// A file to be made: it appears whole or not at all, and whatever ends the command before leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    /// As it was given.
    path: PathBuf,
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
            // The kernel may refuse to follow a link that another user planted in a shared directory. Only a missing file
            // lets the command follow the links itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Failure::file(path, error)),
            Ok(_) | Err(_) => {}
        }
        let file = Self { path: path.to_path_buf(), target: follow_links(path)?, replace };
        open_dir_of(&file.target)?;
        // Made and removed at once: it only shows that there is a directory that can be written to.
        file.temporary()?;
        Ok(file)
    }

    /// Decides on a filter without keys. More often than not its input failed. A new filter is still made, with a
    /// message; a filter that is in use would begin to deny every key that it knew.
    pub fn judge_empty(&self, why: &str, is_allowed: bool) -> Outcome<()> {
        let path = self.path.display();
        if self.replaced().is_some() && !is_allowed {
            return Err(Failure::Message(format!(
                "{path}: {why}; the file stays as it is. --allow-empty replaces it by a filter without keys"
            )));
        }
        message(format_args!("{path}: {why}; the filter has no keys to know"));
        Ok(())
    }

    /// Refuses two options that name one file: the second content would replace the first.
    pub fn refuse_same(&self, option: &str, other: &Self, other_option: &str) -> Outcome<()> {
        let (path, mine, theirs) = (self.path.display(), self.place(), other.place());
        if mine.is_some() && mine == theirs {
            return Err(Failure::Message(format!(
                "{path}: {option} and {other_option} name this file; give each its own"
            )));
        }
        Ok(())
    }

    /// The directory without links, and the name in it.
    fn place(&self) -> Option<(PathBuf, &OsStr)> {
        parent(&self.target).canonicalize().ok().zip(self.target.file_name())
    }

    fn replaced(&self) -> Option<Metadata> {
        self.target.metadata().ok().filter(|_| self.replace)
    }

    /// Refuses to replace a file that the command reads: `--force` on a slip of the pen would cost the only copy.
    pub fn refuse_inputs<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> Outcome<()> {
        let Ok(target) = self.target.canonicalize() else { return Ok(()) };
        let is_target = |input: &&Path| input.canonicalize().is_ok_and(|input| input == target);
        match inputs.into_iter().find(is_target) {
            Some(_) => {
                let path = self.path.display();
                Err(Failure::Message(format!("{path}: the file is read and would be replaced; write another one")))
            }
            None => Ok(()),
        }
    }

    /// A file beside the target, which is removed when it is dropped. Its mode, owner and access list are those of the
    /// file that it is to replace, before a byte is in it.
    fn temporary(&self) -> Outcome<Temporary<NamedTempFile>> {
        let path = &self.target;
        if path.file_name().is_none() {
            return Err(Failure::Message(format!("{}: not a file name", path.display())));
        }
        let kept = self.replaced().map(|found| Kept::of(&self.path, path, &found)).transpose()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(".tmp");
        #[cfg(unix)]
        {
            // What a plain create would ask for; the umask takes its part away.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(if kept.is_some() { 0o600 } else { 0o666 }));
        }
        let temporary = Temporary::make(|| builder.tempfile_in(parent(path)));
        let temporary = temporary.map_err(|error| Failure::file(path, without_path(error)))?;
        if let Some(kept) = kept {
            kept.give(&self.path, temporary.as_file())?;
        }
        Ok(temporary)
    }

    /// Writes the whole content, makes it durable, and gives the file its name.
    pub fn publish(self, content: &[u8]) -> Outcome<()> {
        let in_file = |error| Failure::file(&self.target, without_path(error));
        let dir = open_dir_of(&self.target)?;
        let temporary = self.temporary()?;
        let mut file = temporary.as_file();
        file.write_all(content).and_then(|()| file.sync_all()).map_err(in_file)?;
        let named = temporary.finish(|made| match self.replace {
            true => made.persist(&self.target).map_err(|refused| refused.error),
            false => made.persist_noclobber(&self.target).map_err(|refused| refused.error),
        });
        match named {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&self.target)),
            Err(error) => return Err(in_file(error)),
        }
        // Makes the name durable too.
        dir.map_or(Ok(()), |dir| dir.sync_all()).map_err(|error| {
            let path = self.target.display();
            Failure::Message(format!("{path}: the file is written, but may be lost if the machine fails: {error}"))
        })
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

/// Opens the directory of a file, so that a new name in it can be made durable; none where directories cannot be opened.
/// A directory that may be written to and not be read is an error before anything is written.
fn open_dir_of(path: &Path) -> Outcome<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let opened = File::open(parent(path));
    opened.map(Some).map_err(|error| Failure::Message(format!("{}: opening its directory: {error}", path.display())))
}
