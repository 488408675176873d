//! Computes how many cache lines a query reads.

const LINE_LEN_BYTES: u64 = 64;

/// Returns the number of cache lines of a payload. A query reads at most this number.
pub(super) fn lines_of(len_bytes: u64) -> f64 {
    len_bytes.div_ceil(LINE_LEN_BYTES) as f64
}

/// Returns the mean number of cache lines that scattered probes read in a payload of `len_bytes`.
/// The first element is for an absent key, the second for a present key. A query of an absent key
/// stops at the first zero bit. `fill` is the fill ratio, the share of bits that are set.
pub(crate) fn scattered_lines(fill: f64, len_bytes: u64, probes: u32) -> [f64; 2] {
    // Probe i reads a new line with probability other_line^i: none of the i probes before it read
    // that line.
    let other_line = 1.0 - 1.0 / len_bytes.div_ceil(LINE_LEN_BYTES).max(1) as f64;
    let sum = |ratio: f64| (0..probes).map(|i| ratio.powi(i.cast_signed())).sum();
    [sum(fill * other_line), sum(other_line)]
}

/// Returns the mean number of cache lines that two neighbouring blocks occupy. A block has one word
/// for each column.
pub(super) fn pair_lines(columns: f64, word_len_bytes: u64) -> f64 {
    let of = |columns: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 32 columns")]
        let len = columns as u64 * word_len_bytes;
        let lines = |i: u64| (i * len % LINE_LEN_BYTES + 2 * len).div_ceil(LINE_LEN_BYTES);
        (0..LINE_LEN_BYTES).map(lines).sum::<u64>() as f64 / LINE_LEN_BYTES as f64
    };
    // If the number of columns is not whole, some blocks have one column less than the others.
    let (fewer, share) = (columns.floor(), columns.fract());
    of(fewer) * (1.0 - share) + of(fewer + 1.0) * share
}

/// Returns the mean number of cache lines that a query of a bumped ribbon loads from two
/// neighbouring blocks of one group of columns. Without columns, the number is 0.
///
/// A block has one word of 8 bytes per column, and a group has at most eight columns. The query
/// loads 64 bytes from the start of each block, even if the block is shorter.
pub(super) fn loaded_pair_lines(columns: f64) -> f64 {
    if columns <= 0.0 {
        return 0.0;
    }
    let of = |columns: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 8 columns")]
        let len = columns as u64 * 8;
        let lines = |i: u64| (i * len % LINE_LEN_BYTES + len + LINE_LEN_BYTES).div_ceil(LINE_LEN_BYTES);
        (0..LINE_LEN_BYTES).map(lines).sum::<u64>() as f64 / LINE_LEN_BYTES as f64
    };
    // If the number of columns is not whole, some blocks have one column less than the others.
    let (fewer, share) = (columns.floor(), columns.fract());
    of(fewer) * (1.0 - share) + of(fewer + 1.0) * share
}
