//! Compares the requests to the object store for absent keys, with our filters and with SlateDB's
//! own.

use std::collections::HashMap;
use std::sync::Arc;

use filterblock_slatedb::Filters;
use filterblock_slatedb_testkit::Counted;
use slatedb::PathResolver;
use slatedb::object_store::GetRange;
use slatedb::object_store::memory::InMemory;

use crate::common::{Policies, ROOT, Store, compact, filled, key, manifest, metadata_cache, own, reader, ssts};

/// Returns an object store that counts the GETs of the SST files: those of data blocks, and those of
/// other parts.
pub async fn counted(store: Store) -> Arc<Counted> {
    let paths = PathResolver::new(ROOT, &manifest(&store).await);
    let all = ssts(&store).await;
    // The data blocks of an SST end where its filters begin.
    let data_ends: HashMap<_, _> = all.iter().map(|sst| (paths.sst_path(&sst.id), sst.info.filter_offset)).collect();
    Counted::new(store, move |path, options| {
        let end = *data_ends.get(path)?;
        let is_data = matches!(&options.range, Some(GetRange::Bounded(range)) if range.start < end);
        Some(usize::from(!is_data))
    })
}

const KEYS: u64 = 80_000;

struct Measured {
    filter_bytes: u64,
    data_gets: u64,
}

/// Builds a database, and gets `misses` absent keys while filters and indexes are in the cache.
/// Returns the length of the filters and the number of GETs of data blocks.
async fn measured(policies: Policies, misses: u64) -> Measured {
    let store: Store = Arc::new(InMemory::new());
    filled(&store, &policies, 0..KEYS, 2).await;
    compact(&store, &policies, 1 << 20).await;
    let all = ssts(&store).await;
    assert!(all.len() >= 2 && all.len() <= 5, "{} SSTs", all.len());
    let filter_bytes = all.iter().map(|sst| sst.info.filter_len).sum();

    let counted = counted(store).await;
    let reader = reader(&(Arc::clone(&counted) as Store), policies, metadata_cache()).await;
    for i in 0..KEYS {
        assert!(reader.get(key(i)).await.unwrap().is_some(), "{i}");
    }
    let [data, metadata] = counted.take();
    // A get of a present key reads one data block, or two if the key is the first key of a block.
    // The filter and the index of each SST are read once.
    assert!((KEYS..KEYS + KEYS / 50).contains(&data) && metadata == 2 * all.len() as u64, "{data}, {metadata}");
    for i in 0..misses {
        let absent = [&key(i % (KEYS - 1))[..], &(i / (KEYS - 1)).to_le_bytes()].concat();
        assert_eq!(reader.get(absent).await.unwrap(), None);
    }
    let [data_gets, metadata] = counted.take();
    assert_eq!(metadata, 0);
    reader.close().await.unwrap();
    Measured { filter_bytes, data_gets }
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_read_fewer_blocks_or_need_fewer_bytes() {
    // A specification, the number of misses, and the maximum shares of the filter bytes and of the
    // GETs of data blocks with SlateDB's own filter.
    for (spec, misses, most_bytes, most_gets) in
        [("bumped-ribbon:9.95", 400_000, 1.0, 0.15), ("bumped-ribbon:7", 200_000, 0.71, 1.1)]
    {
        let filters = Filters::new(spec.parse().unwrap());
        let (own, ours) = tokio::join!(measured(own(), misses), measured(filters.policies(), misses));
        let bytes = ours.filter_bytes as f64 / own.filter_bytes as f64;
        let gets = ours.data_gets as f64 / own.data_gets as f64;
        println!("{spec}, {misses} misses: {bytes:.3} times the bytes of the own Bloom, {gets:.3} times its data GETs");
        assert!(own.data_gets > misses / 200, "SlateDB's own filter must be in use");
        assert!(bytes <= most_bytes && gets <= most_gets, "{spec}: {bytes}, {gets}");
        assert_eq!((filters.counts().unusable(), filters.counts().failed_builds), (0, 0), "{spec}");
    }
}
