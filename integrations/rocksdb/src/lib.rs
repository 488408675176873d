//! filterblock as the filter policy of RocksDB.
