//! Defines the errors of the checks that a user starts. Reads never return them.

use std::fmt;

use slatedb::object_store;

use crate::report::SstReport;

/// The result of a check.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a check. Gets and scans never fail because of a filter of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The record of the database states other policies than this process has.
    OtherPolicies {
        /// The path of the record in the object store.
        record: String,
        /// The recorded policies.
        recorded: String,
        /// The policies of this process.
        given: String,
    },
    /// The object at the path of the record is not a record of this crate, so nothing was compared.
    Record {
        /// The path of the record in the object store.
        record: String,
    },
    /// SSTs have no usable filter of the policy, or no usable range filter. For example, a process
    /// wrote them with another list of policies, they are older than the policy, or their filters
    /// are damaged.
    Ssts {
        /// The name of the policy.
        policy: String,
        /// The number of SSTs in the manifest.
        num_ssts: usize,
        /// The SSTs without a usable filter or range filter.
        without: Vec<SstReport>,
    },
    /// A request to the object store failed.
    ObjectStore(object_store::Error),
    /// SlateDB returned an error.
    Engine(slatedb::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherPolicies { record, recorded, given } => write!(
                f,
                "{record}: the database has the policies \"{recorded}\", and this process has \"{given}\"; give every \
                 writer, reader, compactor and worker the same list, or delete the record to change the list"
            ),
            Self::Record { record } => write!(
                f,
                "{record}: not a record of filter policies; find out which program wrote it, or delete it if it is \
                 damaged"
            ),
            Self::Ssts { policy, num_ssts, without } => {
                write!(
                    f,
                    "{} of {num_ssts} SSTs have no usable filter of the policy \"{policy}\", or no usable range filter",
                    without.len()
                )?;
                for sst in without.iter().take(3) {
                    write!(f, "; {sst}")?;
                }
                f.write_str(
                    "; give every writer, compactor and worker the same list of policies and the same version of \
                     filterblock-slatedb, restore SSTs that SlateDB cannot read, then compact the others",
                )
            }
            Self::ObjectStore(error) => write!(f, "object store: {error}; check the store and try again"),
            Self::Engine(error) => write!(f, "SlateDB: {error}; check the database and its path, then try again"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ObjectStore(error) => Some(error),
            Self::Engine(error) => Some(error),
            Self::OtherPolicies { .. } | Self::Record { .. } | Self::Ssts { .. } => None,
        }
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        Self::ObjectStore(error)
    }
}

impl From<slatedb::Error> for Error {
    fn from(error: slatedb::Error) -> Self {
        Self::Engine(error)
    }
}
