//! Tests a store whose threads, storage or filter policy fail, panic or are slow, or whose SSTs are
//! damaged.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::common::{self, DIR, files, image, key, quiet, scan_all};
use filterblock::{
    FilterSpec,
    policy::{FilterPolicy, TableShape},
};
use filterblock_store::lsm::{Durability, WriteBatch};
use filterblock_store::storage::{IoMode, Memory, ReadAt, Storage, WriteFile};
use filterblock_store::{Db, Error, Options, Result};

type Hook = Arc<dyn Fn(&Path) -> Result<()> + Send + Sync>;

/// A storage in memory that calls hooks before it creates, writes and removes files, and that can
/// hide names.
#[derive(Clone)]
struct Hooked {
    inner: Memory,
    on_create: Hook,
    on_write: Hook,
    on_remove: Hook,
    /// Returns whether [`Storage::exists`] hides a file.
    hides: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
}

impl Hooked {
    fn new(inner: &Memory, on_create: impl Fn(&Path) -> Result<()> + Send + Sync + 'static) -> Self {
        Self {
            inner: inner.clone(),
            on_create: Arc::new(on_create),
            on_write: Arc::new(|_| Ok(())),
            on_remove: Arc::new(|_| Ok(())),
            hides: Arc::new(|_| false),
        }
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

impl Storage for Hooked {
    fn open(&self, path: &Path, io: IoMode) -> Result<Arc<dyn ReadAt>> {
        self.inner.open(path, io)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        (self.on_create)(path)?;
        let (file, path) = (self.inner.create(path)?, path.to_path_buf());
        Ok(Box::new(HookedFile { file, path, on_write: Arc::clone(&self.on_write) }))
    }
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.inner.read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn link_or_copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link_or_copy(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        (self.on_remove)(path)?;
        self.inner.remove(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(!(self.hides)(path) && self.inner.exists(path)?)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.inner.lock(path)
    }
}

struct HookedFile {
    file: Box<dyn WriteFile>,
    path: std::path::PathBuf,
    on_write: Hook,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedFile")
    }
}

impl WriteFile for HookedFile {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        (self.on_write)(&self.path)?;
        self.file.write_all(bytes)
    }
    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
}

fn is_table(path: &Path) -> bool {
    path.to_string_lossy().contains(".sst")
}

fn options(storage: &Hooked, memory: &Memory) -> Options {
    Options { storage: Arc::new(storage.clone()), write_buffer_bytes: 4_000, ..quiet(memory) }
}

/// Runs `act` on its own thread. Panics if `act` panics or takes longer than 20 seconds.
fn in_time<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(act()));
    receive.recv_timeout(Duration::from_secs(20)).expect("the call hangs or panicked")
}

fn wait_until(is_reached: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_reached() {
        assert!(start.elapsed() < Duration::from_secs(20), "the condition is not reached in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn acknowledged_writes_survive_a_failing_flush_and_close() {
    for drops in [false, true] {
        let memory = Memory::new();
        let is_blocked = Arc::new(AtomicBool::new(true));
        let gate = Arc::clone(&is_blocked);
        let storage = Hooked::new(&memory, move |path| {
            if !is_table(path) {
                return Ok(());
            }
            wait_until(|| !gate.load(Ordering::Relaxed));
            Err(Error::Io(std::io::ErrorKind::StorageFull.into()))
        });
        let db = Db::open(DIR, options(&storage, &memory)).unwrap();
        for i in 0..60 {
            db.put(&key(i), &[b'v'; 100]).unwrap();
        }
        // Now the blocked flush and every later one fail. So after the close, only the log can hold
        // the writes.
        is_blocked.store(false, Ordering::Relaxed);
        assert!(matches!(db.wait_idle().unwrap_err(), Error::BackgroundFails { .. }));
        if drops {
            drop(db);
        } else {
            assert!(matches!(db.close().unwrap_err(), Error::BackgroundFails { .. }));
        }
        assert_eq!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len(), 60);
    }
}

#[test]
fn a_snapshot_of_a_closed_store_leaves_files_of_the_next_alone() {
    let memory = Memory::new();
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    for i in 0..10 {
        db.put(&key(i), b"first").unwrap();
        db.flush().unwrap();
    }
    let (snapshot, scan) = (db.snapshot(), db.scan(..));
    db.compact_range(..).unwrap();
    db.close().unwrap();
    for name in memory.list(Path::new(DIR)).unwrap() {
        memory.remove(&Path::new(DIR).join(name)).unwrap();
    }
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    for i in 0..30 {
        db.put(&key(i), b"second").unwrap();
        db.flush().unwrap();
    }
    let tables = files(&memory, Path::new(DIR), ".sst");
    assert_eq!(snapshot.get(&key(3)).unwrap().unwrap(), b"first");
    drop(snapshot);
    drop(scan);
    assert_eq!(files(&memory, Path::new(DIR), ".sst"), tables);
    db.close().unwrap();
    assert_eq!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len(), 30);
}

#[derive(Debug)]
struct Panics(AtomicU64);

impl FilterPolicy for Panics {
    fn choose(&self, _: &TableShape) -> Option<FilterSpec> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 2, "the policy panics");
        None
    }
}

#[test]
fn a_policy_panic_in_a_flush_is_an_error_for_all_waiters() {
    let memory = Memory::new();
    let options = Options { filter: Some(Arc::new(Panics(AtomicU64::new(1)))), ..quiet(&memory) };
    let error = in_time(move || {
        let db = Db::open(DIR, options).unwrap();
        db.put(b"a", b"1").unwrap();
        db.flush().unwrap();
        db.put(b"b", b"2").unwrap();
        assert!(matches!(db.flush().unwrap_err(), Error::Poisoned { .. }));
        assert!(matches!(db.put(b"c", b"3").unwrap_err(), Error::Poisoned { .. }));
        assert!(matches!(db.wait_idle().unwrap_err(), Error::Poisoned { .. }));
        assert!(matches!(db.compact_range(..).unwrap_err(), Error::Poisoned { .. }));
        assert_eq!(db.get(b"b").unwrap().unwrap(), b"2");
        db.close().unwrap_err()
    });
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert_eq!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len(), 2);
}

#[test]
fn a_policy_panic_in_a_compaction_blocks_no_caller() {
    for in_background in [false, true] {
        let memory = Memory::new();
        let panics = || Some(Arc::new(Panics(AtomicU64::new(0))) as Arc<dyn FilterPolicy>);
        let options =
            Options { filter: panics(), auto_compaction: in_background, l0_compaction_trigger: 2, ..quiet(&memory) };
        in_time(move || {
            let db = Db::open(DIR, options).unwrap();
            for i in 0..2 {
                db.put(&key(i), b"value").unwrap();
                // The second SST triggers the compaction, which may panic before the flush returns.
                match db.flush() {
                    Err(Error::Poisoned { .. }) if in_background && i == 1 => {}
                    flushed => flushed.unwrap(),
                }
            }
            if in_background {
                assert!(matches!(db.wait_idle().unwrap_err(), Error::Poisoned { .. }));
            } else {
                let compact = std::panic::AssertUnwindSafe(|| db.compact_range(..));
                std::panic::catch_unwind(compact).unwrap_err();
                // A panic in the caller's thread does not fail the store.
                db.wait_idle().unwrap();
                db.put(b"on", b"").unwrap();
            }
            drop(db);
        });
        assert!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len() >= 2);
    }
}

#[test]
fn a_policy_panic_within_a_compaction_leaves_no_sst_behind() {
    let memory = Memory::new();
    // The policy chooses for the flush and for the first result, and panics for the second result.
    let filter: Arc<dyn FilterPolicy> = Arc::new(Panics(AtomicU64::new(0)));
    let db = Db::open(DIR, Options { filter: Some(filter), table_size_bytes: 4_000, ..quiet(&memory) }).unwrap();
    (0..200).for_each(|i| db.put(&key(i), &[b'v'; 100]).unwrap());
    db.flush().unwrap();
    let before = files(&memory, Path::new(DIR), ".sst");
    let compact = std::panic::AssertUnwindSafe(|| db.compact_range(..));
    std::panic::catch_unwind(compact).unwrap_err();
    assert_eq!(files(&memory, Path::new(DIR), ".sst"), before);
    assert_eq!(scan_all(&db).len(), 200);
}

#[test]
fn a_storage_panic_under_a_writer_fails_the_store() {
    let memory = Memory::new();
    let panics = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&panics);
    let mut storage = Hooked::new(&memory, |_| Ok(()));
    storage.on_write = Arc::new(move |path| {
        assert!(!(armed.load(Ordering::Relaxed) && path.to_string_lossy().ends_with(".log")), "the storage panics");
        Ok(())
    });
    let options = Options { durability: Durability::Sync, ..options(&storage, &memory) };
    in_time(move || {
        let db = Db::open(DIR, options).unwrap();
        db.put(b"before", b"").unwrap();
        panics.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let write = || {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.put(b"during", b"")));
                assert!(!matches!(result, Ok(Ok(()))));
            };
            (0..4).for_each(|_| drop(scope.spawn(write)));
        });
        assert!(matches!(db.put(b"after", b"").unwrap_err(), Error::Poisoned { .. }));
        panics.store(false, Ordering::Relaxed);
        drop(db);
    });
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    assert_eq!(db.get(b"before").unwrap().unwrap(), b"");
}

#[test]
fn a_flush_under_load_ends() {
    let memory = Memory::new();
    // Writing an SST takes longer than filling the next memtable.
    let storage = Hooked::new(&memory, |path| {
        if is_table(path) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let db = Db::open(DIR, options(&storage, &memory)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                db.put(&key(i), &[b'v'; 100]).unwrap();
            }
        });
        wait_until(|| db.stats().flushes > 2);
        let start = Instant::now();
        for _ in 0..3 {
            db.flush().unwrap();
        }
        let took = start.elapsed();
        done.store(true, Ordering::Relaxed);
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
}

#[test]
fn buffered_writes_reach_the_log_during_a_slow_flush() {
    let memory = Memory::new();
    let is_blocked = Arc::new(AtomicBool::new(true));
    let gate = Arc::clone(&is_blocked);
    let storage = Hooked::new(&memory, move |path| {
        if is_table(path) {
            wait_until(|| !gate.load(Ordering::Relaxed));
        }
        Ok(())
    });
    let db = Db::open(DIR, options(&storage, &memory)).unwrap();
    for i in 0..50 {
        db.put(&key(i), &[b'v'; 100]).unwrap();
    }
    let crashed = || scan_all(&Db::open(DIR, quiet(&image(&memory))).unwrap()).len();
    wait_until(|| crashed() == 50);
    is_blocked.store(false, Ordering::Relaxed);
    db.close().unwrap();
}

#[test]
fn batches_of_many_writers_keep_each_writers_order() {
    let memory = Memory::new();
    let db = Db::open(DIR, Options { durability: Durability::Sync, ..quiet(&memory) }).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let db = &db;
            scope.spawn(move || {
                for i in 0..500u64 {
                    let mut batch = WriteBatch::new();
                    batch.put(&key(writer), &i.to_le_bytes()).unwrap();
                    db.write(batch).unwrap();
                    assert_eq!(db.get(&key(writer)).unwrap().unwrap(), i.to_le_bytes());
                }
            });
        }
    });
    db.close().unwrap();
}

#[test]
fn a_compaction_of_damaged_tables_stops_no_read_or_write() {
    let memory = Memory::new();
    common::make_store(&memory, 3, 300);
    let damaged = files(&memory, Path::new(DIR), ".sst").remove(0);
    common::change(&memory, &damaged, |bytes| bytes[500] ^= 1);
    let options = || Options { auto_compaction: true, l0_compaction_trigger: 2, l0_stall_trigger: 4, ..quiet(&memory) };
    let db = Db::open(DIR, Options { write_buffer_bytes: 2_000, ..options() }).unwrap();
    db.wait_idle().unwrap();
    for i in 0..200 {
        db.put(&key(10_000 + i), &[b'v'; 100]).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.get(&key(10_007)).unwrap().unwrap(), [b'v'; 100]);
    let reports = db.stats().reports;
    assert!(reports.len() == 1 && reports[0].starts_with(damaged.to_str().unwrap()), "{reports:?}");
    assert!(db.compact_range(..).unwrap_err().is_damage());
    db.close().unwrap();
}

/// Returns a store whose levels 1 and 2 have the same keys, each in many SSTs. Also returns the
/// path of one SST of level 1, which `damage` has changed.
fn two_levels(damage: fn(&mut Vec<u8>)) -> (Memory, std::path::PathBuf) {
    let memory = Memory::new();
    let options = || Options { block_size_bytes: 1, table_size_bytes: 4_000, auto_compaction: true, ..quiet(&memory) };
    let fill = |options: Options| {
        let db = Db::open(DIR, options).unwrap();
        (0..1_000).for_each(|i| db.put(&key(i), &[b'v'; 20]).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
    };
    let into_level_1 = || Options { l0_compaction_trigger: 1, ..options() };
    fill(Options { level_base_bytes: 1, level_size_ratio: 1 << 40, ..into_level_1() });
    let below = files(&memory, Path::new(DIR), ".sst");
    fill(into_level_1());
    let mut above = files(&memory, Path::new(DIR), ".sst").into_iter().filter(|path| !below.contains(path));
    let damaged = above.nth(3).unwrap();
    common::change(&memory, &damaged, damage);
    (memory, damaged)
}

/// Gives the second data block a key above all others, and corrects the checksum of the block. Each
/// block has one entry.
fn disorder(bytes: &mut [u8]) {
    let (block_len, footer) = (3 + 9 + 20 + 8 + 5, bytes.len() - 112);
    let table_id = bytes[footer..footer + 16].to_vec();
    let block = &mut bytes[block_len..2 * block_len];
    assert_eq!((block[..3].to_vec(), &block[3..6]), (vec![0, 9, 21], &b"key"[..]));
    block[6] = b'9';
    let (covered, sum) = block.split_at_mut(block_len - 4);
    let offset = (block_len as u64).to_le_bytes();
    sum.copy_from_slice(&crc32fast::hash(&[&table_id, &offset[..], covered].concat()).to_le_bytes());
}

#[test]
fn a_damaged_or_disordered_table_is_left_out_of_compactions() {
    let damages: [fn(&mut Vec<u8>); 2] = [|bytes| bytes[70] ^= 1, |bytes| disorder(bytes)];
    for damage in damages {
        let (memory, damaged) = two_levels(damage);
        let options = Options {
            auto_compaction: true,
            level_base_bytes: 1,
            level_size_ratio: 1 << 40,
            l0_compaction_trigger: 2,
            l0_stall_trigger: 2,
            write_buffer_bytes: 2_000,
            ..quiet(&memory)
        };
        let db = Db::open(DIR, options).unwrap();
        db.wait_idle().unwrap();
        let levels = db.stats().levels;
        assert_eq!((levels[1].tables, levels[2].tables > 2), (1, true), "{levels:?}");
        // A damaged SST blocks the compaction of level 0, but no writer waits for that compaction.
        (0..200).for_each(|i| db.put(&key(i * 5), &[b'w'; 100]).unwrap());
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let reports = db.stats().reports;
        assert!(reports.len() == 1 && reports[0].starts_with(damaged.to_str().unwrap()), "{reports:?}");
        assert_eq!(db.get(&key(10)).unwrap().unwrap(), [b'w'; 100]);
        let verified = db.verify().unwrap();
        let found = verified.damage[0].to_string();
        assert!(verified.damage.len() == 1 && found.starts_with(damaged.to_str().unwrap()), "{verified:?}");
        let error = db.compact_range(..).unwrap_err();
        assert!(error.is_damage() && error.to_string().starts_with(damaged.to_str().unwrap()), "{error}");
        assert!(db.scan(..).any(|pair| pair.is_err_and(|error| error.is_damage())));
        assert!(db.scan(..).rev().any(|pair| pair.is_err_and(|error| error.is_damage())));
        db.close().unwrap();
        let report = Db::repair(DIR, quiet(&memory), filterblock_store::repair::RepairMode::Write).unwrap();
        assert_eq!((report.tables_rewritten, report.tables_lost), (1, 0), "{report}");
        assert!(scan_all(&Db::open(DIR, quiet(&memory)).unwrap()).len() >= 1_000 - 1);
    }
}

#[test]
fn a_failed_store_removes_nothing_for_a_running_compaction() {
    let memory = Memory::new();
    let [is_held, is_waiting, is_broken] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
    let (held, waiting, broken) = (Arc::clone(&is_held), Arc::clone(&is_waiting), Arc::clone(&is_broken));
    let mut storage = Hooked::new(&memory, move |path| {
        if is_table(path) && held.load(Ordering::Relaxed) {
            waiting.store(true, Ordering::Relaxed);
            wait_until(|| !held.load(Ordering::Relaxed));
        }
        Ok(())
    });
    storage.on_write = Arc::new(move |path| match path.extension().is_some_and(|end| end == "log") {
        true if broken.load(Ordering::Relaxed) => Err(Error::Io(std::io::ErrorKind::Other.into())),
        _ => Ok(()),
    });
    let db = Arc::new(Db::open(DIR, options(&storage, &memory)).unwrap());
    for value in [b"one", b"two"] {
        (0..20).for_each(|i| db.put(&key(i), value).unwrap());
        db.flush().unwrap();
    }
    let (tables, manifest) = (files(&memory, Path::new(DIR), ".sst"), files(&memory, Path::new(DIR), "MANIFEST-"));
    let before = memory.read(&manifest[0]).unwrap();
    is_held.store(true, Ordering::Relaxed);
    let compacts = Arc::clone(&db);
    let compaction = std::thread::spawn(move || compacts.compact_range(..));
    wait_until(|| is_waiting.load(Ordering::Relaxed));
    is_broken.store(true, Ordering::Relaxed);
    let mut batch = WriteBatch::new();
    batch.put(b"never there", b"").unwrap();
    assert!(matches!(db.write_with(batch, Durability::Sync).unwrap_err().root(), Error::Io(_)));
    is_held.store(false, Ordering::Relaxed);
    assert!(matches!(compaction.join().unwrap().unwrap_err().root(), Error::Poisoned { .. }));
    drop(db);
    let left = files(&memory, Path::new(DIR), ".sst");
    assert!(tables.iter().all(|table| left.contains(table)), "only {left:?} remain of the SSTs {tables:?}");
    assert!(memory.read(&manifest[0]).unwrap() == before);
    let db = Db::open(DIR, quiet(&memory)).unwrap();
    assert!(scan_all(&db).iter().all(|(_, value)| value == b"two") && scan_all(&db).len() == 20);
}

#[test]
fn a_flush_that_removes_its_log_slowly_pins_no_table() {
    let memory = Memory::new();
    let (reached, is_slow) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let mut storage = Hooked::new(&memory, |_| Ok(()));
    let (count, slow) = (Arc::clone(&reached), Arc::clone(&is_slow));
    storage.on_remove = Arc::new(move |path| {
        if path.extension().is_some_and(|extension| extension == "log") {
            count.fetch_add(1, Ordering::SeqCst);
            wait_until(|| !slow.load(Ordering::SeqCst));
        }
        Ok(())
    });
    let db = Db::open(DIR, Options { auto_compaction: false, ..options(&storage, &memory) }).unwrap();
    db.put(b"key", b"one").unwrap();
    is_slow.store(false, Ordering::SeqCst);
    db.compact_range(..).unwrap();
    wait_until(|| reached.load(Ordering::SeqCst) == 1);
    is_slow.store(true, Ordering::SeqCst);
    db.put(b"key", b"two").unwrap();
    db.compact_range(..).unwrap();
    wait_until(|| reached.load(Ordering::SeqCst) == 2);
    assert_eq!(files(&memory, Path::new(DIR), ".sst").len(), 1);
    is_slow.store(false, Ordering::SeqCst);
}

#[test]
fn a_briefly_invisible_store_is_not_created_again() {
    let memory = Memory::new();
    common::make_store(&memory, 2, 50);
    for hidden in 0..3 {
        let asked = AtomicU64::new(0);
        let mut storage = Hooked::new(&memory, |_| Ok(()));
        storage.hides =
            Arc::new(move |path| path.ends_with("CURRENT") && asked.fetch_add(1, Ordering::Relaxed) == hidden);
        match Db::open(DIR, options(&storage, &memory)) {
            Ok(db) => assert_eq!(scan_all(&db).len(), 100),
            Err(error) => assert!(matches!(error.root(), Error::NotAStore), "{error}"),
        }
        let db = Db::open(DIR, quiet(&memory)).unwrap();
        assert_eq!(scan_all(&db).len(), 100, "hidden from call {hidden}");
    }
}
