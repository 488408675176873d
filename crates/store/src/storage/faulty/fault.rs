//! Defines the operations of a storage, and the faults that can hit them.

/// An operation of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant has the name of a method")]
pub enum Operation {
    Open,
    Create,
    Read,
    ReadAt,
    Write,
    Sync,
    Rename,
    Link,
    Remove,
    Exists,
    List,
    CreateDir,
    SyncDir,
    Lock,
}

impl Operation {
    /// Returns whether the operation only reads.
    #[must_use]
    pub fn is_reading(self) -> bool {
        matches!(self, Self::Open | Self::Read | Self::ReadAt | Self::Exists | Self::List)
    }
}

/// The way in which an operation fails.
///
/// A failed sync loses the unsynced bytes of its file: no later sync makes them durable. The
/// exception is a sync that fails with `Late`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The operation fails with an error of kind `Other`, which stands for `EIO`. This fault can
    /// hit any operation.
    Io,
    /// The operation fails with `StorageFull`, the kind of `ENOSPC`. This fault hits only
    /// operations that need space. A write appends half of its bytes first.
    NoSpace,
    /// The operation fails with `Interrupted`, the kind of `EINTR`. This fault can hit any
    /// operation.
    Interrupted,
    /// The operation makes its change and then returns an error. This fault does not hit locks, nor
    /// operations that only read.
    Late,
    /// A read fails after half of its bytes.
    ShortRead,
    /// A read returns a flipped bit and no error.
    BitRot,
    /// A read returns bytes from a random offset of the file and no error.
    Misdirected,
}

impl FaultKind {
    /// All kinds that return an error. With these kinds no read returns wrong bytes.
    pub const ERRORS: [Self; 5] = [Self::Io, Self::NoSpace, Self::Interrupted, Self::Late, Self::ShortRead];

    pub(super) fn strikes(self, operation: Operation) -> bool {
        match self {
            Self::Io | Self::Interrupted => true,
            Self::NoSpace => matches!(
                operation,
                Operation::Create
                    | Operation::Write
                    | Operation::Sync
                    | Operation::Rename
                    | Operation::Link
                    | Operation::CreateDir
                    | Operation::Lock
            ),
            Self::Late => !operation.is_reading() && operation != Operation::Lock,
            Self::ShortRead | Self::BitRot | Self::Misdirected => {
                matches!(operation, Operation::Read | Operation::ReadAt)
            }
        }
    }
}

/// A fault that hits one coming operation, or all operations from a number on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The number of the first operation that the fault may hit, counted from 0. The fault hits the
    /// first operation from there on to which its kind applies.
    pub from: u64,
    /// The kind of fault.
    pub kind: FaultKind,
    /// Whether the fault also hits all later operations to which its kind applies.
    pub is_lasting: bool,
}
