//! Tests the whole filter.
#![allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the tests use the low bits of random numbers"
)]

use std::num::NonZeroUsize;

use filterblock_testkit::Random;

use super::build::record;
use super::layer::Columns as Widths;
use super::read::{Geometry as Ribbon, Layer};
use super::small::Small;
use super::*;
use crate::FilterSpec;
use crate::error::{Error, Field};
use crate::filters::kernels::{BatchKernel, Kernel};
use crate::filters::tests::{Built, EFFORT, encode, random_hashes};
use crate::filters::{Effort, FilterKind, FilterView, Header, Params};
use crate::hash::KeyHash;
use crate::simd::{Isa, Portable};

fn ribbon(built: &Built) -> &Ribbon {
    let Params::BumpedRibbon(params) = &built.params else { panic!("{:?}", built.params) };
    &params.whole
}

/// Returns the space above log2(1/FPR) bits per key, as a share of this FPR lower bound. The space is
/// the payload, the page checksums, and the record of the layers with its tag and length.
fn overhead(built: &Built, keys: usize) -> f64 {
    let record = if built.header.record.is_empty() { 0 } else { built.header.record.len() + 2 };
    let checksums = 4 * built.len.div_ceil(4096);
    let bits = (built.len + checksums + record) as f64 * 8.0 / keys as f64;
    bits / -ribbon(built).expected_fpr().log2() - 1.0
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
        let filters: usize = (200_000 / n).clamp(2, 50);
        let mean = |spec: &str| {
            let all: Vec<f64> =
                (0..filters).map(|i| overhead(&Built::new(spec, &random_hashes(n, i as u64)), n)).collect();
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
            let one = encode(spec, &hashes);
            for threads in [2, 3, 16, usize::MAX] {
                let effort = Effort { threads: NonZeroUsize::new(threads).unwrap(), ..EFFORT };
                let many = spec.parse::<FilterSpec>().unwrap().encode(&mut hashes.clone(), effort).unwrap();
                assert!(many == one, "{n} keys, {spec}, {threads} threads");
            }
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_portable_one() {
    let mut random = Random(3);
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
                    .map(|_| [random.next(), random.next() & random.next(), 0][density] as u8)
                    .collect();
                let hashes: Vec<_> = (0..300).map(|_| KeyHash::from_raw(random.next())).collect();
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
fn random_shapes_are_rejected_or_answered() {
    let hashes = random_hashes(9_000, 2);
    let built = Built::new("bumped-ribbon:8", &hashes);
    let mut random = Random(23);
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut header = built.header.clone();
        for _ in 0..1 + random.next() % 3 {
            let at = random.next() as usize % (header.record.len() + 4);
            let byte = random.next() as u8;
            match at.checked_sub(3) {
                None => header.params[at] = byte,
                Some(i) if i < header.record.len() => header.record.to_mut()[i] = byte,
                Some(_) => drop(header.record.to_mut().pop()),
            }
        }
        let keys = if random.next().is_multiple_of(4) { random.next() } else { 9_000 };
        match Ribbon::new(&header, keys, built.len as u64) {
            Ok(ribbon) => {
                accepted += 1;
                assert!((0.0..=1.0).contains(&ribbon.expected_fpr()), "{header:?}");
                let geometry = Params::BumpedRibbon(ribbon.into());
                let view = FilterView::new(&geometry, Kernel::of(&geometry), &built.padded, built.len);
                for _ in 0..20 {
                    let _ = view.may_contain_hash(KeyHash::from_raw(random.next()));
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
                put_varint(&mut layers, size);
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
        sizes.iter().chain([&0]).for_each(|&size| put_varint(&mut record, size as u64));
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
        record.iter().for_each(|&number| put_varint(&mut layers, number));
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
        let built = Built::new(spec, &hashes);
        built.assert_finds(&hashes, spec);
    }
}

#[test]
fn payloads_shorter_than_their_shape_hide_no_present_key() {
    let hashes = random_hashes(20_000, 6);
    let asked = [&hashes[..], &random_hashes(20_000, 7)].concat();
    for spec in ["bumped-ribbon:8", "bumped-ribbon:12.3"] {
        let built = Built::new(spec, &hashes);
        let geometry = &built.params;
        // A query may also load bytes after the payload, which are missing too.
        let lens = [0, 1, 999, built.len / 2, built.len - 1, built.len, built.len + 63];
        for (isa, len) in Isa::available().flat_map(|isa| lens.map(|len| (isa, len))) {
            let (kernel, payload) = (geometry.compile::<Kernel>(isa), &built.padded[..len]);
            let mut answers = vec![false; asked.len()];
            geometry.compile::<BatchKernel>(isa).may_contain_batch(geometry, payload, len, &asked, &mut answers);
            let denied = answers.iter().take(hashes.len()).filter(|&&answer| !answer);
            assert_eq!(denied.count(), 0, "{spec}, {len} bytes, {}", isa.name());
            let singly: Vec<bool> =
                asked.iter().map(|&hash| kernel.may_contain(geometry, payload, len, hash)).collect();
            assert!(answers == singly, "{spec}, {len} bytes, {}", isa.name());
        }
    }
}

#[test]
fn all_columns_are_tested_for_bumped_keys_too() {
    // With this number of keys, the second layer bumps keys as well.
    let built = Built::new("bumped-ribbon:16", &random_hashes(120_000, 1));
    assert_eq!(ribbon(&built).layers.len(), 2);
    let mut random = Random(9);
    let maybe = (0..3_000_000).filter(|_| built.may_contain(Isa::detect(), KeyHash::from_raw(random.next()))).count();
    // About 46 are expected. If the bumped 4 % were tested in eight columns only, there would be
    // 480 more.
    assert!((15..110).contains(&maybe), "{maybe}");
}

#[test]
fn a_layout_has_the_length_and_the_rate_of_its_geometry() {
    for keys in [1u64, 9, 63, 64, 65, 1_000, 1_500, 2_000, 2_560, 2_561, 9_727, 9_728, 70_000, 1_000_003, 300_000_000] {
        for millibits in [1_000, 1_500, 7_300, 8_000, 9_900, 16_100, 31_999, 100_000] {
            let budget = Budget::of_millibits(millibits);
            let columns = choose_columns(budget, keys);
            let layout = match keys {
                _ if keys <= 1_500 => of_single(columns, keys),
                _ if keys < 9_728 => of_few(budget, columns, keys),
                _ => of_many(budget, columns, keys),
            };
            let layers: Vec<_> =
                layout.layers.iter().map(|&blocks| Layer::new(usize::try_from(blocks).unwrap(), columns)).collect();
            let last =
                (layout.last_slots > 0).then(|| Small::new(usize::try_from(layout.last_slots).unwrap(), 0, columns));
            let geometry = Ribbon::lay_out(columns, layers, last).unwrap();
            assert_eq!(layout.payload_len_bytes(), geometry.payload_len as u64, "{keys} keys, {millibits}");
            assert_eq!(layout.expected_fpr(), geometry.expected_fpr(), "{keys} keys, {millibits}");
            let record = record(&geometry.layers, geometry.last.as_ref());
            let len = if geometry.layers.is_empty() { 0 } else { record.len() };
            assert_eq!(layout.record_len_bytes(), len, "{keys} keys, {millibits}");
        }
    }
}

const SPECS: [&str; 12] =
    ["1.3", "2", "fpr=0.01", "8", "8:compact", "9", "10", "12.3", "16", "16.5", "fpr=0.0000001", "32"];

fn built(spec: &str, hashes: &[KeyHash]) -> Built {
    Built::new(&format!("bumped-ribbon:{spec}"), hashes)
}

/// Returns the first columns of a filter as a filter of their own.
fn copied(built: &Built, columns: u32, num_keys: usize) -> Built {
    let to = built.params.with_columns(columns).unwrap();
    let (header, payload) = built.params.copy_columns(&built.header, &built.padded[..built.len], &to).unwrap();
    let copy = Built::of(header, payload, num_keys);
    assert_eq!(copy.params, to, "the header gives the same parameters");
    copy
}

#[test]
fn present_keys_are_found_at_each_width() {
    let sizes = [33, 64, 65, 128, 300, 1_500, 2_561, 9_728, 20_480, 100_000];
    for n in sizes {
        let hashes = random_hashes(n, n as u64);
        for spec in SPECS {
            if n == 100_000 && !["fpr=0.01", "10", "12.3", "8:compact"].contains(&spec) {
                continue;
            }
            let whole = built(spec, &hashes);
            let all = whole.params.columns().unwrap();
            assert_eq!(whole.params.with_columns(all), None);
            assert_eq!(whole.params.with_columns(0), None);
            for columns in 1..all {
                copied(&whole, columns, n).assert_finds(&hashes, &format!("{n} keys, {spec}, {columns} columns"));
            }
        }
    }
}

#[test]
fn a_shrunk_filter_denies_only_what_the_whole_filter_denies() {
    let mut random = Random(5);
    let absent: Vec<_> = (0..20_000).map(|_| KeyHash::from_raw(random.next())).collect();
    for (n, spec) in [(40, "12"), (300, "12.3"), (5_000, "10"), (30_000, "17.5")] {
        let mut last = built(spec, &random_hashes(n, 3));
        for columns in (1..last.params.columns().unwrap()).rev() {
            // Shrinking step by step gives the same bytes as shrinking at once.
            let shrunk = copied(&last, columns, n);
            let worse = absent.iter().filter(|&&hash| {
                let isa = Isa::detect();
                last.may_contain(isa, hash) && !shrunk.may_contain(isa, hash)
            });
            assert_eq!(worse.count(), 0, "{n} keys, {spec}, {columns} columns");
            let at_once = copied(&built(spec, &random_hashes(n, 3)), columns, n);
            assert!(at_once.padded == shrunk.padded && at_once.header == shrunk.header);
            last = shrunk;
        }
    }
}

/// Compares the measured FPR with the FPR of the columns. The test asks many filters, because the
/// FPR of one small filter depends on its bits.
#[test]
fn the_rate_of_each_width_is_within_5_sigma() {
    for (n, spec, filters) in [(33, "10", 2_000), (1_000, "6.5", 200), (10_000, "12.3", 20)] {
        let wholes: Vec<_> = (0..filters).map(|i| built(spec, &random_hashes(n, 1_000 + i))).collect();
        for columns in 1..wholes[0].params.columns().unwrap() {
            // The aim is 400 false positives: 5 sigma are then a deviation of 25 %.
            let per_filter = ((400u64 << columns) / filters).clamp(200, 200_000);
            let (mut asked, mut maybe, mut random) = (0.0, 0.0, Random(u64::from(columns) << 32));
            let mut expected = 0.0;
            for whole in &wholes {
                let shrunk = copied(whole, columns, n);
                expected += shrunk.params.expected_fpr(n as u64, shrunk.len as u64) / filters as f64;
                for _ in 0..per_filter {
                    asked += 1.0;
                    maybe += f64::from(u8::from(shrunk.may_contain(Isa::detect(), KeyHash::from_raw(random.next()))));
                }
            }
            let rate = 0.5f64.powi(columns.cast_signed());
            assert!((expected / rate - 1.0).abs() < 1e-9, "{n} keys, {columns} columns: {expected}");
            let sigma = (rate * (1.0 - rate) * asked).sqrt();
            let off = (maybe - rate * asked) / sigma;
            assert!(off.abs() < 5.0, "{n} keys, {spec}, {columns} columns: {off} sigma");
        }
    }
}

#[test]
fn whole_groups_stay_in_place_and_dropped_bytes_do_not_matter() {
    let mut random = Random(8);
    let absent: Vec<_> = (0..10_000).map(|_| KeyHash::from_raw(random.next())).collect();
    for n in [33, 64, 100, 128, 1_500, 9_728, 20_480, 100_000] {
        let hashes = random_hashes(n, n as u64);
        for spec in ["9", "12.3", "16", "24.5", "32"] {
            let whole = built(spec, &hashes);
            let all = whole.params.columns().unwrap();
            for columns in (8..all).step_by(8) {
                let copy = copied(&whole, columns, n);
                assert!(copy.padded[..copy.len] == whole.padded[..copy.len], "the first groups are a prefix");
                let params = whole.params.with_columns(columns).unwrap();
                assert_eq!(params.asked_len(whole.len), copy.len);
                let mut in_place = Built { params, padded: whole.padded.clone(), ..copy };
                in_place.assert_finds(&hashes, &format!("{n} keys, {spec}, {columns} columns in place"));
                let kept = in_place.len;
                let asked = |filter: &Built| -> Vec<_> {
                    absent.iter().map(|&hash| filter.may_contain(Isa::detect(), hash)).collect()
                };
                let before = asked(&in_place);
                assert!(before == asked(&copied(&whole, columns, n)));
                in_place.padded[kept..].fill(0x5a);
                assert!(before == asked(&in_place), "dropped bytes change an answer");
            }
        }
    }
}

#[test]
fn a_payload_that_is_too_short_is_not_copied() {
    for n in [100, 20_480] {
        let whole = built("12.3", &random_hashes(n, 1));
        let to = whole.params.with_columns(9).unwrap();
        for len in [0, 1, whole.len / 4, whole.len / 2] {
            assert!(whole.params.copy_columns(&whole.header, &whole.padded[..len], &to).is_err(), "{len} bytes");
        }
    }
}
