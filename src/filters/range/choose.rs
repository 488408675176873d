//! Chooses the mapping of a set of keys, and maps the keys in order.

use super::keys::{ByteSet, RangeKeys, Statistics};
use super::mapping::{FLAG_END, FLAG_SET, MAX_BITS, Mapping, POSITION_LEN_BYTES, big_endian, rank};
use super::{MAX_PLAIN_POSITIONS, MAX_POSITIONS, MAX_PREFIX_LEN_BYTES};
use crate::codec::u64_bytes;
use crate::simd::{NoMemory, try_zeros};

/// If more different bytes than this number occur at a position, the position gets all 256 bytes as
/// symbols. This makes the integer longer by less than one bit, and a query can load such positions
/// at the end as one integer.
const MANY_BYTES: u32 = 128;
/// The minimum number of keys per set. A set has 32 bytes, so it takes at most half a bit per key.
/// A position without a set costs more if its bytes are sparse: a hexadecimal digit takes 5.8 bits
/// instead of 4.
const KEYS_PER_SET: u64 = 512;

/// The symbols of a position: an interval of bytes, or the number of a set of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Symbols {
    Interval(u8, u8),
    Set(u8),
}

/// A mapping, and its tables for the keys that it was chosen for.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) mapping: Mapping,
    prefix: Vec<u8>,
    positions: Vec<(Symbols, bool)>,
    sets: Vec<ByteSet>,
    /// For each position, a table with the symbol of each byte. The last entry of the table is the
    /// radix.
    symbols: Vec<[u16; 257]>,
}

/// The statistics of a position from which its symbols are chosen.
struct Position {
    set: ByteSet,
    has_end: bool,
    low: u8,
    high: u8,
    num_bytes: u32,
}

impl Position {
    fn new(statistics: &Statistics, at: usize) -> Option<Self> {
        let set = *statistics.seen.get(at)?;
        let has_end = *statistics.ends.get(at)?;
        let num_bytes = set.iter().map(|word| word.count_ones()).sum();
        let (low, high) =
            ((0..=u8::MAX).find(|&byte| rank(&set, byte).1)?, (0..=u8::MAX).rfind(|&byte| rank(&set, byte).1)?);
        let (low, high) = if num_bytes > MANY_BYTES { (0, u8::MAX) } else { (low, high) };
        Some(Self { set, has_end, low, high, num_bytes })
    }

    fn span(&self) -> u32 {
        u32::from(self.high - self.low) + 1
    }

    fn is_plain(&self) -> bool {
        self.span() == 256 && !self.has_end
    }

    /// Returns whether an interval would have over a quarter more symbols than the set of bytes.
    /// Returns `false` if the position has more than [`MANY_BYTES`] different bytes.
    fn is_sparse(&self) -> bool {
        self.num_bytes <= MANY_BYTES && self.span() * 4 > self.num_bytes * 5
    }
}

impl Chosen {
    /// Chooses the mapping of sorted keys. It has all positions of [`Chosen::positions_of`] or, for
    /// scans, only the first ones: see [`positions_for_scans`].
    pub(super) fn new(keys: &RangeKeys, scan_universe: Option<u64>) -> Result<Self, NoMemory> {
        let statistics = keys.statistics().ok_or(NoMemory)?;
        let prefix = keys.last.get(..keys.shared_len).unwrap_or_default().to_vec();
        let all = Self::positions_of(statistics, keys.shared_len);
        let for_scans = |universe| positions_for_scans(statistics, keys.shared_len, &all, universe);
        let len = scan_universe.map_or(all.len(), for_scans);
        let all = all.get(..len).unwrap_or_default();
        let num_plain = all.iter().rev().take_while(|position| position.is_plain()).count();
        let mut num_plain = num_plain.min(MAX_PLAIN_POSITIONS.into());
        // The integers do not depend on how many symbols the first position has. A plain position
        // does not subtract its lowest byte, which only adds the same number to all integers. So
        // the first position may be plain, too, and a query then loads all positions at once.
        if all.len() == num_plain + 1 && num_plain < MAX_PLAIN_POSITIONS.into() && !all.iter().any(|p| p.has_end) {
            num_plain += 1;
        }
        let (described, _) = all.split_at(all.len() - num_plain);
        let mut chosen = Self {
            mapping: Mapping {
                prefix_len: as_u8(prefix.len())?,
                num_positions: as_u8(described.len())?,
                num_plain: as_u8(num_plain)?,
                num_sets: 0,
                is_whole: keys.max_len <= prefix.len() + all.len(),
            },
            prefix,
            positions: Vec::new(),
            sets: Vec::new(),
            symbols: Vec::new(),
        };
        for position in described {
            let symbols = chosen.symbols_of(position, keys.len() / KEYS_PER_SET);
            chosen.positions.push((symbols, position.has_end));
        }
        chosen.mapping.num_sets = as_u8(chosen.sets.len())?;
        chosen.symbols = chosen.tables()?;
        Ok(chosen)
    }

    /// Returns the first positions from `start` on that together fit into [`MAX_BITS`] bits. They
    /// end before the first position where no key has a byte. There are at most [`MAX_POSITIONS`]
    /// positions. A set never has more symbols than its interval, so integers that fit with
    /// intervals also fit with sets.
    fn positions_of(statistics: &Statistics, start: usize) -> Vec<Position> {
        let mut positions = Vec::new();
        let mut product = 1u128;
        for at in (start..).take(MAX_POSITIONS) {
            let Some(position) = Position::new(statistics, at) else { break };
            product = product.saturating_mul(u128::from(position.span()) + u128::from(position.has_end));
            if product > 1 << MAX_BITS {
                break;
            }
            positions.push(position);
        }
        positions
    }

    /// Returns the symbols of a position. They are a set if the position is sparse and a suitable
    /// set is stored or can be added. Otherwise they are an interval. At most `max_sets` sets are
    /// stored.
    fn symbols_of(&mut self, position: &Position, max_sets: u64) -> Symbols {
        let interval = Symbols::Interval(position.low, position.high);
        if !position.is_sparse() {
            return interval;
        }
        let len = |set: &ByteSet| set.iter().map(|word| word.count_ones()).sum::<u32>();
        let has_all = |set: &ByteSet| set.iter().zip(&position.set).all(|(set, own)| own & !set == 0);
        // A stored set with all bytes of the position and up to a quarter more is used again,
        // because another set would take space.
        let known = self.sets.iter().position(|set| has_all(set) && len(set) * 4 <= position.num_bytes * 5);
        let number = known.or_else(|| {
            let is_room = (self.sets.len() as u64) < max_sets.min(u8::MAX.into());
            is_room.then(|| {
                self.sets.push(position.set);
                self.sets.len() - 1
            })
        });
        number.and_then(|number| u8::try_from(number).ok()).map_or(interval, Symbols::Set)
    }

    fn tables(&self) -> Result<Vec<[u16; 257]>, NoMemory> {
        let mut tables = Vec::new();
        tables.try_reserve_exact(self.positions.len())?;
        for &(symbols, has_end) in &self.positions {
            let end = u16::from(has_end);
            let mut table = [0u16; 257];
            let set = match symbols {
                Symbols::Set(number) => self.sets.get(usize::from(number)),
                Symbols::Interval(..) => None,
            };
            for (byte, symbol) in (0..=u8::MAX).zip(&mut table) {
                *symbol = end
                    + match symbols {
                        Symbols::Interval(low, _) => u16::from(byte.saturating_sub(low)),
                        Symbols::Set(_) => set.map_or(0, |set| u16::try_from(rank(set, byte).0).unwrap_or_default()),
                    };
            }
            let radix = match symbols {
                Symbols::Interval(low, high) => u16::from(high - low) + 1,
                Symbols::Set(_) => set.map_or(1, |set| {
                    u16::try_from(set.iter().map(|word| word.count_ones()).sum::<u32>()).unwrap_or(u16::MAX)
                }),
            };
            if let Some(last) = table.last_mut() {
                *last = radix + end;
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// Appends the prefix, the positions and the sets.
    pub(super) fn write(&self, payload: &mut Vec<u8>) {
        payload.extend_from_slice(&self.prefix);
        for &(symbols, has_end) in &self.positions {
            let end = if has_end { FLAG_END } else { 0 };
            let position: [u8; POSITION_LEN_BYTES] = match symbols {
                Symbols::Interval(low, high) => [end, low, high],
                Symbols::Set(number) => [end | FLAG_SET, number, 0],
            };
            payload.extend_from_slice(&position);
        }
        self.sets.iter().flatten().for_each(|&word| payload.extend_from_slice(&u64_bytes(word)));
    }

    /// Calls `visit` with the integer of each key, in the order of the keys.
    #[inline]
    pub(super) fn map(&self, keys: &RangeKeys, mut visit: impl FnMut(u128)) -> Result<(), NoMemory> {
        let prefix_len = self.prefix.len();
        let num_plain = usize::from(self.mapping.num_plain);
        let end = prefix_len + self.symbols.len() + num_plain;
        // `values[i]` is the integer of the key's first `i` positions. The next key shares some of
        // these integers.
        let mut values: Vec<u128> = try_zeros(self.symbols.len() + 1)?;
        keys.for_each(|key, shared| {
            let from = shared.saturating_sub(prefix_len);
            if let Some(mut value) = values.get(from).copied() {
                let mut bytes = key.iter().skip(prefix_len + from);
                let tables = self.symbols.get(from..).unwrap_or_default();
                for (table, value_after) in tables.iter().zip(values.iter_mut().skip(from + 1)) {
                    let [symbols @ .., radix] = table;
                    // A key that has ended has symbol 0 at this position and at all later ones.
                    let symbol =
                        bytes.next().and_then(|&byte| symbols.get(usize::from(byte)).copied()).unwrap_or_default();
                    value = value * u128::from(*radix) + u128::from(symbol);
                    *value_after = value;
                }
            }
            let value = values.last().copied().unwrap_or_default();
            // No key ends in the plain positions, but a key may have ended before them.
            let plain = big_endian(key, end, num_plain).filter(|_| key.len() >= end).unwrap_or_default();
            visit(value << (8 * num_plain) | plain);
        });
        Ok(())
    }

    /// Returns whether all integers of the mapping are below 2^64.
    pub(super) fn is_short(&self) -> bool {
        let radixes = self.symbols.iter().map(|table| u128::from(table.last().copied().unwrap_or_default()));
        let product = radixes.fold(1u128 << (8 * self.mapping.num_plain), u128::saturating_mul);
        product <= 1 << u64::BITS
    }
}

/// Returns how many of the first positions are enough for scans. They have at least `universe`
/// integers and distinguish nearly all neighbours that `all` positions distinguish. The number
/// includes positions with one symbol that follow, because they take no bits. Returns the number of
/// `all` positions if fewer are not enough.
fn positions_for_scans(statistics: &Statistics, start: usize, all: &[Position], universe: u64) -> usize {
    let differing = || statistics.agreeing.iter().skip(start).take(all.len());
    let enough = super::enough(differing().sum());
    let (mut sum, mut product) = (0, 1u128);
    let radix = |position: &Position| u128::from(position.num_bytes) + u128::from(position.has_end);
    let mut found = 0;
    for (&count, position) in differing().zip(all) {
        if sum >= enough && product >= universe.into() && radix(position) > 1 {
            break;
        }
        sum += count;
        product = product.saturating_mul(radix(position));
        found += 1;
    }
    found
}

fn as_u8(len: usize) -> Result<u8, NoMemory> {
    u8::try_from(len).map_err(|_| NoMemory)
}

const _: () = assert!(MAX_POSITIONS <= u8::MAX as usize && MAX_PREFIX_LEN_BYTES <= u8::MAX as usize);
