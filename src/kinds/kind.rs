//! The kinds of filter as a closed set: what the list of kinds generates.

use std::fmt;

/// Generates [`FilterKind`] and what follows from the list alone.
macro_rules! filter_kind {
    ($($(#[$doc:meta])* $tag:literal $kind:ident $name:literal $module:ident::$type:ident, $description:literal;)+) => {
        /// The kinds of filter that this version builds and reads; the numbers are the tags on disk.
        ///
        /// Zero stays invalid, so that zeroed bytes are no filter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum FilterKind {
            $($(#[$doc])* $kind = $tag,)+
        }

        impl FilterKind {
            /// All kinds, in the order of their tags.
            pub const ALL: [Self; [$($tag),+].len()] = [$(Self::$kind),+];

            /// The name in a [`FilterSpec`](crate::FilterSpec).
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// How the kind stores a key, as half a line of text.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$kind => $description,)+
                }
            }

            /// The kind with this [`name`](Self::name); `None` for any other text.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$kind),)+
                    _ => None,
                }
            }

            /// The kind with this tag on disk.
            pub(crate) fn from_tag(tag: u8) -> Option<Self> {
                match tag {
                    $($tag => Some(Self::$kind),)+
                    _ => None,
                }
            }
        }
    };
}
kinds!(filter_kind);

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
