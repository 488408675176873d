//! Chooses the prefix extractor of a store, and reports an unknown or changed extractor.

use std::path::Path;

use crate::lsm::options::PrefixChoice;
use crate::lsm::stats::reports::Reports;
use crate::lsm::version::Version;
use filterblock::PrefixExtractor;

/// The reason why scans may be unable to skip SSTs by their prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PrefixDoubt {
    /// The manifest names an extractor that is not built in, and the options do not set it.
    Unknown { stored: String },
    /// The store was written with another extractor, or with none.
    Changed { stored: Option<String>, now: String },
}

/// Returns the extractor to use, and a doubt to report if there is one. `stored` is the extractor's
/// name in the manifest.
pub(crate) fn choose(choice: &PrefixChoice, stored: Option<&str>) -> (Option<PrefixExtractor>, Option<PrefixDoubt>) {
    match (choice, stored) {
        (PrefixChoice::None, _) | (PrefixChoice::Keep, None) => (None, None),
        (PrefixChoice::Keep, Some(name)) => match name.parse() {
            Ok(extractor) => (Some(extractor), None),
            Err(_) => (None, Some(PrefixDoubt::Unknown { stored: name.to_owned() })),
        },
        (PrefixChoice::By(extractor), _) => {
            let (stored, now) = (stored.map(str::to_owned), extractor.name().to_owned());
            let is_same = stored.as_ref() == Some(&now);
            (Some(extractor.clone()), (!is_same).then_some(PrefixDoubt::Changed { stored, now }))
        }
    }
}

impl PrefixDoubt {
    /// Reports the doubt. A changed extractor is reported only if an SST lacks its prefixes.
    pub(crate) fn report(&self, dir: &Path, version: &Version, reports: &Reports) {
        let dir = dir.display();
        let num_tables = version.levels.iter().map(|level| level.slots.len()).sum::<usize>();
        match self {
            Self::Unknown { stored } => reports.add(format!(
                "{dir}: the store has the prefix extractor {stored:?}, which is not built in and was not given; scans \
                 skip no SST by its prefixes, and new filters get no prefixes; open the store with a program that \
                 gives this extractor"
            )),
            Self::Changed { stored, now } => {
                let lacking = version.num_tables_without_prefixes();
                if lacking == 0 {
                    return;
                }
                let before =
                    stored.as_ref().map_or_else(|| "no prefix extractor".to_owned(), |name| format!("{name:?}"));
                reports.add(format!(
                    "{dir}: the prefix extractor is now {now:?}, and the store was written with {before}; scans cannot \
                     skip {lacking} of {num_tables} SSTs by prefix until a compaction writes new filters for them"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_and_the_manifest_decide_the_extractor() {
        let named = PrefixExtractor::named("tenant", |_| None).unwrap();
        let fixed: PrefixExtractor = "fixed:8".parse().unwrap();
        let unknown = |stored: &str| Some(PrefixDoubt::Unknown { stored: stored.to_owned() });
        let changed = |stored: Option<&str>, now: &str| {
            Some(PrefixDoubt::Changed { stored: stored.map(str::to_owned), now: now.to_owned() })
        };
        let by = |extractor: &PrefixExtractor| PrefixChoice::By(extractor.clone());
        for (choice, stored, extractor, doubt) in [
            (PrefixChoice::Keep, None, None, None),
            (PrefixChoice::Keep, Some("fixed:8"), Some(&fixed), None),
            (PrefixChoice::Keep, Some("tenant"), None, unknown("tenant")),
            (PrefixChoice::None, Some("fixed:8"), None, None),
            (by(&fixed), Some("fixed:8"), Some(&fixed), None),
            (by(&fixed), Some("fixed:4"), Some(&fixed), changed(Some("fixed:4"), "fixed:8")),
            (by(&named), None, Some(&named), changed(None, "tenant")),
        ] {
            assert_eq!(choose(&choice, stored), (extractor.cloned(), doubt), "{choice} {stored:?}");
        }
    }
}
