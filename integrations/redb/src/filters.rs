//! Keeps the filters of all keys. The first filter was built from the database or loaded from a
//! file. Each further filter has the next 65,536 or more inserted keys. The newest keys are kept as
//! hashes.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use filterblock::{
    AlignedBytes, Answer, Expected, FilterBlock, FilterOptions, FilterSet, FilterSlot, FilterSpec, HashSeed, KeyHash,
    KeyHasher, SharedBytes, TableFilter, Verify,
};

/// The number of new hashes at which a further filter is built. 65,536 hashes take about 1 MiB as a
/// set, and 66 kB as a filter.
const SEAL_AT: usize = 1 << 16;
/// The seed of the hasher. Any fixed number works. Filters record the seed.
const SEED: HashSeed = HashSeed(0x7265_6462);

/// The source of the filter of a [`FilteredDb`](crate::FilteredDb).
#[derive(Debug)]
#[non_exhaustive]
pub enum Opened {
    /// `FilteredDb::open` built the filter from all keys.
    Built,
    /// `FilteredDb::open_saved` uses the saved filter, which has the generation of the database.
    Saved,
    /// `FilteredDb::open_saved` could not use the saved filter, so it built a new filter. The text
    /// says why.
    Refused(String),
}

#[derive(Debug)]
pub(crate) struct Filters {
    hasher: KeyHasher,
    spec: FilterSpec,
    opened: Opened,
    /// The filters and new hashes. A poisoned lock stays in use, because a change that panics never
    /// removes keys.
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    set: FilterSet,
    slots: Vec<FilterSlot>,
    /// The generation of the first filter.
    generation: [u8; 16],
    /// The hashes of the keys that were inserted since the last filter was built or loaded.
    fresh: HashSet<u64>,
}

impl Filters {
    /// Makes filters that answer "maybe" to every key until [`Filters::build`] or
    /// [`Filters::load`].
    pub(crate) fn new() -> Self {
        let hasher = KeyHasher::xxh3(SEED);
        let spec = "bumped-ribbon:8".parse().expect("the specification is constant");
        let state = State::new(&hasher, [Arc::new(TableFilter::Absent)], [0; 16]);
        Self { hasher, spec, opened: Opened::Built, state: RwLock::new(state) }
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    pub(crate) fn with_set<T>(&self, look: impl FnOnce(&FilterSet) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner).set)
    }

    /// Returns `false` only if no snapshot contains the key.
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        let hash = self.hasher.of(key);
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let may_contain = |&slot: &FilterSlot| state.set.ask_hash(slot, hash) != Answer::No;
        state.slots.iter().any(may_contain) || state.fresh.contains(&hash.raw())
    }

    /// Adds keys, and turns the new hashes into a filter if there are at least `SEAL_AT`. The
    /// caller must be the only writer, and commits the keys after this call.
    pub(crate) fn add(&self, hashes: Vec<KeyHash>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.fresh.extend(hashes.iter().map(|hash| hash.raw()));
        if state.fresh.len() < SEAL_AT {
            return;
        }
        // If the filter cannot be built, the hashes stay in `fresh`.
        let fresh: Vec<KeyHash> = state.fresh.iter().map(|&hash| KeyHash::from_raw(hash)).collect();
        let Ok(filter) = self.filter_of([0xff; 16], &fresh) else { return };
        let filters = state.slots.iter().filter_map(|&slot| state.set.filter(slot).cloned());
        let all: Vec<_> = filters.chain([Arc::new(TableFilter::Ready(filter))]).collect();
        *state = State::new(&self.hasher, all, state.generation);
    }

    /// Builds one filter of all keys, which replaces all other filters. If the build fails, the new
    /// filter answers "maybe" to every key.
    pub(crate) fn build(&mut self, generation: [u8; 16], hashes: &[KeyHash]) {
        let filter = TableFilter::from(self.filter_of(generation, hashes));
        self.state = RwLock::new(State::new(&self.hasher, [Arc::new(filter)], generation));
    }

    fn filter_of(&self, table_id: [u8; 16], hashes: &[KeyHash]) -> filterblock::Result<FilterBlock<SharedBytes>> {
        let mut builder = FilterOptions::new(self.spec).table_id(table_id).builder(&self.hasher)?;
        builder.add_hashes(hashes);
        let built = builder.finish()?;
        // Before the first `Writer::commit`, the generation and so the table id is all zeros.
        // Opening such a block needs its checksum.
        let expected = Expected::of_table(table_id, &self.hasher).with_checksum(built.checksum);
        FilterBlock::open(SharedBytes::from(built.bytes), &expected, Verify::AtOpen)
    }

    /// Returns whether there is only one filter, it is of this generation, and there are no new
    /// hashes.
    pub(crate) fn are_of(&self, generation: [u8; 16]) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.slots.len() == 1 && state.fresh.is_empty() && state.generation == generation
    }

    /// Writes the first filter to a new file, syncs the file, and renames it to `path`.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let filter = state.slots.first().and_then(|&slot| state.set.filter(slot)).and_then(|filter| filter.ready());
        let block = filter.ok_or_else(|| io::Error::other("there is no usable filter to save; call rebuild"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(block.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Opens the saved filter and uses it, if it is of this generation and has this number of keys.
    /// Returns whether the filter is used. If not, [`opened`](Self::opened) states the reason.
    pub(crate) fn load(&mut self, path: &Path, generation: Option<[u8; 16]>, num_keys: u64) -> bool {
        match self.open_saved(path, generation, num_keys) {
            Ok(filter) => {
                let filters = [Arc::new(TableFilter::Ready(filter))];
                self.state = RwLock::new(State::new(&self.hasher, filters, generation.unwrap_or_default()));
                self.opened = Opened::Saved;
                true
            }
            Err(reason) => {
                self.opened = Opened::Refused(reason);
                false
            }
        }
    }

    fn open_saved(
        &self,
        path: &Path,
        generation: Option<[u8; 16]>,
        num_keys: u64,
    ) -> Result<FilterBlock<SharedBytes>, String> {
        let generation = generation.ok_or("the database has no generation yet")?;
        let bytes = AlignedBytes::read(path).map_err(|error| error.to_string())?;
        let expected = Expected::of_table(generation, &self.hasher).with_num_entries(num_keys);
        let filter = FilterBlock::open(SharedBytes::from(bytes), &expected, Verify::AtOpen);
        let filter = filter.map_err(|error| error.to_string())?;
        let in_filter = filter.metadata().num_keys;
        if in_filter != num_keys {
            return Err(format!("the filter has {in_filter} keys, and the database {num_keys}"));
        }
        Ok(filter)
    }
}

impl State {
    fn new(
        hasher: &KeyHasher,
        filters: impl IntoIterator<Item = Arc<TableFilter<SharedBytes>>>,
        generation: [u8; 16],
    ) -> Self {
        let mut set = FilterSet::new(hasher);
        let slots = filters.into_iter().map(|filter| set.insert(filter)).collect();
        Self { set, slots, generation, fresh: HashSet::new() }
    }
}
