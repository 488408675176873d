//! Implements [`Storage`] in memory, for example for tests. Nothing is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::{IoMode, ReadAt, Storage, WriteFile};
use crate::error::{Error, Field, Result};

/// A file system in memory. Clones share its files.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

/// The bytes of one file. An open handle keeps them after the name is removed.
type Content = Arc<RwLock<Vec<u8>>>;

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Content>,
    directories: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
}

impl State {
    fn file(&self, path: &Path) -> Result<&Content> {
        self.files.get(path).ok_or_else(|| refused(ErrorKind::NotFound, path))
    }

    /// The root directories and the working directory, whose path is empty or `.`, always exist.
    fn has_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || matches!(path.to_str(), Some("" | ".")) || self.directories.contains(path)
    }

    fn check_free(&self, path: &Path) -> Result<()> {
        if self.files.contains_key(path) || self.has_directory(path) {
            return Err(refused(ErrorKind::AlreadyExists, path));
        }
        self.check_parent(path)
    }

    fn check_parent(&self, path: &Path) -> Result<()> {
        let parent_exists = path.parent().is_some_and(|parent| self.has_directory(parent));
        if parent_exists { Ok(()) } else { Err(refused(ErrorKind::NotFound, path)) }
    }
}

impl Memory {
    /// Creates an empty file system with the root directories and the working directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Memory {
    fn open(&self, path: &Path, _io: IoMode) -> Result<Arc<dyn ReadAt>> {
        let content = Arc::clone(self.state().file(path)?);
        let len = len_of(&content);
        Ok(Arc::new(MemoryFile { path: path.to_path_buf(), content, len }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let mut state = self.state();
        state.check_free(path)?;
        let content = Content::default();
        state.files.insert(path.to_path_buf(), Arc::clone(&content));
        Ok(Box::new(MemoryWriter { content }))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let content = Arc::clone(self.state().file(path)?);
        Ok(content.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        let content = Arc::clone(state.file(from)?);
        state.check_parent(to)?;
        if state.has_directory(to) {
            return Err(refused(ErrorKind::IsADirectory, to));
        }
        state.files.remove(from);
        state.files.insert(to.to_path_buf(), content);
        Ok(())
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        let content = Arc::clone(state.file(from)?);
        state.check_free(to)?;
        state.files.insert(to.to_path_buf(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.state().files.remove(path).map(drop).ok_or_else(|| refused(ErrorKind::NotFound, path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.state();
        Ok(state.files.contains_key(path) || state.has_directory(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.state();
        if !state.has_directory(dir) {
            return Err(refused(ErrorKind::NotFound, dir));
        }
        let inside = state.files.keys().chain(&state.directories).filter(|path| path.parent() == Some(dir));
        let mut names: Vec<String> =
            inside.filter_map(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut state = self.state();
        if let Some(file) = dir.ancestors().find(|path| state.files.contains_key(*path)) {
            return Err(refused(ErrorKind::AlreadyExists, file));
        }
        state.directories.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        if self.state().has_directory(dir) { Ok(()) } else { Err(refused(ErrorKind::NotFound, dir)) }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        if !state.files.contains_key(path) {
            state.check_free(path)?;
            state.files.insert(path.to_path_buf(), Content::default());
        }
        if !state.locked.insert(path.to_path_buf()) {
            return Err(Error::Locked.in_file(path));
        }
        Ok(Box::new(LockGuard { memory: self.clone(), path: path.to_path_buf() }))
    }
}

fn refused(kind: ErrorKind, path: &Path) -> Error {
    Error::Io(IoError::from(kind)).in_file(path)
}

fn len_of(content: &Content) -> u64 {
    content.read().unwrap_or_else(PoisonError::into_inner).len() as u64
}

struct LockGuard {
    memory: Memory,
    path: PathBuf,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.memory.state().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    path: PathBuf,
    content: Content,
    len: u64,
}

impl ReadAt for MemoryFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = content.get(start..).and_then(|rest| rest.get(..buffer.len()));
        // An empty read succeeds at every offset.
        let found = if buffer.is_empty() { Some([].as_slice()) } else { found };
        let Some(found) = found else {
            let end = (content.len() as u64).max(offset);
            return Err(Error::Corrupt { field: Field::Length, offset: end }.in_file(&self.path));
        };
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}

#[derive(Debug)]
struct MemoryWriter {
    content: Content,
}

impl WriteFile for MemoryWriter {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.content.write().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        len_of(&self.content)
    }
}
