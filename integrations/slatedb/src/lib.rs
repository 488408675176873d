//! filterblock as the filter policy of SlateDB.
