//! Uses the crate `parquet` to write files with columns of every type, and keeps their values.

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use filterblock_parquet::Footer;
use filterblock_parquet::thrift::{Field, Kind, Struct};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{
    AsBytes, BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type, Int96, Int96Type,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

const SCHEMA: &str = "message m {
    required int32 number; optional int32 small (INTEGER(8,true)); required int64 id; optional int96 old_time;
    required float ratio; optional double score; optional binary name (UTF8);
    required fixed_len_byte_array(16) uuid (UUID); optional fixed_len_byte_array(5) price (DECIMAL(10,2));
    optional fixed_len_byte_array(2) half (FLOAT16); required boolean flag;
    optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
    optional group place { required int64 x; optional int32 day (DATE); }
}";

/// The paths of the leaf columns, in the order of the schema.
pub const PATHS: [&str; 14] = [
    "number",
    "small",
    "id",
    "old_time",
    "ratio",
    "score",
    "name",
    "uuid",
    "price",
    "half",
    "flag",
    "tags.list.element",
    "place.x",
    "place.day",
];

/// The index of the Boolean column in [`PATHS`].
pub const FLAG: usize = 10;
/// The index of the FLOAT16 column in [`PATHS`].
pub const HALF: usize = 9;

/// The options for writing a file.
#[derive(Debug, Clone)]
pub struct Layout {
    pub compression: Compression,
    pub version: WriterVersion,
    pub dictionary: bool,
    /// The encoding of the columns `number`, `small` and `id`, and the encoding of the `BYTE_ARRAY`
    /// columns. `None` means the defaults of the writer.
    pub encodings: Option<(Encoding, Encoding)>,
    pub rows: Vec<usize>,
    /// Whether a row group has at most seven distinct rows.
    pub few_values: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            compression: Compression::UNCOMPRESSED,
            version: WriterVersion::PARQUET_1_0,
            dictionary: false,
            encodings: None,
            rows: vec![700, 301],
            few_values: false,
        }
    }
}

impl Layout {
    fn properties(&self) -> WriterPropertiesBuilder {
        let mut builder = WriterProperties::builder()
            .set_compression(self.compression)
            .set_writer_version(self.version)
            .set_dictionary_enabled(self.dictionary)
            .set_data_page_row_count_limit(97)
            .set_write_batch_size(31);
        if let Some((numbers, bytes)) = self.encodings {
            for (path, encoding) in [
                ("number", numbers),
                ("small", numbers),
                ("id", numbers),
                ("name", bytes),
                ("tags.list.element", bytes),
            ] {
                builder = builder
                    .set_column_encoding(ColumnPath::new(path.split('.').map(str::to_owned).collect()), encoding);
            }
        }
        builder
    }
}

/// A file, and for each row group and leaf column the plain encodings of its values.
pub struct Sample {
    pub bytes: Bytes,
    pub values: Vec<Vec<Vec<Vec<u8>>>>,
}

/// Writes a file of pseudorandom values.
pub fn write(layout: &Layout) -> Sample {
    write_with(layout, |builder| builder)
}

/// Writes a file as [`write`] does, after `change` has changed the writer's properties.
pub fn write_with(layout: &Layout, change: impl Fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder) -> Sample {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = Arc::new(change(layout.properties()).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut values = Vec::new();
    for (group, &rows) in layout.rows.iter().enumerate() {
        let mut row_group = writer.next_row_group().unwrap();
        values.push(write_group(&mut row_group, group as u64, rows, layout.few_values));
        row_group.close().unwrap();
    }
    writer.close().unwrap();
    Sample { bytes: bytes.into(), values }
}

fn random(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn write_group(
    group: &mut SerializedRowGroupWriter<'_, &mut Vec<u8>>,
    number: u64,
    rows: usize,
    few: bool,
) -> Vec<Vec<Vec<u8>>> {
    let seeds: Vec<u64> = (0..rows as u64).map(|row| random(number << 40 | if few { row % 7 } else { row })).collect();
    let specials = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY];
    let double = |seed: u64| match seed % 50 {
        i @ 0..5 => specials[i as usize],
        _ => seed as f64,
    };
    let text = |seed: u64| ByteArray::from(format!("{:x}", seed >> (seed % 60)).into_bytes());
    let fixed = |seed: u64, len: usize| {
        let bytes: Vec<u8> = seed.to_le_bytes().into_iter().chain(random(seed).to_le_bytes()).take(len).collect();
        FixedLenByteArray::from(bytes)
    };
    // Some values begin with the bytes of their length. A page that begins with one of them looks
    // like a page of an old version of the crate `parquet`. That version wrote a length before each
    // value.
    let price = |seed: u64| match seed % 9 {
        0 => FixedLenByteArray::from(vec![5, 0, 0, 0, seed as u8]),
        _ => fixed(seed, 5),
    };
    let time = |seed: u64| {
        let mut time = Int96::new();
        time.set_data(seed as u32, (seed >> 32) as u32, 2_450_000);
        time
    };
    vec![
        column::<Int32Type>(group, &seeds, false, |seed| seed as i32),
        column::<Int32Type>(group, &seeds, true, |seed| i32::from(seed as i8)),
        column::<Int64Type>(group, &seeds, false, |seed| seed as i64),
        column::<Int96Type>(group, &seeds, true, time),
        column::<FloatType>(group, &seeds, false, |seed| double(seed) as f32),
        column::<DoubleType>(group, &seeds, true, double),
        column::<ByteArrayType>(group, &seeds, true, text),
        column::<FixedLenByteArrayType>(group, &seeds, false, |seed| fixed(seed, 16)),
        column::<FixedLenByteArrayType>(group, &seeds, true, price),
        column::<FixedLenByteArrayType>(group, &seeds, true, |seed| fixed(seed % 3, 2)),
        column::<BoolType>(group, &seeds, false, |seed| seed % 2 == 0),
        list(group, &seeds, text),
        nested::<Int64Type>(group, &seeds, 1, |seed| seed as i64),
        nested::<Int32Type>(group, &seeds, 2, |seed| (seed % 40_000) as i32),
    ]
}

type Group<'a, 'b> = SerializedRowGroupWriter<'a, &'b mut Vec<u8>>;

/// Writes a column. Returns the plain encodings of its values, without the lengths of byte arrays.
fn put<T: DataType>(
    group: &mut Group<'_, '_>,
    values: &[T::T],
    definitions: Option<&[i16]>,
    repetitions: Option<&[i16]>,
) -> Vec<Vec<u8>> {
    let mut writer = group.next_column().unwrap().unwrap();
    writer.typed::<T>().write_batch(values, definitions, repetitions).unwrap();
    writer.close().unwrap();
    values.iter().map(|value| value.as_bytes().to_vec()).collect()
}

/// Returns whether an optional column has a null for this seed. About one value in eleven is null.
fn is_null(seed: u64) -> bool {
    seed.is_multiple_of(11)
}

fn column<T: DataType>(
    group: &mut Group<'_, '_>,
    seeds: &[u64],
    optional: bool,
    make: impl Fn(u64) -> T::T,
) -> Vec<Vec<u8>> {
    if !optional {
        let values: Vec<_> = seeds.iter().map(|&seed| make(seed)).collect();
        return put::<T>(group, &values, None, None);
    }
    nested::<T>(group, seeds, 1, make)
}

fn nested<T: DataType>(
    group: &mut Group<'_, '_>,
    seeds: &[u64],
    depth: i16,
    make: impl Fn(u64) -> T::T,
) -> Vec<Vec<u8>> {
    let values: Vec<_> = seeds.iter().filter(|seed| !is_null(**seed)).map(|&seed| make(seed)).collect();
    let level = |seed: &u64| if is_null(*seed) { (*seed % 2) as i16 % depth } else { depth };
    put::<T>(group, &values, Some(&seeds.iter().map(level).collect::<Vec<_>>()), None)
}

/// Writes lists of zero to four elements. Some elements are null.
fn list(group: &mut Group<'_, '_>, seeds: &[u64], make: impl Fn(u64) -> ByteArray) -> Vec<Vec<u8>> {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    for &seed in seeds {
        let len = seed % 5;
        if len == 0 {
            definitions.push((seed % 2) as i16);
            repetitions.push(0);
        }
        for i in 0..len {
            let element = random(seed + i);
            definitions.push(if is_null(element) { 2 } else { 3 });
            repetitions.push(i16::from(i > 0));
            if !is_null(element) {
                values.push(make(element));
            }
        }
    }
    put::<ByteArrayType>(group, &values, Some(&definitions), Some(&repetitions))
}

/// Returns the layouts that the tests cover: each codec with both page versions, with and without a
/// dictionary. Uncompressed layouts also cover the DELTA encodings and BYTE_STREAM_SPLIT.
pub fn layouts() -> Vec<Layout> {
    use Encoding::{BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, PLAIN};
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ];
    let mut all = Vec::new();
    for (number, compression) in codecs.into_iter().enumerate() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for dictionary in [false, true] {
                let few_values = number % 2 == 0;
                all.push(Layout { compression, version, dictionary, few_values, ..Layout::default() });
            }
        }
    }
    let encodings = [
        (DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY),
        (BYTE_STREAM_SPLIT, DELTA_LENGTH_BYTE_ARRAY),
        (PLAIN, DELTA_BYTE_ARRAY),
    ];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for encodings in encodings {
            all.push(Layout { version, encodings: Some(encodings), ..Layout::default() });
        }
    }
    all
}

/// Returns the file after `change` has changed its row groups. `change` gets the number of each row
/// group.
pub fn in_row_groups(bytes: &[u8], mut change: impl FnMut(usize, &mut Struct<'_>)) -> Vec<u8> {
    let footer = Footer::read(&mut Cursor::new(bytes)).unwrap();
    let mut file = Struct::parse(footer.metadata()).unwrap().0;
    let groups = edited(&file, 4, &mut change);
    file.set(groups);
    let mut out = bytes[..footer.metadata_offset() as usize].to_vec();
    file.encode(&mut out);
    let len = out.len() as u64 - footer.metadata_offset();
    [&out[..], &(len as u32).to_le_bytes(), b"PAR1"].concat()
}

/// Returns the list of structs in field `id` after `change` has changed each of them. `change` gets
/// the number of each struct.
pub fn edited(of: &Struct<'_>, id: i16, change: &mut dyn FnMut(usize, &mut Struct<'_>)) -> Field<'static> {
    let list = of.list(id).unwrap();
    let mut value = list.header.to_vec();
    for (number, element) in list.elements.iter().enumerate() {
        let mut element = Struct::parse(element).unwrap().0;
        change(number, &mut element);
        element.encode(&mut value);
    }
    Field { id, kind: Kind::LIST, value: value.into() }
}

/// Installs a panic hook that prints no message for a panic that becomes an error.
pub fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !filterblock_parquet::values::is_guarded() {
                hook(panic);
            }
        }));
    });
}
