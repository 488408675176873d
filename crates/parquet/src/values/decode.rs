//! Decodes the values of one data page with the crate `parquet`. The page may have any encoding
//! that the crate knows, except a dictionary encoding.

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::Result;
use parquet::schema::types::ColumnDescPtr;

use super::plain::Hashes;

/// The maximum number of records that are decoded at once.
const BATCH: usize = 4096;

/// Adds the values of a data page to `hashes`. The page must not use a dictionary, because the
/// decoder sees no other page of the chunk.
pub(super) fn add_page(column: &ColumnDescPtr, page: Page, hashes: &mut Hashes<'_>) -> Result<()> {
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

fn add_all<T: DataType>(mut reader: ColumnReaderImpl<T>, column: &ColumnDescPtr, hashes: &mut Hashes<'_>) -> Result<()>
where
    T::T: Plain,
{
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        values.clear();
        definitions.clear();
        repetitions.clear();
        let (records, _, levels) = reader.read_records(
            BATCH,
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

/// A value with a plain encoding.
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

/// A page reader that returns one page.
struct OnePage(Option<Page>);

impl Iterator for OnePage {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(self.0.as_ref().map(|page| PageMetadata {
            num_rows: None,
            num_levels: usize::try_from(page.num_values()).ok(),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}
