//! Measures storage engines with their own filters and with filterblock.
