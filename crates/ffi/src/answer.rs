//! The answers of queries, and arrays of answers of a caller.
#![expect(unsafe_code, reason = "writes arrays of the caller")]

use std::convert::Infallible;

use filterblock::Answer;

use crate::border;
use crate::raw;

/// What a filter says about a key. Skip the SST only after `FILTERBLOCK_ANSWER_NO`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerCode {
    /// The key is not in the SST.
    No = 0,
    /// The key may be in the SST.
    Maybe = 1,
    /// No usable filter was asked, so the key may be in the SST. Count these answers: each costs a
    /// read that a usable filter might have saved.
    Unfiltered = 2,
}

impl From<Answer> for AnswerCode {
    #[inline(always)]
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::No => Self::No,
            Answer::Maybe => Self::Maybe,
            Answer::Unfiltered => Self::Unfiltered,
        }
    }
}

/// An array of a caller for `bool`, [`AnswerCode`] or hashes. It may be uninitialised.
#[derive(Clone, Copy)]
pub(crate) struct Answers<T> {
    answers: *mut T,
    count: usize,
}

impl<T: Copy> Answers<T> {
    /// Returns `None` if the array is NULL or too long.
    ///
    /// # Safety
    /// `answers` is NULL or has memory for `count` elements while the value exists.
    pub(crate) unsafe fn new(answers: *mut T, count: usize) -> Option<Self> {
        raw::is_array(answers, count).then_some(Self { answers, count })
    }

    /// Writes answers from index `first` on. Answers beyond the array are not written.
    #[inline]
    pub(crate) fn write(self, first: usize, answers: &[T]) {
        let room = self.count.saturating_sub(first);
        let answers = answers.split_at(answers.len().min(room)).0;
        // SAFETY: the array has `count` elements: see `new`.
        unsafe { raw::copy_out(answers, self.answers, first) };
    }

    pub(crate) fn fill(self, answer: T) {
        (0..self.count).for_each(|index| self.write(index, &[answer]));
    }

    /// Runs `ask`. If it panics, all answers are `doubt`.
    #[inline]
    pub(crate) fn ask(self, doubt: T, ask: impl FnOnce(Self) -> Result<(), Infallible>) {
        if border::or(None, || ask(self).ok()).is_none() {
            self.fill(doubt);
        }
    }
}
