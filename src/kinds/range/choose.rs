//! Chooses the mapping of a set of keys, and maps the keys in order.

use super::keys::{ByteSet, RangeKeys, Statistics};
use super::mapping::{FLAG_END, FLAG_SET, MAX_BITS, Mapping, POSITION_LEN_BYTES, rank};
use super::{MAX_PLAIN_POSITIONS, MAX_POSITIONS, MAX_PREFIX_LEN_BYTES};
use crate::bits::{NoMemory, try_zeros};
use crate::codec::u64_bytes;

/// A position where more bytes than this occur gets all bytes. Then it needs no set, and the
/// positions at the end can be loaded as one integer. That costs less than one bit of the integer.
const MANY_BYTES: u32 = 128;
/// The number of keys that pay for one set of 32 bytes: a quarter of a bit per key.
const KEYS_PER_SET: u64 = 1024;

/// The symbols of a position.
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
    /// For each position and plain position, the symbol of each byte. The last entry is the radix.
    symbols: Vec<[u16; 257]>,
}

/// A position while the mapping is chosen.
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
        let (low, high) = ((0..=u8::MAX).find(|&byte| rank(&set, byte).1)?, (0..=u8::MAX).rfind(|&byte| rank(&set, byte).1)?);
        let (low, high) = if num_bytes > MANY_BYTES { (0, u8::MAX) } else { (low, high) };
        Some(Self { set, has_end, low, high, num_bytes })
    }

    fn span(&self) -> u32 {
        u32::from(self.high - self.low) + 1
    }

    fn is_plain(&self) -> bool {
        self.span() == 256 && !self.has_end
    }

    /// Returns whether an interval would be a quarter larger than the set of bytes.
    fn is_sparse(&self) -> bool {
        self.num_bytes <= MANY_BYTES && self.span() * 4 > self.num_bytes * 5
    }
}

impl Chosen {
    /// Chooses the mapping of sorted keys. With `is_scan`, it has only as many positions as tell
    /// 99.5 % of the neighbours apart. Otherwise it has as many as fit into [`MAX_BITS`].
    pub(super) fn new(keys: &RangeKeys, is_scan: bool) -> Result<Self, NoMemory> {
        let statistics = keys.statistics().ok_or(NoMemory)?;
        let prefix = keys.last.get(..keys.shared_len).unwrap_or_default().to_vec();
        let all = Self::positions_of(statistics, keys.shared_len);
        let len = if is_scan { positions_for_scans(statistics, keys.shared_len, all.len()) } else { all.len() };
        let all = all.get(..len).unwrap_or_default();
        let num_plain = all.iter().rev().take_while(|position| position.is_plain()).count();
        let num_plain = num_plain.min(MAX_PLAIN_POSITIONS.into());
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
        chosen.symbols = chosen.tables(num_plain)?;
        Ok(chosen)
    }

    /// Returns all positions from `start` on that fit into [`MAX_BITS`] bits, up to the first one
    /// that no key reaches. A set never has more symbols than its interval, so the integers of
    /// intervals bound those of sets.
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

    /// Returns the symbols of a position: a set if it pays and may be stored, else an interval.
    fn symbols_of(&mut self, position: &Position, max_sets: u64) -> Symbols {
        let interval = Symbols::Interval(position.low, position.high);
        if !position.is_sparse() {
            return interval;
        }
        let len = |set: &ByteSet| set.iter().map(|word| word.count_ones()).sum::<u32>();
        let has_all = |set: &ByteSet| set.iter().zip(&position.set).all(|(set, own)| own & !set == 0);
        // A set with a few bytes more costs nothing.
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

    fn tables(&self, num_plain: usize) -> Result<Vec<[u16; 257]>, NoMemory> {
        let mut tables = Vec::new();
        tables.try_reserve_exact(self.positions.len() + num_plain)?;
        let plain = std::iter::repeat_n((Symbols::Interval(0, u8::MAX), false), num_plain);
        for (symbols, has_end) in self.positions.iter().copied().chain(plain) {
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
                Symbols::Set(_) => set.map_or(1, |set| set.iter().map(|word| word.count_ones() as u16).sum()),
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
    pub(super) fn map(&self, keys: &RangeKeys, mut visit: impl FnMut(u128)) -> Result<(), NoMemory> {
        // The integers of the key's first positions. The next key shares some of them.
        let mut values: Vec<u128> = try_zeros(self.symbols.len() + 1)?;
        let (prefix_len, num_positions) = (self.prefix.len(), self.symbols.len());
        keys.for_each_entry(|shared, new| {
            let from = shared.saturating_sub(prefix_len);
            let new = new.get(prefix_len.saturating_sub(shared)..).unwrap_or_default();
            let Some(mut value) = values.get(from).copied() else {
                // The keys agree in all positions.
                return visit(values.last().copied().unwrap_or_default());
            };
            let mut bytes = new.iter();
            let tables = self.symbols.get(from..num_positions).unwrap_or_default();
            for (table, value_behind) in tables.iter().zip(values.iter_mut().skip(from + 1)) {
                let [symbols @ .., radix] = table;
                // A key that has ended has symbol 0, here and behind.
                let symbol = bytes.next().and_then(|&byte| symbols.get(usize::from(byte)).copied()).unwrap_or_default();
                value = value * u128::from(*radix) + u128::from(symbol);
                *value_behind = value;
            }
            visit(value);
        });
        Ok(())
    }
}

/// Returns how many of the first `len` positions tell apart 99.5 % of the neighbours that all of
/// them tell apart.
fn positions_for_scans(statistics: &Statistics, start: usize, len: usize) -> usize {
    let differing = || statistics.agreeing.iter().skip(start).take(len);
    let enough = super::enough(differing().sum());
    let mut sum = 0;
    let found = differing().position(|&count| {
        sum += count;
        sum >= enough
    });
    found.map_or(len, |position| position + 1)
}

fn as_u8(len: usize) -> Result<u8, NoMemory> {
    u8::try_from(len).map_err(|_| NoMemory)
}

const _: () = assert!(MAX_POSITIONS <= u8::MAX as usize && MAX_PREFIX_LEN_BYTES <= u8::MAX as usize);
