//! damage
