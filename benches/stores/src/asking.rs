//! Runs the timed loops. The compiler makes a copy of each loop for each engine. Only the call of a
//! whole loop is dynamic.

use std::hint::black_box;
use std::time::Instant;

use filterblock_testkit::measure::clock::thread_time;
use filterblock_testkit::measure::keys::{ABSENT, Key, key};

use crate::engine::{BATCH, Engine, Outcome, Store};
use crate::questions::{Question, value};

impl<E: Engine> Store for E {
    fn put(&mut self, pairs: &[(Key, Vec<u8>)]) -> Outcome<()> {
        Engine::put(self, pairs)
    }

    fn flush(&mut self) -> Outcome<()> {
        Engine::flush(self)
    }

    fn compact(&mut self) -> Outcome<()> {
        Engine::compact(self)
    }

    fn check(&mut self, n: u64, step: usize, value_len: u16) -> Outcome<()> {
        self.begin_reads()?;
        let mut wrong = 0;
        for number in (0..n).step_by(step) {
            let expected = value(number, value_len);
            wrong += u64::from(!self.get(&key(number), |found| found == Some(&expected[..]))?);
            wrong += u64::from(!self.get(&key(ABSENT + number), |found| found.is_none())?);
        }
        all_right(wrong)
    }

    fn ask(&mut self, asked: &[Question]) -> Outcome<f64> {
        self.begin_reads()?;
        let start = thread_time();
        let mut wrong = 0;
        for question in black_box(asked) {
            wrong += u64::from(!self.get(&question.key, |found| question.accepts(found))?);
        }
        let spent = thread_time() - start;
        all_right(wrong)?;
        Ok(spent.as_secs_f64() * 1e9)
    }

    fn ask_each(&mut self, asked: &[Question], times: &mut Vec<u32>) -> Outcome<()> {
        self.begin_reads()?;
        times.reserve(asked.len());
        let mut wrong = 0;
        for question in black_box(asked) {
            let start = Instant::now();
            wrong += u64::from(!self.get(&question.key, |found| question.accepts(found))?);
            times.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        all_right(wrong)
    }

    fn ask_batches(&mut self, asked: &[Question]) -> Outcome<f64> {
        self.begin_reads()?;
        let start = thread_time();
        let mut right = 0;
        for batch in black_box(asked).as_chunks::<BATCH>().0 {
            let keys = batch.each_ref().map(|question| question.key);
            self.multi_get(&keys, |i, found| right += usize::from(batch[i].accepts(found)))?;
        }
        let spent = thread_time() - start;
        all_right((asked.len() / BATCH * BATCH - right) as u64)?;
        Ok(spent.as_secs_f64() * 1e9)
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Engine::close(*self)
    }
}

fn all_right(wrong: u64) -> Outcome<()> {
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} answers are wrong")) }
}
