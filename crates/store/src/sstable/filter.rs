//! Decides which filters an SST gets, opens the filter of an SST file, and says why its range filter
//! cannot be used.

use std::path::Path;
use std::sync::Arc;

use super::layout::{Footer, Handle};
use super::properties::Properties;
use crate::error::{Error, Result};
use crate::storage::ReadAt;
use filterblock::{
    AlignedBytes, CachedFilter, Expected, FilterBlock, FilterCache, FilterKind, FilterSpec, KeyHasher, Mapped,
    ParsedBlock, Populate, Reclaimer, SharedBytes, Verify, planning::Plan,
};

/// The kind of memory that holds the filter of an open SST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FilterMemory {
    /// A memory map of the file. The operating system can evict its pages. Use a memory map only if
    /// no process truncates or overwrites files in place. Otherwise a query may read wrong bytes,
    /// or end the process by a signal (SIGBUS). A storage without files of the operating system,
    /// such as [`Memory`](crate::storage::Memory), uses the heap instead.
    Mapped,
    /// A copy on the heap. Later changes to the file do not reach the copy.
    #[default]
    Heap,
}

/// The filter of an open SST. Its errors name the file.
pub type TableFilter = filterblock::TableFilter<SharedBytes>;

#[derive(Debug, Clone, Copy)]
pub(super) struct FilterUse<'h> {
    pub(super) verify: Verify,
    pub(super) memory: FilterMemory,
    /// The expected hasher of the filter's keys. If `None`, the hasher comes from the filter's
    /// metadata, and the filter must not need a secret.
    pub(super) hasher: Option<&'h KeyHasher>,
    /// The list in which the filter's bytes wait to be freed after their last use. If `None`, the
    /// thread that drops the last reference frees them.
    pub(super) reclaimer: Option<&'h Reclaimer>,
}

/// Opens the filter of a file with these properties. Returns `None` if the file has no filter.
pub(super) fn open(
    file: &dyn ReadAt,
    path: &Path,
    footer: &Footer,
    properties: &Properties,
    how: FilterUse<'_>,
) -> Result<Option<FilterBlock<SharedBytes>>> {
    if footer.filter.len_bytes == 0 {
        return Ok(None);
    }
    open_present(file, footer, properties, how).map(Some).map_err(|error| error.in_file(path))
}

/// Returns the reason why the range filter beside the filter of keys cannot be used. Returns `None`
/// if that range filter can be used, or if the properties name none.
pub(super) fn range_damage(
    filter: &FilterBlock<SharedBytes>,
    properties: &Properties,
    footer: &Footer,
) -> Option<Error> {
    if properties.range_filter.is_empty() || filter.has_ranges() {
        return None;
    }
    let error = filter.ranges_error().map_or(
        filterblock::Error::Corrupt { field: filterblock::Field::Ranges, offset: 0 },
        filterblock::Error::duplicate,
    );
    Some(Error::from(error.moved_by(footer.filter.offset)))
}

/// Returns the filter for a cache, which has not read it. Returns `None` if the file has no filter, or
/// without a hasher.
pub(super) fn in_cache(
    cache: &FilterCache,
    file: &Arc<dyn ReadAt>,
    path: &Path,
    footer: &Footer,
    properties: &Properties,
    how: FilterUse<'_>,
) -> Option<CachedFilter> {
    let Handle { offset, len_bytes } = footer.filter;
    let hasher = how.hasher.filter(|_| len_bytes > 0)?;
    let (file, path) = (Arc::clone(file), path.to_path_buf());
    let read = move |bytes: &mut [u8]| file.read_exact_at(bytes, offset).map_err(|error| error.in_file(&path));
    let cached = CachedFilter::new(cache, len_bytes, &expected(footer, properties, hasher), read);
    // The bytes are freed at once, because they count until then.
    Some(cached)
}

fn spec_of(text: &str) -> Option<FilterSpec> {
    text.parse().ok()
}

/// Returns whether the properties promise a filter that can deny a key by its hash.
pub(super) fn promises_keys(properties: &Properties) -> bool {
    use FilterKind::{AlwaysMaybe, Grafite};
    spec_of(&properties.filter).is_some_and(|spec| !matches!(spec.kind(), AlwaysMaybe | Grafite))
}

pub(super) fn promises_ranges(properties: &Properties) -> bool {
    [&properties.filter, &properties.range_filter].into_iter().filter_map(|text| spec_of(text)).any(is_for_ranges)
}

/// Returns the FPR of the promised filter of keys, and of the promised range filter.
pub(super) fn promised_rates(properties: &Properties) -> (f64, f64) {
    let rate = |text: &str| {
        let plan = spec_of(text).and_then(|spec| Plan::new(spec, properties.num_entries).ok());
        plan.map_or(0.0, |plan| plan.expected_fpr())
    };
    let keys = rate(&properties.filter);
    (keys, if properties.range_filter.is_empty() { keys } else { rate(&properties.range_filter) })
}

fn expected<'e>(footer: &Footer, properties: &'e Properties, hasher: &'e KeyHasher) -> Expected<'e> {
    let expected = Expected::of_table(footer.table_id, hasher)
        .with_num_entries(properties.num_entries)
        .with_checksum(footer.filter_checksum)
        .at_offset(footer.filter.offset);
    match properties.prefix_extractor.as_str() {
        "" => expected,
        name => expected.with_prefixes(name),
    }
}

fn open_present(
    file: &dyn ReadAt,
    footer: &Footer,
    properties: &Properties,
    how: FilterUse<'_>,
) -> Result<FilterBlock<SharedBytes>> {
    let offset = footer.filter.offset;
    let len = footer.filter.len_in_memory()?;
    let bytes = match (how.memory, file.as_file()) {
        (FilterMemory::Mapped, Some(os_file)) => {
            let populate = if how.verify == Verify::AtOpen { Populate::Yes } else { Populate::No };
            SharedBytes::from(Mapped::region(os_file, offset, len, populate)?)
        }
        _ => SharedBytes::from(AlignedBytes::filled_by(len, |bytes| file.read_exact_at(bytes, offset))?),
    };
    let bytes = match how.reclaimer {
        Some(reclaimer) => bytes.freed_by(reclaimer),
        None => bytes,
    };
    let locked = ParsedBlock::open(bytes, how.verify).map_err(|error| error.moved_by(offset))?;
    let own_hasher;
    let hasher = match how.hasher {
        Some(hasher) => hasher,
        None => {
            own_hasher = locked.metadata().hash.hasher(None)?;
            &own_hasher
        }
    };
    Ok(locked.bind(&expected(footer, properties, hasher))?)
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilterSpecs {
    /// The filter of the keys, or the range filter if the SST gets only a range filter. `None`
    /// means that the SST gets no filter.
    pub(crate) points: Option<FilterSpec>,
    /// The range filter beside the filter of the keys, if any.
    pub(crate) ranges: Option<FilterSpec>,
}

impl FilterSpecs {
    /// Combines the requested filter and the requested range filter. If `filter` is itself a range
    /// filter, the result ignores `ranges`.
    ///
    /// # Errors
    /// Returns [`filterblock::Error::Invalid`] if `ranges` is not a range filter.
    pub(crate) fn of(filter: Option<FilterSpec>, ranges: Option<FilterSpec>) -> Result<Self> {
        if let Some(ranges) = ranges {
            check_ranges(ranges)?;
        }
        Ok(match filter {
            None => Self { points: ranges, ranges: None },
            Some(filter) if is_for_ranges(filter) => Self { points: Some(filter), ranges: None },
            Some(_) => Self { points: filter, ranges },
        })
    }

    pub(crate) fn holds_prefixes(&self) -> bool {
        self.points.is_some_and(|points| !is_for_ranges(points))
    }

    pub(crate) fn is_for_ranges_alone(&self) -> bool {
        self.points.is_some_and(is_for_ranges)
    }
}

fn is_for_ranges(spec: FilterSpec) -> bool {
    spec.kind() == FilterKind::Grafite
}

pub(crate) fn check_ranges(spec: FilterSpec) -> Result<()> {
    if is_for_ranges(spec) {
        return Ok(());
    }
    let reason = "this kind does not answer for ranges of keys; try grafite:fpr=0.01".into();
    Err(filterblock::Error::Invalid { what: "range filter", given: spec.to_string(), reason }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{IoMode, Memory, Storage};
    use filterblock::layout::checksum_of;
    use filterblock::{Field, FilterOptions, HashSeed, WholeKeys};

    #[test]
    fn a_filter_that_would_deny_keys_of_its_sst_is_refused() {
        let ours = *b"0123456789abcdef";
        let block = |keys: u32, table_id, has_keys: bool| {
            let mut options = FilterOptions::new("bloom:10".parse().unwrap()).table_id(table_id);
            if !has_keys {
                options = options.prefixes_by_host("all of it", WholeKeys::Not);
            }
            let hasher = KeyHasher::xxh3(HashSeed(3));
            let mut builder = options.builder(&hasher).unwrap();
            for key in (0..keys).map(|key| key.to_string()) {
                builder.add(hasher.key(key.as_bytes()));
                if !has_keys {
                    builder.add_prefix(hasher.key(key.as_bytes()));
                }
            }
            builder.finish().unwrap().bytes
        };
        for (bytes, entries, refused) in [
            (block(10, ours, true), 10, None),
            // The filter may count fewer keys than the file has, because two keys may share a
            // hash.
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
            let how = FilterUse { verify: Verify::AtOpen, memory: FilterMemory::Heap, hasher: None, reclaimer: None };
            let file = memory.open(path, IoMode::default()).unwrap();
            let properties = Properties { num_entries: entries, ..Properties::default() };
            match (open(file.as_ref(), path, &footer, &properties, how), refused) {
                (Ok(filter), None) => {
                    let filter = filter.unwrap();
                    assert_eq!(filter.metadata().num_keys, entries.min(10));
                    assert!(range_damage(&filter, &properties, &footer).is_none());
                    // These properties promise a range filter that the block lacks.
                    let range_filter = "grafite:fpr=0.01".to_owned();
                    let promising = Properties { range_filter, ..properties };
                    assert!(range_damage(&filter, &promising, &footer).unwrap().is_damage());
                }
                (Err(error), Some(wanted)) => {
                    let Error::Filter(filterblock::Error::Unexpected { field, .. }) = error.root() else {
                        panic!("{error} for {wanted:?}")
                    };
                    assert!(*field == wanted && error.is_damage(), "{error} for {wanted:?}");
                }
                (outcome, _) => panic!("{outcome:?} for {refused:?}"),
            }
        }
    }

    #[test]
    fn a_range_filter_lies_beside_another_filter_or_alone() {
        let spec = |text: &str| (text != "-").then(|| text.parse::<FilterSpec>().unwrap());
        for (filter, ranges, points, beside, holds_prefixes) in [
            ("-", "-", "-", "-", false),
            ("bloom:10", "-", "bloom:10", "-", true),
            ("bloom:10", "grafite:9", "bloom:10", "grafite:9", true),
            ("-", "grafite:9", "grafite:9", "-", false),
            ("grafite:12", "grafite:9", "grafite:12", "-", false),
        ] {
            let found = FilterSpecs::of(spec(filter), spec(ranges)).unwrap();
            assert_eq!(found, FilterSpecs { points: spec(points), ranges: spec(beside) });
            assert_eq!(found.holds_prefixes(), holds_prefixes);
        }
        let error = FilterSpecs::of(None, spec("bloom:10")).unwrap_err().to_string();
        assert!(error.contains("try grafite"), "{error}");
    }
}
