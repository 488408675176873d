//! Reads the hashing secret from a file. No option takes the secret itself, because other users of
//! the machine may see the arguments of a command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::prelude::*;
use filterblock::{Error, HashKind, HashSeed, KeyHasher, Secret};

/// The maximum length of a secret file: enough for the longest secret and some white space around
/// it. A longer file is refused, and not read to its end.
const MAX_FILE_LEN_BYTES: u64 = 1 << 10;

/// The option for the secret file.
#[derive(Clone, clap::Args)]
pub struct SecretArguments {
    /// The file with the hashing secret: 32 or 64 hexadecimal digits, such as from `openssl rand
    /// -hex 16`; only its owner should be able to read it
    #[arg(long, value_name = "SECRETFILE")]
    secret_file: Option<PathBuf>,
}

/// The option for the hash function.
#[derive(Clone, clap::Args)]
pub struct HashArguments {
    /// The hash function: xxh3, or with --secret-file siphash-1-3 (resists attackers who choose
    /// keys) or xxh3-secret [default: siphash-1-3 with a secret, xxh3 without]
    #[arg(long, value_name = "FUNCTION")]
    pub hash: Option<HashKind>,
}

impl SecretArguments {
    /// Reads the secret. Returns `None` if --secret-file is not given. Returns an error if the file
    /// cannot be read or has no secret.
    pub fn read(&self) -> Outcome<Option<Secret>> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let in_file = |error| Failure::file(path, error);
        let mut written = Vec::new();
        if path.is_dir() {
            return fail(format!("--secret-file {}: this is a directory; give a file", path.display()));
        }
        File::open(path).map_err(in_file)?.take(MAX_FILE_LEN_BYTES + 1).read_to_end(&mut written).map_err(in_file)?;
        let mut bytes = Vec::new();
        let is_whole = written.len() as u64 <= MAX_FILE_LEN_BYTES;
        let is_hex = is_whole && text::unhex(written.trim_ascii(), &mut bytes).is_ok();
        // The message must not show the content of the file.
        match Secret::new(&bytes) {
            Ok(secret) if is_hex => Ok(Some(secret)),
            _ => {
                let path = path.display();
                fail(format!(
                    "--secret-file {path}: not a secret; the file must hold 32 or 64 hexadecimal digits, as \"openssl \
                     rand -hex 16\" prints them"
                ))
            }
        }
    }

    pub fn path(&self) -> Option<&Path> {
        self.secret_file.as_deref()
    }

    /// Returns an error if --secret-file is given. Call it for a file without filters that need a
    /// secret.
    pub fn refuse(&self, path: &Path) -> Outcome<()> {
        match &self.secret_file {
            None => Ok(()),
            Some(_) => refuse(path, "no filter of this file needs a secret; omit --secret-file"),
        }
    }

    /// Reads the secret, and returns the hasher for `--hash`. The default is siphash-1-3 with a
    /// secret, and xxh3 without.
    pub fn hasher(&self, hash: &HashArguments, seed: HashSeed) -> Outcome<KeyHasher> {
        let secret = self.read()?;
        let by_secret = if secret.is_some() { HashKind::SipHash13 } else { HashKind::Xxh3 };
        let kind = hash.hash.unwrap_or(by_secret);
        KeyHasher::new(kind, seed, secret.as_ref()).map_err(|error| match error {
            Error::Secret { given: None, .. } => {
                Failure::Message(format!("--hash {kind}: missing secret; give it with --secret-file SECRETFILE"))
            }
            Error::Invalid { what: "secret", .. } => Failure::Message(format!(
                "--hash {kind}: this function takes no secret; omit --hash to use siphash-1-3, or omit --secret-file"
            )),
            error => self.explain(error),
        })
    }

    /// Replaces the advice in an error about a missing, wrong or needless secret by advice that
    /// names --secret-file. Returns other errors unchanged.
    pub fn explain(&self, error: impl Into<Failure>) -> Failure {
        let failure = error.into();
        let text = failure.to_string();
        let problem = text::without_advice(&text);
        let message = match (failure.library_error(), &self.secret_file) {
            (Some(Error::Secret { given: None, stored: Some(stored), .. }), _) => {
                format!("{problem} (fingerprint {stored}); give it with --secret-file SECRETFILE")
            }
            (Some(Error::Secret { given: None, .. }), _) => {
                format!("{problem}; give it with --secret-file SECRETFILE")
            }
            (Some(Error::Secret { given: Some(_), .. }), Some(path)) => {
                format!("{problem}; --secret-file {} holds another secret, so give the right file", path.display())
            }
            (Some(Error::Invalid { what: "secret", .. }), Some(path)) => {
                format!("{problem}; omit --secret-file {}", path.display())
            }
            _ => return failure,
        };
        Failure::Message(message)
    }
}
