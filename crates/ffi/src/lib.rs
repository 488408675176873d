//! The C ABI of filterblock.
