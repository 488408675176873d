//! Tests damage at rest and repairs.

#[cfg(feature = "testing")]
mod again;
#[cfg(feature = "testing")]
mod damage_at_rest;
#[cfg(feature = "testing")]
mod harmless;
mod kept;
