//! Puts keys from the input into every form of a filter. No form may deny a key.

use filterblock::{
    Answer, FilterKind, FilterOptions, HashSeed, KeyHash, KeyHasher, ParsedBlock, Verify, compact,
    partitions::PartitionedBuilder,
};

use crate::{Input, secret};

/// Asserts that no form of a filter denies a key, for any specification of [`Input::spec`].
pub fn roundtrip(data: &[u8]) {
    crate::choose_instruction_set();
    let mut input = Input(data);
    let spec = input.spec();
    let seed = HashSeed(input.number(8));
    let hasher = match seed.0 % 4 {
        0 => KeyHasher::sip13(seed, &secret()),
        1 => KeyHasher::xxh3_with_secret(seed, &secret()),
        _ => KeyHasher::xxh3(seed),
    };
    let partition_keys = usize::from(input.byte());
    let keys = keys(&mut input);
    // A query by hash asks every partition, because only a key selects one. With many partitions,
    // the time would be quadratic in the number of keys.
    let partition_keys = partition_keys.max(keys.len() / 8);
    let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.of(key)).collect();

    let build = |reversed: bool| {
        let mut builder = FilterOptions::new(spec).table_id([7; 16]).builder(hasher.clone()).unwrap();
        match reversed {
            false => keys.iter().for_each(|key| builder.add(builder.hasher().key(key))),
            // A repeated hash must not change the bytes.
            true => hashes.iter().rev().chain(hashes.first()).for_each(|&hash| builder.add_hash(hash)),
        }
        builder
    };
    let block = build(false).finish().unwrap().bytes;
    assert_eq!(block, build(true).finish().unwrap().bytes, "the order of the keys changes the bytes");
    assert_holds(&block, &hasher, &keys, &hashes);

    match build(false).finish_compact() {
        Ok(compact) => {
            let all = |bytes: &[u8], answer| hashes.iter().all(|&hash| compact::ask(bytes, &hasher, hash) == answer);
            assert!(all(&compact, Answer::Maybe), "the compact form denies a key");
            let mut unaligned = [&[0], compact.as_slice()].concat();
            assert!(all(&unaligned[1..], Answer::Maybe), "the compact form at an odd address denies a key");
            // CRC-32 detects every flipped bit, wherever it is.
            let bit = crc32fast::hash(data) as usize % (compact.len() * 8);
            unaligned[1 + bit / 8] ^= 1 << (bit % 8);
            assert!(all(&unaligned[1..], Answer::Unfiltered), "a flipped bit of the compact form goes unnoticed");
        }
        Err(error) => {
            assert!(
                !matches!(spec.kind(), FilterKind::AlwaysMaybe | FilterKind::Bloom | FilterKind::BlockedBloom),
                "{error}"
            )
        }
    }

    let mut builder = PartitionedBuilder::new(&FilterOptions::new(spec), hasher.clone(), partition_keys).unwrap();
    keys.iter().for_each(|key| builder.add(builder.hasher().key(key)).unwrap());
    assert_holds(&builder.finish().unwrap().bytes, &hasher, &keys, &hashes);

    // Takes hashes directly from the input. They may be equal or zero, and need not be hashes of a
    // key.
    let raw: Vec<KeyHash> = data.chunks(8).map(|chunk| KeyHash::from_raw(Input(chunk).number(8))).collect();
    let mut builder = FilterOptions::new(spec).builder(hasher.clone()).unwrap();
    raw.iter().for_each(|&hash| builder.add_hash(hash));
    assert_holds(&builder.finish().unwrap().bytes, &hasher, &[], &raw);
}

fn assert_holds(block: &[u8], hasher: &KeyHasher, keys: &[Vec<u8>], hashes: &[KeyHash]) {
    for verify in [Verify::AtOpen, Verify::OnFirstTouch] {
        let block = ParsedBlock::open(block, verify).unwrap().bind_to(hasher).unwrap();
        assert!(keys.iter().all(|key| block.may_contain(hasher.key(key))), "a key is denied");
        assert!(hashes.iter().all(|&hash| block.may_contain_hash(hash)), "a hash is denied");
        let mut answers = vec![false; hashes.len()];
        block.may_contain_batch(hashes, &mut answers);
        assert!(answers.iter().all(|&answer| answer), "a batch denies a key");
        block.verify_pages().unwrap();
    }
}

/// Returns sorted keys: keys spelled out in the input, and up to 599 counted keys.
fn keys(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let counted = if input.byte().is_multiple_of(4) { input.number(2) % 600 } else { 0 };
    let mut keys: Vec<Vec<u8>> = (0..counted).map(|i| format!("counted-{i}").into_bytes()).collect();
    while !input.is_empty() {
        let len = usize::from(input.byte() % 40);
        keys.push(input.take(len).to_vec());
    }
    keys.sort();
    keys
}
