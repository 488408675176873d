//! Runs the measurement. For each layout, it loads the stores that support the layout, and checks
//! their contents. It then measures the stores in turn in each setting.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use filterblock_testkit::measure::csv_file::Recorder;
use filterblock_testkit::measure::keys::{Key, Mix, key};
use filterblock_testkit::measure::{clock, machine, progress, rounded};
use tempfile::TempDir;

use crate::args::{Layout, Measure};
use crate::engine::{Contender, Outcome, Settings, Store, text};
use crate::engines;
use crate::machine_state::{Pinned, contents, drop_files, idle_check, wait_idle};
use crate::questions::{Question, Spread, questions, value};
use crate::record::{BATCH, COLD, DISK, FILES, GET, LOAD, REOPEN, Row, SETTLE};

/// The maximum number of keys in a batch or transaction while loading.
const LOADED_AT_ONCE: usize = 100;
/// The maximum number of present keys that are checked in a loaded store.
const MOST_CHECKED: usize = 1_000_000;
/// The size of a memtable, except in the layouts `runs-N`, where it is sized for a whole run.
const WRITE_BUFFER_BYTES: usize = 16 << 20;
/// An upper bound on the bytes that an entry of a memtable needs besides key and value.
const ENTRY_OVERHEAD_BYTES: usize = 256;
const SETTINGS: [(Mix, Spread); 6] = [
    (Mix::Negative, Spread::Uniform),
    (Mix::Positive, Spread::Uniform),
    (Mix::Mixed, Spread::Uniform),
    (Mix::Negative, Spread::Zipf),
    (Mix::Positive, Spread::Zipf),
    (Mix::Mixed, Spread::Zipf),
];

/// Measures all stores and layouts of the options, prints the results, and writes them to the CSV.
/// A wrong answer of a store is an error.
pub fn measure(args: &Measure) -> Outcome<()> {
    // A helper thread finds out on which core queries run, because `clock::pin` never unpins its
    // thread. `Pinned` pins the main thread only while it runs warm queries.
    let cpu = std::thread::scope(|scope| scope.spawn(|| clock::pin(args.cpu)).join());
    let cpu = cpu.map_err(|_| "the thread that looks for a core panicked")??;
    let machine = format!("{}; {} MiB of block cache for each store", machine::describe(cpu), args.cache_mb);
    let mut recorder = Recorder::open::<Row>(args.out.as_deref(), args.append, &machine)?;
    let names: Vec<_> = engines::all().iter().map(|contender| contender.name).collect();
    let selects = |part: &String, name: &str| {
        if names.contains(&part.as_str()) { name == part } else { name.contains(part.as_str()) }
    };
    let wanted =
        |contender: &Contender| args.stores.is_empty() || args.stores.iter().any(|part| selects(part, contender.name));
    let contenders: Vec<_> = engines::all().into_iter().filter(wanted).collect();
    if contenders.is_empty() {
        return Err(format!("--stores: no name contains one of these parts; the stores are {}", names.join(", ")));
    }
    for &layout in &args.layouts {
        Session::load(args, cpu, layout, &contenders)?.run(&mut recorder)?;
    }
    Ok(())
}

struct Place<'a> {
    contender: &'a Contender,
    dir: PathBuf,
    open: Option<Box<dyn Store>>,
}

/// All selected stores that support a layout.
struct Session<'a> {
    args: &'a Measure,
    cpu: usize,
    layout: Layout,
    settings: Settings,
    places: Vec<Place<'a>>,
    rows: Vec<Row>,
    /// The folder of all stores. Dropping it removes them.
    _dir: TempDir,
}

impl<'a> Session<'a> {
    fn load(args: &'a Measure, cpu: usize, layout: Layout, contenders: &'a [Contender]) -> Outcome<Self> {
        let (write_buffer_bytes, compacts) = match layout {
            Layout::Runs(runs) => {
                let entry = size_of::<Key>() + usize::from(args.value_len) + ENTRY_OVERHEAD_BYTES;
                ((args.keys.div_ceil(runs) * entry).max(1 << 20), false)
            }
            _ => (WRITE_BUFFER_BYTES, true),
        };
        let settings = Settings { cache_bytes: args.cache_mb << 20, write_buffer_bytes, compacts };
        let root = tempfile::Builder::new().prefix("stores-").tempdir_in(&args.dir).map_err(text)?;
        let able = |contender: &&Contender| match layout {
            Layout::Runs(runs) => runs <= contender.most_runs,
            _ => true,
        };
        let place = |contender: &'a Contender| Place {
            contender,
            dir: root.path().join(contender.name.replace([' ', ':'], "-")),
            open: None,
        };
        let places = contenders.iter().filter(able).map(place).collect();
        let mut session = Self { args, cpu, layout, settings, places, rows: Vec::new(), _dir: root };
        session.load_all()?;
        Ok(session)
    }

    /// Loads every store `--loads` times, opens it, and checks the last load. Adds the rows of
    /// load, settle time, disk space and number of files.
    fn load_all(&mut self) -> Outcome<()> {
        let mut times = vec![(Vec::new(), Vec::new()); self.places.len()];
        for round in 0..self.args.loads {
            for (i, times) in times.iter_mut().enumerate() {
                let name = self.places[i].contender.name;
                progress(&format!("{} loading {name}, round {}", self.layout, round + 1));
                let (load, settle) = self.load_one(i).map_err(|error| format!("{name}: {error}"))?;
                times.0.push(self.args.keys as f64 / load.as_secs_f64());
                times.1.push(settle.as_secs_f64());
            }
        }
        for (i, (loads, settles)) in times.into_iter().enumerate() {
            let name = self.places[i].contender.name;
            progress(&format!("{} checking {name}", self.layout));
            self.open(i)?;
            let (n, value_len) = (self.args.keys as u64, self.args.value_len);
            let step = self.args.keys.div_ceil(MOST_CHECKED);
            self.store(i)?.check(n, step, value_len).map_err(|error| format!("{name}: {error}"))?;
            let (files, bytes) = contents(&self.places[i].dir);
            self.add(i, LOAD, None, loads);
            self.add(i, SETTLE, None, settles);
            self.add(i, DISK, None, vec![bytes as f64]);
            self.add(i, FILES, None, vec![files as f64]);
        }
        Ok(())
    }

    /// Replaces an old store by a new one, loads it and closes it. Returns the wall time of the
    /// puts, with the flushes between runs, and the time that [`SETTLE`] describes.
    fn load_one(&mut self, i: usize) -> Outcome<(Duration, Duration)> {
        let (n, value_len) = (self.args.keys as u64, self.args.value_len);
        let place = &mut self.places[i];
        let _ = fs::remove_dir_all(&place.dir);
        fs::create_dir_all(&place.dir).map_err(text)?;
        let run = match self.layout {
            Layout::Runs(runs) => self.args.keys.div_ceil(runs) as u64,
            _ => n,
        };
        let mut store = (place.contender.open)(&place.dir, &self.settings)?;
        let mut loading = Duration::ZERO;
        let mut next = 0;
        while next < n {
            let end = (next + LOADED_AT_ONCE as u64).min((next / run + 1) * run).min(n);
            let pairs: Vec<_> = (next..end).map(|number| (key(number), value(number, value_len))).collect();
            let start = Instant::now();
            store.put(&pairs)?;
            if end % run == 0 && end < n {
                store.flush()?;
            }
            loading += start.elapsed();
            next = end;
        }
        let start = Instant::now();
        store.flush()?;
        if self.layout == Layout::Compacted {
            store.compact()?;
        }
        wait_idle(&place.dir)?;
        store.close()?;
        // Some engines write the memtable to a file, and compact, only when they are reopened.
        let store = (place.contender.open)(&place.dir, &self.settings)?;
        wait_idle(&place.dir)?;
        store.close()?;
        Ok((loading, start.elapsed().saturating_sub(2 * idle_check())))
    }

    /// Opens a store and gets one key. Returns the wall time of both together.
    fn open(&mut self, i: usize) -> Outcome<Duration> {
        let first = [Question::new(0, self.args.value_len)];
        let place = &mut self.places[i];
        let start = Instant::now();
        let mut store = (place.contender.open)(&place.dir, &self.settings)?;
        store.ask(&first).map_err(|error| format!("{}: {error}", place.contender.name))?;
        let spent = start.elapsed();
        place.open = Some(store);
        Ok(spent)
    }

    fn close(&mut self, i: usize) -> Outcome<()> {
        self.places[i].open.take().map_or(Ok(()), Store::close)
    }

    fn store(&mut self, i: usize) -> Outcome<&mut Box<dyn Store>> {
        self.places[i].open.as_mut().ok_or_else(|| "the store is closed".into())
    }

    fn run(mut self, recorder: &mut Recorder) -> Outcome<()> {
        self.reopen()?;
        for (mix, spread) in SETTINGS {
            let args = self.args;
            let asked = questions(mix, spread, args.keys, args.queries, args.value_len);
            self.ask(&asked, mix, spread)?;
        }
        for mix in [Mix::Negative, Mix::Positive] {
            let args = self.args;
            let asked = questions(mix, Spread::Uniform, args.keys, args.cold_queries, args.value_len);
            self.ask_cold(&asked, mix)?;
        }
        (0..self.places.len()).try_for_each(|i| self.close(i))?;
        progress("");
        self.print();
        self.rows.iter().try_for_each(|row| recorder.write(row))?;
        recorder.flush()
    }

    /// Calls `ask` with every store in each round. Each round begins with the next store. Returns
    /// the results of each store.
    fn rounds(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&mut Self, usize) -> Outcome<Option<f64>>,
    ) -> Outcome<Vec<Vec<f64>>> {
        let mut results = vec![Vec::new(); self.places.len()];
        for round in 0..self.args.rounds {
            for turn in 0..self.places.len() {
                let i = (turn + round) % self.places.len();
                let name = self.places[i].contender.name;
                progress(&format!("{} {what}, round {}: {name}", self.layout, round + 1));
                let result = ask(self, i).map_err(|error| format!("{name}, {what}: {error}"))?;
                results[i].extend(result);
            }
        }
        Ok(results)
    }

    fn add_all(&mut self, measure: &str, setting: Option<(Mix, Spread)>, results: Vec<Vec<f64>>) {
        for (i, times) in results.into_iter().enumerate() {
            self.add(i, measure, setting, times);
        }
    }

    /// Measures, for each store, the time to open it after a clean close and to answer the first
    /// get. Then waits until the process is idle.
    fn reopen(&mut self) -> Outcome<()> {
        let times = self.rounds("reopening", |session, i| {
            session.close(i)?;
            Ok(Some(session.open(i)?.as_secs_f64() * 1e3))
        })?;
        self.add_all(REOPEN, None, times);
        (0..self.places.len()).try_for_each(|i| wait_idle(&self.places[i].dir))
    }

    /// Measures warm gets in open stores: the mean CPU time of all gets, and percentiles of the
    /// wall time for the first half of the questions. In each round, each store first answers all
    /// questions once without timing. For uniform questions that are all absent or all present,
    /// also measures batches.
    fn ask(&mut self, asked: &[Question], mix: Mix, spread: Spread) -> Outcome<()> {
        let pinned = Pinned::to(self.cpu)?;
        let mut each = vec![Vec::new(); self.places.len()];
        let count = asked.len() as f64;
        let times = self.rounds(&format!("{} {}", mix.name(), spread.name()), |session, i| {
            let store = session.store(i)?;
            store.ask(asked)?;
            let ns = store.ask(asked)? / count;
            store.ask_each(&asked[..asked.len() / 2], &mut each[i])?;
            Ok(Some(ns))
        })?;
        for (i, (times, mut each)) in times.into_iter().zip(each).enumerate() {
            each.sort_unstable();
            let at = |share: f64| {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the length")]
                let index = (each.len() as f64 * share) as usize;
                each.get(index).map(|&ns| f64::from(ns))
            };
            let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
            self.add(i, GET, Some((mix, spread)), times);
            if let Some(row) = self.rows.last_mut() {
                (row.p50, row.p99, row.p999) = (p50, p99, p999);
            }
        }
        if spread == Spread::Uniform && mix != Mix::Mixed {
            let times = self.rounds(&format!("{} batch", mix.name()), |session, i| {
                if !session.places[i].contender.batched {
                    return Ok(None);
                }
                let store = session.store(i)?;
                store.ask_batches(asked)?;
                // The keys after the last whole batch are left out.
                let asked_keys = asked.len() / crate::engine::BATCH * crate::engine::BATCH;
                Ok(Some(store.ask_batches(asked)? / asked_keys.max(1) as f64))
            })?;
            self.add_all(BATCH, Some((mix, spread)), times);
        }
        drop(pinned);
        Ok(())
    }

    /// Measures the wall time of the gets that follow an open, after the store's files were dropped
    /// from the page cache. The one get of [`Self::open`] does not count.
    fn ask_cold(&mut self, asked: &[Question], mix: Mix) -> Outcome<()> {
        let times = self.rounds(&format!("{} cold", mix.name()), |session, i| {
            session.close(i)?;
            drop_files(&session.places[i].dir)?;
            session.open(i)?;
            let mut each = Vec::new();
            session.store(i)?.ask_each(asked, &mut each)?;
            Ok(Some(each.iter().map(|&ns| f64::from(ns)).sum::<f64>() / each.len() as f64))
        })?;
        self.add_all(COLD, Some((mix, Spread::Uniform)), times);
        Ok(())
    }

    fn add(&mut self, i: usize, measure: &str, setting: Option<(Mix, Spread)>, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return };
        let contender = self.places[i].contender;
        self.rows.push(Row {
            store: contender.name.into(),
            version: contender.version.clone(),
            n: self.args.keys,
            layout: self.layout.to_string(),
            measure: measure.into(),
            mix: setting.map_or("", |(mix, _)| mix.name()).into(),
            spread: setting.map_or("", |(_, spread)| spread.name()).into(),
            median: rounded(3, values[values.len() / 2]),
            min: rounded(3, min),
            max: rounded(3, max),
            p50: None,
            p99: None,
            p999: None,
            rounds: values.len(),
            queries: match measure {
                GET | BATCH => self.args.queries,
                COLD => self.args.cold_queries,
                _ => 0,
            },
        });
    }

    /// Prints a line for each measure and setting, with a column for each store.
    fn print(&self) {
        println!("\n{} keys, {}", self.args.keys, self.layout);
        let names: String = self.places.iter().map(|place| format!("{:>28}", place.contender.name)).collect();
        println!("{:26}{names}", "");
        let mut rest: Vec<&Row> = self.rows.iter().collect();
        while let Some(first) = rest.first().copied() {
            let is_same =
                |row: &&Row| (&row.measure, &row.mix, &row.spread) == (&first.measure, &first.mix, &first.spread);
            let cell = |place: &Place<'_>| {
                let row = rest.iter().filter(|row| is_same(row)).find(|row| row.store == place.contender.name);
                let text = row.map(|row| match row.p99 {
                    Some(p99) => format!("{:.1} (p99 {p99:.0})", row.median),
                    None => format!("{:.1}", row.median),
                });
                format!("{:>28}", text.unwrap_or_default())
            };
            let cells: String = self.places.iter().map(cell).collect();
            println!("{:26}{cells}", format!("{} {} {}", first.measure, first.mix, first.spread));
            rest.retain(|row| !is_same(row));
        }
    }
}
