//! Hashes plain-encoded values, and passes the hashes to the caller in batches. Decodes values in
//! other encodings with the crate `parquet`.

use parquet::basic::{LogicalType, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::Result as ParquetResult;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};

use crate::bloom::ParquetBloom;

const BATCH: usize = 1024;
const MAX_RECORDS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Values of this length in bytes, hashed unchanged.
    Fixed(usize),
    /// Values that each follow a length of four bytes. The hash does not cover the length.
    Variable,
    Float16,
    Float,
    Double,
}

/// Whether a zero gives the hashes of both zeros, and a NaN also gives the hashes of the default
/// NaNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Companions {
    Added,
    Omitted,
}

pub(super) struct Hashes<'a> {
    form: Form,
    batch: Vec<u64>,
    /// The previous hash. A hash that is equal to it is not passed on.
    last: Option<u64>,
    num_values: u64,
    sink: &'a mut dyn FnMut(&[u64]),
}

impl<'a> Hashes<'a> {
    /// Returns an empty collection for the values of `column`. Returns an error if the column is
    /// Boolean or has values of a fixed length below 1.
    pub(super) fn new(
        column: &ColumnDescriptor,
        companions: Companions,
        sink: &'a mut dyn FnMut(&[u64]),
    ) -> Result<Self, String> {
        let is_half = matches!(column.logical_type_ref(), Some(LogicalType::Float16));
        let form = match column.physical_type() {
            Type::BOOLEAN => return Err("a Boolean column can have no filter; choose another column".into()),
            Type::INT32 => Form::Fixed(4),
            Type::INT64 => Form::Fixed(8),
            Type::INT96 => Form::Fixed(12),
            Type::FLOAT => Form::Float,
            Type::DOUBLE => Form::Double,
            Type::BYTE_ARRAY => Form::Variable,
            Type::FIXED_LEN_BYTE_ARRAY if is_half && column.type_length() == 2 => Form::Float16,
            Type::FIXED_LEN_BYTE_ARRAY => match usize::try_from(column.type_length()) {
                Ok(len @ 1..) => Form::Fixed(len),
                _ => return Err(format!("the fixed length of the values is {} bytes, below 1", column.type_length())),
            },
        };
        let form = match (companions, form) {
            (Companions::Omitted, Form::Float16) => Form::Fixed(2),
            (Companions::Omitted, Form::Float) => Form::Fixed(4),
            (Companions::Omitted, Form::Double) => Form::Fixed(8),
            (_, form) => form,
        };
        Ok(Self { form, batch: Vec::with_capacity(BATCH), last: None, num_values: 0, sink })
    }

    pub(super) fn num_values(&self) -> u64 {
        self.num_values
    }

    /// Adds the plain-encoded values of a page. Returns false, and adds nothing, if `bytes` do not
    /// end with a whole value, or if `fits` returns false for the number of values.
    pub(super) fn add_page(&mut self, bytes: &[u8], fits: impl Fn(u64) -> bool) -> bool {
        let (len_bytes, num) = match self.form {
            Form::Variable => (0, count_variable(bytes)),
            Form::Fixed(len) => (len, whole(bytes, len)),
            Form::Float16 => (2, whole(bytes, 2)),
            Form::Float => (4, whole(bytes, 4)),
            Form::Double => (8, whole(bytes, 8)),
        };
        if !num.is_some_and(fits) {
            return false;
        }
        match self.form {
            Form::Variable => {
                let mut rest = bytes;
                while let Some((value, next)) = split_variable(rest) {
                    self.add_bytes(value);
                    rest = next;
                }
            }
            // With a constant length, the compiler unrolls the hash.
            Form::Fixed(4) => bytes.as_chunks::<4>().0.iter().for_each(|value| self.add_bytes(value)),
            Form::Fixed(8) => bytes.as_chunks::<8>().0.iter().for_each(|value| self.add_bytes(value)),
            Form::Fixed(16) => bytes.as_chunks::<16>().0.iter().for_each(|value| self.add_bytes(value)),
            _ => bytes.chunks_exact(len_bytes).for_each(|value| self.add(value)),
        }
        true
    }

    /// Adds a value in its plain encoding. A byte array comes without its length.
    ///
    /// With [`Companions::Added`], a floating-point zero adds the zeros of both signs. A NaN also
    /// adds the two default NaNs, because a query for NaN usually looks up one of them.
    pub(super) fn add(&mut self, value: &[u8]) {
        self.add_bytes(value);
        match self.form {
            Form::Fixed(_) | Form::Variable => {}
            Form::Float16 => {
                let Ok(bits) = value.try_into().map(u16::from_le_bytes) else { return };
                match bits & 0x7fff {
                    0 => self.add_both([0, 0x8000].map(u16::to_le_bytes)),
                    0x7c01.. => self.add_both([0x7e00, 0xfe00].map(u16::to_le_bytes)),
                    _ => {}
                }
            }
            Form::Float => {
                let Ok(number) = value.try_into().map(f32::from_le_bytes) else { return };
                if number == 0.0 {
                    self.add_both([0.0_f32, -0.0].map(f32::to_le_bytes));
                } else if number.is_nan() {
                    self.add_both([0x7fc0_0000, 0xffc0_0000_u32].map(u32::to_le_bytes));
                }
            }
            Form::Double => {
                let Ok(number) = value.try_into().map(f64::from_le_bytes) else { return };
                if number == 0.0 {
                    self.add_both([0.0_f64, -0.0].map(f64::to_le_bytes));
                } else if number.is_nan() {
                    self.add_both([0x7ff8 << 48, 0xfff8_u64 << 48].map(u64::to_le_bytes));
                }
            }
        }
    }

    fn add_both<const N: usize>(&mut self, values: [[u8; N]; 2]) {
        for value in values {
            self.push(ParquetBloom::hash(&value));
        }
    }

    #[inline]
    fn add_bytes(&mut self, value: &[u8]) {
        self.num_values += 1;
        self.push(ParquetBloom::hash(value));
    }

    #[inline]
    fn push(&mut self, hash: u64) {
        if self.last == Some(hash) {
            return;
        }
        self.last = Some(hash);
        self.batch.push(hash);
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        if !self.batch.is_empty() {
            (self.sink)(&self.batch);
            self.batch.clear();
        }
    }
}

fn whole(bytes: &[u8], len: usize) -> Option<u64> {
    bytes.len().is_multiple_of(len).then_some((bytes.len() / len) as u64)
}

/// Returns the first value and the bytes after it, or `None` if there is no whole value.
#[inline]
fn split_variable(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

/// Returns the number of values, or `None` if the bytes do not end with a value.
fn count_variable(bytes: &[u8]) -> Option<u64> {
    let (mut rest, mut num) = (bytes, 0);
    while !rest.is_empty() {
        rest = split_variable(rest)?.1;
        num += 1;
    }
    Some(num)
}

/// Adds the values of a data page to `hashes`. The page must not use a dictionary, because the
/// decoder sees no other page of the chunk.
pub(super) fn decode_page(column: &ColumnDescPtr, page: Page, hashes: &mut Hashes<'_>) -> ParquetResult<()> {
    match get_column_reader(column.clone(), Box::new(OnePage(Some(page)))) {
        // `Hashes::new` has rejected Boolean columns.
        ColumnReader::BoolColumnReader(_) => Ok(()),
        ColumnReader::Int32ColumnReader(reader) => add_all(reader, column, hashes),
        ColumnReader::Int64ColumnReader(reader) => add_all(reader, column, hashes),
        ColumnReader::Int96ColumnReader(reader) => add_all(reader, column, hashes),
        ColumnReader::FloatColumnReader(reader) => add_all(reader, column, hashes),
        ColumnReader::DoubleColumnReader(reader) => add_all(reader, column, hashes),
        ColumnReader::ByteArrayColumnReader(reader) => add_all(reader, column, hashes),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => add_all(reader, column, hashes),
    }
}

fn add_all<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    column: &ColumnDescPtr,
    hashes: &mut Hashes<'_>,
) -> ParquetResult<()>
where
    T::T: Plain,
{
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        values.clear();
        definitions.clear();
        repetitions.clear();
        let (records, _, levels) = reader.read_records(
            MAX_RECORDS,
            (column.max_def_level() > 0).then_some(&mut definitions),
            (column.max_rep_level() > 0).then_some(&mut repetitions),
            &mut values,
        )?;
        values.iter().for_each(|value| value.with_plain(|plain| hashes.add(plain)));
        if records == 0 && levels == 0 {
            return Ok(());
        }
    }
}

trait Plain {
    fn with_plain(&self, take: impl FnOnce(&[u8]));
}

macro_rules! plain_numbers {
    ($($number:ty),*) => {
        $(impl Plain for $number {
            fn with_plain(&self, take: impl FnOnce(&[u8])) {
                take(&self.to_le_bytes());
            }
        })*
    };
}

plain_numbers!(i32, i64, f32, f64);

impl Plain for bool {
    fn with_plain(&self, _: impl FnOnce(&[u8])) {}
}

impl Plain for Int96 {
    fn with_plain(&self, take: impl FnOnce(&[u8])) {
        let mut plain = [0; 12];
        for (bytes, word) in plain.as_chunks_mut::<4>().0.iter_mut().zip(self.data()) {
            *bytes = word.to_le_bytes();
        }
        take(&plain);
    }
}

impl Plain for ByteArray {
    fn with_plain(&self, take: impl FnOnce(&[u8])) {
        take(self.data());
    }
}

impl Plain for FixedLenByteArray {
    fn with_plain(&self, take: impl FnOnce(&[u8])) {
        take(self.data());
    }
}

struct OnePage(Option<Page>);

impl Iterator for OnePage {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(self.0.as_ref().map(|page| PageMetadata {
            num_rows: None,
            num_levels: usize::try_from(page.num_values()).ok(),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0 = None;
        Ok(())
    }
}
