//! The bumped ribbon filter.

use super::arch::Isa;
use super::guard::Guard;
use super::{Effort, FilterSpec, Shape};
use crate::error::{Error, Field, Result};
use crate::hash::KeyHash;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Geometry {}

impl Geometry {
    pub(super) fn new(_: &Shape, _: u64, _: u64) -> Result<Self> {
        Err(Error::Corrupt { field: Field::Kind, offset: 0 })
    }

    pub(super) fn expected_rate(&self) -> f64 {
        1.0
    }

    pub(super) fn columns(&self) -> u32 {
        0
    }

    pub(super) fn may_contain(&self, _: Isa, _: &[u8], _: KeyHash, _: &impl Guard) -> bool {
        true
    }

    pub(super) fn may_contain_batch(&self, _: Isa, _: &[u8], _: &[KeyHash], answers: &mut [bool]) {
        answers.fill(true);
    }

    pub(super) fn first_byte(&self, _: KeyHash) -> usize {
        0
    }
}

pub(super) fn encode(spec: FilterSpec, _: &[KeyHash], _: Effort) -> Result<(Shape, Vec<u8>)> {
    Err(Error::InvalidSpec { spec: spec.to_string(), reason: "a kind that this version does not build" })
}
