//! filterblock as the filter policy of SurrealKV.
