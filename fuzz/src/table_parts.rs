//! Splits an SST file into its parts by docs/STORE_FORMAT.md, and assembles edited parts with valid
//! checksums. The results resemble files of a hostile or defective writer.

use std::collections::BTreeSet;

use filterblock::layout::{FIELDS, TRAILER_LEN_BYTES};
use filterblock_store::sstable::{FOOTER_FIELDS, FOOTER_LEN_BYTES};

use crate::Input;
use crate::bytes::{Edit, put_varint, take_varint};
use filterblock_testkit::blocks::{block_of, put_number, repair_pages, repair_trailer};

/// The parts of a file. Handles, offsets and checksums are computed when the file is assembled.
pub struct Parts {
    /// The separator and the bytes of each data block, without the checksum.
    blocks: Vec<(Vec<u8>, Vec<u8>)>,
    filter: Vec<u8>,
    properties: Vec<u8>,
    footer: [u8; FOOTER_LEN_BYTES],
    index_edits: Vec<Edit>,
    footer_edits: Vec<(usize, u64)>,
    pub forged: Forged,
}

/// The parts whose content differs from what the writer wrote, although their checksums are valid.
#[derive(Debug, Default, Clone)]
pub struct Forged {
    /// The separators of forged data blocks. They identify the blocks.
    pub blocks: BTreeSet<Vec<u8>>,
    pub index: bool,
    pub filter: bool,
    pub properties: bool,
}

fn footer_field(footer: &mut [u8], number: usize) -> &mut [u8] {
    let (_, at, len) = FOOTER_FIELDS[number];
    &mut footer[at..at + len]
}

fn number_at(file: &[u8], name: &str) -> usize {
    let (_, at, len) = *FOOTER_FIELDS.iter().find(|field| field.0 == name).unwrap();
    let footer = &file[file.len() - FOOTER_LEN_BYTES..];
    Input(&footer[at..]).number(len) as usize
}

impl Parts {
    /// Splits a sound file into its parts.
    pub fn of(file: &[u8]) -> Self {
        let part = |name: &str| {
            let (at, len) = (number_at(file, &format!("{name} offset")), number_at(file, &format!("{name} length")));
            file[at..at + len].to_vec()
        };
        let index = part("index");
        let count = u32::from_le_bytes(index[index.len() - 4..].try_into().unwrap()) as usize;
        let mut rest = &index[..index.len() - 4 - 4 * count];
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let [_shared, unshared, code] = [(); 3].map(|()| take_varint(&mut rest) as usize);
            let (separator, behind) = rest.split_at(unshared);
            let (mut handle, behind) = behind.split_at(code - 1);
            rest = behind;
            let (offset, len) = (take_varint(&mut handle) as usize, take_varint(&mut handle) as usize);
            blocks.push((separator.to_vec(), file[offset..offset + len - 4].to_vec()));
        }
        Self {
            blocks,
            filter: part("filter"),
            properties: part("properties"),
            footer: file[file.len() - FOOTER_LEN_BYTES..].try_into().unwrap(),
            index_edits: Vec::new(),
            footer_edits: Vec::new(),
            forged: Forged::default(),
        }
    }

    /// Returns the separator of the block that was written for `key`. The separator identifies the
    /// block. Returns `None` if `key` is above all separators.
    pub fn block_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.blocks.iter().map(|(separator, _)| separator).find(|separator| separator.as_slice() >= key).cloned()
    }

    /// Changes one part as the input describes.
    pub fn forge(&mut self, input: &mut Input<'_>) {
        match input.byte() % 8 {
            0..=2 => self.forge_block(input),
            3 => {
                self.forged.index = true;
                self.index_edits.push(Edit::take(input));
            }
            4 => self.forge_order(input),
            5 => {
                self.forged.properties = true;
                Edit::take(input).apply(&mut self.properties);
            }
            6 => self.forge_filter(input),
            // Changes any footer field except format version, footer checksum and magic. With other
            // values of these three fields, the file only fails to open.
            _ => {
                let field = usize::from(input.byte()) % 13;
                let name = FOOTER_FIELDS[field].0;
                self.forged.filter |= name.starts_with("filter");
                self.forged.index |= name.starts_with("index");
                self.forged.properties |= name.starts_with("properties");
                self.footer_edits.push((field, input.number(8)));
            }
        }
    }

    fn forge_block(&mut self, input: &mut Input<'_>) {
        let number = input.below(self.blocks.len());
        let Some((separator, bytes)) = self.blocks.get_mut(number) else { return };
        self.forged.blocks.insert(separator.clone());
        Edit::take(input).apply(bytes);
    }

    /// Moves, repeats or removes data blocks, or changes a separator.
    fn forge_order(&mut self, input: &mut Input<'_>) {
        let (action, a, b) = (input.byte(), input.below(self.blocks.len()), input.below(self.blocks.len()));
        if self.blocks.is_empty() {
            return;
        }
        self.forged.index = true;
        match action % 4 {
            0 => self.blocks.swap(a, b),
            1 => drop(self.blocks.remove(a)),
            2 => self.blocks.insert(b, self.blocks[a].clone()),
            _ => {
                let len = usize::from(input.byte() % 24);
                self.blocks[a].0 = input.take(len).to_vec();
            }
        }
    }

    /// Damages the filter, or changes or replaces it and repairs its checksums.
    fn forge_filter(&mut self, input: &mut Input<'_>) {
        let (action, repair) = (input.byte(), input.byte());
        if self.filter.len() < TRAILER_LEN_BYTES {
            return;
        }
        if repair.is_multiple_of(3) {
            Edit::take_damage(input).apply(&mut self.filter);
            return;
        }
        self.forged.filter = true;
        match action % 4 {
            0 => put_number(&mut self.filter, FIELDS[input.below(FIELDS.len() - 1)].0, input.number(8)),
            1 => self.filter = block_of("bloom:10", 1_000..1_010, self.footer[..16].try_into().unwrap()),
            _ => Edit::take(input).apply(&mut self.filter),
        }
        if self.filter.len() >= TRAILER_LEN_BYTES {
            if repair % 3 == 1 { repair_trailer(&mut self.filter) } else { repair_pages(&mut self.filter) }
        }
    }

    /// Assembles the file. Without edits, the result equals the original file.
    pub fn assemble(&self) -> Vec<u8> {
        let (mut file, mut index, mut restarts) = (Vec::new(), Vec::new(), Vec::new());
        for (separator, bytes) in &self.blocks {
            let offset = file.len() as u64;
            let covered = [&self.footer[..16], &offset.to_le_bytes(), bytes].concat();
            file.extend_from_slice(bytes);
            file.extend_from_slice(&crc32fast::hash(&covered).to_le_bytes());
            let mut handle = Vec::new();
            put_varint(&mut handle, offset);
            put_varint(&mut handle, file.len() as u64 - offset);
            restarts.extend_from_slice(&(index.len() as u32).to_le_bytes());
            put_varint(&mut index, 0);
            put_varint(&mut index, separator.len() as u64);
            put_varint(&mut index, handle.len() as u64 + 1);
            index.extend_from_slice(separator);
            index.extend_from_slice(&handle);
        }
        index.extend_from_slice(&restarts);
        index.extend_from_slice(&(self.blocks.len() as u32).to_le_bytes());
        self.index_edits.iter().for_each(|edit| edit.apply(&mut index));
        let mut footer = self.footer;
        let data_len = file.len() as u64;
        if !self.filter.is_empty() {
            file.resize(file.len().next_multiple_of(4096), 0);
        }
        let mut put = |number: usize, value: u64| {
            let field = footer_field(&mut footer, number);
            let value = value.to_le_bytes();
            let len = field.len().min(8);
            field[..len].copy_from_slice(&value[..len]);
        };
        put(1, data_len);
        for (number, part) in [(2, &self.filter), (4, &index), (6, &self.properties)] {
            put(number, file.len() as u64);
            put(number + 1, part.len() as u64);
            file.extend_from_slice(part);
        }
        put(8, (file.len() + FOOTER_LEN_BYTES) as u64);
        let filter_checksum = self.filter.len().checked_sub(8).map_or(0, |at| Input(&self.filter[at..]).number(4));
        put(9, filter_checksum);
        put(10, crc32fast::hash(&index).into());
        put(11, crc32fast::hash(&self.properties).into());
        self.footer_edits.iter().for_each(|&(number, value)| put(number, value));
        let checksum = crc32fast::hash(&footer[..100]);
        footer_field(&mut footer, 14).copy_from_slice(&checksum.to_le_bytes());
        file.extend_from_slice(&footer);
        file
    }
}
