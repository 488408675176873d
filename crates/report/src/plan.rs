//! One row of a plan: size, FPR and cost of a kind of filter, computed without building it.

use filterblock::planning::BlockPlan;
use filterblock::{Error, FilterKind};
use filterblock_family::plan::{Variant, VariantPlan};
use serde::Serialize;

/// The planned kinds, in the order of the tables.
pub const PLANNED_KINDS: [FilterKind; 7] = [
    FilterKind::Bloom,
    FilterKind::BlockedBloom,
    FilterKind::SplitBlock,
    FilterKind::SplitBlock512,
    FilterKind::BumpedRibbon,
    FilterKind::Ribbon,
    FilterKind::BinaryFuse,
];

/// The plan of a kind, or the reason why the kind has none.
#[derive(Debug, Serialize)]
pub struct PlanRow {
    /// A specification for `build --filter`, or the name of a refused kind or a classical variant.
    pub filter: String,
    /// True for the classical variants, which have no block format.
    pub in_memory_only: bool,
    #[serde(flatten)]
    pub taken: Option<Taken>,
    /// The reason why this kind has no filter for the budget.
    pub refused: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Taken {
    /// The bytes of a whole block, the bytes of the bits or cells of a classical variant, or the
    /// transmitted bytes of a compressed filter.
    pub len_bytes: u64,
    pub bits_per_key: f64,
    pub expected_false_positive_rate: f64,
    pub lines_if_absent: f64,
    pub lines_if_present: f64,
    /// The bytes that a compressed filter takes in memory. `None` for other filters, which take
    /// `len_bytes`.
    pub memory_len_bytes: Option<u64>,
}

impl PlanRow {
    pub fn of_block(block: &BlockPlan) -> Self {
        let plan = block.plan();
        let taken = Taken {
            len_bytes: block.len_bytes(),
            bits_per_key: block.bits_per_key(),
            expected_false_positive_rate: plan.expected_fpr(),
            lines_if_absent: plan.lines_if_absent(),
            lines_if_present: plan.lines_if_present(),
            memory_len_bytes: None,
        };
        Self { filter: plan.spec().to_string(), in_memory_only: false, taken: Some(taken), refused: None }
    }

    pub fn of_variant(variant: Variant, plan: Result<VariantPlan, Error>) -> Self {
        let taken = plan.map(|plan| Taken {
            len_bytes: plan.bits().div_ceil(8),
            bits_per_key: plan.bits() as f64 / plan.num_keys as f64,
            expected_false_positive_rate: plan.expected_fpr,
            lines_if_absent: plan.lines_if_absent,
            lines_if_present: plan.lines_if_present,
            memory_len_bytes: plan.sent_bits.map(|_| plan.memory_bits.div_ceil(8)),
        });
        let (taken, refused) = taken.map_or_else(|why| (None, Some(reason(why))), |taken| (Some(taken), None));
        Self { filter: variant.name().to_owned(), in_memory_only: true, taken, refused }
    }

    /// Returns the row of a kind of filter block that has no plan.
    pub fn refused(kind: FilterKind, why: String) -> Self {
        Self { filter: kind.name().to_owned(), in_memory_only: false, taken: None, refused: Some(why) }
    }
}

/// Returns the reason of an error without the name of the filter, which the row shows.
pub fn reason(error: Error) -> String {
    match error {
        Error::Invalid { what: "filter", reason, .. } => reason.into_owned(),
        other => other.to_string(),
    }
}
