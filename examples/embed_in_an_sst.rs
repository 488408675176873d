//! Shows a small storage engine that keeps a filter block in each of its SST files.
//!
//! The filters save most reads for absent keys. A damaged or wrong filter costs reads and loses no
//! key; the engine counts such filters. Run: `cargo run --release --example embed_in_an_sst`

use filterblock::{AlignedBytes, FilterBlock, FilterHandle, FilterOptions, FilterSet, FilterSlot};
use filterblock::{HashSeed, KeyHasher, TableFilter, Verify};
use std::io::{Read, Seek, SeekFrom, Write};
use std::{collections::BTreeMap, fs, fs::File, path::Path, sync::Arc};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Returns the id of an SST: the store's random number and the SST's number.
fn table_id(number: u64) -> [u8; 16] {
    (0x005e_ed0f_57a9_be11_u128 << 64 | u128::from(number)).to_le_bytes()
}

/// Writes `| sorted entries | filter block | footer |` and returns the filter block.
fn write_sst(path: &Path, number: u64, entries: &BTreeMap<String, String>, hasher: &KeyHasher) -> Result<Vec<u8>> {
    let mut builder = FilterOptions::new("blocked-bloom:10".parse()?).table_id(table_id(number)).builder(hasher)?;
    let mut sst = Vec::new(); // a real engine also checksums the entries and the footer
    for (key, value) in entries {
        writeln!(sst, "{key}\t{value}")?;
        builder.add(hasher.key(key.as_bytes()));
    }
    let filter = builder.finish()?;
    let footer = FilterHandle::of(&filter, sst.len() as u64, entries.len() as u64).encode();
    fs::write(path, [sst.as_slice(), &filter.bytes, &footer].concat())?;
    Ok(filter.bytes)
}

fn read_at(mut file: &File, offset: SeekFrom, len: u64) -> filterblock::Result<AlignedBytes> {
    file.seek(offset)?;
    AlignedBytes::filled_by(usize::try_from(len).unwrap_or(usize::MAX), |bytes| Ok(file.read_exact(bytes)?))
}

/// A store. `ssts` has each SST's file, length of entries in bytes and filter slot, newest first.
struct Reader {
    ssts: Vec<(File, u64, FilterSlot)>,
    filters: FilterSet,
}

impl Reader {
    fn open(dir: &Path, hasher: &KeyHasher, out: &mut impl Write) -> Result<Self> {
        let (mut ssts, mut filters) = (Vec::new(), FilterSet::new(hasher));
        for number in (1..=3).rev() {
            let file = File::open(dir.join(format!("{number}.sst")))?;
            let footer =
                read_at(&file, SeekFrom::End(-(FilterHandle::LEN_BYTES as i64)), FilterHandle::LEN_BYTES as u64)?;
            let handle = FilterHandle::decode(footer.as_ref())?;
            let (offset, expected) = (handle.offset, handle.expected(table_id(number), hasher));
            let bytes = read_at(&file, SeekFrom::Start(offset), handle.len_bytes);
            let opened = bytes.and_then(|bytes| FilterBlock::open(bytes.into(), &expected, Verify::AtOpen));
            let filter = TableFilter::from(opened); // after an error, it never saves a read
            if let Some(reason) = filter.reason() {
                writeln!(out, "  {number}.sst: filter not used: {reason}")?;
            }
            ssts.push((file, offset, filters.insert(Arc::new(filter))));
        }
        Ok(Self { ssts, filters })
    }

    /// Returns the value of a key, and the number of SSTs that were read.
    fn get(&self, key: &str) -> Result<(Option<String>, u64)> {
        let (asked, mut reads) = (self.filters.hasher().key(key.as_bytes()), 0); // hashed once for all SSTs
        for (file, data_len, _) in self.ssts.iter().filter(|sst| self.filters.ask(sst.2, asked).must_read()) {
            reads += 1;
            let data = read_at(file, SeekFrom::Start(0), *data_len)?;
            let mut lines = std::str::from_utf8(data.as_ref())?.lines();
            if let Some(value) = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('\t')) {
                return Ok((Some(value.to_owned()), reads));
            }
        }
        Ok((None, reads))
    }
}

/// Returns 1,000 entries. The key ranges of the SSTs overlap, so only filters can save reads.
fn entries(number: u64) -> BTreeMap<String, String> {
    (0..1_000).map(|i| (format!("user-{:06}", i * 3 + number), format!("{i} of {number}"))).collect()
}

/// Runs the example, for `main` and for its test.
pub fn run(out: &mut impl Write) -> Result<()> {
    let (dir, hasher) = (tempfile::tempdir()?, KeyHasher::xxh3(HashSeed(1)));
    let path = |number| dir.path().join(format!("{number}.sst"));
    let write = |number, entries| write_sst(&path(number), number, &entries, &hasher);
    let mut report = |title, seed| -> Result<()> {
        writeln!(out, "{title}:")?;
        let reader = Reader::open(dir.path(), &KeyHasher::xxh3(seed), out)?;
        let (mut found, mut reads) = (0, 0);
        for (key, value) in (1..=3).flat_map(entries) {
            found += u64::from(reader.get(&key)?.0 == Some(value));
            reads += reader.get(&format!("{key}-absent"))?.1;
        }
        let counts = reader.filters.counts();
        writeln!(out, "  filters: {} ready, {} degraded", counts.ready, counts.degraded)?;
        writeln!(out, "  3000 present keys: {found} found")?;
        Ok(writeln!(out, "  3000 absent keys: {reads} reads, {} saved", 3 * 3_000 - reads)?)
    };
    let (stale, _, foreign) = (write(2, entries(5_000))?, write(1, entries(1))?, write(3, entries(3))?);
    let (filter, sst) = (write(2, entries(2))?, fs::read(path(2))?);
    report("no mistake", HashSeed(1))?;
    report("another seed", HashSeed(2))?;
    let flipped = filter.iter().enumerate().map(|(i, byte)| byte ^ u8::from(i == 500)).collect();
    for (mistake, wrong) in [("a flipped bit", flipped), ("a stale filter", stale), ("the filter of SST 3", foreign)] {
        let (mut sst, start) = (sst.clone(), sst.len() - FilterHandle::LEN_BYTES - filter.len());
        sst.splice(start..start + filter.len(), wrong);
        fs::write(path(2), sst)?;
        report(mistake, HashSeed(1))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    run(&mut std::io::stdout().lock())
}
