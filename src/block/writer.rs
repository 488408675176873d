//! Builds filter blocks.

use std::num::NonZeroUsize;

use super::layout::{Added, Content, LOAD_LEN_BYTES, MAX_EXTRACTOR_LEN_BYTES, Trailer};
use crate::bits::{try_collect, try_push};
use crate::error::{Error, Result};
use crate::hash::{KeyHash, KeyHasher, sort};
use crate::kinds::{Effort, FilterView, Geometry, Kernel, Rounding, Shape};
use crate::spec::{self, FilterSpec};

/// Whether a new filter is asked for every key that was added to it before it is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SelfCheck {
    /// A filter that denies one of its keys, by a fault of memory, processor or program, is an error and not a block.
    #[default]
    On,
    /// The build is trusted.
    Off,
}

/// Collects the hashes of keys and encodes a filter of them.
///
/// Keys may come in any order and more than once: the size follows from the distinct hashes, known only at
/// [`finish`](FilterBuilder::finish), and the same set of keys gives the same bytes. Costs 8 bytes of memory a key.
#[derive(Debug, Clone)]
pub struct FilterBuilder {
    spec: FilterSpec,
    hasher: KeyHasher,
    table_id: [u8; 16],
    place: u32,
    self_check: SelfCheck,
    threads: NonZeroUsize,
    added: Added,
    extractor: Option<String>,
    hashes: Vec<KeyHash>,
    /// Whether a key found no memory: a filter of the others would deny it.
    is_short_of_memory: bool,
}

impl FilterBuilder {
    /// An empty set of keys, to be hashed by `hasher`; a [`HashSeed`](crate::HashSeed) alone is XXH3-64 without a secret.
    #[must_use]
    pub fn new(spec: FilterSpec, hasher: impl Into<KeyHasher>) -> Self {
        Self {
            spec,
            hasher: hasher.into(),
            table_id: [0; 16],
            place: 0,
            self_check: SelfCheck::On,
            threads: NonZeroUsize::MIN,
            added: Added::WholeKeys,
            extractor: None,
            hashes: Vec::new(),
            is_short_of_memory: false,
        }
    }

    /// Binds the block and each of its pages to a table. A page of another table's filter is always noticed; whether a whole
    /// block is another table's, [`FilterBlock::open`](super::FilterBlock::open) checks.
    #[must_use]
    pub fn with_table_id(mut self, table_id: [u8; 16]) -> Self {
        self.table_id = table_id;
        self
    }

    /// Says whether the finished filter is asked for every key.
    #[must_use]
    pub fn with_self_check(mut self, self_check: SelfCheck) -> Self {
        self.self_check = self_check;
        self
    }

    /// Lets so many threads work on the filter; one at first. The bytes are the same with any number.
    ///
    /// Only bumped ribbons of more than 64 Ki keys gain by it: setting the bits of a Bloom filter waits for memory.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Says that what is added are prefixes, taken by the function that `extractor` names, with or without the whole
    /// keys beside them.
    ///
    /// # Errors
    /// [`Error::Invalid`] unless the name has 1 to 100 bytes ([`MAX_EXTRACTOR_LEN_BYTES`]).
    pub fn with_prefixes(mut self, extractor: &str, whole_keys_too: bool) -> Result<Self> {
        if !(1..=MAX_EXTRACTOR_LEN_BYTES).contains(&extractor.len()) {
            let reason = format!("expected a name of 1 to {MAX_EXTRACTOR_LEN_BYTES} bytes; try fixed:8");
            return Err(Error::invalid("extractor name", extractor, reason));
        }
        self.added = if whole_keys_too { Added::Both } else { Added::Prefixes };
        self.extractor = Some(extractor.to_owned());
        Ok(self)
    }

    pub(super) fn with_place(mut self, place: u32) -> Self {
        self.place = place;
        self
    }

    /// A builder of the same filter, without keys.
    pub(super) fn without_keys(&self) -> Self {
        Self { extractor: self.extractor.clone(), hasher: self.hasher.clone(), hashes: Vec::new(), ..*self }
    }

    pub(super) fn spec(&self) -> FilterSpec {
        self.spec
    }

    pub(super) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub(super) fn added(&self) -> Added {
        self.added
    }

    pub(super) fn extractor(&self) -> Option<&str> {
        self.extractor.as_deref()
    }

    /// The trailer of a block of these settings.
    pub(super) fn trailer(&self, num_keys: u64, payload_len_bytes: u64, content: Content) -> Trailer {
        Trailer {
            table_id: self.table_id,
            hash: self.hasher.identity(),
            num_keys,
            payload_len_bytes,
            place: self.place,
            content,
            added: self.added,
            extractor: self.extractor.clone(),
        }
    }

    /// Makes room for so many keys more. Without it the memory for hashes doubles when it is full, and is held twice over
    /// meanwhile. Where there is no such room, nothing is reserved.
    pub fn reserve(&mut self, keys: usize) {
        let _ = self.hashes.try_reserve(keys);
    }

    /// Adds a key. Where there is no memory for it, [`finish`](FilterBuilder::finish) is an error.
    pub fn add(&mut self, key: &[u8]) {
        self.add_hash(self.hasher.of(key));
    }

    /// Adds a key by its hash. The hash must come from the builder's hasher or an equal one; debug builds check it and panic.
    #[inline]
    pub fn add_hash(&mut self, hash: KeyHash) {
        self.hasher.debug_check(hash);
        // Sorted files often add a key and its prefix or version in turn: the same hash twice in a row costs nothing.
        if self.hashes.last() != Some(&hash) {
            self.is_short_of_memory |= try_push(&mut self.hashes, hash).is_err();
        }
    }

    /// Whether a key found no memory: then [`finish`](Self::finish) is an error.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.is_short_of_memory
    }

    /// Keys added so far, repetitions included unless they came in a row.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether no key was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Encodes the block.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the keys or the filter do not fit in memory, or so many keys cannot have the rate that was
    /// asked for; [`Error::SelfCheckFailed`] when the filter denies a key.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let Encoded { num_keys, shape, geometry, payload: mut block } = self.encode(Rounding::Words)?;
        // Moved: a copy may find no memory.
        let extractor = self.extractor.take();
        let content = Content::Filter { shape, geometry };
        let trailer = Trailer { extractor, ..self.trailer(num_keys, block.len() as u64, content) };
        trailer.append_to(&mut block).map_err(|_| spec::no_memory(self.spec))?;
        Ok(block)
    }

    /// Encodes the compact form ([`super::compact`]), which knows neither seed nor table nor checksums.
    ///
    /// # Errors
    /// As [`FilterBuilder::finish`].
    pub fn finish_compact(mut self) -> Result<Vec<u8>> {
        let Encoded { shape, mut payload, .. } = self.encode(Rounding::Bytes)?;
        payload.try_reserve(super::compact::TRAILER_LEN_BYTES).map_err(|_| spec::no_memory(self.spec))?;
        if !super::compact::append_shape(&mut payload, &shape) {
            let reason = "the compact form takes the kinds bloom and blocked-bloom; try bloom:10";
            return Err(Error::invalid("filter", self.spec, reason));
        }
        // Such filters are small and many: the room for a trailer would be larger than they are.
        let exact = try_collect(payload.iter().copied());
        Ok(exact.unwrap_or(payload))
    }

    /// Encodes a block of a payload that was made elsewhere, of `num_keys` keys hashed as this builder says.
    ///
    /// # Errors
    /// The field that does not hold, when no reader would take the block.
    #[cfg(feature = "variants")]
    pub(crate) fn seal(
        hasher: impl Into<KeyHasher>,
        shape: Shape,
        num_keys: u64,
        mut payload: Vec<u8>,
    ) -> Result<Vec<u8>> {
        let geometry = Geometry::new(&shape, num_keys, payload.len() as u64)?;
        let trailer = Trailer {
            table_id: [0; 16],
            hash: hasher.into().identity(),
            num_keys,
            payload_len_bytes: payload.len() as u64,
            place: 0,
            content: Content::Filter { shape, geometry },
            added: Added::WholeKeys,
            extractor: None,
        };
        trailer.append_to(&mut payload).map_err(crate::bits::NoMemory::of("a filter block"))?;
        Ok(payload)
    }

    fn encode(&mut self, rounding: Rounding) -> Result<Encoded> {
        self.encode_by(FilterSpec::encode, rounding)
    }

    /// By another encoder in tests, whose filters deny keys.
    fn encode_by(&mut self, encode: Encoder, rounding: Rounding) -> Result<Encoded> {
        if self.is_short_of_memory {
            return Err(spec::no_memory(self.spec));
        }
        let mut hashes = std::mem::take(&mut self.hashes);
        sort(&mut hashes);
        hashes.dedup();
        let (shape, mut payload) = encode(self.spec, &mut hashes, Effort { rounding, threads: self.threads })?;
        let num_keys = hashes.len() as u64;
        // What this refuses, no reader would take.
        let len = payload.len();
        let geometry = Geometry::new(&shape, num_keys, len as u64)?;
        if self.self_check == SelfCheck::On {
            // As in the block, vector loads find bytes behind the payload.
            payload.try_reserve_exact(LOAD_LEN_BYTES).map_err(|_| spec::no_memory(self.spec))?;
            payload.resize(len + LOAD_LEN_BYTES, 0);
            let view = FilterView::new(&geometry, Kernel::of(&geometry), &payload, len);
            let mut answers = [false; 256];
            let denied: usize = hashes
                .chunks(answers.len())
                .map(|hashes| {
                    // An answer that is not given must not pass for the one before it.
                    answers.fill(false);
                    view.may_contain_batch(hashes, &mut answers);
                    answers.iter().zip(hashes).filter(|(answer, _)| !**answer).count()
                })
                .sum();
            if denied > 0 {
                return Err(Error::SelfCheckFailed { denied: denied as u64 });
            }
            payload.truncate(len);
        }
        Ok(Encoded { num_keys, shape, geometry, payload })
    }
}

/// [`FilterSpec::encode`], but in tests.
type Encoder = fn(FilterSpec, &mut [KeyHash], Effort) -> Result<(Shape, Vec<u8>)>;

/// A payload, and what its trailer says of it.
struct Encoded {
    num_keys: u64,
    shape: Shape,
    geometry: Geometry,
    payload: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HashSeed;

    /// An encoder that loses the filter's second half.
    fn lossy(spec: FilterSpec, hashes: &mut [KeyHash], effort: Effort) -> Result<(Shape, Vec<u8>)> {
        let (shape, mut payload) = spec.encode(hashes, effort)?;
        let half = payload.len() / 2;
        payload.iter_mut().skip(half).for_each(|byte| *byte = 0);
        Ok((shape, payload))
    }

    #[test]
    fn a_filter_that_denies_its_keys_is_an_error_where_checked() {
        for kind in ["bloom:10", "blocked-bloom:10", "split-block:10", "ribbon:8", "bumped-ribbon:8", "binary-fuse:8"] {
            let mut builder = FilterBuilder::new(kind.parse().unwrap(), HashSeed(1));
            builder.reserve(1_000);
            (0..1_000u32).for_each(|i| builder.add(i.to_string().as_bytes()));
            let check = |encoder: Encoder, self_check| {
                let mut builder = builder.clone().with_self_check(self_check);
                builder.encode_by(encoder, Rounding::Words).map(|encoded| encoded.payload)
            };
            let sound = check(FilterSpec::encode, SelfCheck::On).unwrap();
            assert!(sound == check(FilterSpec::encode, SelfCheck::Off).unwrap(), "{kind}");
            let error = check(lossy, SelfCheck::On).unwrap_err();
            let Error::SelfCheckFailed { denied } = error else { panic!("{kind}: {error}") };
            assert!((400..=1_000).contains(&denied), "{kind}: {denied}");
            assert_eq!(check(lossy, SelfCheck::Off).unwrap().len(), sound.len(), "{kind}");
        }
    }
}
