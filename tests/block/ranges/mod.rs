//! Tests range filters: answers, FPRs, partitions, damage, misuse, and blocks with two filters.

mod answers;
mod beside;
mod counted;
mod damage;
mod golden;
mod key_sets;
mod misuse;
mod partitions;
mod rates;
mod support;
