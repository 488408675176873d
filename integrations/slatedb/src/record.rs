//! Keeps a record of the policies beside the database, and compares other policies with it.

use slatedb::bytes::Bytes;
use slatedb::object_store::path::Path;
use slatedb::object_store::{self, GetOptions, ObjectStore, PutMode, PutPayload};

use crate::error::{Error, Result};
use crate::filters::Filters;

/// The first line of a record.
const HEAD: &str = "filterblock-slatedb policies 1";
/// The maximum length of a record in bytes. The limit bounds the memory for an object that is not a
/// record.
const MAX_LEN_BYTES: u64 = 4096;

impl Filters {
    /// Records the policies and their hasher in the object `<root>/filterblock/policies`, if there
    /// is no such object. Otherwise compares them with the record.
    ///
    /// Call this function before you open the database, in every writer, reader, compactor and
    /// worker. The function compares the hasher, the format version, the name of the extractor, and
    /// whether filters have keys, prefixes and ranges. It cannot detect a process that does not
    /// call it: see [`inspect`](Self::inspect).
    ///
    /// To change the policies, stop all processes, delete the object, and start them with the new
    /// list. The store must support conditional puts, as SlateDB itself requires.
    ///
    /// # Errors
    /// Returns [`Error::OtherPolicies`] if the record differs, [`Error::Record`] if the object is
    /// not a record, and [`Error::ObjectStore`] if a request fails.
    pub async fn record_or_compare(&self, root: impl Into<Path>, store: &dyn ObjectStore) -> Result<()> {
        let path = Path::from(format!("{}/filterblock/policies", root.into()));
        let given = self.described();
        let payload = PutPayload::from(format!("{HEAD}\n{given}\n"));
        match store.put_opts(&path, payload, PutMode::Create.into()).await {
            Ok(_) => return Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let recorded = read(&path, store).await?;
        if recorded == given {
            return Ok(());
        }
        Err(Error::OtherPolicies { record: path.to_string(), recorded, given })
    }

    /// Returns the settings that all processes must share, in one line.
    fn described(&self) -> String {
        let identity = self.config.hasher.identity();
        let secret = identity.fingerprint.map(|fingerprint| format!(", secret {fingerprint}")).unwrap_or_default();
        let ranges = if self.has_ranges() { " and ranges" } else { "" };
        format!("{}{ranges}, hash {}, seed {}{secret}", self.name(), identity.kind, identity.seed.0)
            .escape_debug()
            .to_string()
    }
}

/// Reads a record. Returns the line with the settings.
async fn read(path: &Path, store: &dyn ObjectStore) -> Result<String> {
    let found = store.get_opts(path, GetOptions::default()).await?;
    let refused = || Error::Record { record: path.to_string() };
    if found.meta.size > MAX_LEN_BYTES {
        return Err(refused());
    }
    let bytes: Bytes = found.bytes().await?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refused())?;
    let line = text.strip_prefix(HEAD).and_then(|rest| rest.strip_prefix('\n')?.strip_suffix('\n'));
    Ok(line.ok_or_else(refused)?.to_owned())
}
