//! What makes a filter of filters in files: copies, texts, unions, intersections, and none.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::layout::{self, Header, Image, Length, State, WORDS_PER_PAGE};
use super::{CLEAN, FileFilter, LENGTH_COMBINED, LENGTH_KNOWN, base64};
use crate::variants::Bloom;
use crate::variants::error::{Error, Field, Result};

impl FileFilter {
    /// A file of the same keys.
    ///
    /// # Errors
    /// As [`FileFilter::create`].
    pub fn copy(&self, path: impl AsRef<Path>) -> Result<Self> {
        let (bloom, length) = self.snapshot(Bloom::try_clone);
        let bloom = bloom?;
        Self::make(path.as_ref(), self.header, length, bloom)
    }

    /// A file without keys, of the same shape and seed, so that the two can be united.
    ///
    /// # Errors
    /// As [`FileFilter::create`].
    pub fn copy_template(&self, path: impl AsRef<Path>) -> Result<Self> {
        let bloom = Bloom::of_shape(self.header.shape, self.header.seed)?;
        Self::make(path.as_ref(), self.header, Length::Known(0), bloom)
    }

    /// The whole filter as text: a third larger than the file.
    ///
    /// Aborts the process where there is no memory for a copy of the filter, its bytes and the text.
    #[must_use]
    pub fn to_base64(&self) -> String {
        let (bloom, length) = self.snapshot(Bloom::clone);
        let mut bytes = Vec::new();
        // A vector takes all that is written.
        let _ = layout::write(&mut bytes, &self.header, &State::new(self.header.id, length), &bloom);
        base64::encode(&bytes)
    }

    /// Makes a file of the text that [`to_base64`](Self::to_base64) gave.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for any other text, a damaged page included; as [`FileFilter::create`].
    pub fn from_base64(path: impl AsRef<Path>, text: &str) -> Result<Self> {
        let bytes = base64::decode(text)?;
        let Image { header, length, bloom, damaged_pages, .. } = layout::read(bytes.as_slice(), bytes.len() as u64)?;
        // Whoever sent the text still has it.
        if damaged_pages > 0 {
            return Err(Error::Corrupt { field: Field::Page, offset: 0 });
        }
        Self::make(path.as_ref(), header, length, bloom)
    }

    /// Takes the keys of `other` in; in the file after [`sync`](Self::sync). The number of keys is not known from then on.
    ///
    /// # Errors
    /// [`Error::Unlike`] for another size, number of probes or seed; [`Error::ReadOnly`].
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

    /// Leaves the keys that `other` has too, in a new file that takes this one's place: durable when it is done. The number
    /// of keys is not known from then on.
    ///
    /// # Errors
    /// As [`FileFilter::union_with`]; [`Error::Displaced`] as for [`sync`](Self::sync); when a write, sync or rename fails:
    /// nothing is changed, and no new file is left. After a rename
    /// that fails nothing more is written until the file is opened again ([`Error::Poisoned`]): which file has the name is
    /// not known.
    pub fn intersect_with(&mut self, other: &Self) -> Result<()> {
        let bloom = self.bloom.intersection(&other.bloom)?;
        self.replace(bloom, Length::Combined)
    }

    /// Forgets all keys, in a new file as [`intersect_with`](Self::intersect_with) does.
    ///
    /// # Errors
    /// As [`FileFilter::intersect_with`].
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
