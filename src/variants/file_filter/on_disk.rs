//! Opens, creates, writes and replaces the files of filters.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::buffered::{BUFFER_LEN_BYTES, Buffered};
use super::layout::{self, Header, Image, Length, PAGE_LEN_BYTES, Page, STATE_OFFSET, State, WORDS_PER_PAGE};
use super::lock::{Locked, NameLock, is_at};
use super::new_file::{NewFile, check_absent, dir_of};
use crate::variants::Bloom;
use crate::variants::error::{Error, Result};

/// The open file, and what this writer knows of its content.
#[derive(Debug)]
pub(super) struct Writer {
    /// An absolute path without symbolic links, because the process may change its directory.
    path: PathBuf,
    file: Locked,
    header: Header,
    /// The state page that the file shows, as read at open or written since.
    shown: Page,
    /// The state page of a failed write. The file may show it instead of `shown`.
    tried: Option<Page>,
    /// The length that this writer made durable in the state page, or `None` if the content of the
    /// disk is unknown.
    durable: Option<Length>,
    /// The reason why all writes are refused, or `None` if they are not.
    poisoned: Option<String>,
    _lock: NameLock,
}

impl Writer {
    fn new(path: PathBuf, file: Locked, header: Header, shown: Page, mut lock: NameLock) -> Self {
        lock.keep();
        Self { path, file, header, shown, tried: None, durable: None, poisoned: None, _lock: lock }
    }

    /// Opens the file at `path` and reads its content.
    pub(super) fn open(path: &Path) -> Result<(Image, Self)> {
        let place = path.canonicalize()?;
        let lock = NameLock::take(&place)?;
        let file = OpenOptions::new().read(true).write(true).open(&place)?;
        let file = Locked::of_filter(file, &place)?;
        let image = read(file.file())?;
        let (header, shown) = (image.header, image.state_page);
        // `durable` stays `None`: the file's visible state may be missing on the disk.
        Ok((image, Self::new(place, file, header, shown, lock)))
    }

    /// Creates a file at `path`. Returns an error if `path` exists. After an error, no part of the
    /// new file is left.
    pub(super) fn create(path: &Path, header: &Header, length: Length, bloom: &Bloom) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        let place = dir_of(path).canonicalize()?.join(name);
        let lock = NameLock::take(&place)?;
        check_absent(&place)?;
        let state = State::new(header.id, length);
        let file = NewFile::write(&place, None, header, &state, bloom)?.publish(&place)?;
        Ok(Self { durable: Some(length), ..Self::new(place, file, *header, state.page, lock) })
    }

    /// Writes the current content of the given pages, and then the length. In this order, a length
    /// that is in the file after a crash counts no key whose bits are missing.
    pub(super) fn write(&mut self, pages: &[usize], length: Length, bloom: &Bloom) -> Result<()> {
        self.check()?;
        if !pages.is_empty() || self.durable != Some(length) {
            self.durable = None;
            self.write_pages(pages, bloom)?;
            let page = State::new(self.header.id, length).page;
            self.tried = Some(page);
            self.write_at(&page, STATE_OFFSET)?;
            self.file.file().sync_data()?;
            (self.shown, self.tried, self.durable) = (page, None, Some(length));
        }
        // Check the name after the write. A file that was moved is still written, so the keys are
        // safe at its new name.
        self.check_name()
    }

    fn write_pages(&mut self, pages: &[usize], bloom: &Bloom) -> Result<()> {
        let mut run = Vec::new();
        let room = pages.len().saturating_mul(PAGE_LEN_BYTES).min(BUFFER_LEN_BYTES);
        run.try_reserve_exact(room).map_err(|_| Error::TooLarge { what: "a buffer of pages" })?;
        let mut run_offset = 0;
        for &index in pages {
            let offset = layout::page_offset(index);
            if offset != run_offset + run.len() as u64 || run.len() >= BUFFER_LEN_BYTES {
                self.write_at(&run, run_offset)?;
                run.clear();
                run_offset = offset;
            }
            run.extend_from_slice(&layout::bit_page(self.header.id, index, bloom.words_from(index * WORDS_PER_PAGE)));
        }
        self.write_at(&run, run_offset)?;
        if !pages.is_empty() {
            self.file.file().sync_data()?;
        }
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        if !bytes.is_empty() {
            let mut file = self.file.file();
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(bytes)?;
        }
        Ok(())
    }

    /// Replaces the file by a new one with this header, state and content.
    pub(super) fn replace(&mut self, header: &Header, state: State, bloom: &Bloom) -> Result<()> {
        self.check()?;
        self.check_name()?;
        let new = NewFile::write(&self.path, Some(self.file.file()), header, &state, bloom)?;
        self.put(new, header, state)
    }

    /// Renames a new file over this one. The locks leave no gap: the new file is locked before it
    /// has the name, and the old file stays locked until `self.file` is the new one.
    pub(super) fn put(&mut self, new: NewFile, header: &Header, state: State) -> Result<()> {
        // Check again: writing took long, and the rename would destroy the file that now has the
        // name.
        self.check_name()?;
        match new.publish_over(&self.path) {
            Ok(file) => {
                (self.file, self.header) = (file, *header);
                (self.shown, self.tried, self.durable) = (state.page, None, Some(state.length));
                Ok(())
            }
            // It is unknown which file has the name, now or after a crash. Writes to either file
            // may be lost.
            Err(error) => {
                self.poisoned = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Redirects all writes to another file, as if that file had been open from the start.
    #[cfg(test)]
    pub(super) fn swap_file(&mut self, file: Locked) -> Locked {
        let mut place = file.file();
        place.seek(SeekFrom::Start(STATE_OFFSET)).unwrap();
        place.read_exact(&mut self.shown).unwrap();
        std::mem::replace(&mut self.file, file)
    }

    /// Checks that no earlier failure forbids writes, and that the file's length, header and state
    /// are as this writer left them. A writer must not add its pages to another filter, nor to an
    /// older copy, which lacks synced keys.
    fn check(&mut self) -> Result<()> {
        if let Some(reason) = &self.poisoned {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        let is_whole = self.header.file_len_bytes() == Some(self.file.file().metadata()?.len());
        match is_whole && self.is_head_ours()? {
            true => Ok(()),
            false => Err(Error::Displaced { reason: "was truncated or overwritten" }),
        }
    }

    fn is_head_ours(&mut self) -> Result<bool> {
        let mut file = self.file.file();
        let (mut header, mut state) = ([0; PAGE_LEN_BYTES], [0; PAGE_LEN_BYTES]);
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut header)?;
        file.read_exact(&mut state)?;
        let id = self.header.id;
        // A failed write left the page unchanged, complete, or torn.
        let is_tried = self.tried.is_some_and(|tried| state == tried || !layout::is_state(id, &state));
        if is_tried {
            (self.shown, self.tried) = (state, None);
        }
        Ok(state == self.shown && Header::decode(&header).is_ok_and(|found| found.id == id))
    }

    /// Checks that the file still has its name. Otherwise an open by that name would find another
    /// filter, or none.
    fn check_name(&self) -> Result<()> {
        match is_at(self.file.file(), &self.path)? {
            true => Ok(()),
            false => Err(Error::Displaced { reason: "was moved, removed or replaced" }),
        }
    }
}

/// Reads the content of the file at `path`.
pub(super) fn load(path: &Path) -> Result<Image> {
    read(&File::open(path)?)
}

fn read(file: &File) -> Result<Image> {
    let len_bytes = file.metadata()?.len();
    layout::read(Buffered::new(file)?, len_bytes)
}
