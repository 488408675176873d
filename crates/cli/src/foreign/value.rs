//! Parses the option `--type`: the type of the Parquet values that the user gives as text.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

pub use filterblock_parquet::written::{ColumnType, Encoding, ValueType};

/// Returns the parser of `--type`.
pub fn value_type() -> impl TypedValueParser<Value = ValueType> {
    let names = ValueType::ALL.map(|kind| PossibleValue::new(kind.name()).help(kind.description()));
    let is_known = "the parser accepts the names of the types only";
    PossibleValuesParser::new(names).map(move |name| ValueType::from_name(&name).expect(is_known))
}
