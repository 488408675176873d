//! Makes sets of keys: random, sequential, clustered, and chosen to be hard.

use super::support::Keys;
use filterblock_testkit::Random;

/// Returns named sets of keys. Most sets have about `n` keys, and the others have fewer.
pub fn all(n: u64, seed: u64) -> Vec<(&'static str, Keys)> {
    let mut random = Random(seed);
    let mut integers = |f: &mut dyn FnMut(u64, u64) -> u64| -> Keys {
        (0..n).map(|i| f(i, random.next()).to_be_bytes().to_vec()).collect()
    };
    let mut sets = vec![
        ("random integers", integers(&mut |_, random| random)),
        ("sequential integers", integers(&mut |i, _| 1_000_000 + i)),
        ("sequential integers and an outlier", integers(&mut |i, _| if i == 0 { 0 } else { (1 << 40) + i })),
        ("every third integer", integers(&mut |i, _| i * 3)),
        (
            "clusters of integers",
            integers(&mut |i, random| ((i / 40).wrapping_mul(0x1234_5678_9abc) << 8) + random % 200),
        ),
        ("the lowest and highest integers", integers(&mut |i, _| if i % 2 == 0 { i } else { u64::MAX - i })),
        ("cubes", integers(&mut |i, _| i * i * i)),
    ];
    let text = |f: &dyn Fn(u64) -> String| -> Keys { (0..n).map(|i| f(i).into_bytes()).collect() };
    sets.push(("decimal ids", text(&|i| format!("user:{:012}:x", mix(i + seed) % 10_000_000_000))));
    sets.push((
        "two parts",
        text(&|i| format!("order/customer-{:06}/item-{:08}", mix(i) % 50, mix(i + 7) % 1_000_000)),
    ));
    sets.push(("hexadecimal ids", text(&|i| format!("{:016x}{:016x}", mix(i), mix(i + seed)))));
    sets.push((
        "names",
        text(&|i| (0..1 + mix(i) % 9).map(|j| char::from(b'a' + (mix(i * 10 + j) % 26) as u8)).collect()),
    ));
    for len in [8, 16, 100, 255, 300, 600] {
        let prefix = "p".repeat(len);
        sets.push(("a long common prefix", text(&|i| format!("{prefix}{}", mix(i) % 100_000))));
    }
    sets.push(("all bytes FF", (0..n.min(300)).map(|i| vec![0xff; i as usize]).collect()));
    sets.push(("all bytes 00", (0..n.min(300)).map(|i| vec![0; i as usize]).collect()));
    sets.push((
        "the empty key and its neighbours",
        [&[][..], &[0], &[0, 0], &[0xff], &[0xff, 0xff]].map(<[u8]>::to_vec).into(),
    ));
    sets.push(("one empty key", Keys::from([Vec::new()])));
    sets.push(("one key", Keys::from([b"key".to_vec()])));
    sets.push(("one long key", Keys::from([vec![7; 5_000]])));
    sets.push(("two keys", Keys::from([b"a".to_vec(), vec![0xff; 40]])));
    sets.push(("no key", Keys::new()));
    let binary = (0..n).map(|i| (0..mix(i) % 30).map(|j| mix(i * 31 + j) as u8).collect()).collect();
    sets.push(("binary keys of all lengths", binary));
    // These keys are like UUIDs: they have more than eight positions, and every byte value may
    // occur at every position after a common prefix.
    for len in [9, 12, 16] {
        let id = |i| (0..len).map(|j| mix(i * 16 + j + seed) as u8).collect();
        sets.push(("random bytes of one length", (0..n).map(id).collect()));
        let named = |i| [b"user/".to_vec(), id(i)].concat();
        sets.push(("random bytes after a prefix", (0..n).map(named).collect()));
    }
    // These keys are integers of more than 64 bits. A range filter without `L=` drops their lowest
    // bits.
    let steps = |i: u64| [&mix(i / 5 + seed).to_be_bytes()[..], &[0, (i % 5 * 32) as u8]].concat();
    sets.push(("steps after random bytes", (0..n).map(steps).collect()));
    sets
}

pub fn mix(i: u64) -> u64 {
    Random(i.wrapping_mul(0x2545_f491_4f6c_dd1d)).next()
}
