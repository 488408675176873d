//! Copies, encodes, decodes, unites, intersects and clears whole filters in files.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::layout::{self, Header, Image, Length, State, WORDS_PER_PAGE};
use super::{CLEAN, FileFilter, LENGTH_COMBINED, LENGTH_KNOWN, base64};
use crate::Bloom;
use crate::error::{Error, Field, Result};

impl FileFilter {
    /// Creates a file with the same keys at `path`, and returns its filter, open for writing.
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::create`], except [`Error::Invalid`].
    pub fn copy(&self, path: impl AsRef<Path>) -> Result<Self> {
        let (bloom, length) = self.snapshot(Bloom::try_clone);
        let bloom = bloom?;
        Self::make(path.as_ref(), self.header, length, bloom)
    }

    /// Creates a file without keys at `path`, and returns its filter, open for writing. The new
    /// filter has the same shape and seed, so the two filters can be united.
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::create`], except [`Error::Invalid`].
    pub fn copy_template(&self, path: impl AsRef<Path>) -> Result<Self> {
        let bloom = Bloom::of_shape(self.header.shape, self.header.seed)?;
        Self::make(path.as_ref(), self.header, Length::Known(0), bloom)
    }

    /// Returns the whole filter as base64 text, which is a third longer than the file.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if there is no memory for a copy of the filter or for the text.
    pub fn to_base64(&self) -> Result<String> {
        let (bloom, length) = self.snapshot(Bloom::try_clone);
        let mut bytes = Vec::new();
        let len = self.header.file_len_bytes().and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(len).map_err(|_| base64::TOO_LARGE)?;
        // Writing to a vector that is large enough cannot fail.
        let _ = layout::write(&mut bytes, &self.header, &State::new(self.header.id, length), &bloom?);
        base64::encode(&bytes)
    }

    /// Creates a file at `path` from the text of [`to_base64`](Self::to_base64), and returns its
    /// filter, open for writing.
    ///
    /// # Errors
    /// Returns [`Error::Corrupt`] if the text is not valid base64, or if the filter in it is
    /// damaged. Returns [`Error::Unsupported`] for a text of a newer version. Returns the errors of
    /// [`FileFilter::create`] too, except [`Error::Invalid`].
    pub fn from_base64(path: impl AsRef<Path>, text: &str) -> Result<Self> {
        let bytes = base64::decode(text)?;
        let Image { header, length, bloom, first_damage, .. } = layout::read(bytes.as_slice(), bytes.len() as u64)?;
        // A text with damaged pages is refused, unlike a file, because the sender can send the text
        // again.
        if let Some(offset) = first_damage {
            return Err(Error::Corrupt { field: Field::Page, offset });
        }
        Self::make(path.as_ref(), header, length, bloom)
    }

    /// Adds the keys of `other`. They are in memory until [`sync`](Self::sync) writes them to the
    /// file. The number of keys is unknown afterwards.
    ///
    /// # Errors
    /// Returns [`Error::ReadOnly`] if this filter was opened for reading only, and
    /// [`Error::Unlike`] if the size, the number of probes or the seed differs.
    pub fn union_with(&self, other: &Self) -> Result<()> {
        self.writer()?;
        self.bloom.check_alike(&other.bloom)?;
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.length_state.fetch_max(LENGTH_COMBINED, Ordering::Relaxed);
        for (index, (theirs, ours)) in other.bloom.words().zip(self.bloom.words()).enumerate() {
            if theirs != 0 {
                self.bloom.or_word(index, theirs);
                self.mark(index / WORDS_PER_PAGE, theirs & !ours == 0);
            }
        }
        Ok(())
    }

    /// Keeps the keys that `other` holds too. The FPR may be higher than that of a filter built
    /// from the intersection. A new, synced file replaces the file of this filter. On Unix, the
    /// replacement is durable, too. The number of keys is unknown afterwards.
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::union_with`] and of [`FileFilter::sync`]. After an
    /// error, the filter in memory is unchanged.
    ///
    /// If the rename of the new file fails, or cannot be made durable, it is unknown which of the
    /// two files has the name. All later writes to the file then fail with [`Error::Poisoned`]
    /// until the file is opened again.
    pub fn intersect_with(&mut self, other: &Self) -> Result<()> {
        let bloom = self.bloom.intersection(&other.bloom)?;
        self.replace(bloom, Length::Combined)
    }

    /// Removes all keys. Replaces the file in the same way as
    /// [`intersect_with`](Self::intersect_with).
    ///
    /// # Errors
    /// Returns the errors of [`FileFilter::intersect_with`], except [`Error::Unlike`].
    pub fn clear(&mut self) -> Result<()> {
        let bloom = Bloom::of_shape(self.header.shape, self.header.seed)?;
        self.replace(bloom, Length::Known(0))
    }

    fn replace(&mut self, bloom: Bloom, length: Length) -> Result<()> {
        let header = Header { id: layout::new_id(), ..self.header };
        let state = State::new(header.id, length);
        let writer = self.writer.as_mut().ok_or_else(|| Error::ReadOnly.in_file(&self.path))?;
        let writer = writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        writer.replace(&header, state, &bloom).map_err(|error| error.in_file(&self.path))?;
        (self.header, self.bloom, self.damaged_pages) = (header, bloom, 0);
        self.marks.iter_mut().for_each(|mark| *mark.get_mut() = CLEAN);
        *self.added.get_mut() = 0;
        *self.length_state.get_mut() = if length == Length::Combined { LENGTH_COMBINED } else { LENGTH_KNOWN };
        Ok(())
    }
}
