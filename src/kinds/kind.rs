//! Defines the enum of filter kinds, which the list of kinds generates.

use std::fmt;

/// Generates [`FilterKind`] and the functions that depend only on the list.
macro_rules! filter_kind {
    ($($(#[$doc:meta])* $tag:literal $kind:ident $name:literal $module:ident::$type:ident, $description:literal;)+) => {
        /// The kinds of filter that this version builds and reads. The discriminants are the tags
        /// on disk.
        ///
        /// Tag 0 is invalid, so that a reader rejects zeroed bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum FilterKind {
            $($(#[$doc])* $kind = $tag,)+
        }

        impl FilterKind {
            /// All kinds, in the order of their tags.
            pub const ALL: [Self; [$($tag),+].len()] = [$(Self::$kind),+];

            /// Returns the name in a [`FilterSpec`](crate::FilterSpec).
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// Returns a short phrase that says how the kind stores a key.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$kind => $description,)+
                }
            }

            /// Returns the kind with this [`name`](Self::name), or `None` for any other text.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$kind),)+
                    _ => None,
                }
            }

            /// Returns the kind with this tag on disk, or `None` if no kind has it.
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
