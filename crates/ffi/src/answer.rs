//! The answer of a query that also tells whether a usable filter was asked.

use filterblock::Answer;

/// What a filter says about a key. Only `FILTERBLOCK_ANSWER_NO` allows to skip the SST.
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
