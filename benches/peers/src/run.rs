//! Runs the measurement of filters that are built once. For each size, it builds all filters and
//! measures their FPRs. It then measures queries of all filters in turn in each setting.

use std::time::Instant;

use filterblock_testkit::measure::csv_file::Recorder;
use filterblock_testkit::measure::keys::{Key, Mix, Ranges, hash_of, key};
use filterblock_testkit::measure::{progress, rounded};

use crate::args::{Form, Measure};
use crate::contender::{Asked, Contender, Input, Mode};
use crate::ours;
use crate::peers;
use crate::rate::{self, Rate};
use crate::record::Row;
use crate::rocksdb;
use filterblock::KeyHash;

/// The number of keys that a contender's filters of one size should have together. A contender
/// builds at least one filter, and at most [`MOST_FILTERS`]. The FPRs of small filters differ, so
/// the benchmark builds several filters of different keys.
const KEYS_BUILT: usize = 3_000_000;
const MOST_FILTERS: usize = 32;
/// Mean number of keys in a filter of the set of `--many-mb`.
const MANY_KEYS: usize = 10_000;
/// The start of the name of a fastbloom that has about the same FPR as another filter.
pub const SAME_RATE: &str = "fastbloom at the rate of ";

/// Measures all filters and settings of the options, prints the results, and writes them to the
/// CSV. It is an error if a filter denies one of its keys.
pub fn measure(args: Measure) -> Result<(), String> {
    let mut recorder = args.record.open::<Row>(args.append, false)?;
    ours::tell_unknown();
    let sizes = if args.only_many { &[][..] } else { &args.sizes };
    for &n in sizes {
        let filters = (KEYS_BUILT / n).clamp(1, MOST_FILTERS);
        Session::new(&args, n, 1, Ranges::equal(filters, n))?.run(&mut recorder)?;
    }
    if args.many_mb > 0 {
        let filters = (args.many_mb * 1_000_000 * 8 / 10 / MANY_KEYS).max(1);
        Session::new(&args, MANY_KEYS, filters, Ranges::uneven(filters, MANY_KEYS))?.run(&mut recorder)?;
    }
    Ok(())
}

/// Results of a contender that do not depend on the setting.
#[derive(Clone, Copy)]
struct Facts {
    build_ns: f64,
    build_ns_median: f64,
    bits_per_key: f64,
    bits_per_key_bare: f64,
    rate: Rate,
}

/// All filters of one size.
struct Session<'a> {
    args: &'a Measure,
    n: usize,
    /// The number of filters that queries ask. If it is 1, queries ask only the first filter.
    asked: usize,
    ranges: Ranges,
    contenders: Vec<Contender>,
    facts: Vec<Facts>,
}

impl<'a> Session<'a> {
    fn new(args: &'a Measure, n: usize, asked: usize, ranges: Ranges) -> Result<Self, String> {
        let wanted = |contender: &Contender| contender.krate == "none" || args.wants(&contender.name);
        let takes = |contender: &Contender| contender.takes_hashes || args.forms.contains(&Form::Key);
        let mut contenders: Vec<_> =
            ours::all().into_iter().chain(peers::all()).chain(rocksdb::all()).filter(wanted).collect();
        if asked == 1 && n == args.extras_at {
            contenders.extend(ours::extras().into_iter().filter(wanted));
        }
        if asked > 1 {
            contenders.extend(ours::sets().into_iter().filter(wanted));
        }
        contenders.retain(takes);
        let mut session = Self { args, n, asked, ranges, contenders: Vec::new(), facts: Vec::new() };
        session.add(contenders)?;
        session.add_rivals()?;
        if session.facts.len() < 2 {
            return Err("no filter to measure: no name contains a part of --filters (docs/BENCHMARKS.md has the \
                        names), or --forms hash leaves out a filter that hashes keys itself"
                .into());
        }
        Ok(session)
    }

    /// Builds the filters of contenders, measures their FPRs, and adds both to the session.
    fn add(&mut self, mut contenders: Vec<Contender>) -> Result<(), String> {
        let start = Instant::now();
        let built = build(&mut contenders, &self.ranges)?;
        eprintln!("n = {}: {} built in {:.1} s", self.title(), contenders.len(), start.elapsed().as_secs_f64());
        let start = Instant::now();
        let rates = rate::measure(&contenders, &self.ranges, self.args.rate_queries);
        eprintln!("n = {}: rates in {:.1} s", self.title(), start.elapsed().as_secs_f64());
        let keys = self.ranges.keys() as f64;
        for ((contender, (build_ns, build_ns_median)), rate) in contenders.into_iter().zip(built).zip(rates) {
            let (bits, bare) = contender.group.bits();
            let facts =
                Facts { build_ns, build_ns_median, bits_per_key: bits / keys, bits_per_key_bare: bare / keys, rate };
            self.contenders.push(contender);
            self.facts.push(facts);
        }
        Ok(())
    }

    /// Adds a fastbloom of about the same measured FPR for each contender with the flag `ours`.
    /// [`rate::bloom_for`] gives a first size. The measured FPR of the first fastbloom then
    /// corrects the size.
    fn add_rivals(&mut self) -> Result<(), String> {
        let wanted: Vec<(String, f64)> = self
            .contenders
            .iter()
            .zip(&self.facts)
            .filter(|(contender, _)| contender.ours)
            .map(|(contender, facts)| (contender.name.clone(), facts.rate.share))
            .collect();
        let first = self.contenders.len();
        let rivals = |rates: &[f64]| {
            let rival = |((name, _), &rate): (&(String, f64), &f64)| {
                let (bits, probes) = rate::bloom_for(rate.clamp(1e-9, 0.5));
                peers::fastbloom(format!("{SAME_RATE}{name}"), bits, probes)
            };
            wanted.iter().zip(rates).map(rival).collect::<Vec<_>>()
        };
        let rates: Vec<f64> = wanted.iter().map(|&(_, rate)| rate).collect();
        self.add(rivals(&rates))?;
        let corrected: Vec<f64> = rates
            .iter()
            .zip(&self.facts[first..])
            .map(|(&rate, facts)| if facts.rate.share > 0.0 { rate * rate / facts.rate.share } else { rate })
            .collect();
        self.contenders.truncate(first);
        self.facts.truncate(first);
        self.add(rivals(&corrected))
    }

    fn title(&self) -> String {
        if self.asked == 1 { self.n.to_string() } else { format!("about {}, {} filters", self.n, self.asked) }
    }

    fn run(&self, recorder: &mut Recorder) -> Result<(), String> {
        for &form in &self.args.forms {
            for &mix in &self.args.mixes {
                let asked = self.asked(form, mix);
                for &mode in &self.args.modes {
                    let rows = self.time(&asked, form, mix, mode)?;
                    self.print(&rows);
                    rows.iter().try_for_each(|row| recorder.write(row))?;
                }
                recorder.flush()?;
            }
        }
        Ok(())
    }

    /// Returns the questions of a setting.
    fn asked(&self, form: Form, mix: Mix) -> Asked {
        let only_first = Ranges::equal(1, self.n);
        let one = self.asked == 1;
        let numbers = if one { &only_first } else { &self.ranges }.questions(mix, self.args.queries, 0);
        let keys = numbers.into_iter().map(|(filter, number)| (filter, key(number)));
        match (form, one) {
            (Form::Hash, true) => Asked::Hashes(keys.map(|(_, key)| hash_of(&key)).collect()),
            (Form::Hash, false) => Asked::ManyHashes(keys.map(|(filter, key)| (filter, hash_of(&key))).collect()),
            (Form::Key, true) => Asked::Keys(keys.map(|(_, key)| key).collect()),
            (Form::Key, false) => Asked::ManyKeys(keys.collect()),
        }
    }

    /// Measures the queries of every contender that can answer them, in each pass. Returns a row
    /// for each of these contenders. Each pass begins with another contender.
    fn time(&self, asked: &Asked, form: Form, mix: Mix, mode: Mode) -> Result<Vec<Row>, String> {
        let able = |contender: &Contender| {
            let is_set = ours::is_set(&contender.name);
            let takes = if form == Form::Key { !is_set } else { contender.takes_hashes };
            // A batch for many filters is a list of pairs, which only sets take.
            takes && (mode != Mode::Batch || if self.asked > 1 { is_set } else { contender.batched })
        };
        let able: Vec<usize> = (0..self.contenders.len()).filter(|&i| able(&self.contenders[i])).collect();
        let queries = if mode == Mode::Chain { asked.len() / 4 } else { asked.len() };
        let mut times = vec![Vec::new(); able.len()];
        for pass in 0..self.args.passes {
            progress(&format!("  {} {} {} pass {}", form.name(), mix.name(), mode.name(), pass + 1));
            for turn in 0..able.len() {
                let number = (turn + pass) % able.len();
                let contender = &self.contenders[able[number]];
                // The other contenders may have evicted the filter and its code from the caches. An
                // untimed run loads them again. Many filters do not fit in the caches anyway, so a
                // part of the questions suffices.
                contender.group.ask(asked, mode, if self.asked > 1 { queries / 16 } else { queries });
                let (ns, hits) = contender.group.ask(asked, mode, queries);
                if mix == Mix::Positive && hits != queries as u64 && contender.krate != "none" {
                    return Err(format!("{} denies a key that it was built from (n = {})", contender.name, self.n));
                }
                times[number].push(ns / queries as f64);
            }
        }
        progress("");
        Ok(able.iter().zip(times).map(|(&i, times)| self.row(i, times, queries, (form, mix, mode))).collect())
    }

    fn row(&self, i: usize, mut times: Vec<f64>, queries: usize, (form, mix, mode): (Form, Mix, Mode)) -> Row {
        let (contender, facts) = (&self.contenders[i], &self.facts[i]);
        let filter = |value: f64| (contender.krate != "none").then_some(value);
        // At an FPR of 0, the lower bound is infinite.
        let least = facts.rate.least_bits();
        let over = |bits: f64| least.is_finite().then(|| rounded(4, bits / least - 1.0)).and_then(filter);
        times.sort_by(f64::total_cmp);
        Row {
            filter: contender.name.clone(),
            krate: contender.krate.into(),
            version: crate::version_of(contender.krate.split(' ').next().unwrap_or_default()).into(),
            n: self.n,
            filters_asked: self.asked,
            key_form: form.name().into(),
            mix: mix.name().into(),
            mode: mode.name().into(),
            ns_min: rounded(4, times[0]),
            ns_median: rounded(4, times[times.len() / 2]),
            passes: times.len(),
            queries,
            bits_per_key: filter(rounded(4, facts.bits_per_key)),
            bits_per_key_bare: filter(rounded(4, facts.bits_per_key_bare)),
            rate: filter(facts.rate.share),
            rate_low: filter(facts.rate.low),
            rate_high: filter(facts.rate.high),
            overhead: over(facts.bits_per_key),
            overhead_bare: over(facts.bits_per_key_bare),
            build_ns: filter(rounded(4, facts.build_ns)),
            build_ns_median: filter(rounded(4, facts.build_ns_median)),
            build_form: if contender.takes_hashes { "hash".into() } else { "key".into() },
        }
    }

    /// Prints a table. The ratio divides the time of a filter by the time of a fastbloom filter
    /// with about the same FPR, in the same mode. Batches have no ratio, because fastbloom has no
    /// batches.
    fn print(&self, rows: &[Row]) {
        let Some(first) = rows.first() else { return };
        println!("\nn = {}, {}, {}, {}", self.title(), first.key_form, first.mix, first.mode);
        println!(
            "{:58} {:>8} {:>8} {:>6} {:>8} {:>9} {:>8} {:>8}",
            "", "ns", "median", "ratio", "bits/key", "rate %", "over %", "build ns"
        );
        for row in rows {
            let rival = rows.iter().find(|rival| rival.filter.strip_prefix(SAME_RATE) == Some(&row.filter));
            let ratio = rival.map_or(String::new(), |rival| format!("{:.2}", row.ns_min / rival.ns_min));
            let (rate, over) = (row.rate.unwrap_or(f64::NAN) * 100.0, row.overhead_bare.unwrap_or(f64::NAN) * 100.0);
            println!(
                "{:58} {:8.2} {:8.2} {ratio:>6} {:8.3} {rate:9.4} {over:8.2} {:8.1}",
                row.filter,
                row.ns_min,
                row.ns_median,
                row.bits_per_key.unwrap_or(f64::NAN),
                row.build_ns.unwrap_or(f64::NAN)
            );
        }
    }
}

/// Builds a filter of each contender for each range of keys, and measures the builds. Returns the
/// minimum and the median build time of each remaining contender in ns per key. A contender whose
/// builder fails is reported and dropped. Returns an error if a filter denies one of its keys.
fn build(contenders: &mut Vec<Contender>, ranges: &Ranges) -> Result<Vec<(f64, f64)>, String> {
    let mut times = vec![Vec::new(); contenders.len()];
    let (mut keys, mut hashes): (Vec<Key>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut failed = vec![false; contenders.len()];
    for filter in 0..ranges.len() {
        keys.clear();
        keys.extend(ranges.of(filter).map(key));
        hashes.clear();
        hashes.extend(keys.iter().map(hash_of));
        let key_hashes: Vec<_> = hashes.iter().map(|&hash| KeyHash::from_raw(hash)).collect();
        for (i, contender) in contenders.iter_mut().enumerate() {
            if failed[i] {
                continue;
            }
            let input = Input { hashes: &hashes, key_hashes: &key_hashes, keys: &keys };
            match contender.group.build(input) {
                Ok(ns) => {
                    times[i].push(ns / keys.len() as f64);
                    let denied = contender.group.denied(input);
                    if denied > 0 && contender.krate != "none" {
                        return Err(format!("{} denies {denied} of its {} keys", contender.name, keys.len()));
                    }
                }
                Err(error) => {
                    eprintln!("dropped {}: {error}", contender.name);
                    failed[i] = true;
                }
            }
        }
    }
    let mut failed = failed.into_iter();
    contenders.retain(|_| failed.next() == Some(false));
    let summary = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[0], times[times.len() / 2])
    };
    Ok(times.into_iter().filter(|times| times.len() == ranges.len()).map(summary).collect())
}
