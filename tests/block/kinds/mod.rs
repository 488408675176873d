//! Tests the kinds that filter single keys.

mod extremes;
mod independence;
mod planning;
mod present_keys;
mod rates;
mod shrunk;
mod space;
mod specs;
