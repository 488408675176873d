//! Opens, creates, reads, writes and replaces the files of filters.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::buffered::{BUFFER_LEN_BYTES, Buffered};
use super::layout::{self, Header, Image, Length, PAGE_LEN_BYTES, Page, STATE_OFFSET, State, WORDS_PER_PAGE};
use super::lock::{Locked, NameLock, is_at};
use super::new_file::{NewFile, check_absent};
use crate::Bloom;
use crate::error::{Error, Result};
use crate::replace::dir_of;
use filterblock::internals::check_regular;
use filterblock::open_regular_file;

/// The open file, and what this writer knows of its content.
#[derive(Debug)]
pub(super) struct Writer {
    /// The path of the file without symbolic links. It is absolute, because the process may change
    /// its working directory.
    path: PathBuf,
    file: Locked,
    header: Header,
    /// The state page in the file: the page that was read at open, or the last page that was
    /// written.
    shown: Page,
    /// The state page of a write that failed. The file may have this page in place of `shown`.
    tried: Option<Page>,
    /// The length that this writer made durable in the state page, or `None` if the content of the
    /// disk is unknown.
    durable: Option<Length>,
    /// The reason why all writes are refused, or `None` if writes are accepted.
    poisoned: Option<String>,
    _lock: NameLock,
}

impl Writer {
    fn new(path: PathBuf, file: Locked, header: Header, shown: Page, mut lock: NameLock) -> Self {
        lock.keep();
        Self { path, file, header, shown, tried: None, durable: None, poisoned: None, _lock: lock }
    }

    /// Locks and opens the file at `path`, and reads its content.
    pub(super) fn open(path: &Path) -> Result<(Image, Self)> {
        let place = path.canonicalize()?;
        check_regular(&place.metadata()?)?;
        let lock = NameLock::take(&place)?;
        let file = OpenOptions::new().read(true).write(true).open(&place)?;
        let file = Locked::of_filter(file, &place)?;
        let image = read(file.file())?;
        let (header, shown) = (image.header, image.state_page);
        // `durable` stays `None`: the state that was read may be in the page cache only.
        Ok((image, Self::new(place, file, header, shown, lock)))
    }

    /// Creates a file at `path`. Returns an error if `path` exists. After an error, it tries to
    /// remove the new file.
    pub(super) fn create(path: &Path, header: &Header, length: Length, bloom: &Bloom) -> Result<Self> {
        let no_name = "the path does not end with a file name; give the path of a new file";
        let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, no_name))?;
        let place = dir_of(path).canonicalize()?.join(name);
        let lock = NameLock::take(&place)?;
        check_absent(&place)?;
        let state = State::new(header.id, length);
        let file = NewFile::write(&place, None, header, &state, bloom)?.publish(&place)?;
        Ok(Self { durable: Some(length), ..Self::new(place, file, *header, state.page, lock) })
    }

    /// Checks the file, then writes and syncs the given pages, and then the length. The length is
    /// last, because a crash must not leave a length that counts keys without their bits. If there
    /// is nothing to write, only the checks run.
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
        // Check the name after the write. If the file was moved, its new name thus has the keys.
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

    /// Replaces the file by a new file with this header, state and content. Checks the file first.
    pub(super) fn replace(&mut self, header: &Header, state: State, bloom: &Bloom) -> Result<()> {
        self.check()?;
        self.check_name()?;
        let new = NewFile::write(&self.path, Some(self.file.file()), header, &state, bloom)?;
        self.put(new, header, state)
    }

    /// Renames a new file over this writer's file. On Unix, the file with the name is locked at
    /// each moment: the new file is locked before the rename, and the old file stays locked until
    /// `self.file` is the new file.
    pub(super) fn put(&mut self, new: NewFile, header: &Header, state: State) -> Result<()> {
        // Check again: writing the new file took time, and the rename would destroy another file
        // that has the name now.
        self.check_name()?;
        match new.publish_over(self.file.file(), &self.path) {
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

    /// Redirects all writes to another file, as if this writer had opened that file. Returns the
    /// previous file.
    #[cfg(test)]
    pub(super) fn swap_file(&mut self, file: Locked) -> Locked {
        let mut place = file.file();
        place.seek(SeekFrom::Start(STATE_OFFSET)).unwrap();
        place.read_exact(&mut self.shown).unwrap();
        std::mem::replace(&mut self.file, file)
    }

    /// Checks that no earlier failure forbids writes, and that the file's length, header and state
    /// are those that this writer last read or wrote. A writer must not add its pages to another
    /// filter. It must not add them to an older copy either, because the copy lacks synced keys.
    fn check(&mut self) -> Result<()> {
        if let Some(reason) = &self.poisoned {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        let is_whole = self.header.file_len_bytes() == Some(self.file.file().metadata()?.len());
        match is_whole && self.is_head_ours()? {
            true => Ok(()),
            false => Err(Error::Displaced { reason: "was changed by other code or damaged" }),
        }
    }

    fn is_head_ours(&mut self) -> Result<bool> {
        let mut file = self.file.file();
        let (mut header, mut state) = ([0; PAGE_LEN_BYTES], [0; PAGE_LEN_BYTES]);
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut header)?;
        file.read_exact(&mut state)?;
        let id = self.header.id;
        // After a failed write, the state page in the file is the old page, the new page or a torn
        // page. Accept a new or torn page as the state of this writer.
        let is_tried = self.tried.is_some_and(|tried| state == tried || !layout::is_state(id, &state));
        if is_tried {
            (self.shown, self.tried) = (state, None);
        }
        Ok(state == self.shown && Header::decode(&header).is_ok_and(|found| found.id == id))
    }

    /// Checks that the writer's path still leads to the writer's file. Otherwise, an open of the
    /// path would find another file, or none.
    fn check_name(&self) -> Result<()> {
        match is_at(self.file.file(), &self.path)? {
            true => Ok(()),
            false => Err(Error::Displaced { reason: "was moved, removed or replaced" }),
        }
    }
}

pub(super) fn load(path: &Path) -> Result<Image> {
    read(&open_regular_file(path)?)
}

fn read(file: &File) -> Result<Image> {
    let len_bytes = file.metadata()?.len();
    layout::read(Buffered::new(file)?, len_bytes)
}
