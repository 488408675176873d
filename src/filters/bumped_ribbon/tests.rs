//! Tests the whole filter.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the tests use the low bits of random numbers"
)]

use std::num::NonZeroUsize;

use super::layer::Columns as Widths;
use super::read::{Geometry as Ribbon, Layer};
use super::small::Small;
use super::*;
use crate::FilterSpec;
use crate::error::{Error, Field};
use crate::filters::build::build_fallback;
use crate::filters::kernels::{BatchKernel, Kernel};
use crate::filters::{Effort, FilterKind, FilterView, Header, Params, Rounding};
use crate::hash::KeyHash;
use crate::simd::{Isa, Portable};

pub(super) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(super) fn random_hashes(n: usize, seed: u64) -> Vec<KeyHash> {
    let mut state = seed;
    let mut hashes: Vec<_> = (0..n).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

struct Built {
    header: Header<'static>,
    ribbon: Ribbon,
    geometry: Params,
    /// The payload and 64 bytes after it.
    payload: Vec<u8>,
    len: usize,
}

impl Built {
    fn new(spec: &str, hashes: &[KeyHash], threads: usize) -> Self {
        let spec: FilterSpec = spec.parse().unwrap();
        let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::new(threads).unwrap() };
        let mut given = hashes.to_vec();
        let (header, mut payload) = spec.encode(&mut given, effort).unwrap();
        given.sort_unstable();
        assert!(given == hashes, "encode must keep the set of hashes");
        let ribbon = Ribbon::new(&header, hashes.len() as u64, payload.len() as u64).unwrap();
        let geometry = Params::BumpedRibbon(ribbon.clone().into());
        let len = payload.len();
        payload.resize(len + 64, 0xa5);
        Self { header, ribbon, geometry, payload, len }
    }

    fn view(&self) -> FilterView<'_> {
        FilterView::new(&self.geometry, Kernel::of(&self.geometry), &self.payload, self.len)
    }

    fn may_contain(&self, hash: KeyHash) -> bool {
        self.view().may_contain_hash(hash)
    }

    /// Returns the space above log2(1/FPR) bits per key, as a share of this FPR lower bound. The
    /// space is the payload, the page checksums, and the record of the layers with its tag and
    /// length.
    fn overhead(&self, keys: usize) -> f64 {
        let record = if self.header.record.is_empty() { 0 } else { self.header.record.len() + 2 };
        let checksums = 4 * self.len.div_ceil(4096);
        let bits = (self.len + checksums + record) as f64 * 8.0 / keys as f64;
        bits / -self.ribbon.expected_fpr().log2() - 1.0
    }
}

#[test]
fn present_keys_are_found_at_any_size_and_width() {
    let sizes = (1..=130)
        .chain([300, 1_500, 1_501, 2_560, 2_561, 3_000, 4_096, 4_097, 9_727, 9_728, 20_479, 20_480, 70_000, 140_000]);
    for n in sizes {
        let hashes = random_hashes(n, n as u64);
        for spec in ["1", "1.3", "fpr=0.01", "8", "8:compact", "9", "12.3", "16", "fpr=0.0000001", "32", "100"] {
            let built = Built::new(&format!("bumped-ribbon:{spec}"), &hashes, 1);
            let denied = hashes.iter().filter(|&&hash| !built.may_contain(hash)).count();
            assert_eq!(denied, 0, "{n} keys, {spec}");
            let mut answers = vec![false; n];
            built.view().may_contain_batch(&hashes, &mut answers);
            assert!(answers.iter().all(|&answer| answer), "{n} keys, {spec}, as a batch");
        }
    }
}

#[test]
fn sizes_are_near_the_fpr_lower_bound() {
    for (n, most) in [
        // With 64 keys, the page checksum is 6 % of the payload.
        (64, 0.1),
        (100, 0.08),
        (300, 0.03),
        (1_000, 0.0155),
        (1_500, 0.0135),
        (2_000, 0.0125),
        (2_560, 0.0115),
        (3_000, 0.0105),
        (4_096, 0.0098),
        (5_000, 0.0095),
        (8_000, 0.0075),
        (9_000, 0.0075),
        (10_000, 0.0085),
        (12_000, 0.008),
        (20_000, 0.0075),
        (30_000, 0.007),
        (65_536, 0.0048),
        (1_000_000, 0.0045),
    ] {
        let filters: usize = (400_000 / n).clamp(2, 100);
        let mean = |spec: &str| {
            let all: Vec<f64> =
                (0..filters).map(|i| Built::new(spec, &random_hashes(n, i as u64), 1).overhead(n)).collect();
            let mean = all.iter().sum::<f64>() / filters as f64;
            let worst = all.into_iter().fold(0.0, f64::max);
            println!("{n} keys, {spec}: {:.2} % in the mean, {:.2} % at most", 100.0 * mean, 100.0 * worst);
            mean
        };
        let overhead = mean("bumped-ribbon:fpr=0.00390625");
        assert!((0.0..most).contains(&overhead), "{n} keys: {overhead}");
        if n > 60_000 {
            let compact = mean("bumped-ribbon:fpr=0.00390625:compact");
            assert!(compact < overhead && compact < 0.0045, "{n} keys: {compact} compact, {overhead} otherwise");
        }
    }
}

#[test]
fn bytes_do_not_depend_on_the_number_of_threads() {
    for n in [5_000, 10_000, 66_000, 300_000] {
        let hashes = random_hashes(n, 7);
        for spec in ["bumped-ribbon:fpr=0.01", "bumped-ribbon:12.3", "bumped-ribbon:8:compact"] {
            let one = Built::new(spec, &hashes, 1);
            for threads in [2, 3, 16, usize::MAX] {
                let many = Built::new(spec, &hashes, threads);
                assert_eq!(many.header, one.header);
                assert!(many.payload == one.payload, "{n} keys, {spec}, {threads} threads");
            }
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_portable_one() {
    let mut state = 3;
    let (mut positives, mut asked) = (0, 0);
    for all in 1..=MAX_COLUMNS {
        for (fewer_share, blocks, slots) in [
            (0, 1, None),
            (1 << 14, 5, Some(7)),
            (u16::MAX, 40, Some(64)),
            (1 << 15, 200, Some(333)),
            (0, 0, Some(129)),
        ] {
            let columns = Widths { all, fewer_share };
            let layers = [blocks, blocks / 8].into_iter().filter(|&count| count > 0);
            let layers = layers.map(|count| Layer::new(count, columns)).collect();
            let ribbon = Ribbon::lay_out(columns, layers, slots.map(|slots| Small::new(slots, 3, columns))).unwrap();
            let geometry = Params::BumpedRibbon(ribbon.clone().into());
            for density in 0..3 {
                let payload: Vec<u8> = (0..ribbon.payload_len + 64)
                    .map(|_| [splitmix(&mut state), splitmix(&mut state) & splitmix(&mut state), 0][density] as u8)
                    .collect();
                let hashes: Vec<_> = (0..300).map(|_| KeyHash::from_raw(splitmix(&mut state))).collect();
                let view = FilterView::new(&geometry, Kernel::of(&geometry), &payload, ribbon.payload_len);
                hashes.iter().for_each(|&hash| view.prefetch(hash));
                let len = ribbon.payload_len;
                let ask = |isa, hash| geometry.compile::<Kernel>(isa).may_contain(&geometry, &payload, len, hash);
                let expected: Vec<bool> = hashes.iter().map(|&hash| ask(Isa::PORTABLE, hash)).collect();
                for isa in Isa::available() {
                    let found: Vec<bool> = hashes.iter().map(|&hash| ask(isa, hash)).collect();
                    assert_eq!(found, expected, "{all} columns, {blocks} blocks, {}", isa.name());
                    let mut batch = vec![false; hashes.len()];
                    geometry
                        .compile::<BatchKernel>(isa)
                        .may_contain_batch(&geometry, &payload, len, &hashes, &mut batch);
                    assert_eq!(batch, expected, "{all} columns, {blocks} blocks, {}, batch", isa.name());
                    let whole: Vec<bool> =
                        hashes.iter().map(|&hash| ribbon.ask(Portable, &payload, hash, ribbon.groups())).collect();
                    assert_eq!(whole, expected, "{all} columns, {blocks} blocks, without the short form");
                }
                positives += expected.iter().filter(|&&answer| answer).count();
                asked += expected.len();
            }
        }
    }
    assert!(positives > asked / 50 && positives < asked / 2, "{positives} of {asked}");
}

#[test]
fn guarded_queries_find_present_keys_despite_damaged_bytes() {
    for (n, spec) in [(40, "8"), (700, "12.3"), (9_000, "fpr=0.01"), (9_000, "20")] {
        let hashes = random_hashes(n, 11);
        let mut built = Built::new(&format!("bumped-ribbon:{spec}"), &hashes, 1);
        let mut noticed = 0;
        for at in (0..built.len).step_by(built.len / 97 + 1).chain(built.len - 40..built.len) {
            built.payload[at] ^= 0xff;
            for &hash in &hashes {
                let denied = !built.may_contain(hash);
                noticed += usize::from(denied);
                let guarded = built.view().may_contain_if_valid(hash, |from, len| !(from..from + len).contains(&at));
                assert!(guarded, "{n} keys, {spec}, byte {at}");
            }
            built.payload[at] ^= 0xff;
        }
        assert!(noticed > 0, "{n} keys, {spec}: no query read a damaged byte");
    }
}

#[test]
fn hashes_with_one_common_start_are_built_and_found() {
    // All these hashes have the same start in the first layer.
    let few: Vec<_> = (0..3_000).map(KeyHash::from_raw).collect();
    let built = Built::new("bumped-ribbon:8", &few, 1);
    assert!(few.iter().all(|&hash| built.may_contain(hash)));
    assert_eq!(built.header.kind, FilterKind::BumpedRibbon);
}

#[test]
fn random_shapes_are_rejected_or_answered() {
    let hashes = random_hashes(9_000, 2);
    let built = Built::new("bumped-ribbon:8", &hashes, 1);
    let mut state = 23;
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut header = built.header.clone();
        for _ in 0..1 + splitmix(&mut state) % 3 {
            let at = splitmix(&mut state) as usize % (header.record.len() + 4);
            let byte = splitmix(&mut state) as u8;
            match at.checked_sub(3) {
                None => header.params[at] = byte,
                Some(i) if i < header.record.len() => header.record.to_mut()[i] = byte,
                Some(_) => drop(header.record.to_mut().pop()),
            }
        }
        let keys = if splitmix(&mut state).is_multiple_of(4) { splitmix(&mut state) } else { 9_000 };
        match Ribbon::new(&header, keys, built.len as u64) {
            Ok(ribbon) => {
                accepted += 1;
                assert!((0.0..=1.0).contains(&ribbon.expected_fpr()), "{header:?}");
                let geometry = Params::BumpedRibbon(ribbon.into());
                let view = FilterView::new(&geometry, Kernel::of(&geometry), &built.payload, built.len);
                for _ in 0..20 {
                    let _ = view.may_contain_hash(KeyHash::from_raw(splitmix(&mut state)));
                }
            }
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
    }
    assert!(accepted > 1_000, "{accepted}");
}

#[test]
fn sizes_beyond_the_address_space_are_rejected() {
    for shift in 0..24 {
        let size = u64::MAX >> shift;
        for all in [1, 8, 32] {
            let single = Header { kind: FilterKind::BumpedRibbon, params: [all, 0, 0], record: [].as_slice().into() };
            assert!(Ribbon::new(&single, size, u64::MAX).is_err(), "{all} columns, {size} keys");
            for rest in [&[0][..], &[1, 0, 65, 0], &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]] {
                let mut layers = Vec::new();
                crate::codec::put_varint(&mut layers, size);
                layers.extend_from_slice(rest);
                let header = Header { record: layers.into(), ..single.clone() };
                assert!(Ribbon::new(&header, 9_000, u64::MAX).is_err(), "{all} columns, {size} blocks");
            }
        }
    }
}

#[test]
fn many_layers_in_few_bytes_are_rejected() {
    let open = |sizes: &[usize]| {
        let columns = Widths { all: 1, fewer_share: 0 };
        let layers: Vec<_> = sizes.iter().map(|&blocks| Layer::new(blocks, columns)).collect();
        let len = Ribbon::lay_out(columns, layers, None).unwrap().payload_len as u64;
        let mut record = Vec::new();
        sizes.iter().chain([&0]).for_each(|&size| crate::codec::put_varint(&mut record, size as u64));
        let header = Header { kind: FilterKind::BumpedRibbon, params: [1, 0, 0], record: record.into() };
        Params::new(&header, 100, len)
    };
    assert!(open(&[1]).is_ok() && open(&[1_000, 60, 60]).is_ok());
    for few in [&[1; 12][..], &[1; 2], &[8; 3]] {
        let error = open(few).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field: Field::Extension, .. }), "{few:?}: {error}");
    }
}

#[test]
fn invalid_layer_records_are_rejected() {
    // The payload has two blocks of eight columns and one byte of bump bits.
    let open = |record: &[u64], more: &[u8]| {
        let mut layers = Vec::new();
        record.iter().for_each(|&number| crate::codec::put_varint(&mut layers, number));
        layers.extend_from_slice(more);
        Ribbon::new(&Header { kind: FilterKind::BumpedRibbon, params: [8, 0, 0], record: layers.into() }, 100, 129)
    };
    assert!(open(&[2, 0], &[]).is_ok());
    for (record, more, wanted) in [
        // The last system has no slots, or more blocks than the payload has bits. With as many
        // blocks as bits, only the length of the payload is wrong.
        (&[2, 0, 0][..], &[7][..], Field::Extension),
        (&[2, 0, 1 << 40], &[7], Field::Extension),
        (&[2, 0, (129 * 8 + 1) * 64], &[7], Field::Extension),
        (&[2, 0, 129 * 8 * 64], &[7], Field::PayloadLen),
        // There are bytes after the last system, there is no layer, or the layer has too many
        // blocks.
        (&[2, 0], &[5, 7, 7], Field::Extension),
        (&[0], &[], Field::Extension),
        (&[0, 9], &[7], Field::Extension),
        (&[129 * 8 + 1, 0], &[], Field::Extension),
        (&[129 * 8, 0], &[], Field::PayloadLen),
    ] {
        let error = open(record, more).unwrap_err();
        assert!(matches!(error, Error::Corrupt { field, .. } if field == wanted), "{record:?} {more:?}: {error}");
    }
    // In a single system with one column, the slots of a block with one column less take no bits.
    // At most 64 slots are accepted for each bit of the payload.
    let open = |keys| {
        Ribbon::new(
            &Header { kind: FilterKind::BumpedRibbon, params: [1, 0, 0], record: [].as_slice().into() },
            keys,
            1,
        )
    };
    assert!(open(8).is_ok() && open(7 * 64 + 8).is_ok());
    assert!(open(8 * 64 + 8).is_err());
}

#[test]
fn keys_that_crowd_at_the_first_starts_are_bumped_and_found() {
    let mut hashes = random_hashes(20_000, 4);
    hashes.extend((0..100).map(|i| KeyHash::from_raw(i << 45)));
    hashes.sort_unstable();
    for spec in ["bumped-ribbon:8", "bumped-ribbon:8:compact", "bumped-ribbon:12.3", "bumped-ribbon:fpr=0.00390625"] {
        let built = Built::new(spec, &hashes, 1);
        let geometry = Params::new(&built.header, hashes.len() as u64, built.len as u64).unwrap();
        for isa in Isa::available() {
            let ask = geometry.compile::<Kernel>(isa);
            let denied = hashes.iter().filter(|&&hash| !ask.may_contain(&geometry, &built.payload, built.len, hash));
            assert_eq!(denied.count(), 0, "{spec}, {}", isa.name());
        }
    }
}

#[test]
fn payloads_shorter_than_their_shape_hide_no_present_key() {
    let hashes = random_hashes(20_000, 6);
    for spec in ["bumped-ribbon:8", "bumped-ribbon:12.3"] {
        let built = Built::new(spec, &hashes, 1);
        let geometry = Params::new(&built.header, hashes.len() as u64, built.len as u64).unwrap();
        for (isa, len) in
            Isa::available().flat_map(|isa| [0, 1, 999, built.len / 2, built.len - 1].map(|len| (isa, len)))
        {
            let (kernel, payload) = (geometry.compile::<Kernel>(isa), &built.payload[..len]);
            let mut answers = vec![false; hashes.len()];
            geometry.compile::<BatchKernel>(isa).may_contain_batch(&geometry, payload, len, &hashes, &mut answers);
            let ask = |hash| kernel.may_contain(&geometry, payload, len, hash);
            let denied = hashes.iter().zip(answers).filter(|&(&hash, answer)| !answer || !ask(hash));
            assert_eq!(denied.count(), 0, "{spec}, {len} bytes, {}", isa.name());
        }
    }
}

#[test]
fn all_columns_are_tested_for_bumped_keys_too() {
    // With this number of keys, the second layer bumps keys as well.
    let built = Built::new("bumped-ribbon:16", &random_hashes(120_000, 1), 1);
    assert_eq!(built.ribbon.layers.len(), 2);
    let mut state = 9;
    let maybe = (0..3_000_000).filter(|_| built.may_contain(KeyHash::from_raw(splitmix(&mut state)))).count();
    // About 46 are expected. If the bumped 4 % were tested in eight columns only, there would be
    // 480 more.
    assert!((15..110).contains(&maybe), "{maybe}");
}

#[test]
fn fallback_filters_take_hashes_in_any_order() {
    let spec: FilterSpec = "bumped-ribbon:8:compact".parse().unwrap();
    let mut hashes = random_hashes(1_000, 3);
    hashes.reverse();
    let effort = Effort { rounding: Rounding::Words, threads: NonZeroUsize::MIN };
    let (header, payload) = build_fallback(spec.kind(), spec.budget(), &mut hashes, effort).unwrap();
    assert_eq!(header.kind, FilterKind::BlockedBloom);
    let geometry = Params::new(&header, 1_000, payload.len() as u64).unwrap();
    let view = FilterView::new(&geometry, Kernel::of(&geometry), &payload, payload.len());
    assert!(hashes.iter().all(|&hash| view.may_contain_hash(hash)));
}
