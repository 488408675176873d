//! Tests the inspection of filters and the record of policies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use filterblock::{HashSeed, KeyHasher, Secret};
use filterblock_slatedb::{Error, Filters, Inspection, SstFilter};
use slatedb::bytes::Bytes;
use slatedb::object_store::memory::InMemory;
use slatedb::object_store::path::Path;
use slatedb::object_store::{ObjectStoreExt, PutPayload};
use slatedb::{BlockTransformer, BloomFilterPolicy, DbReader, SstReader};

use crate::common::{
    First4, NamedBytes, ROOT, Store, compact, compactor, filled, filters_of, flush, inspect, key, manifest, ours, own,
    sst_bytes, ssts, with_filters, worker_options, writer,
};

fn count(inspection: &Inspection, wanted: &SstFilter) -> usize {
    inspection.ssts.iter().filter(|sst| sst.filter == *wanted).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compactor_with_another_list_drops_filters_and_is_found() {
    for (policies, found) in [(own(), SstFilter::Other), (Vec::new(), SstFilter::NoBlock)] {
        let store: Store = Arc::new(InMemory::new());
        let filters = ours();
        filled(&store, &filters.policies(), 0..6_000, 2).await;
        let before = inspect(&store, &filters).await;
        assert_eq!(count(&before, &SstFilter::Usable), 2);
        before.check(1_000).unwrap();

        compact(&store, &policies, 32 << 10).await;
        let after = inspect(&store, &filters).await;
        assert_eq!(count(&after, &found), after.ssts.len(), "{after:?}");
        let error = after.check(1_000).unwrap_err();
        let Error::Ssts { policy, num_ssts, without } = &error else { panic!("{error}") };
        assert_eq!((policy.as_str(), *num_ssts, without.len()), ("filterblock:1", after.ssts.len(), after.ssts.len()));
        let text = error.to_string();
        assert!(text.contains(&after.ssts[0].id) && text.contains("rows") && text.contains("same list"), "{text}");
        // An inspection does not change the counts of the policies.
        assert_eq!((filters.counts().opened, filters.counts().probes), (0, 0));

        // Once the SSTs are rewritten with the right list, the check passes.
        filled(&store, &filters.policies(), 0..2_000, 1).await;
        compact(&store, &filters.policies(), 32 << 10).await;
        inspect(&store, &filters).await.check(1_000).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compactor_inside_the_writer_uses_its_list() {
    let store: Store = Arc::new(InMemory::new());
    let filters = ours();
    // The builder of the compactor has an empty list, which SlateDB ignores.
    let inner = compactor(&store, Vec::new(), Some(worker_options(32 << 10)));
    let db = writer(&store, filters.policies()).with_compactor_builder(inner).build().await.unwrap();
    for part in 0..2 {
        for i in 0..3_000 {
            db.put(key(i * 2 + part), b"value").await.unwrap();
        }
        flush(&db).await;
    }
    for _ in 0..3_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if manifest(&store).await.l0().is_empty() {
            break;
        }
    }
    db.close().await.unwrap();
    let inspection = inspect(&store, &filters).await;
    assert!(manifest(&store).await.l0().is_empty() && inspection.ssts.len() > 2);
    inspection.check(0).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_sst_needs_no_filter() {
    let store: Store = Arc::new(InMemory::new());
    filled(&store, &Vec::new(), 0..999, 1).await;
    let inspection = inspect(&store, &ours()).await;
    assert_eq!(inspection.ssts[0].num_rows, Some(999));
    inspection.check(1_000).unwrap();
    assert!(matches!(inspection.check(999), Err(Error::Ssts { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_finds_unusable_and_unreadable_filters() {
    let store: Store = Arc::new(InMemory::new());
    filled(&store, &ours().policies(), 0..6_000, 3).await;
    let all = ssts(&store).await;
    let (path, file) = sst_bytes(&store, &all[0]).await;
    let mut filters = filters_of(&file, &all[0]);
    filters[0].bytes[100] ^= 1;
    let damaged = with_filters(&file, &all[0], &filters);
    store.put(&path, PutPayload::from(damaged)).await.unwrap();
    let (path, mut file) = sst_bytes(&store, &all[1]).await;
    file[all[1].info.filter_offset as usize + 100] ^= 1;
    store.put(&path, PutPayload::from(file)).await.unwrap();

    let inspection = inspect(&store, &ours()).await;
    let kinds: Vec<_> = inspection.ssts.iter().map(|sst| &sst.filter).collect();
    assert!(matches!(kinds[..], [SstFilter::Unusable, SstFilter::Unreadable(_), SstFilter::Usable]), "{kinds:?}");
    let Err(Error::Ssts { without, .. }) = inspection.check(1_000) else { panic!("{inspection:?}") };
    assert_eq!(without.len(), 2);

    let other_seed = ours().with_hasher(KeyHasher::xxh3(HashSeed(1)));
    assert_eq!(count(&inspect(&store, &other_seed).await, &SstFilter::Unusable), 2);
}

/// Shows a limit: the swapped filter is sound, and it does not state its SST.
#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_does_not_find_a_swapped_filter() {
    let store: Store = Arc::new(InMemory::new());
    // Bloom filters of the same number of keys have the same length.
    let bloom = Filters::new("bloom:10".parse().unwrap());
    filled(&store, &bloom.policies(), 0..6_000, 2).await;
    let all = ssts(&store).await;
    let (_, second) = sst_bytes(&store, &all[1]).await;
    let (path, first) = sst_bytes(&store, &all[0]).await;
    let swapped: Vec<NamedBytes> = filters_of(&second, &all[1]);
    assert_ne!(swapped, filters_of(&first, &all[0]));
    let file = with_filters(&first, &all[0], &swapped);
    store.put(&path, PutPayload::from(file)).await.unwrap();
    inspect(&store, &bloom).await.check(1_000).unwrap();
}

/// A transformer that flips every bit, in place of encryption.
struct Inverted;

#[async_trait]
impl BlockTransformer for Inverted {
    async fn encode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        Ok(data.iter().map(|byte| !byte).collect())
    }

    async fn decode(&self, data: Bytes) -> Result<Bytes, slatedb::Error> {
        Ok(data.iter().map(|byte| !byte).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_reads_transformed_blocks() {
    let store: Store = Arc::new(InMemory::new());
    let filters = ours();
    let db = writer(&store, filters.policies()).with_block_transformer(Arc::new(Inverted)).build().await.unwrap();
    for i in 0..2_000 {
        db.put(key(i), b"value").await.unwrap();
    }
    flush(&db).await;
    for i in 0..2_000 {
        assert!(db.get(key(i)).await.unwrap().is_some());
    }
    let ssts = SstReader::new(ROOT, Arc::clone(&store), None, Some(Arc::new(Inverted)));
    let reader = || DbReader::builder(ROOT, Arc::clone(&store)).with_block_transformer(Arc::new(Inverted));
    // The writer is still running.
    let inspection = filters.inspect(reader(), &ssts).await.unwrap();
    assert_eq!((count(&inspection, &SstFilter::Usable), inspection.ssts[0].num_rows), (1, Some(2_000)));
    db.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inspection_of_no_database_is_an_error() {
    let store: Store = Arc::new(InMemory::new());
    let ssts = SstReader::new(ROOT, Arc::clone(&store), None, None);
    let error = ours().inspect(DbReader::builder(ROOT, Arc::clone(&store)), &ssts).await.unwrap_err();
    assert!(matches!(error, Error::Engine(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_other_policies_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let local = slatedb::object_store::local::LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    for store in [Arc::new(InMemory::new()) as Store, Arc::new(local)] {
        let sip = |fill| KeyHasher::sip13(HashSeed(0), &Secret::new(&[fill; 16]).unwrap());
        let secret = ours().with_hasher(sip(1)).with_prefixes(Arc::new(First4), true).unwrap();
        let others = [
            ours(),
            ours().with_hasher(sip(1)),
            secret.clone().with_hasher(sip(2)),
            ours().with_prefixes(Arc::new(First4), true).unwrap(),
            secret.clone().with_prefixes(Arc::new(First4), false).unwrap(),
        ];
        secret.record_or_compare(ROOT, &store).await.unwrap();
        // These processes start: a restarted process, and a process that has another specification
        // and still reads Bloom filters.
        let blocked = Filters::new("blocked-bloom:12".parse().unwrap());
        let blocked = blocked.with_hasher(sip(1)).with_prefixes(Arc::new(First4), true).unwrap();
        for same in [secret.clone(), blocked.reading_bloom(BloomFilterPolicy::new(10))] {
            same.record_or_compare(ROOT, &store).await.unwrap();
        }
        for other in others {
            let error = other.record_or_compare(ROOT, &store).await.unwrap_err();
            let Error::OtherPolicies { record, recorded, given } = &error else { panic!("{error}") };
            assert!(record == "db/filterblock/policies" && recorded != given, "{error}");
            assert!(error.to_string().contains(recorded) && !error.to_string().contains("[1, 1"), "{error}");
        }
        // Another database of the store has its own record.
        ours().record_or_compare("db2", &store).await.unwrap();
        // Writes and compactions of SlateDB do not change the record.
        filled(&store, &secret.policies(), 0..2_000, 2).await;
        compact(&store, &secret.policies(), 32 << 10).await;
        secret.record_or_compare(ROOT, &store).await.unwrap();
        store.delete(&Path::from("db/filterblock/policies")).await.unwrap();
        ours().record_or_compare(ROOT, &store).await.unwrap();
    }
}

#[tokio::test]
async fn a_damaged_record_is_an_error() {
    let store: Store = Arc::new(InMemory::new());
    ours().record_or_compare(ROOT, &store).await.unwrap();
    let path = Path::from("db/filterblock/policies");
    let sound = store.get(&path).await.unwrap().bytes().await.unwrap();
    let long = Bytes::from([&sound[..], &[b'\n'; 5_000]].concat());
    for bytes in [Bytes::new(), sound.slice(1..), sound.slice(..sound.len() - 1), Bytes::from_static(b"\xff"), long] {
        store.put(&path, PutPayload::from(bytes.clone())).await.unwrap();
        let error = ours().record_or_compare(ROOT, &store).await.unwrap_err();
        assert!(matches!(&error, Error::Record { .. }), "{bytes:?}: {error}");
    }
    for at in 0..sound.len() {
        let mut bytes = sound.to_vec();
        bytes[at] ^= 1;
        store.put(&path, PutPayload::from(bytes)).await.unwrap();
        ours().record_or_compare(ROOT, &store).await.unwrap_err();
    }
}

#[tokio::test]
async fn two_processes_may_start_at_once() {
    let store: Store = Arc::new(InMemory::new());
    let (ours, other) = (ours(), ours().with_hasher(KeyHasher::xxh3(HashSeed(1))));
    let starts = (0..20).map(|i| if i % 2 == 0 { &ours } else { &other });
    let started = futures::future::join_all(starts.map(|filters| filters.record_or_compare(ROOT, &store))).await;
    assert_eq!(started.iter().filter(|result| result.is_ok()).count(), 10);
}
