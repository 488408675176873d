//! A store whose storage ends after the k-th step, for every k: nothing acknowledged is lost, wherever that is, also
//! in the middle of a recovery, and of the recovery after it.
#![cfg(feature = "lsm")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{DIR, image, key};
use filterblock::lsm::{Durability, WriteBatch};
use filterblock::storage::{IoMode, Memory, ReadAt, Storage, WriteFile};
use filterblock::{Db, Error, Options, Result};

/// Memory that takes so many more changes and then none: what is in it stays as at a crash.
#[derive(Debug, Clone)]
struct Mortal {
    inner: Memory,
    steps_left: Arc<AtomicU64>,
}

impl Mortal {
    fn new(inner: Memory, steps: u64) -> Self {
        Self { inner, steps_left: Arc::new(AtomicU64::new(steps)) }
    }

    fn step(&self, path: &Path) -> Result<()> {
        let taken = self.steps_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.map(drop).map_err(|_| Error::Io(ErrorKind::BrokenPipe.into()).in_file(path))
    }

    fn writer(&self, path: &Path, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(MortalFile { storage: self.clone(), file, path: path.to_path_buf() })
    }
}

impl Storage for Mortal {
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>> {
        self.inner.open(path, io)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.step(path)?;
        Ok(self.writer(path, self.inner.create(path)?))
    }
    fn append(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(self.writer(path, self.inner.append(path)?))
    }
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.inner.read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.step(from)?;
        self.inner.rename(from, to)
    }
    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.step(to)?;
        self.inner.link_or_copy(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.step(path)?;
        self.inner.remove(path)
    }
    fn exists(&self, path: &Path) -> bool {
        self.inner.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.step(dir)?;
        self.inner.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.step(dir)?;
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.step(path)?;
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct MortalFile {
    storage: Mortal,
    file: Box<dyn WriteFile>,
    path: std::path::PathBuf,
}

impl WriteFile for MortalFile {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.storage.step(&self.path) {
            // Now and then the last write gets half way.
            if self.file.len().is_multiple_of(2) {
                self.file.write_all(&bytes[..bytes.len() / 2])?;
            }
            return Err(error);
        }
        self.file.write_all(bytes)
    }
    fn sync(&mut self) -> Result<()> {
        self.storage.step(&self.path)?;
        self.file.sync()
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
}

fn options(storage: &Mortal) -> Options {
    Options {
        storage: Arc::new(storage.clone()),
        durability: Durability::Sync,
        hash_seed: Some(7),
        auto_compaction: false,
        write_buffer_bytes: 1_500,
        table_size_bytes: 1_000,
        ..Options::default()
    }
}

/// What is known of a store from its acknowledgements. The write that failed may be there or not.
#[derive(Debug, Default, Clone)]
struct Known {
    acknowledged: BTreeMap<Vec<u8>, Vec<u8>>,
    /// All keys of the last write, which got no answer, with their new values.
    doubtful: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Known {
    fn try_write(&mut self, db: &Db, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in &writes {
            match value {
                Some(value) => batch.put(key, value)?,
                None => batch.delete(key)?,
            }
        }
        if let Err(error) = db.write(batch) {
            self.doubtful = writes;
            return Err(error);
        }
        self.apply(writes);
        Ok(())
    }

    fn apply(&mut self, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        for (key, value) in writes {
            match value {
                Some(value) => self.acknowledged.insert(key, value),
                None => self.acknowledged.remove(&key),
            };
        }
    }

    /// Compares with a store, and takes from it what became of the doubtful write.
    fn settle(&mut self, db: &Db, what: &str) {
        let found: BTreeMap<_, _> = common::scan_all(db).into_iter().collect();
        if found != self.acknowledged {
            let doubtful = std::mem::take(&mut self.doubtful);
            self.apply(doubtful);
        }
        assert_eq!(found, self.acknowledged, "{what}");
        self.doubtful.clear();
        assert!(db.verify().unwrap().is_sound(), "{what}");
    }
}

/// A life of a store: writes, flushes, compactions, a close and a second life.
fn live(storage: &Mortal, known: &mut Known) -> Result<()> {
    for life in 0..2u64 {
        let db = Db::open(DIR, options(storage))?;
        for i in 0..12u64 {
            let value = || Some(vec![(life * 12 + i) as u8; 150]);
            let writes = match i % 4 {
                0 => vec![(key(i), value()), (key(i + 50), value()), (key(i + 100), value())],
                1 => vec![(key(i - 1), None), (key(i + 49), value())],
                _ => vec![(key(i * 7 % 20), value())],
            };
            known.try_write(&db, writes)?;
            if i == 7 {
                db.flush()?;
            }
        }
        if life == 1 {
            db.compact_range(..)?;
        }
        known.try_write(&db, vec![(key(life), None)])?;
        db.close()?;
    }
    Ok(())
}

#[test]
fn a_crash_at_any_step_of_a_stores_life_loses_nothing_acknowledged() {
    for steps in 0.. {
        let mortal = Mortal::new(Memory::new(), steps);
        let mut known = Known::default();
        let finished = live(&mortal, &mut known).is_ok();
        let storage = Mortal::new(image_or_empty(&mortal.inner), u64::MAX);
        let db = Db::open(DIR, options(&storage)).unwrap();
        known.settle(&db, &format!("crash after {steps} steps"));
        known.try_write(&db, vec![(key(3), Some(b"goes on".to_vec()))]).unwrap();
        drop(db);
        known.settle(&Db::open(DIR, options(&storage)).unwrap(), &format!("reopened, {steps} steps"));
        if finished {
            println!("{steps} steps");
            assert!(steps > 100);
            break;
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_recovery_loses_nothing_either_nor_does_one_in_the_next() {
    // Killed with several full logs, so that the recovery writes several tables.
    let mortal = Mortal::new(Memory::new(), u64::MAX);
    let mut known = Known::default();
    let db = Db::open(DIR, Options { write_buffer_bytes: 1 << 20, ..options(&mortal) }).unwrap();
    for i in 0..60u64 {
        known.try_write(&db, vec![(key(i % 25), Some(vec![i as u8; 150])), (key(i * 3 % 25), None)]).unwrap();
    }
    let crashed = image(&mortal.inner);
    for first in 0.. {
        let mortal = Mortal::new(image(&crashed), first);
        let finished = Db::open(DIR, options(&mortal)).and_then(Db::close).is_ok();
        for second in [1, 3, 6, 10, 15, 21, 28, 40] {
            let mortal = Mortal::new(image(&mortal.inner), second);
            drop(Db::open(DIR, options(&mortal)));
            let storage = Mortal::new(image(&mortal.inner), u64::MAX);
            let db = Db::open(DIR, options(&storage)).unwrap();
            known.settle(&db, &format!("crash after {first} steps, then after {second}"));
        }
        if finished {
            println!("{first} steps");
            assert!(first > 20);
            break;
        }
    }
}

#[test]
fn a_checkpoint_that_fails_at_any_step_is_no_store_and_costs_the_source_nothing() {
    for steps in 0.. {
        let mortal = Mortal::new(Memory::new(), u64::MAX);
        let mut known = Known::default();
        let db = Db::open(DIR, options(&mortal)).unwrap();
        for i in 0..10 {
            known.try_write(&db, vec![(key(i), Some(vec![1; 300]))]).unwrap();
        }
        db.flush().unwrap();
        mortal.steps_left.store(steps, Ordering::Relaxed);
        let made = db.checkpoint("/copy").is_ok();
        mortal.steps_left.store(u64::MAX, Ordering::Relaxed);
        known.settle(&db, "the source");
        let copy = Db::open("/copy", Options { create_if_missing: false, ..options(&mortal) });
        match copy {
            Ok(copy) => known.settle(&copy, &format!("checkpoint after {steps} steps")),
            Err(_) => assert!(!made),
        }
        if made {
            assert!(steps > 5);
            break;
        }
    }
}

fn image_or_empty(storage: &Memory) -> Memory {
    if storage.exists(Path::new(DIR)) { image(storage) } else { Memory::new() }
}
