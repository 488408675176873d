//! Compares the index with a model of sets, after random builds and updates.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

use filterblock_parquet::index::{Answer, FileIdentity, IndexBuilder, IndexReader, ReadAt, SourceKind};
use filterblock_parquet::{ParquetBloom, ParquetBloomBuilder};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{ask, distinct, hash_of, identity, open, settings};

/// The files of the index, by path, with their keys.
type Model = BTreeMap<String, BTreeSet<u64>>;

/// The way in which the keys of a file reach the index.
#[derive(Debug, Clone)]
enum Source {
    Hashes,
    /// The keys are in existing filters. The `i`-th key is in filter `i % groups`, and each filter
    /// has `1 << log_blocks` blocks.
    Filters {
        groups: usize,
        log_blocks: u32,
    },
}

#[derive(Debug, Clone)]
struct NewFile {
    path: String,
    keys: BTreeSet<u64>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Step {
    Add(Vec<NewFile>),
    Remove(Vec<prop::sample::Index>),
}

fn new_file() -> impl Strategy<Value = NewFile> {
    // Most files are small. Some are much larger than the others, and some are empty.
    let keys = prop_oneof![
        6 => vec(0..3_000u64, 0..60),
        1 => (0..1_000u64).prop_map(|first| (first..first + 2_000).collect()),
    ];
    let source = prop_oneof![
        4 => Just(Source::Hashes),
        1 => (1..4usize, 0..6u32).prop_map(|(groups, log_blocks)| Source::Filters { groups, log_blocks }),
    ];
    (0..12u32, keys, source).prop_map(|(path, keys, source)| NewFile {
        path: format!("dir/file {path}"),
        keys: keys.into_iter().collect(),
        source,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => vec(new_file(), 1..4).prop_map(Step::Add),
        1 => vec(any::<prop::sample::Index>(), 0..4).prop_map(Step::Remove),
    ]
}

/// Adds files to a builder and to the model. If several files have the same path, adds only the
/// last of them.
fn add(builder: &mut IndexBuilder<Cursor<Vec<u8>>>, files: &[NewFile], model: &mut Model) {
    let last: BTreeMap<&str, &NewFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    for file in last.into_values() {
        match file.source {
            Source::Hashes => builder.add_hashes(identity(&file.path), distinct(file.keys.iter().copied())).unwrap(),
            Source::Filters { groups, log_blocks } => {
                let mut filters = vec![ParquetBloomBuilder::with_blocks(1 << log_blocks).unwrap(); groups];
                for (i, key) in file.keys.iter().enumerate() {
                    filters[i % groups].add(&key.to_le_bytes());
                }
                let bytes: Vec<Vec<u8>> = filters.into_iter().map(ParquetBloomBuilder::finish).collect();
                let bits: Vec<&[u8]> = bytes.iter().map(|bytes| ParquetBloom::parse(bytes).unwrap().bits()).collect();
                let identity = FileIdentity::of_path(&file.path, SourceKind::ParquetFilters);
                builder.add_filters(identity, file.keys.len() as u64, &bits).unwrap();
            }
        }
        model.insert(file.path.clone(), file.keys.clone());
    }
}

/// Compares an index with the model.
fn check<R: ReadAt>(index: &IndexReader<R>, model: &Model) {
    let files: Vec<&str> = index.files().iter().map(|file| file.identity.path.to_str().unwrap()).collect();
    assert_eq!(files.iter().copied().collect::<BTreeSet<_>>(), model.keys().map(String::as_str).collect());
    for (number, path) in files.iter().enumerate() {
        for &key in &model[*path] {
            assert!(ask(index, key).contains(&number), "{path} denies the key {key}");
        }
    }
    let hashes: Vec<u64> = (0..3_500).step_by(7).map(hash_of).collect();
    let mut answered = 0;
    index.candidates_of_many(&hashes, |position, files, answer| {
        let (mut buffer, mut single) = (Vec::new(), Vec::new());
        assert_eq!(index.candidates(hashes[position], &mut buffer, &mut single), Answer::Sound);
        assert_eq!(answer, Answer::Sound);
        assert!(files == single && files.is_sorted() && answer == Answer::Sound);
        answered += 1;
    });
    assert_eq!(answered, hashes.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_agrees_with_its_model(
        first in vec(new_file(), 0..6),
        steps in vec(step(), 0..5),
        fpr in prop_oneof![Just(0.01), Just(0.2), Just(1e-5)],
    ) {
        let mut model = Model::new();
        let builder = || IndexBuilder::new(settings(fpr), Cursor::new(Vec::new())).unwrap();
        let mut new = builder();
        add(&mut new, &first, &mut model);
        // The sizes of existing filters are powers of two, so some number of rows fits them all.
        // `build` fails only if the sizes differ so much that a row would be too long.
        let Ok(built) = new.build() else { return Ok(()) };
        let mut bytes = built.bytes;
        check(&open(&bytes), &model);
        for step in steps {
            let old = open(&bytes);
            let mut new = builder();
            let mut next = model.clone();
            let removed: BTreeSet<String> = match &step {
                Step::Add(files) => {
                    add(&mut new, files, &mut next);
                    files.iter().map(|file| file.path.clone()).collect()
                }
                Step::Remove(picked) if !old.files().is_empty() => {
                    let all = old.files();
                    picked.iter().map(|one| one.get(all).identity.path.to_str().unwrap().to_owned()).collect()
                }
                Step::Remove(_) => BTreeSet::new(),
            };
            if matches!(step, Step::Remove(_)) {
                next.retain(|path, _| !removed.contains(path));
            }
            let is_removed = |number: usize| removed.contains(old.files()[number].identity.path.to_str().unwrap());
            match new.build_onto(&old, is_removed) {
                Ok(built) => {
                    let generation = old.generation();
                    bytes = built.bytes;
                    model = next;
                    prop_assert_eq!(open(&bytes).generation(), generation + 1);
                    check(&open(&bytes), &model);
                }
                // If an existing filter does not fit the number of rows, the old index stays.
                Err(error) => prop_assert!(error.to_string().contains("does not fit"), "{}", error),
            }
        }
    }
}

#[test]
fn a_larger_file_keeps_its_rate_beside_smaller_ones() {
    let mut builder = IndexBuilder::new(settings(0.01), Cursor::new(Vec::new())).unwrap();
    for file in 0..50u64 {
        builder.add_hashes(identity(&format!("small {file}")), distinct(file * 100..file * 100 + 100)).unwrap();
    }
    let old = builder.build().unwrap();
    let mut builder = IndexBuilder::new(settings(0.01), Cursor::new(Vec::new())).unwrap();
    builder.add_hashes(identity("large"), distinct(1_000_000..1_020_000)).unwrap();
    let old = open(&old.bytes);
    let new = builder.build_onto(&old, |_| false).unwrap();
    assert!(new.added[0].fpr <= 0.01);
    let index = open(&new.bytes);
    assert!((1_000_000..1_020_000).all(|key| ask(&index, key).contains(&50)));
    let wrong = (2_000_000..2_010_000).filter(|&key| ask(&index, key).contains(&50)).count();
    assert!(wrong < 150, "{wrong} of 10,000 absent keys");
    // The index may be up to 30 % larger than the filters alone.
    let needed = (50 * 100 + 20_000) * 11 / 8;
    assert!(new.bytes.len() < needed * 13 / 10, "{} bytes for {needed}", new.bytes.len());
}

#[test]
fn distrusted_files_are_candidates_for_every_key() {
    let built = crate::support::index_of(10, 100, 0.001);
    let mut index = open(&built.bytes);
    index.distrust(7);
    index.distrust(3);
    index.distrust(7);
    // File 10 does not exist.
    index.distrust(10);
    for key in (0..1_000).chain(50_000..51_000) {
        let files = ask(&index, key);
        assert!(
            files.contains(&3) && files.contains(&7) && !files.contains(&10) && files.is_sorted(),
            "{key}: {files:?}"
        );
    }
}

#[test]
fn wrong_settings_and_repeated_paths_are_refused() {
    let built = crate::support::index_of(3, 10, 0.01);
    let old = open(&built.bytes);
    let other = IndexBuilder::new(
        filterblock_parquet::index::Settings { column: "id".into(), ..settings(0.01) },
        Cursor::new(Vec::new()),
    );
    assert!(other.unwrap().build_onto(&old, |_| false).unwrap_err().to_string().contains("another index"));
    let mut again = crate::support::builder(0.01);
    again.add_hashes(identity("file-00001"), distinct(0..5)).unwrap();
    assert!(again.add_hashes(identity("file-00001"), distinct(0..5)).is_err());
    assert!(again.build_onto(&old, |_| false).unwrap_err().to_string().contains("already in the index"));
    for fpr in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(IndexBuilder::new(settings(fpr), Cursor::new(Vec::new())).is_err(), "{fpr}");
    }
    assert!(crate::support::builder(0.01).add_hashes(identity(&"x".repeat(70_000)), distinct(0..1)).is_err());
}
