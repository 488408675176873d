//! Gives access to the facts of each kind through its [`FilterKind`]. The list of kinds generates
//! the functions.

use super::blank::Blank;
use super::contract::{Budget, Budgets, Built, Kind, Planned};
use super::kind::FilterKind;
use super::shape::{Effort, Rounding};
use crate::bits::NoMemory;
use crate::hash::KeyHash;

/// Generates one function of [`FilterKind`] for each constant and each function of [`Kind`], except
/// for [`Kind::parse`].
macro_rules! facts {
    ($($(#[$doc:meta])* $tag:literal $kind:ident $name:literal $module:ident::$type:ident, $description:literal;)+) => {
        impl FilterKind {
            /// Returns [`Kind::BUDGETS`].
            pub(crate) fn budgets(self) -> Budgets {
                match self {
                    $(Self::$kind => super::$module::$type::BUDGETS,)+
                }
            }

            /// Returns [`Kind::LOWEST_RATE`].
            pub(crate) fn lowest_rate(self) -> &'static str {
                match self {
                    $(Self::$kind => super::$module::$type::LOWEST_RATE,)+
                }
            }

            /// Returns [`Kind::HAS_COMPACT`].
            pub(crate) fn has_compact(self) -> bool {
                match self {
                    $(Self::$kind => super::$module::$type::HAS_COMPACT,)+
                }
            }

            /// Calls [`Kind::rate_of_many`].
            pub(crate) fn rate_of_many(self, millibits: u32) -> f64 {
                match self {
                    $(Self::$kind => super::$module::$type::rate_of_many(millibits),)+
                }
            }

            /// Calls [`Kind::plan`].
            pub(crate) fn plan(self, budget: Budget, num_keys: u64) -> Result<Planned, &'static str> {
                match self {
                    $(Self::$kind => super::$module::$type::plan(budget, num_keys),)+
                }
            }

            /// Calls [`Kind::build`].
            pub(crate) fn build(
                self,
                budget: Budget,
                hashes: &mut [KeyHash],
                effort: Effort,
            ) -> Result<Option<Built>, NoMemory> {
                match self {
                    $(Self::$kind => super::$module::$type::build(budget, hashes, effort),)+
                }
            }

            /// Calls [`Kind::blank`].
            pub(super) fn blank(
                self,
                budget: Budget,
                num_keys: u64,
                rounding: Rounding,
            ) -> Result<Option<Blank>, NoMemory> {
                match self {
                    $(Self::$kind => super::$module::$type::blank(budget, num_keys, rounding),)+
                }
            }

            /// Calls [`Kind::fallback_rate`].
            pub(crate) fn fallback_rate(self, budget: Budget) -> Option<f64> {
                match self {
                    $(Self::$kind => super::$module::$type::fallback_rate(budget),)+
                }
            }
        }
    };
}
kinds!(facts);

impl FilterKind {
    /// Returns whether the kind accepts a budget.
    pub(crate) fn takes_budget(self) -> bool {
        self.budgets() != Budgets::None
    }
}
