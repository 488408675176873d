//! Defines the answers of queries, and fills the caller's arrays of answers.
#![expect(unsafe_code, reason = "writes arrays of the caller")]

use std::convert::Infallible;

use filterblock::Answer;

use crate::border;
use crate::raw;

/// The answer of a query for a key, a prefix or a range. Skip the SST only after
/// `FILTERBLOCK_ANSWER_NO`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerCode {
    /// The SST has no such key.
    No = 0,
    /// The SST may have such a key.
    Maybe = 1,
    /// No usable filter was asked, so the SST may have such a key. Count these answers: each may
    /// cost a read that a usable filter would save.
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

/// The caller's array for answers: `bool` or [`AnswerCode`]. It may be uninitialised.
#[derive(Clone, Copy)]
pub(crate) struct Answers<T> {
    answers: *mut T,
    count: usize,
}

impl<T: Copy> Answers<T> {
    /// Wraps an array of `count` elements. Returns `None` if it is NULL and `count` is not 0, or if
    /// it exceeds the address space.
    ///
    /// # Safety
    /// `answers` is NULL or has memory for `count` elements while the `Answers` exists.
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

    /// Runs `ask`, which writes the answers. If `ask` panics, sets all answers to `doubt`.
    #[inline]
    pub(crate) fn ask(self, doubt: T, ask: impl FnOnce(Self) -> Result<(), Infallible>) {
        if border::or(None, || ask(self).ok()).is_none() {
            self.fill(doubt);
        }
    }
}
