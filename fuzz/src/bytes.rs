//! Reads byte edits from an input, and applies them. Also encodes and decodes varints.

use crate::Input;

/// One edit. An offset beyond the end of the bytes wraps around.
#[derive(Debug, Clone)]
pub enum Edit {
    Xor(usize, u8),
    Set(usize, u8),
    /// Sets a byte. The offset counts from the end of the bytes.
    SetFromEnd(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    /// Writes zeros, like a lost sector or page.
    Blank(usize, usize),
    /// Copies a part to another offset, like a misdirected write.
    Copy(usize, usize, usize),
    Truncate(usize),
}

impl Edit {
    /// Reads an edit of any sort.
    pub fn take(input: &mut Input<'_>) -> Self {
        match input.byte() % 10 {
            0 | 1 => Self::Xor(input.number(2) as usize, input.byte() | 1),
            2 => Self::Set(input.number(2) as usize, input.byte()),
            3 => Self::SetFromEnd(usize::from(input.byte()), input.byte()),
            4 | 5 => {
                let (at, len) = (input.number(2) as usize, usize::from(input.byte() % 64));
                Self::Insert(at, input.take(len).to_vec())
            }
            6 => Self::Remove(input.number(2) as usize, usize::from(input.byte())),
            7 => Self::Blank(input.number(2) as usize, 1 << (input.byte() % 13)),
            8 => Self::Copy(input.number(2) as usize, input.number(2) as usize, 1 << (input.byte() % 13)),
            _ => Self::Truncate(input.number(2) as usize),
        }
    }

    /// Reads an edit that resembles damage: it changes one byte, or removes, blanks, copies or
    /// truncates bytes.
    pub fn take_damage(input: &mut Input<'_>) -> Self {
        match input.byte() % 5 {
            0 => Self::Xor(input.number(3) as usize, input.byte() | 1),
            1 => Self::Remove(input.number(3) as usize, usize::from(input.byte())),
            2 => Self::Blank(input.number(3) as usize, 1 << (input.byte() % 13)),
            3 => Self::Copy(input.number(3) as usize, input.number(3) as usize, 1 << (input.byte() % 13)),
            _ => Self::Truncate(input.number(3) as usize),
        }
    }

    pub fn apply(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        let within = |at: usize| at % len.max(1);
        match self {
            Self::Insert(at, new) => drop(bytes.splice(at % (len + 1)..at % (len + 1), new.iter().copied())),
            _ if len == 0 => {}
            Self::Xor(at, with) => bytes[within(*at)] ^= with,
            Self::Set(at, to) => bytes[within(*at)] = *to,
            Self::SetFromEnd(at, to) => bytes[len - 1 - within(*at)] = *to,
            Self::Remove(at, count) => drop(bytes.drain(within(*at)..len.min(within(*at) + count))),
            Self::Blank(at, count) => bytes[within(*at)..len.min(within(*at) + count)].fill(0),
            Self::Copy(from, to, count) => {
                let (from, to) = (within(*from), within(*to));
                let count = (*count).min(len - from).min(len - to);
                bytes.copy_within(from..from + count, to);
            }
            Self::Truncate(to) => bytes.truncate(within(*to)),
        }
    }
}

pub use filterblock::internals::codec::{put_bytes, put_varint};

/// Takes a varint from the front of `bytes`. Panics if the varint does not end within `bytes`.
pub fn take_varint(bytes: &mut &[u8]) -> u64 {
    let len = bytes.iter().position(|&byte| byte < 0x80).unwrap() + 1;
    let (front, rest) = bytes.split_at(len);
    *bytes = rest;
    front.iter().rev().fold(0, |number, &byte| number << 7 | u64::from(byte & 0x7f))
}
