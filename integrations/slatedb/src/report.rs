//! Describes the filter of one SST, as an inspection found it.

use std::fmt;

/// The state of the filters of one SST.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstReport {
    /// The id of the SST, which is its file name without `.sst`.
    pub id: String,
    /// The number of rows. It is `None` if the SST has no statistics, or if they cannot be read.
    pub num_rows: Option<u64>,
    /// The length of the filter block in bytes, with the filters of all policies.
    pub filter_len_bytes: u64,
    /// The filter for keys and prefixes.
    pub filter: SstFilter,
    /// The range filter. It is `None` without
    /// [`Filters::with_ranges`](crate::Filters::with_ranges).
    pub ranges: Option<SstFilter>,
}

/// The state of a filter of an SST.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SstFilter {
    /// The SST has a usable filter of the policy.
    Usable,
    /// The SST has a filter of the policy, but the filter cannot be used and answers "maybe" for
    /// every key. [`Counts`](crate::Counts) lists the possible reasons.
    Unusable,
    /// The SST has no filter of the policy, but a Bloom filter that
    /// [`Filters::reading_bloom`](crate::Filters::reading_bloom) uses.
    Bloom,
    /// The SST has only filters of other policies.
    Other,
    /// The SST has no filter block.
    NoBlock,
    /// SlateDB cannot read the filter block, for this reason. A get that needs the filter fails
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
            // For `NoBlock` and `Unreadable`, the text about the filter already describes the whole
            // filter block.
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
