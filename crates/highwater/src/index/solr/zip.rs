//! A zip archive of a few small files, stored as they are: the form in which Solr takes a configset.

use flate2::Crc;

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const VERSION: u16 = 20;
/// 1980-01-01, the first day that the format knows: the same files make the same bytes.
const DAY: u16 = 0x21;

/// Packs files by name.
pub(super) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let at = length(bytes.len());
        let entry = entry(name, content);
        bytes.extend(LOCAL.to_le_bytes());
        bytes.extend(&entry);
        bytes.extend(name.as_bytes());
        bytes.extend(*content);
        directory.extend(CENTRAL.to_le_bytes());
        directory.extend(VERSION.to_le_bytes());
        directory.extend(&entry);
        // No comment, first disk, no attributes.
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, count) = (length(bytes.len()), files.len() as u16);
    bytes.extend(&directory);
    bytes.extend(END.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(length(directory.len()).to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

/// What both headers of a file say alike.
fn entry(name: &str, content: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(content);
    let mut entry = Vec::new();
    for short in [VERSION, 0, 0, 0, DAY] {
        entry.extend(short.to_le_bytes());
    }
    for long in [crc.sum(), length(content.len()), length(content.len())] {
        entry.extend(long.to_le_bytes());
    }
    entry.extend((name.len() as u16).to_le_bytes());
    entry.extend(0_u16.to_le_bytes());
    entry
}

/// The files are parts of this program, far below 4 GiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
