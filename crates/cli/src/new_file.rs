//! Writes output files atomically: a file appears complete or not at all.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::interrupt::Temporary;
use crate::prelude::*;
use filterblock::Error;
use filterblock_family::replace::{Kept, Place, Version, dir_of, displaced_in, is_displaced};

/// Temporary files have this prefix and random characters. A name derived from the target's name
/// could exceed the length limit of the file system.
const PREFIX: &str = ".filterblock.";

thread_local! {
    /// The last directory of an output, and its files that a replacement displaced.
    static DISPLACED: RefCell<(PathBuf, Vec<OsString>)> = RefCell::default();
}

/// An output file. If it replaces a file, that file is locked, so that no other command replaces it
/// too. A command that ends early removes its temporary file, but SIGKILL or a crash may leave it.
pub struct NewFile {
    /// The path as the user gave it.
    path: PathBuf,
    place: Place,
    /// Whether an existing file may be replaced, for example with --force.
    replace: bool,
}

impl NewFile {
    /// Locks the file that will be replaced, and checks that the file can be created: makes a
    /// temporary file in its directory and removes it. Follows symbolic links: the file replaces
    /// their target. A command that also reads the old file reads it after this call.
    ///
    /// # Errors
    /// Returns an error if the file exists and `replace` is not set, if it is not a regular file or
    /// another command has locked it, or if the check fails. Also returns an error for `-`, which
    /// means stdout in other commands.
    pub fn create(path: &Path, replace: bool) -> Outcome<Self> {
        if path.as_os_str() == "-" {
            return fail("-: this output cannot go to standard output; give a file, or ./- for a file of this name");
        }
        // The file to which the shell redirects a stream would be replaced with all that it holds.
        let streams = ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
        if streams.iter().any(|stream| path.starts_with(stream)) {
            return refuse(
                path,
                "this output cannot go to an open stream; give a file, or - where the command takes it",
            );
        }
        match path.metadata() {
            Ok(found) if !found.is_file() => {
                return refuse(
                    path,
                    "not a regular file, so the command does not replace it; choose another output file",
                );
            }
            Ok(_) if !replace => return Err(exists(path)),
            // The kernel may refuse to follow a link that another user planted in a shared
            // directory. So this error is returned before the command follows links itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Failure::file(path, error)),
            Ok(_) | Err(_) => {}
        }
        let place = Place::lock(path).map_err(|error| of_file(path, error))?;
        if place.old().is_some() && !replace {
            return Err(exists(path));
        }
        let file = Self { path: path.to_path_buf(), place, replace };
        check_dir_of(file.place.path())?;
        file.place.notes().iter().for_each(|text| note(path, text));
        file.name_displaced();
        // The temporary file is removed immediately. Making it is the check.
        file.temporary()?;
        Ok(file)
    }

    /// Names the files that an earlier replacement of this file displaced.
    fn name_displaced(&self) {
        let target = self.place.path();
        DISPLACED.with_borrow_mut(|(dir, names)| {
            if *dir != dir_of(target) {
                (*dir, *names) = (dir_of(target).to_path_buf(), displaced_in(dir_of(target)));
            }
            for name in names.iter().filter(|name| is_displaced(name, target)) {
                let (path, name) = (self.path.display(), target.with_file_name(name));
                message(format_args!(
                    "{path}: an earlier command left {}, which may be the newest version of this file; compare both \
                     files, keep the right one under the old name, and remove the other",
                    name.display()
                ));
            }
        });
    }

    /// Returns an error unless the file that will be replaced has this version.
    pub fn check_replaces(&self, read: &Version) -> Outcome<()> {
        match self.place.old() {
            Some((_, old)) if old == read => Ok(()),
            _ => Err(filterblock_parquet::Error::Changed.in_file(&self.path).into()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Decides whether a filter without keys may be written. Returns an error if the filter would
    /// replace an existing file and `is_allowed` is false: the new filter could deny every key of
    /// the old one. Otherwise prints a message that contains `why`.
    pub fn judge_empty(&self, why: &str, is_allowed: bool) -> Outcome<()> {
        if self.replaced().is_some() && !is_allowed {
            return refuse(
                &self.path,
                format!("{why}; the file is unchanged; to replace it with an empty filter, add --allow-empty"),
            );
        }
        note(&self.path, format!("{why}; the filter is empty; check the input"));
        Ok(())
    }

    /// Returns the file that will be replaced, or `None` if there is none.
    fn replaced(&self) -> Option<&File> {
        self.place.old().map(|(old, _)| old)
    }

    /// Returns an error if the output file is one of `inputs`. With `--force`, a typing mistake
    /// would otherwise destroy the only copy of the input.
    pub fn refuse_inputs<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> Outcome<()> {
        let Ok(target) = self.place.path().canonicalize() else { return Ok(()) };
        let is_target = |input: &&Path| input.canonicalize().is_ok_and(|input| input == target);
        match inputs.into_iter().find(is_target) {
            Some(_) => refuse(&self.path, "the output file is also an input; choose another output file"),
            None => Ok(()),
        }
    }

    /// Makes an empty temporary file in the directory of the target. The file is removed on drop.
    /// If it will replace a file, it already has the attributes of that file (see [`Kept`]).
    fn temporary(&self) -> Outcome<Temporary<NamedTempFile>> {
        let path = self.place.path();
        if path.file_name().is_none() {
            return refuse(path, "this path has no file name; give a file, not a directory");
        }
        let of_old = |error| of_file(&self.path, error);
        let kept = self.replaced().map(Kept::of).transpose().map_err(of_old)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(".tmp");
        #[cfg(unix)]
        {
            // 0666 is the mode of a plain create; the umask removes bits from it.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(if kept.is_some() { 0o600 } else { 0o666 }));
        }
        let temporary = Temporary::make(|| builder.tempfile_in(dir_of(path)));
        let temporary = temporary.map_err(|error| {
            let (path, error) = (path.display(), Error::from(without_path(error)));
            Failure::Message(format!("{path}: cannot make a temporary file in the directory of this file: {error}"))
        })?;
        if let Some(kept) = kept {
            kept.give(temporary.as_file()).map_err(of_old)?;
        }
        Ok(temporary)
    }

    /// Writes the whole content, makes it durable, and renames the file to its target.
    pub fn publish(self, content: &[u8]) -> Outcome<()> {
        let target = self.place.path().to_path_buf();
        self.publish_with(
            |mut file| file.write_all(content).map_err(|error| Failure::file(&target, without_path(error))),
            |()| Ok(()),
        )
    }

    /// Lets `write` fill the new file, makes it durable, and renames it to its target if `check`
    /// succeeds. After an error the target is unchanged, unless the message says otherwise.
    pub fn publish_with<T>(
        self,
        write: impl FnOnce(&File) -> Outcome<T>,
        check: impl FnOnce(&T) -> Outcome<()>,
    ) -> Outcome<T> {
        let target = self.place.path().to_path_buf();
        let temporary = self.temporary()?;
        let written = write(temporary.as_file())?;
        temporary.as_file().sync_all().map_err(|error| Failure::file(&target, without_path(error)))?;
        check(&written)?;
        let Self { place, replace, .. } = self;
        // Until the step ends, no signal ends the process, and nothing but `place` removes a file.
        let published = temporary.finish(|made| {
            let (file, name) = made.keep().map_err(|refused| refused.error)?;
            place.publish(&file, &name)
        });
        match published {
            Ok(()) => Ok(written),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !replace => Err(exists(&target)),
            Err(error) => Err(of_file(&target, error)),
        }
    }
}

/// Returns an error if two of the options name the same file, which can have only one content.
pub fn refuse_same(files: &[(&str, &Path)]) -> Outcome<()> {
    let place = |path: &Path| {
        let end = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        dir_of(&end).canonicalize().ok().zip(end.file_name().map(OsStr::to_owned))
    };
    for (number, (option, path)) in files.iter().enumerate() {
        let is_same = |(_, other): &&(&str, &Path)| place(path).is_some_and(|found| place(other) == Some(found));
        if let Some((other_option, _)) = files.iter().skip(number + 1).find(is_same) {
            return refuse(
                path,
                format!("both {option} and {other_option} name this file; give each option its own file"),
            );
        }
    }
    Ok(())
}

/// Returns the failure for an error about a file. An error of the system gets the words of the
/// library.
fn of_file(path: &Path, error: io::Error) -> Failure {
    match error.raw_os_error() {
        Some(_) => Failure::file(path, error),
        None => Failure::about(path, error),
    }
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
    Failure::about(path, "the file exists; to replace it, add --force")
}

/// Returns an error if the directory of a file cannot be opened, and so not synced. A sync makes a
/// new name in it durable.
fn check_dir_of(path: &Path) -> Outcome<()> {
    let opened = if cfg!(unix) { File::open(dir_of(path)).map(drop) } else { Ok(()) };
    opened.map_err(|error| {
        Failure::about(path, format!("cannot open the directory of this file: {}", Error::from(error)))
    })
}
