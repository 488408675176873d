//! The filter of a sorted file, and the one place where damage becomes "maybe".

use std::path::Path;

use super::layout::Footer;
use crate::error::{Error, Field, Result};
use crate::storage::ReadAt;
use filterblock::AlignedBytes;
use filterblock::layout::checksum_of;
use filterblock::{FilterBlock, LockedBlock, Mapped, Populate, Verify};
use filterblock::{KeyHash, KeyHasher};

/// Where the filter of an open table lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FilterMemory {
    /// In a map of the file; the operating system may take the memory back. Only for files that nobody cuts or overwrites
    /// in place: a query of a file that was cut ends the process by a signal, or reads zeros.
    Mapped,
    /// In a copy on the heap: what was checked when the table was opened is what is asked.
    #[default]
    Heap,
}

/// The bytes of a filter block, mapped or copied.
#[derive(Debug)]
pub enum FilterBytes {
    /// A map of the file.
    Mapped(Mapped),
    /// A copy.
    Heap(AlignedBytes),
}

impl AsRef<[u8]> for FilterBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map.as_ref(),
            Self::Heap(bytes) => bytes.as_ref(),
        }
    }
}

/// What a table can say about a key without reading data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The key is not in the table.
    No,
    /// The key may be in the table.
    Maybe,
    /// There is no filter to ask, or it is damaged: the key may be in the table.
    Unfiltered,
}

/// The filter of an open table.
#[derive(Debug)]
pub enum TableFilter {
    /// The file has none.
    Absent,
    /// It has one that cannot be used; every answer is [`Answer::Unfiltered`].
    Degraded(Error),
    /// It has one.
    Ready(FilterBlock<FilterBytes>),
}

impl TableFilter {
    /// Whether the table may hold a key; `hash` must be made by the filter's hasher.
    #[must_use]
    #[inline]
    pub fn ask(&self, hash: KeyHash) -> Answer {
        match self {
            Self::Ready(filter) if filter.may_contain(hash) => Answer::Maybe,
            Self::Ready(_) => Answer::No,
            Self::Absent | Self::Degraded(_) => Answer::Unfiltered,
        }
    }

    /// Like [`Self::ask`], for a key that is not hashed yet: hashes it by the filter's own hasher.
    #[must_use]
    pub fn ask_key(&self, key: &[u8]) -> Answer {
        match self {
            Self::Ready(filter) => self.ask(filter.hasher().of(key)),
            Self::Absent | Self::Degraded(_) => Answer::Unfiltered,
        }
    }
}

/// How to open a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterUse<'h> {
    pub(super) verify: Verify,
    pub(super) memory: FilterMemory,
    /// `None`: a hasher of the filter's own, which then must take no secret.
    pub(super) hasher: Option<&'h KeyHasher>,
}

/// Opens the filter of a file with `num_entries` keys; `None` where the file has none.
///
/// # Errors
/// Whatever makes the filter unusable, with the file's name.
pub(super) fn open(
    file: &dyn ReadAt,
    path: &Path,
    footer: &Footer,
    num_entries: u64,
    how: FilterUse<'_>,
) -> Result<Option<FilterBlock<FilterBytes>>> {
    if footer.filter.len_bytes == 0 {
        return Ok(None);
    }
    open_present(file, footer, num_entries, how).map(Some).map_err(|error| error.in_file(path))
}

fn open_present(
    file: &dyn ReadAt,
    footer: &Footer,
    num_entries: u64,
    how: FilterUse<'_>,
) -> Result<FilterBlock<FilterBytes>> {
    let offset = footer.filter.offset;
    let len = footer.filter.len_in_memory()?;
    let bytes = match (how.memory, file.as_file()) {
        (FilterMemory::Mapped, Some(os_file)) => {
            let populate = if how.verify == Verify::AtOpen { Populate::Yes } else { Populate::No };
            FilterBytes::Mapped(Mapped::region(os_file, offset, len, populate)?)
        }
        _ => FilterBytes::Heap(AlignedBytes::filled_by(len, |bytes| file.read_exact_at(bytes, offset))?),
    };
    let computed = footer.filter_checksum;
    let stored = checksum_of(bytes.as_ref()).ok_or(Error::Corrupt { field: Field::FilterBlock, offset })?;
    if stored != computed {
        return Err(Error::ChecksumMismatch { field: Field::FilterBlock, offset, stored, computed });
    }
    let locked = LockedBlock::open(bytes, how.verify).map_err(|error| Error::from(error.moved_by(offset)))?;
    let num_keys = locked.num_keys();
    // A filter of prefixes only cannot be asked for a key. Keys may share a hash, so there may be fewer hashes than
    // entries, but neither more nor none.
    let field = match () {
        () if locked.table_id() != footer.table_id => Some(Field::TableId),
        () if !locked.added().whole_keys() => Some(Field::Flags),
        () if num_keys > num_entries || (num_keys == 0) != (num_entries == 0) => Some(Field::NumKeys),
        () => None,
    };
    if let Some(field) = field {
        return Err(Error::Corrupt { field, offset });
    }
    let filter = match how.hasher {
        None => locked.unlock(None),
        Some(hasher) => locked.unlock_with(hasher),
    };
    filter.map_err(|error| error.moved_by(offset).into())
}

#[cfg(test)]
mod tests {
    use super::super::layout::Handle;
    use super::*;
    use crate::storage::{IoMode, Memory, Storage};
    use filterblock::FilterBuilder;
    use filterblock::HashSeed;

    #[test]
    fn a_filter_that_would_deny_keys_of_its_table_is_not_asked() {
        let ours = *b"0123456789abcdef";
        let block = |keys: u32, table_id, has_keys| {
            let builder = FilterBuilder::new("bloom:10".parse().unwrap(), KeyHasher::xxh3(HashSeed(3)));
            let mut builder = builder.with_table_id(table_id).with_prefixes("all of it", has_keys).unwrap();
            (0..keys).for_each(|key| builder.add(format!("{key}").as_bytes()));
            builder.finish().unwrap()
        };
        for (bytes, entries, refused) in [
            (block(10, ours, true), 10, None),
            // Keys may share a hash.
            (block(10, ours, true), 11, None),
            (block(0, ours, true), 0, None),
            (block(10, ours, true), 9, Some(Field::NumKeys)),
            (block(0, ours, true), 9, Some(Field::NumKeys)),
            (block(9, ours, true), 0, Some(Field::NumKeys)),
            (block(10, ours, false), 10, Some(Field::Flags)),
            (block(10, *b"0123456789abcdeF", true), 10, Some(Field::TableId)),
        ] {
            let (memory, path) = (Memory::new(), Path::new("table"));
            memory.create(path).unwrap().write_all(&bytes).unwrap();
            let nothing = Handle { offset: 0, len_bytes: 0 };
            let footer = Footer {
                table_id: ours,
                data_len_bytes: 0,
                filter: Handle { offset: 0, len_bytes: bytes.len() as u64 },
                index: nothing,
                properties: nothing,
                file_len_bytes: 0,
                filter_checksum: checksum_of(&bytes).unwrap(),
                index_checksum: 0,
                properties_checksum: 0,
            };
            let how = FilterUse { verify: Verify::AtOpen, memory: FilterMemory::Heap, hasher: None };
            let file = memory.open(path, IoMode::default()).unwrap();
            match (open(file.as_ref(), path, &footer, entries, how), refused) {
                (Ok(filter), None) => assert_eq!(filter.unwrap().info().num_keys, entries.min(10)),
                (Err(error), Some(wanted)) => {
                    let found = matches!(error.root(), Error::Corrupt { field, offset: 0 } if *field == wanted);
                    assert!(found, "{error} for {wanted:?}");
                }
                (outcome, _) => panic!("{outcome:?} for {refused:?}"),
            }
        }
    }
}
