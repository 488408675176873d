//! Helpers that build small indexes and count the reads of a query.

use std::cell::Cell;
use std::io::{self, Cursor};

use filterblock_parquet::index::{
    Built, DistinctHashes, FileIdentity, InMemory, IndexBuilder, IndexReader, KeyType, ReadAt, Settings, SourceKind,
    hash,
};

pub fn settings(fpr: f64) -> Settings {
    Settings { column: String::new(), logical_type: String::new(), key_type: KeyType::Bytes, fpr }
}

pub fn builder(fpr: f64) -> IndexBuilder<Cursor<Vec<u8>>> {
    IndexBuilder::new(settings(fpr), Cursor::new(Vec::new())).unwrap()
}

pub fn identity(path: &str) -> FileIdentity {
    FileIdentity::of_path(path, SourceKind::KeyList)
}

/// Returns the hash of the key with this number.
pub fn hash_of(key: u64) -> u64 {
    hash(&key.to_le_bytes())
}

pub fn distinct(keys: impl IntoIterator<Item = u64>) -> DistinctHashes {
    let mut hashes = DistinctHashes::new();
    keys.into_iter().for_each(|key| hashes.add(hash_of(key)));
    hashes
}

/// Builds an index of `files` files with `keys` keys each. File `i` has the keys from `i * keys` to
/// `i * keys + keys - 1`.
pub fn index_of(files: u64, keys: u64, fpr: f64) -> Built {
    let mut builder = builder(fpr);
    for file in 0..files {
        builder.add_hashes(identity(&format!("file-{file:05}")), distinct(file * keys..(file + 1) * keys)).unwrap();
    }
    builder.build().unwrap()
}

pub fn open(bytes: &[u8]) -> IndexReader<InMemory<&[u8]>> {
    IndexReader::open(InMemory(bytes)).unwrap()
}

/// Returns the candidates for the key with this number.
pub fn ask<R: ReadAt>(index: &IndexReader<R>, key: u64) -> Vec<usize> {
    let (mut buffer, mut files) = (Vec::new(), Vec::new());
    index.candidates(hash_of(key), &mut buffer, &mut files);
    files
}

/// A reader that counts its reads and their bytes. A client of an object store pays for both.
pub struct Counting<R> {
    pub inner: R,
    pub reads: Cell<usize>,
    pub bytes: Cell<usize>,
}

impl<R> Counting<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, reads: Cell::new(0), bytes: Cell::new(0) }
    }
}

impl<R: ReadAt> ReadAt for &Counting<R> {
    fn read_at<'a>(&'a self, offset: u64, len: usize, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + len);
        self.inner.read_at(offset, len, buffer)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.inner.len_bytes()
    }
}
