//! both_ways
