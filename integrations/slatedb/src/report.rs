//! The report of the inspection of one SST.

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
    /// The part of the filter block for keys and prefixes.
    pub filter: SstFilter,
    /// The part of the filter block for ranges. `None` without
    /// [`Filters::with_ranges`](crate::Filters::with_ranges).
    pub ranges: Option<SstFilter>,
}

/// The content of a filter block of an SST.
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
        write!(f, " has {}", self.filter)?;
        match &self.ranges {
            // Both say the same of the whole block.
            None | Some(SstFilter::NoBlock | SstFilter::Unreadable(_)) => Ok(()),
            Some(ranges) => write!(f, ", and for ranges {ranges}"),
        }
    }
}

impl fmt::Display for SstFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usable => "a usable filter",
            Self::Unusable => "a filter that cannot be used",
            Self::Bloom => "a Bloom filter of SlateDB's own policy",
            Self::Other => "only filters of other policies",
            Self::NoBlock => "no filter block",
            Self::Unreadable(reason) => return write!(f, "a filter block that SlateDB cannot read ({reason})"),
        })
    }
}
