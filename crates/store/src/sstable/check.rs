//! Reads a whole SST file again, lists the damage, and counts the false negatives of its filters.

use std::ops::Bound;

use super::data_block::{Block, EntryCursor};
use super::filter::{self, FilterUse};
use super::index_block::IndexBlock;
use super::layout::Handle;
use super::properties::Properties;
use super::reader::{BlockReads, Table, read_footer, read_properties};
use crate::error::{Error, Field, Result};
use filterblock::{FilterBlock, PrefixExtractor, SharedBytes, Verify};

/// The result of [`Table::verify`].
#[derive(Debug, Default)]
pub struct TableCheck {
    /// The number of entries read.
    pub entries: u64,
    /// The number of data blocks whose checksum matches and whose restart points are sound.
    pub data_blocks: u64,
    /// The number of false negatives: the keys and prefixes of the file that the filter denies, and
    /// the keys that the range filter denies.
    pub filter_false_negatives: u64,
    /// All damage found. Each error names the file.
    pub damage: Vec<Error>,
}

impl TableCheck {
    /// Returns whether the check found no damage and no false negative.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.filter_false_negatives == 0
    }
}

/// The position of the check in the data, and the totals over all entries so far.
#[derive(Default)]
struct Walk {
    totals: Properties,
    /// The offset at which the next data block must begin.
    data_end: u64,
    previous_separator: Option<Vec<u8>>,
}

impl Table {
    /// Reads the whole file again: footer, properties, index, each data block, the padding and each
    /// page of the filter. For each key it also asks the filter for the key and, if the prefix
    /// extractor is known, for the key's prefixes. It asks the range filter for the range that
    /// holds only this key.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or memory is short. Returns
    /// [`Secret`](filterblock::Error::Secret) if the filter needs a secret and the SST was opened
    /// without a hasher. Damage is not an error but part of the result. A part of an unknown
    /// version counts as damage. So does a filter of another hasher if the SST was opened with a
    /// hasher. If the index is damaged, the check reads no data blocks.
    pub fn verify(&self) -> Result<TableCheck> {
        self.verify_with(&mut |_| {})
    }

    /// Does the same as [`Self::verify`], and calls `progress` after each data block with the
    /// offset in the file that the check has reached.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::verify`].
    pub fn verify_with(&self, progress: &mut dyn FnMut(u64)) -> Result<TableCheck> {
        let mut check = TableCheck::default();
        let footer = read_footer(self.file.as_ref());
        self.note(
            &mut check,
            footer.and_then(|footer| {
                let same = footer == self.footer;
                if same {
                    Ok(())
                } else {
                    Err(Error::Corrupt { field: Field::Footer, offset: self.footer.properties.offset })
                }
            }),
        )?;
        let properties = read_properties(self.file.as_ref(), &self.footer);
        let properties = self.note(&mut check, properties)?;
        let hasher = self.options.hasher.as_ref();
        let how = FilterUse { verify: Verify::AtOpen, memory: self.options.filter_memory, hasher, reclaimer: None };
        let filter = filter::open(self.file.as_ref(), &self.path, &self.footer, self.properties(), how);
        let filter = self.note(&mut check, filter)?.flatten();
        if let Some(filter) = &filter {
            let ranges = filter::range_damage(filter, self.properties(), &self.footer).map_or(Ok(()), Err);
            self.note(&mut check, ranges)?;
        }
        let padding = self.check_padding();
        self.note(&mut check, padding)?;
        let index = self.read_index().and_then(|index| index.check().map(|()| index));
        let Some(index) = self.note(&mut check, index)? else { return Ok(check) };
        let damage_before = check.damage.len();
        let walk = self.walk(&index, filter.as_ref(), &mut check, progress)?;
        // Compare the totals only if the walk found no damage. Damage can make the totals differ
        // from the properties, and `check.damage` lists the damage already.
        if let Some(properties) = properties.filter(|_| check.damage.len() == damage_before) {
            let totals = walk.compare(&properties, self.footer.data_len_bytes, self.footer.properties.offset);
            self.note(&mut check, totals)?;
        }
        Ok(check)
    }

    fn note<T>(&self, check: &mut TableCheck, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            // `Table::open` accepted the format version of the SST, so a part of an unknown version
            // is damage. If the options give a hasher, a filter of another hasher is damage, too.
            Err(error)
                if error.is_damage()
                    || error.is_unsupported()
                    || error.is_secret_mismatch() && self.options.hasher.is_some() =>
            {
                check.damage.push(error.in_file(&self.path));
                Ok(None)
            }
            Err(error) => Err(error.in_file(&self.path)),
        }
    }

    /// `None` if the filter holds no prefixes, or if the options lack the extractor and it is not built in.
    fn extractor(&self) -> Option<PrefixExtractor> {
        let name = self.properties().prefix_extractor.as_str();
        let given = self.options.prefix_extractor.as_ref().filter(|given| given.name() == name);
        given.cloned().or_else(|| name.parse().ok())
    }

    fn check_padding(&self) -> Result<()> {
        let start = self.footer.data_len_bytes;
        let len_bytes = self.footer.filter.offset - start;
        let mut padding = Handle { offset: start, len_bytes }.room()?;
        self.file.read_exact_at(&mut padding, start)?;
        match padding.iter().position(|&byte| byte != 0) {
            None => Ok(()),
            Some(at) => Err(Error::Corrupt { field: Field::Padding, offset: start + at as u64 }),
        }
    }

    fn walk(
        &self,
        index: &IndexBlock,
        filter: Option<&FilterBlock<SharedBytes>>,
        check: &mut TableCheck,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Walk> {
        let mut walk = Walk::default();
        let extractor = self.extractor();
        for number in 0..index.len() {
            let outcome = self.walk_block(index, number, (filter, extractor.as_ref()), &mut walk, check);
            self.note(check, outcome)?;
            progress(walk.data_end);
        }
        Ok(walk)
    }

    fn walk_block(
        &self,
        index: &IndexBlock,
        number: usize,
        (filter, extractor): (Option<&FilterBlock<SharedBytes>>, Option<&PrefixExtractor>),
        walk: &mut Walk,
        check: &mut TableCheck,
    ) -> Result<()> {
        let (separator, handle) = index.entry(number)?;
        let previous_separator = walk.previous_separator.replace(separator.to_vec());
        let adjoins = std::mem::replace(&mut walk.data_end, handle.end().unwrap_or(u64::MAX)) == handle.offset;
        if !adjoins {
            return Err(Error::Corrupt { field: Field::Handle, offset: self.footer.index.offset });
        }
        let content = self.data_block(index, number, None, &mut BlockReads::default())?;
        let block = Block::parse(content.content(), handle.offset)?;
        block.check_restarts()?;
        check.data_blocks += 1;
        walk.totals.num_data_blocks += 1;
        let mut entry = EntryCursor::default();
        entry.first(&block)?;
        let mut floor = previous_separator;
        loop {
            let key = entry.key();
            if floor.as_deref().is_some_and(|floor| key <= floor) || key > separator {
                return Err(Error::Corrupt { field: Field::Key, offset: handle.offset });
            }
            check.entries += 1;
            check.filter_false_negatives += filter.map_or(0, |filter| false_negatives(filter, extractor, key));
            walk.add(key, entry.value(&block));
            floor = Some(key.to_vec());
            if !entry.advance(&block)? {
                return Ok(());
            }
        }
    }
}

/// Counts the filter's answers "absent" for a present key: for the key itself, for the range that
/// holds just this key, and for each of its prefixes.
fn false_negatives(filter: &FilterBlock<SharedBytes>, extractor: Option<&PrefixExtractor>, key: &[u8]) -> u64 {
    let hasher = filter.hasher();
    let denies_key = !filter.may_contain(hasher.key(key));
    let denies_range = !filter.may_contain_range(Bound::Included(key), Bound::Included(key));
    let denies_prefix = |extractor: &PrefixExtractor| {
        let denied = |prefix: &&[u8]| !filter.may_contain_prefix(extractor.name(), hasher.key(prefix));
        extractor.prefixes(key).filter(denied).count() as u64
    };
    u64::from(denies_key) + u64::from(denies_range) + extractor.map_or(0, denies_prefix)
}

impl Walk {
    fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        if self.totals.num_entries == 0 {
            self.totals.smallest = key.to_vec();
        }
        self.totals.largest.clear();
        self.totals.largest.extend_from_slice(key);
        self.totals.num_entries += 1;
        self.totals.num_tombstones += u64::from(value.is_none());
        self.totals.raw_key_bytes += key.len() as u64;
        self.totals.raw_value_bytes += value.map_or(0, <[u8]>::len) as u64;
    }

    fn compare(mut self, properties: &Properties, data_len_bytes: u64, offset: u64) -> Result<()> {
        self.totals.filter.clone_from(&properties.filter);
        self.totals.created_by.clone_from(&properties.created_by);
        self.totals.compression = properties.compression;
        self.totals.origin = properties.origin;
        self.totals.copied_from = properties.copied_from;
        self.totals.prefix_extractor.clone_from(&properties.prefix_extractor);
        self.totals.range_filter.clone_from(&properties.range_filter);
        match self.totals == *properties && self.data_end == data_len_bytes {
            true => Ok(()),
            false => Err(Error::Corrupt { field: Field::Properties, offset }),
        }
    }
}
