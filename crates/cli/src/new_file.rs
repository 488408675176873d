//! Files that appear whole or not at all.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::failure::{Failure, Outcome};
use super::interrupt::Temporary;
use super::kept::Kept;

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
            _ => {}
        }
        let file = Self { path: path.to_path_buf(), target: follow_links(path)?, replace };
        // Made and removed at once: it only shows that there is a directory that can be written to.
        file.temporary()?;
        Ok(file)
    }

    /// Whether there is a file, which this one is to replace.
    pub fn replaces(&self) -> bool {
        self.replaced().is_some()
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
        sync_dir(parent(&self.target)).map_err(in_file)
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
