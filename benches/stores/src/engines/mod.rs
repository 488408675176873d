//! Lists the measured stores.

#[cfg(any(feature = "leveldb", feature = "rocksdb"))]
mod c;
mod filterblock;
mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod rusty_leveldb;
mod surrealkv;

use crate::engine::Contender;

/// Returns all stores that this build can measure.
pub fn all() -> Vec<Contender> {
    let mut found = filterblock::contenders();
    #[cfg(feature = "rocksdb")]
    found.extend(rocksdb::contenders());
    #[cfg(feature = "leveldb")]
    found.push(leveldb::contender());
    found.extend([surrealkv::contender(), fjall::contender(), rusty_leveldb::contender(), redb::contender()]);
    found
}
