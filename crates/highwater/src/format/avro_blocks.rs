//! The frame of an Avro object container file: its blocks, one by one and whole. The library takes a cut file for a
//! shorter one, does not look at sync markers, inflates blocks of any size, and never comes back from a block that holds
//! more than it promises. Knows no records.
//!
//! Source: Apache Avro specification, "Object Container Files".

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::DeflateDecoder;
use liblzma::bufread::XzDecoder;

use super::FileError;

/// What one block may inflate to. Writers end a block at 16 KiB to a few MiB.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// The blocks of a file.
pub(super) struct Blocks<R> {
    file: R,
    at: u64,
    header: Vec<u8>,
    sync: [u8; 16],
    codec: Codec,
    number: u64,
    most_bytes: u64,
}

/// One block, as it is stored.
pub(super) struct Block {
    /// Rows that it promises.
    pub rows: u64,
    /// Where it stands, for a person.
    pub place: String,
    data: Vec<u8>,
}

/// How blocks are compressed.
#[derive(Clone, Copy)]
enum Codec {
    /// Not, or in a way that names the size beforehand (snappy).
    Bounded,
    Deflate,
    Zstandard,
    Bzip2,
    Xz,
}

impl Codec {
    fn of(name: &[u8]) -> Self {
        match name {
            b"deflate" => Self::Deflate,
            b"zstandard" => Self::Zstandard,
            b"bzip2" => Self::Bzip2,
            b"xz" => Self::Xz,
            _ => Self::Bounded,
        }
    }

    /// How many bytes one compressed byte can become: of deflate by its format, of others as powers of two above what
    /// runs of one byte reach.
    fn most_ratio(self) -> u64 {
        match self {
            Self::Bounded => 0,
            Self::Deflate => 1032,
            Self::Zstandard | Self::Bzip2 | Self::Xz => 1 << 16,
        }
    }

    /// How many bytes the block becomes, counted up to `most`.
    fn inflated(self, block: &[u8], most: u64) -> io::Result<u64> {
        let text: Box<dyn Read + '_> = match self {
            Self::Bounded => Box::new(block),
            Self::Deflate => Box::new(DeflateDecoder::new(block)),
            Self::Zstandard => Box::new(zstd::stream::read::Decoder::with_buffer(block)?),
            Self::Bzip2 => Box::new(BzDecoder::new(block)),
            Self::Xz => Box::new(XzDecoder::new(block)),
        };
        io::copy(&mut text.take(most), &mut io::sink())
    }
}

impl<R: BufRead> Blocks<R> {
    /// Reads the header.
    pub fn open(file: R) -> Result<Self, FileError> {
        Self::within(file, MAX_BLOCK_BYTES)
    }

    fn within(file: R, most_bytes: u64) -> Result<Self, FileError> {
        let (header, sync, codec) = (Vec::new(), [0; 16], Codec::Bounded);
        let mut blocks = Self { file, at: 0, header, sync, codec, number: 0, most_bytes };
        blocks.read_header().map_err(|error| blocks.error("its Avro header", &error))?;
        Ok(blocks)
    }

    /// The header's bytes: by themselves a file without rows.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The next block; `None` at the end of the file. A file that ends inside one, or whose markers do not match, is
    /// damaged.
    pub fn next(&mut self) -> Result<Option<Block>, FileError> {
        self.number += 1;
        let place = format!("its Avro block {} (from byte {})", self.number, self.at);
        match self.read_block() {
            Ok(found) => Ok(found.map(|(rows, data)| Block { rows, place, data })),
            Err(error) => Err(self.error(&place, &error)),
        }
    }

    /// A file of this block alone. It claims rows without end: the library decodes as many as it is asked for, and then
    /// sees by itself whether bytes are left over.
    pub fn alone<'b>(&'b self, block: &'b Block) -> impl BufRead + 'b {
        let mut frame = Vec::new();
        write_long(i64::MAX, &mut frame);
        write_long(i64::try_from(block.data.len()).unwrap_or(i64::MAX), &mut frame);
        self.header.chain(io::Cursor::new(frame)).chain(&block.data[..]).chain(&self.sync[..])
    }

    fn read_header(&mut self) -> io::Result<()> {
        let mut header = Vec::new();
        let magic = self.bytes::<4>()?;
        if magic != *b"Obj\x01" {
            return Err(invalid("no Avro magic"));
        }
        header.extend(magic);
        loop {
            let count = self.long()?;
            write_long(count, &mut header);
            if count == 0 {
                break;
            }
            if count < 0 {
                write_long(self.long()?, &mut header);
            }
            for _ in 0..count.unsigned_abs() {
                let (key, value) = (self.sized()?, self.sized()?);
                if key == b"avro.codec" {
                    self.codec = Codec::of(&value);
                }
                for entry in [key, value] {
                    write_long(i64::try_from(entry.len()).unwrap_or(i64::MAX), &mut header);
                    header.extend(entry);
                }
            }
        }
        self.sync = self.bytes()?;
        header.extend(self.sync);
        self.header = header;
        Ok(())
    }

    fn read_block(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let rows = u64::try_from(self.long()?).map_err(|_| invalid("a negative number of rows"))?;
        let data = self.sized()?;
        if self.bytes::<16>()? != self.sync {
            return Err(invalid("its sync marker is not the file's"));
        }
        if (data.len() as u64).saturating_mul(self.codec.most_ratio()) > self.most_bytes
            && self.codec.inflated(&data, self.most_bytes.saturating_add(1))? > self.most_bytes
        {
            return Err(invalid(&format!("it inflates to more than {} bytes", self.most_bytes)));
        }
        Ok(Some((rows, data)))
    }

    /// Bytes behind their length. Memory is taken for what the file holds, not for what it claims.
    fn sized(&mut self) -> io::Result<Vec<u8>> {
        let length = u64::try_from(self.long()?).map_err(|_| invalid("a negative length"))?;
        let mut bytes = Vec::new();
        let met = (&mut self.file).take(length).read_to_end(&mut bytes)? as u64;
        self.at += met;
        if met < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// A zigzag number of variable length.
    fn long(&mut self) -> io::Result<i64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.bytes()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        Err(invalid("a number longer than 64 bits"))
    }

    fn error(&self, part: &str, error: &io::Error) -> FileError {
        FileError::Damaged(format!("{part} cannot be read, at byte {}: {error}", self.at))
    }
}

/// A zigzag number of variable length.
pub(super) fn write_long(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn sized(bytes: &[u8], out: &mut Vec<u8>) {
        write_long(bytes.len() as i64, out);
        out.extend(bytes);
    }

    fn deflated(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn rows(file: &[u8], most_bytes: u64) -> Result<u64, FileError> {
        let mut blocks = Blocks::within(file, most_bytes)?;
        let mut rows = 0;
        while let Some(block) = blocks.next()? {
            rows += block.rows;
        }
        Ok(rows)
    }

    #[test]
    fn avro_blocks_that_inflate_beyond_measure_are_refused() {
        let text = vec![0; 1 << 20];
        for (codec, block) in [("deflate", deflated(&text)), ("zstandard", zstd::encode_all(&text[..], 1).unwrap())] {
            let mut file = b"Obj\x01".to_vec();
            write_long(1, &mut file);
            sized(b"avro.codec", &mut file);
            sized(codec.as_bytes(), &mut file);
            write_long(0, &mut file);
            file.extend([7; 16]);
            for _ in 0..2 {
                write_long(3, &mut file);
                sized(&block, &mut file);
                file.extend([7; 16]);
            }
            assert_eq!(rows(&file, 1 << 20), Ok(6), "{codec}");
            let error = rows(&file, (1 << 20) - 1).unwrap_err().to_string();
            assert!(
                error.contains("Avro block 1 ") && error.contains("inflates to more than 1048575 bytes"),
                "{error}"
            );
        }
    }
}
