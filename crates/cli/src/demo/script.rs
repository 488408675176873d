//! Lists the steps of the demo, in order.

use std::fs;
use std::path::Path;

use super::super::failure::{Failure, Outcome};
use super::step::Step;
use filterblock::layout::{MAGIC, PAGE_LEN_BYTES};

/// A function that makes a step for the given folder. A step that damages a file is made from the
/// content of the file.
type Make = fn(&Path) -> Outcome<Step>;

/// The number of keys.
const KEYS: u64 = 2_244;
/// The number of other words, which are not keys.
const OTHERS: u64 = 1_998;

/// The offset of a byte in the only page of the filter.
const FILTER_OFFSET: u64 = 1_000;

pub const STEPS: [Make; 18] = [
    |_| Ok(Step::first_column("The keys are the words of filterblock's documentation.", "words.tsv", "words.txt", 3)),
    |_| {
        let line = "build -o words.filter --filter bloom:fpr=0.01 words.txt";
        Ok(Step::filterblock("Build a Bloom filter that lets about 1 % of the absent keys pass.", line)
            .prints("2,244 keys")
            .drawn())
    },
    |_| {
        let explanation = "Inspect it: less than 10 bits per key, whatever the length of the keys.";
        Ok(Step::filterblock(explanation, "inspect words.filter").last_lines(5).prints("2,244"))
    },
    |_| {
        let explanation = "Two words are keys, two are not: \"absent\" is certain, \"maybe\" is not.";
        let line = "query words.filter checksum filter kiwi mutex";
        let step = Step::filterblock(explanation, line).prints("maybe\tchecksum").prints("maybe\tfilter");
        Ok(step.prints("absent\tkiwi").prints("absent\tmutex").drawn())
    },
    |_| {
        let explanation = "No key is ever denied: look up all of them.";
        Ok(Step::filterblock(explanation, "verify words.filter --against words.txt").prints("0 false negatives"))
    },
    |_| {
        let explanation = "Measure the false-positive rate: none of these 1,998 words is a key.";
        let line = "query words.filter --keys other-words.txt --count";
        // The expected number of false positives is 20, with a standard deviation of 4.5.
        Ok(Step::filterblock(explanation, line).counts("maybe", 1..=60).counts("absent", OTHERS - 60..=OTHERS).drawn())
    },
    |dir| Ok(Step::flip("Damage the file: flip one bit.", dir, "words.filter", FILTER_OFFSET)?.drawn()),
    |_| {
        let explanation = "A damaged filter file answers no query: a wrong \"absent\" would lose data silently.";
        let step = Step::filterblock(explanation, "query words.filter filter").exits(2);
        Ok(step.prints("words.filter").prints("checksum").drawn())
    },
    |_| {
        let explanation = "Load the words into a store with a filter in each SST file. The value of a word is its \
                           number of occurrences.";
        Ok(Step::filterblock(explanation, "db load words.db words.tsv").prints("2,244"))
    },
    |_| Ok(Step::filterblock("Get a value.", "db get words.db checksum").prints("110\n")),
    |_| {
        let explanation = "Look up 1,998 absent words: the filter saves nearly all reads of data blocks.";
        let step = Step::filterblock(explanation, "db get words.db --keys other-words.txt --count").exits(1);
        Ok(step.counts("found", 0..=0).counts("filter queries", 1_900..=OTHERS).counts("data blocks read", 0..=40))
    },
    |_| {
        let explanation = "The same without filters: nearly every lookup reads a data block.";
        let line = "db get words.db --keys other-words.txt --count --ignore-filters";
        let step = Step::filterblock(explanation, line).exits(1);
        Ok(step.counts("found", 0..=0).counts("data blocks read", 1_900..=OTHERS))
    },
    |dir| {
        let (file, offset) = filter_in_sst(dir)?;
        let explanation = "Damage the filter of the SST file: overwrite four bytes.";
        Ok(Step::overwrite(explanation, "oops", b"oops", &file, offset).drawn())
    },
    |_| {
        let explanation = "Verify the store: the report names the file and the offset of the damaged page.";
        Ok(Step::filterblock(explanation, "db verify words.db").without_messages().exits(1).prints("damaged").drawn())
    },
    |_| {
        let explanation = "The damaged filter says \"maybe\": every key is still found.";
        let step = Step::filterblock(explanation, "db get words.db --keys words.txt --count").lines_with("found");
        Ok(step.counts("found", KEYS..=KEYS).drawn())
    },
    |_| {
        let explanation = "For absent words, each \"maybe\" costs a read; the store counts these reads.";
        let step = Step::filterblock(explanation, "db get words.db --keys other-words.txt --count").exits(1);
        Ok(step.counts("found", 0..=0).counts("damaged filters", 1..=OTHERS))
    },
    |_| {
        let explanation = "Repair the store: the data is sound, so nothing is lost.";
        Ok(Step::filterblock(explanation, "db repair words.db").prints("nothing lost").drawn())
    },
    |_| {
        let explanation = "Verify it again.";
        Ok(Step::filterblock(explanation, "db verify words.db").prints("sound").prints("0 false negatives").drawn())
    },
];

/// Returns the path of the only SST file of the store, relative to `dir`, and the offset of a byte
/// in its filter.
fn filter_in_sst(dir: &Path) -> Outcome<(String, u64)> {
    let store = dir.join("words.db");
    let entries = fs::read_dir(&store).map_err(|error| Failure::file(&store, error))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let missing = || Failure::Message(format!("{}: no SST file with a filter; report this defect", store.display()));
    let name = names.into_iter().find(|name| name.ends_with(".sst")).ok_or_else(missing)?;
    let path = store.join(&name);
    let bytes = fs::read(&path).map_err(|error| Failure::file(&path, error))?;
    // A filter block ends with the magic. The filter has more than 2 KB, so the byte 1,024 bytes
    // before the magic belongs to its payload.
    let magic = bytes.windows(MAGIC.len()).rposition(|window| window == MAGIC).ok_or_else(missing)?;
    Ok((format!("words.db/{name}"), magic.saturating_sub(PAGE_LEN_BYTES / 4) as u64))
}
