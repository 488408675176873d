//! Builds range filters: chooses the mapping of keys to integers, the cells and the codes.

use super::elias_fano::{EliasFano, len_bits, needs_wide_ranks};
use super::keys::{ByteSet, RangeKeys, Statistics};
use super::mapping::{FLAG_END, FLAG_SET, MAX_BITS, Mapping, POSITION_LEN_BYTES, big_endian, num_members, rank};
use super::query::{Codes, RangeHash};
use super::{Geometry, MAX_CODES, MAX_PLAIN_POSITIONS, MAX_POSITIONS, MAX_PREFIX_LEN_BYTES, SCAN_CELLS, enough};
use crate::codec::u64_bytes;
use crate::filters::build::room_behind;
use crate::filters::filter::{Budget, Built};
use crate::hash::{KeyHash, sort};
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
struct Chosen {
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
        let num_bytes = num_members(&set);
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
        let has_all = |set: &ByteSet| set.iter().zip(&position.set).all(|(set, own)| own & !set == 0);
        // A stored set with all bytes of the position and up to a quarter more is used again,
        // because another set would take space.
        let known = self.sets.iter().position(|set| has_all(set) && num_members(set) * 4 <= position.num_bytes * 5);
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
                Symbols::Set(_) => set.map_or(1, |set| u16::try_from(num_members(set)).unwrap_or(u16::MAX)),
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

/// Builds the filter of one or more keys in ascending order. The same keys give the same bytes.
///
/// # Errors
/// Returns [`NoMemory`] if there is no memory, or if the filter would have 2^32 codes or more.
pub(crate) fn build(budget: Budget, keys: &RangeKeys, hash: &RangeHash) -> Result<Built, NoMemory> {
    let is_scan = budget.range_len == 0;
    let scan_universe = is_scan.then(|| universe(budget, keys.len(), keys.len(), 0));
    let chosen = Chosen::new(keys, scan_universe)?;
    let (spread, mut codes_of_keys) = Spread::of(&chosen, keys)?;
    let dropped_bits = scan_universe.map_or(0, |universe| spread.droppable_bits(universe));
    let num_cells = spread.num_cells(dropped_bits);
    let (first, last) = (spread.first >> dropped_bits, spread.last >> dropped_bits);
    let mut payload = Vec::new();
    let header_len = chosen.mapping.len_bytes();
    payload.try_reserve_exact(header_len.next_multiple_of(8))?;
    chosen.write(&mut payload);
    payload.resize(header_len.next_multiple_of(8), 0);

    let universe = universe(budget, keys.len(), num_cells, payload.len() as u64 * 8);
    let codes = Codes::new(universe, num_cells, last - first);
    // The sort is fastest if the numbers spread over all 64 bits.
    let spread_out = u64::MAX / codes.universe;
    // The inverse replaces a division. `code * spread_out` is below 2^64, so rounding the inverse
    // up adds less than one to a quotient.
    let inverse = u64::MAX / spread_out + 1;
    let code = |cell: u128| KeyHash::from_raw(codes.code(hash, cell - first) * spread_out);
    if codes_of_keys.is_empty() {
        codes_of_keys.try_reserve_exact(usize::try_from(num_cells).map_err(|_| NoMemory)?)?;
        let mut previous = None;
        chosen.map(keys, |x| {
            let cell = x >> dropped_bits;
            if previous != Some(cell) {
                previous = Some(cell);
                codes_of_keys.push(code(cell));
            }
        })?;
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "all integers have 64 bits")]
        let first = first as u64;
        codes_of_keys.iter_mut().for_each(|x| {
            let cell = x.raw().checked_shr(dropped_bits).unwrap_or_default();
            *x = KeyHash::from_raw(codes.short_code(hash, cell - first) * spread_out);
        });
    }
    let mut sorted = codes_of_keys;
    sort(&mut sorted);
    sorted.dedup();
    let values = || sorted.iter().map(|code| mul_high(code.raw(), inverse));
    let num_codes = sorted.len() as u64;
    let low_bits = EliasFano::best_low_bits(num_codes, codes.universe);
    let is_wide = needs_wide_ranks(values(), low_bits);
    let parts = EliasFano::new(payload.len(), num_codes, codes.universe, low_bits, is_wide).ok_or(NoMemory)?;
    let room = parts.end.checked_add(room_behind(parts.end)).ok_or(NoMemory)?;
    payload.try_reserve_exact(room - payload.len())?;
    payload.resize(parts.end, 0);
    parts.write(&mut payload, values());
    let (range_len, mapping) = (budget.range_len, chosen.mapping);
    let geometry = Geometry { range_len, mapping, dropped_bits, first, last, codes, parts, is_short: false };
    Ok((geometry.header(), payload))
}

fn mul_high(one: u64, other: u64) -> u64 {
    ((u128::from(one) * u128::from(other)) >> u64::BITS) as u64
}

/// Statistics of the integers of the keys.
struct Spread {
    first: u128,
    last: u128,
    /// `differing_bits[b]` is the number of pairs of neighbouring keys whose integers differ in bit
    /// `b - 1` and agree in all higher bits. Index 0 counts equal integers.
    differing_bits: [u64; 129],
}

impl Spread {
    /// Maps all keys and returns their statistics. If all integers fit in 64 bits, the function
    /// also returns the integers, which the codes will overwrite. Otherwise the vector is empty.
    #[expect(clippy::indexing_slicing, reason = "two integers differ in at most 128 bits")]
    fn of(chosen: &Chosen, keys: &RangeKeys) -> Result<(Self, Vec<KeyHash>), NoMemory> {
        let (mut first, mut last) = (None, 0);
        let mut differing_bits = [0; 129];
        let mut integers = Vec::new();
        let is_short = chosen.is_short();
        if is_short {
            integers.try_reserve_exact(usize::try_from(keys.len()).map_err(|_| NoMemory)?)?;
        }
        chosen.map(keys, |x| {
            match first {
                None => first = Some(x),
                Some(_) => {
                    let bits = (u128::BITS - (x ^ last).leading_zeros()) as usize;
                    differing_bits[bits] += 1;
                }
            }
            last = x;
            if is_short {
                #[expect(clippy::cast_possible_truncation, reason = "all integers have 64 bits")]
                integers.push(KeyHash::from_raw(x as u64));
            }
        })?;
        Ok((Self { first: first.unwrap_or_default(), last, differing_bits }, integers))
    }

    /// Returns the number of low bits to drop, or 0 if all integers are equal. The cells must
    /// distinguish at least 99.5 % of the neighbouring keys whose integers differ. If such cells
    /// fit into the universe, the function chooses the smallest cells that fit. Otherwise it
    /// chooses the largest such cells.
    fn droppable_bits(&self, universe: u64) -> u32 {
        let enough = enough(self.differing_bits.iter().skip(1).sum());
        if enough == 0 {
            return 0;
        }
        let most = (1..MAX_BITS).rfind(|&bits| self.num_cells(bits) > enough).unwrap_or_default();
        let fits = |bits: &u32| (self.last >> bits) - (self.first >> bits) < universe.into();
        (0..=most).find(fits).unwrap_or(most)
    }

    /// Returns the number of cells with keys if `dropped_bits` low bits are dropped.
    fn num_cells(&self, dropped_bits: u32) -> u64 {
        1 + self.differing_bits.iter().skip(dropped_bits as usize + 1).sum::<u64>()
    }
}

/// Returns the universe of the codes: the number of possible codes that the budget allows.
fn universe(budget: Budget, num_keys: u64, num_cells: u64, header_len_bits: u64) -> u64 {
    let universe = match budget.rate {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
        Some(rate) => (num_cells as f64 * range_len(budget) as f64 / rate).ceil() as u64,
        None => {
            let bits = u128::from(num_keys) * u128::from(budget.millibits) / 1000;
            largest_universe(num_cells, bits.saturating_sub(header_len_bits.into()))
        }
    };
    universe.clamp(1, MAX_CODES)
}

/// Returns the length of the ranges that the filter is sized for: [`SCAN_CELLS`] if the budget is
/// for scans.
pub(super) fn range_len(budget: Budget) -> u64 {
    if budget.range_len == 0 { SCAN_CELLS } else { budget.range_len }
}

/// Returns the largest universe, up to [`MAX_CODES`], whose codes take at most `max_len_bits` bits.
/// Returns 1 if no universe does.
pub(super) fn largest_universe(num_codes: u64, max_len_bits: u128) -> u64 {
    let len = |universe| len_bits(num_codes, universe, EliasFano::best_low_bits(num_codes, universe));
    let (mut low, mut high) = (1, MAX_CODES);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if len(middle) <= max_len_bits {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
