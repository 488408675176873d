//! filterblock as the filter policy of rusty-leveldb, sstable and LevelDB.
