//! What an inspection finds out about one SST.

use std::fmt;

/// The filter of one SST.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstReport {
    /// The id of the SST, which is its file name without `.sst`.
    pub id: String,
    /// The number of rows. `None` if the SST has no statistics, or if they are not readable.
    pub num_rows: Option<u64>,
    /// The length of the filter block in bytes, with the filters of all policies.
    pub filter_len_bytes: u64,
    /// What the filter block holds.
    pub filter: SstFilter,
}

/// What the filter block of an SST holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SstFilter {
    /// A usable filter of the policy.
    Usable,
    /// A filter of the policy that answers "maybe" for every key: damaged, of a newer version or
    /// under another hasher.
    Unusable,
    /// No filter of the policy, but a Bloom filter that
    /// [`Filters::reading_bloom`](crate::Filters::reading_bloom) uses.
    Bloom,
    /// Only filters of other policies, which SlateDB ignores.
    Other,
    /// The SST has no filter block.
    NoBlock,
    /// SlateDB cannot read the filter block, for this reason. A get of a key in the SST's range fails
    /// with the same error.
    Unreadable(String),
}

impl fmt::Display for SstReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sst {}", self.id)?;
        if let Some(rows) = self.num_rows {
            write!(f, " with {rows} rows")?;
        }
        match &self.filter {
            SstFilter::Usable => f.write_str(" has a usable filter"),
            SstFilter::Unusable => f.write_str(" has a filter that cannot be used"),
            SstFilter::Bloom => f.write_str(" has a Bloom filter of SlateDB's own policy"),
            SstFilter::Other => f.write_str(" has only filters of other policies"),
            SstFilter::NoBlock => f.write_str(" has no filter block"),
            SstFilter::Unreadable(reason) => write!(f, " has a filter block that SlateDB cannot read ({reason})"),
        }
    }
}
