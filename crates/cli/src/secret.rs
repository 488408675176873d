//! The secret under which keys are hashed, from a file: what stands on a command line is seen by all users of a machine.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::failure::{Failure, Outcome};
use super::text;
use filterblock::Error;
use filterblock::{HashKind, HashSeed, KeyHasher, Secret};

/// Longer than any secret with the white space around it; a file named by mistake is not read to its end.
const MAX_FILE_LEN_BYTES: u64 = 1 << 10;

/// Where the secret is.
#[derive(Debug, Clone, clap::Args)]
pub struct SecretArguments {
    /// The file with the secret under which keys are hashed: 32 or 64 hexadecimal digits (as `openssl rand -hex 16`
    /// prints them), readable by nobody else
    #[arg(long, value_name = "KEYFILE")]
    secret_file: Option<PathBuf>,
}

/// Which function is to hash keys.
#[derive(Debug, Clone, clap::Args)]
pub struct HashArguments {
    /// What hashes the keys: xxh3, or under the secret of --secret-file xxh3-secret or siphash-1-3, which resists
    /// keys that were chosen to do harm [default: siphash-1-3 with a secret, xxh3 without]
    #[arg(long, value_name = "FUNCTION")]
    pub hash: Option<HashKind>,
}

impl SecretArguments {
    /// The secret, if one was given.
    pub fn read(&self) -> Outcome<Option<Secret>> {
        let Some(path) = &self.secret_file else { return Ok(None) };
        let in_file = |error| Failure::file(path, error);
        let mut written = Vec::new();
        File::open(path).map_err(in_file)?.take(MAX_FILE_LEN_BYTES).read_to_end(&mut written).map_err(in_file)?;
        let mut bytes = Vec::new();
        let is_hex = text::unhex(written.trim_ascii(), &mut bytes).is_ok();
        // What stands in the file is not to be seen in a message.
        match Secret::new(&bytes) {
            Ok(secret) if is_hex => Ok(Some(secret)),
            _ => {
                let path = path.display();
                Err(Failure::Message(format!(
                    "--secret-file {path}: not a secret; expected 32 or 64 hexadecimal digits, as openssl rand -hex 16 \
                     prints them"
                )))
            }
        }
    }

    /// The file with the secret, if one was given.
    pub fn path(&self) -> Option<&Path> {
        self.secret_file.as_deref()
    }

    /// Refuses a secret for a file whose keys are hashed without one.
    pub fn refuse(&self, path: &Path) -> Outcome<()> {
        match &self.secret_file {
            None => Ok(()),
            Some(_) => {
                let path = path.display();
                Err(Failure::Message(format!("{path}: --secret-file: keys of this file are hashed without a secret")))
            }
        }
    }

    /// What to hash keys by: what was asked for, or what suits the secret.
    pub fn hasher(&self, hash: &HashArguments, seed: HashSeed) -> Outcome<KeyHasher> {
        let secret = self.read()?;
        let by_secret = if secret.is_some() { HashKind::SipHash13 } else { HashKind::Xxh3 };
        KeyHasher::new(hash.hash.unwrap_or(by_secret), seed, secret.as_ref()).map_err(|error| self.explain(error))
    }

    /// The error, and where a secret that is missing or wrong is to come from or came from.
    pub fn explain(&self, error: impl Into<Failure>) -> Failure {
        let failure = error.into();
        match (failure.library_error(), &self.secret_file) {
            (Some(Error::Secret { given: None, .. }), _) => {
                Failure::Message(format!("{failure}; --secret-file names the file with it"))
            }
            (Some(Error::Secret { given: Some(_), .. } | Error::Invalid { what: "secret", .. }), Some(path)) => {
                Failure::Message(format!("{failure}; --secret-file is {}", path.display()))
            }
            _ => failure,
        }
    }
}
