//! Makes structured edits of sound blocks. With repaired checksums, the results resemble blocks of
//! a hostile or defective writer. Without repaired checksums, they are damaged blocks.

use filterblock::layout::{FIELDS, MAGIC, TRAILER_LEN_BYTES};
use filterblock::{FilterBlock, FilterKind, FilterOptions, ParsedBlock, Verify, WholeKeys};

use crate::Input;

use filterblock_testkit::blocks;
use filterblock_testkit::blocks::{SEED, TABLE, field, key, put_number, repair_pages, repair_trailer};

/// The maximum number of edits.
const MAX_EDITS: usize = 8;
/// An upper limit for the number of keys. At 100 bits each, so many keys fill two pages. Some
/// bumped ribbons have up to eight times as many keys.
const MAX_KEYS: usize = 600;

/// Builds a block that the input describes, edits it, opens it and queries it. If no edit repaired
/// the checksums, the edits are damage, and the block must not deny a key.
pub fn patch_block(data: &[u8]) {
    let mut input = Input(data);
    let (mut block, num_keys) = sound_block(&mut input);
    let mut repaired = false;
    input.steps(MAX_EDITS, |input| repaired |= edit(&mut block, input));
    crate::query_block(&block);
    if let (false, Ok(filter)) = (repaired, FilterBlock::open_any(block.as_slice(), Verify::OnFirstTouch)) {
        let is_held = |i| filter.may_contain(filter.hasher().key(&key(i)));
        assert!((0..num_keys).all(is_held), "a damaged block denies a key");
    }
    if let Ok(partition) =
        ParsedBlock::open_partition(block.as_slice(), 0, Verify::OnFirstTouch).and_then(|block| block.bind_any(None))
    {
        let _ = (partition.may_contain(partition.hasher().key(b"key")), partition.verify_pages());
    }
}

/// Builds a block. Returns the block and its number of keys.
pub(crate) fn sound_block(input: &mut Input<'_>) -> (Vec<u8>, usize) {
    let spec = input.spec();
    let (form, num_keys) = (input.byte(), input.below(MAX_KEYS));
    // A bumped ribbon may have layers from 1,501 keys on, and has them from 4,097 keys on.
    let num_keys = if spec.kind() == FilterKind::BumpedRibbon && form % 4 == 2 { num_keys * 8 } else { num_keys };
    let block = match form % 4 {
        0 => {
            let partition_keys = usize::from(input.byte()).max(num_keys / 16);
            blocks::partitioned(&spec.to_string(), num_keys, partition_keys)
        }
        1 => {
            let whole_keys = if input.byte().is_multiple_of(2) { WholeKeys::Too } else { WholeKeys::Not };
            let options = FilterOptions::new(spec).table_id(TABLE).prefixes_by_host("first-4-bytes", whole_keys);
            let mut builder = options.builder(SEED).unwrap();
            for key in (0..num_keys).map(key) {
                builder.add(builder.hasher().key(&key));
                builder.add_prefix(builder.hasher().key(&key));
            }
            builder.finish().unwrap().bytes
        }
        _ => blocks::block_of(&spec.to_string(), 0..num_keys, TABLE),
    };
    (block, num_keys)
}

/// Applies one edit to the whole block or to one of its partitions. Returns whether it repaired the
/// checksums.
pub(crate) fn edit(block: &mut Vec<u8>, input: &mut Input<'_>) -> bool {
    let (action, end) = (input.byte(), part_end(block, input));
    let Some(body) = end.checked_sub(TRAILER_LEN_BYTES) else { return false };
    match action % 8 {
        // Changes any field except the magic, because other values of the magic only fail the open.
        0 | 1 => {
            let name = FIELDS[input.below(FIELDS.len() - 1)].0;
            put_number(&mut block[..end], name, input.number(8));
        }
        2 => {
            let name = FIELDS[input.below(FIELDS.len() - 1)].0;
            let first = &mut field(&mut block[..end], name)[0];
            *first = first.wrapping_add(input.byte());
        }
        3 if body > 0 => {
            let at = input.below(body);
            block[at] ^= input.byte();
        }
        // The page checksums, the extension and the partition index lie near the trailer.
        4 if body > 0 => {
            let at = body - 1 - input.below(body.min(256));
            block[at] = input.byte();
        }
        5 => drop(block.drain(..input.below(body))),
        6 => {
            let at = input.below(body + 1);
            let len = usize::from(input.byte());
            let inserted = input.take(len).to_vec();
            drop(block.splice(at..at, inserted));
        }
        _ => block.truncate(end),
    }
    let (repair, end) = (input.byte(), part_end(block, input));
    if end < TRAILER_LEN_BYTES || repair.is_multiple_of(4) {
        return false;
    }
    match repair % 4 {
        1 => repair_trailer(&mut block[..end]),
        _ => repair_pages(&mut block[..end]),
    }
    true
}

/// Returns the end of the block or of one of its partitions.
fn part_end(block: &[u8], input: &mut Input<'_>) -> usize {
    let choice = usize::from(input.byte());
    if choice.is_multiple_of(2) {
        return block.len();
    }
    let ends: Vec<usize> =
        block.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC).map(|(i, _)| i + 4).collect();
    ends.get((choice / 2).checked_rem(ends.len()).unwrap_or_default()).copied().unwrap_or(block.len())
}
