//! Reads tests/golden/foreign: the files that other engines wrote, with their keys, answers and
//! test vectors.

pub mod forge;
pub mod formulas;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the content of a file of the golden data.
pub fn file(folder: &str, name: &str) -> Vec<u8> {
    let path = path(folder, name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn path(folder: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/foreign").join(folder).join(name)
}

/// One object of `cases.json`.
pub struct Case {
    pub folder: &'static str,
    pub fields: Value,
}

pub fn cases(folder: &'static str) -> Vec<Case> {
    let list: Value = serde_json::from_slice(&file(folder, "cases.json")).unwrap();
    let Value::Array(list) = list else { panic!("{folder}: cases.json is not a list") };
    list.into_iter().map(|fields| Case { folder, fields }).collect()
}

/// Returns the cases of a folder whose `type` is `wanted`: `raw_filter`, `table` or `db_table`.
pub fn cases_of_type(folder: &'static str, wanted: &str) -> Vec<Case> {
    cases(folder).into_iter().filter(|case| case.fields["type"] == wanted).collect()
}

impl Case {
    /// Returns the folder and the name, for messages.
    pub fn name(&self) -> String {
        format!("{}/{}", self.folder, self.text("name"))
    }

    pub fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_else(|| panic!("{:?} has no text {field}", self.fields))
    }

    pub fn number(&self, field: &str) -> u64 {
        self.fields[field].as_u64().unwrap_or_else(|| panic!("{} has no number {field}", self.name()))
    }

    pub fn float(&self, field: &str) -> f64 {
        self.fields[field].as_f64().unwrap_or_else(|| panic!("{} has no number {field}", self.name()))
    }

    pub fn is(&self, field: &str) -> bool {
        self.fields[field].as_bool().unwrap_or_else(|| panic!("{} has no flag {field}", self.name()))
    }

    /// Returns the bytes of the case's `file`.
    pub fn bytes(&self) -> Vec<u8> {
        file(self.folder, self.text("file"))
    }

    fn scheme(&self, field: &str) -> u64 {
        self.fields["keys"][field].as_u64().unwrap()
    }

    /// Returns the number from which key `i` is made.
    pub fn v(&self, i: u64) -> u64 {
        self.scheme("start").wrapping_add(self.scheme("step").wrapping_mul(i))
    }

    /// Returns the key that is made from `v`, or from `i` for keys of varying length.
    fn key_of(&self, v: u64, i: u64) -> Vec<u8> {
        match self.fields["keys"]["kind"].as_str().unwrap() {
            "dec" => format!("{}{v:08}", self.fields["keys"]["prefix"].as_str().unwrap()).into_bytes(),
            "be64" => v.swap_bytes().to_le_bytes().to_vec(),
            "short" => v.swap_bytes().to_le_bytes().into_iter().skip_while(|&byte| byte == 0).collect(),
            "var" => {
                let seed = self.scheme("seed");
                let len = 6 + (i * 7919 + seed) % 331;
                let mut key = format!("{i:06}").into_bytes();
                key.extend((6..len).map(|j| (i * 31 + j * 17 + 11 + seed) as u8));
                key
            }
            kind => panic!("{} has keys of kind {kind}", self.name()),
        }
    }

    /// Returns key `i`, before sorting.
    pub fn key(&self, i: u64) -> Vec<u8> {
        self.key_of(self.v(i), i)
    }

    /// Returns the present keys in the order of a table, with their indices before sorting.
    pub fn keys_and_indices(&self) -> Vec<(Vec<u8>, u64)> {
        let mut keys: Vec<_> = (0..self.number("n")).map(|i| (self.key(i), i)).collect();
        keys.sort();
        keys
    }

    /// Returns the present keys in the order of a table.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.keys_and_indices().into_iter().map(|(key, _)| key).collect()
    }

    /// Returns the index and the number from which absent key `j` is made. The number is `None` if
    /// the key is made from a present key.
    fn absent_parts(&self, j: u64) -> (u64, Option<u64>) {
        let base = j * self.number("n") / self.number("absent_count");
        match self.text("absent") {
            "tilde" => (base, None),
            _ => (base, Some(self.v(base).wrapping_add(1 + j % (self.scheme("step") - 1)))),
        }
    }

    /// Returns the absent keys, one for each answer.
    pub fn absent_keys(&self) -> Vec<Vec<u8>> {
        let absent = |j| match self.absent_parts(j) {
            (base, Some(v)) => self.key_of(v, base),
            (base, None) => [self.key(base), format!("~{j}").into_bytes()].concat(),
        };
        (0..self.number("absent_count")).map(absent).collect()
    }

    /// Returns the plain encodings of a Parquet column's present values.
    pub fn plain_values(&self) -> Vec<Vec<u8>> {
        (0..self.number("n")).map(|i| self.plain(self.v(i)).unwrap_or_else(|| self.key(i))).collect()
    }

    /// Returns the plain encodings of a Parquet column's absent values.
    pub fn absent_plain_values(&self) -> Vec<Vec<u8>> {
        let absent = |(j, key)| self.absent_parts(j).1.and_then(|v| self.plain(v)).unwrap_or(key);
        (0..).zip(self.absent_keys()).map(absent).collect()
    }

    /// Returns a number as its column stores it, or `None` for a BYTE_ARRAY column.
    fn plain(&self, v: u64) -> Option<Vec<u8>> {
        match self.text("column") {
            "i64" => Some(v.to_le_bytes().to_vec()),
            "i32" => Some((v as u32).to_le_bytes().to_vec()),
            "f64" => Some((v as f64).to_le_bytes().to_vec()),
            "flba" => Some(v.swap_bytes().to_le_bytes().to_vec()),
            _ => None,
        }
    }

    /// Returns the engine's answers for the absent keys: `1` for "maybe", `0` for "absent", or `-`
    /// if the engine asked no filter.
    pub fn answers(&self) -> Vec<u8> {
        self.answers_in("absent")
    }

    /// Returns the engine's answers for prefix seeks, in the form of [`Self::answers`].
    pub fn prefix_answers(&self) -> Vec<u8> {
        self.answers_in("prefix")
    }

    fn answers_in(&self, list: &str) -> Vec<u8> {
        let text = file(self.folder, &format!("{}.{list}.txt", self.text("name")));
        let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"#"));
        let answers: Vec<u8> = lines.flatten().copied().collect();
        assert_eq!(answers.len() as u64, self.number("absent_count"), "{}", self.name());
        answers
    }
}

/// Returns the value of key `i`, `len` bytes long.
pub fn value(i: u64, len: usize) -> Vec<u8> {
    format!("v{i:08}-").into_bytes().into_iter().cycle().take(len).collect()
}

/// Returns the rows of a file of test vectors. A row is a list of columns, as text.
pub fn rows(folder: &str, name: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8(file(folder, name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

pub fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
