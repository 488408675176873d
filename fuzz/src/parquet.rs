//! Tests adding filters to Parquet files, with footers and whole files of any bytes.

use std::io::Cursor;
use std::sync::Once;

use bytes::Bytes;
use filterblock_parquet::ParquetBloom;
use filterblock_parquet::append::{self, Request};
use filterblock_parquet::filters::{Budget, Sizing};
use filterblock_parquet::values::{self, ParquetValues};
use filterblock_parquet::{Error, FilterRange, Footer, PhysicalType};

/// The maximum number of values of a tested file. A small input can claim billions.
const MAX_VALUES: u64 = 100_000;

/// The offset of the metadata in a file. Chunks lie before it.
const METADATA_OFFSET: u64 = 1 << 20;

/// Parses any bytes as the metadata of a file. A rewrite without changes must give the same bytes,
/// and a changed location of a filter must change nothing else.
pub fn parquet_footer(data: &[u8]) {
    let Ok(footer) = Footer::parse(data.to_vec(), METADATA_OFFSET) else { return };
    let again = footer.rewrite(|_, _, filter| filter).unwrap();
    assert_eq!(&again[..data.len()], data);
    let new = |row_group: usize, leaf: usize| {
        let offset = (row_group * 1000 + leaf) as u64;
        (!(row_group + leaf).is_multiple_of(3)).then_some(FilterRange { offset, len_bytes: Some(47 + offset) })
    };
    let changed = footer.rewrite(|row_group, leaf, old| new(row_group, leaf).or(old)).unwrap();
    let changed = Footer::parse(changed[..changed.len() - 8].to_vec(), METADATA_OFFSET).unwrap();
    assert_eq!((changed.leaves(), changed.num_row_groups()), (footer.leaves(), footer.num_row_groups()));
    for row_group in 0..footer.num_row_groups() {
        for leaf in 0..footer.leaves().len() {
            let (old, found) = (footer.chunk(row_group, leaf).unwrap(), changed.chunk(row_group, leaf).unwrap());
            assert_eq!(found.filter, new(row_group, leaf).or(old.filter));
            assert_eq!((found.num_values, found.offset, found.len_bytes), (old.num_values, old.offset, old.len_bytes));
        }
    }
    let back = changed.rewrite(|row_group, leaf, found| found.filter(|_| new(row_group, leaf).is_none()));
    // A location can be replaced, but not removed: `None` keeps the location in `changed`.
    assert_eq!(&back.unwrap()[..changed.metadata().len()], changed.metadata());
}

/// Adds filters to a file of any bytes. The result begins with these bytes, and no filter denies a
/// value of its chunk.
pub fn parquet_add(data: &[u8]) {
    quiet_guarded_panics();
    let mut out = Cursor::new(data.to_vec());
    let Ok(footer) = Footer::read(&mut out) else { return };
    let chunks =
        (0..footer.num_row_groups()).flat_map(|group| (0..footer.leaves().len()).map(move |leaf| (group, leaf)));
    let values = chunks.filter_map(|(group, leaf)| footer.chunk(group, leaf)).map(|chunk| chunk.num_values);
    if values.fold(0, u64::saturating_add) > MAX_VALUES {
        return;
    }
    let bytes = Bytes::copy_from_slice(data);
    let Ok(values) = ParquetValues::open(bytes.clone()) else { return };
    let sizing = Sizing::new(Budget::Fpr(0.01), data.len().is_multiple_of(2)).unwrap();
    for (leaf, column) in footer.leaves().iter().enumerate() {
        let replace = data.len().is_multiple_of(3);
        let request = Request { leaves: vec![leaf], sizing, replace, forced: vec![leaf] };
        let mut out = Cursor::new(data.to_vec());
        let added = match append::add(&footer, &values, &request, &mut out, &mut |_| {}) {
            Ok(added) => added,
            Err(Error::Denied { .. } | Error::Changed) => panic!("a sound copy is refused"),
            Err(_) => continue,
        };
        assert!(added.is_empty() || column.physical_type != Some(PhysicalType::Boolean));
        let new = out.into_inner();
        assert!(new.starts_with(data));
        let again = ParquetValues::open(Bytes::copy_from_slice(&new)).unwrap();
        for filter in added {
            let start = filter.range.offset as usize;
            let bits = ParquetBloom::parse(&new[start..start + filter.range.len_bytes.unwrap() as usize]).unwrap();
            again
                .for_each_hash(filter.row_group, leaf, &mut |hashes| {
                    assert!(hashes.iter().all(|&hash| bits.may_contain_hash(hash)));
                })
                .unwrap();
        }
    }
}

/// Installs a panic hook that ignores a panic that becomes an error. Otherwise, the fuzzer would
/// report it.
fn quiet_guarded_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !values::is_guarded() {
                hook(panic);
            }
        }));
    });
}
