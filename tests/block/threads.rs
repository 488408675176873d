//! Checks at compile time that public types are `Send` and `Sync`.

use filterblock::FilterBuilder;
use filterblock::{
    AlignedBytes, Error, Expected, FilterBlock, FilterSet, FilterSlot, FilterSpec, HashIdentity, KeyHash, KeyHasher,
    Metadata, ParsedBlock, PrefixExtractor, Secret, SharedBytes, TableFilter, VerifiedFilter, VerifiedTrailer,
    partitions::{PartitionIndex, PartitionedBuilder},
    policy::{ByLevel, MemoryBudget, Monkey},
};

const fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn public_types_are_send_and_sync() {
    const {
        is_send_and_sync::<(AlignedBytes, SharedBytes, ParsedBlock<SharedBytes>, FilterBlock<SharedBytes>)>();
        is_send_and_sync::<(TableFilter<SharedBytes>, VerifiedFilter<'_>, VerifiedTrailer)>();
        is_send_and_sync::<(FilterSet, FilterSlot, PartitionIndex<SharedBytes>, Metadata, Error)>();
        is_send_and_sync::<(FilterBuilder, PartitionedBuilder, FilterSpec, Expected<'_>, PrefixExtractor)>();
        is_send_and_sync::<(KeyHash, KeyHasher, Secret, HashIdentity)>();
        is_send_and_sync::<(ByLevel, MemoryBudget, Monkey)>();
    }
}

#[test]
#[cfg(feature = "mmap")]
fn memory_maps_are_send_and_sync() {
    const { is_send_and_sync::<filterblock::Mapped>() }
}
