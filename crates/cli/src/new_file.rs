//! Writes output files atomically: a file appears complete or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::failure::{Failure, Outcome};
use super::interrupt::Temporary;
use super::kept::Kept;
use super::output::message;
use filterblock::Error;

/// The maximum number of symbolic links in a chain.
const LINKS_MAX: usize = 40;
/// Temporary files have this prefix and random characters. A name derived from the target's name
/// could exceed the length limit of the file system.
const PREFIX: &str = ".filterblock.";

/// An output file. A command that ends early removes its temporary file, but SIGKILL or a crash may
/// leave it.
#[derive(Debug)]
pub struct NewFile {
    /// The path as the user gave it.
    path: PathBuf,
    /// The end of the chain of symbolic links that begins at `path`, or `path` if it is no link.
    target: PathBuf,
    /// Whether an existing file may be replaced, for example with --force.
    replace: bool,
}

impl NewFile {
    /// Checks that the file can be created: makes a temporary file in its directory and removes it.
    /// Follows symbolic links: the file replaces their target.
    ///
    /// # Errors
    /// Returns an error if the file exists and `replace` is not set, if it is not a regular file,
    /// or if the check fails. Also returns an error for `-`, which means stdout in other commands.
    pub fn create(path: &Path, replace: bool) -> Outcome<Self> {
        if path.as_os_str() == "-" {
            return Err(Failure::Message(
                "-: this output cannot go to standard output; give a file, or ./- for a file of this name".into(),
            ));
        }
        match path.metadata() {
            Ok(found) if !found.is_file() => {
                return Err(Failure::Message(format!(
                    "{}: not a regular file, so the command does not replace it; choose another output file",
                    path.display()
                )));
            }
            Ok(_) if !replace => return Err(exists(path)),
            // The kernel may refuse to follow a link that another user planted in a shared
            // directory. So this error is returned before the command follows links itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Failure::file(path, error)),
            Ok(_) | Err(_) => {}
        }
        let file = Self { path: path.to_path_buf(), target: follow_links(path)?, replace };
        open_dir_of(&file.target)?;
        // The temporary file is removed immediately. Making it is the check.
        file.temporary()?;
        Ok(file)
    }

    /// Returns the path as the user gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Decides whether a filter without keys may be written. Returns an error if the filter would
    /// replace an existing file and `is_allowed` is false: the new filter could deny every key of
    /// the old one. Otherwise prints a message that contains `why`.
    pub fn judge_empty(&self, why: &str, is_allowed: bool) -> Outcome<()> {
        let path = self.path.display();
        if self.replaced().is_some() && !is_allowed {
            return Err(Failure::Message(format!(
                "{path}: {why}; the file is unchanged; to replace it with an empty filter, add --allow-empty"
            )));
        }
        message(format_args!("{path}: {why}; the filter is empty; check the input"));
        Ok(())
    }

    /// Returns an error if both options name the same file, which can have only one content.
    pub fn refuse_same(&self, option: &str, other: &Self, other_option: &str) -> Outcome<()> {
        let (path, mine, theirs) = (self.path.display(), self.place(), other.place());
        if mine.is_some() && mine == theirs {
            return Err(Failure::Message(format!(
                "{path}: both {option} and {other_option} name this file; give each option its own file"
            )));
        }
        Ok(())
    }

    /// Returns the canonical path of the target's directory, and the target's file name. Returns
    /// `None` if the directory cannot be resolved or there is no file name.
    fn place(&self) -> Option<(PathBuf, &OsStr)> {
        parent(&self.target).canonicalize().ok().zip(self.target.file_name())
    }

    /// Returns the metadata of the file that will be replaced, or `None` if there is none.
    fn replaced(&self) -> Option<Metadata> {
        self.target.metadata().ok().filter(|_| self.replace)
    }

    /// Returns an error if the output file is one of `inputs`. With `--force`, a typing mistake
    /// would otherwise destroy the only copy of the input.
    pub fn refuse_inputs<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> Outcome<()> {
        let Ok(target) = self.target.canonicalize() else { return Ok(()) };
        let is_target = |input: &&Path| input.canonicalize().is_ok_and(|input| input == target);
        match inputs.into_iter().find(is_target) {
            Some(_) => {
                let path = self.path.display();
                Err(Failure::Message(format!("{path}: the output file is also an input; choose another output file")))
            }
            None => Ok(()),
        }
    }

    /// Makes an empty temporary file in the directory of the target. The file is removed on drop.
    /// If it will replace a file, it already has the attributes of that file (see [`Kept`]).
    fn temporary(&self) -> Outcome<Temporary<NamedTempFile>> {
        let path = &self.target;
        if path.file_name().is_none() {
            return Err(Failure::Message(format!(
                "{}: this path has no file name; give a file, not a directory",
                path.display()
            )));
        }
        let kept = self.replaced().map(|found| Kept::of(&self.path, path, &found)).transpose()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(".tmp");
        #[cfg(unix)]
        {
            // 0666 is the mode of a plain create; the umask removes bits from it.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(if kept.is_some() { 0o600 } else { 0o666 }));
        }
        let temporary = Temporary::make(|| builder.tempfile_in(parent(path)));
        let temporary = temporary.map_err(|error| {
            let (path, error) = (path.display(), Error::from(without_path(error)));
            Failure::Message(format!("{path}: cannot make a temporary file in the directory of this file: {error}"))
        })?;
        if let Some(kept) = kept {
            kept.give(&self.path, temporary.as_file())?;
        }
        Ok(temporary)
    }

    /// Writes the whole content, makes it durable, and renames the file to its target.
    pub fn publish(self, content: &[u8]) -> Outcome<()> {
        let target = self.target.clone();
        self.publish_with(
            |mut file| file.write_all(content).map_err(|error| Failure::file(&target, without_path(error))),
            |()| Ok(()),
        )
    }

    /// Lets `write` fill the new file, makes it durable, and renames it to its target if `check`
    /// succeeds. After an error the target is unchanged, unless only the sync of the directory
    /// failed: then the target is the new file.
    pub fn publish_with<T>(
        self,
        write: impl FnOnce(&File) -> Outcome<T>,
        check: impl FnOnce(&T) -> Outcome<()>,
    ) -> Outcome<T> {
        let in_file = |error| Failure::file(&self.target, without_path(error));
        let dir = open_dir_of(&self.target)?;
        let temporary = self.temporary()?;
        let written = write(temporary.as_file())?;
        temporary.as_file().sync_all().map_err(in_file)?;
        check(&written)?;
        let named = temporary.finish(|made| match self.replace {
            true => made.persist(&self.target).map_err(|refused| refused.error),
            false => made.persist_noclobber(&self.target).map_err(|refused| refused.error),
        });
        match named {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&self.target)),
            Err(error) => return Err(in_file(error)),
        }
        // Syncing the directory makes the name durable too.
        dir.map_or(Ok(()), |dir| dir.sync_all()).map_err(|error| {
            let path = self.target.display();
            Failure::Message(format!(
                "{path}: the file is written, but its directory could not be synced: {error}; a machine crash may undo \
                 the write, so check the device"
            ))
        })?;
        Ok(written)
    }
}

/// Returns the end of the chain of symbolic links that begins at `path`, or `path` if it is no
/// link. The file need not exist. A rename onto a link would replace the link instead of its
/// target.
fn follow_links(path: &Path) -> Outcome<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..=LINKS_MAX {
        // Most errors mean that `target` is not a link. Any other error occurs again when the file
        // is created.
        let Ok(next) = fs::read_link(&target) else { return Ok(target) };
        target = parent(&target).join(next);
    }
    Err(Failure::Message(format!(
        "{}: more than {LINKS_MAX} symbolic links in a row; give the path of the file itself",
        path.display()
    )))
}

/// Removes the name of the temporary file from an error. The tempfile crate puts this name into the
/// text of the error, but the user never gave it.
pub fn without_path(error: io::Error) -> io::Error {
    match error.to_string().split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

fn exists(path: &Path) -> Failure {
    Failure::Message(format!("{}: the file exists; to replace it, add --force", path.display()))
}

/// Returns the directory of a file, which is `.` for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Opens the directory of a file for a sync, which makes a new name in it durable. Returns `None`
/// on systems other than Unix.
fn open_dir_of(path: &Path) -> Outcome<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let opened = File::open(parent(path));
    opened.map(Some).map_err(|error| {
        Failure::Message(format!("{}: cannot open the directory of this file: {}", path.display(), Error::from(error)))
    })
}
