//! The frame of an Avro object container file: that all its blocks are there, and how many rows they promise. The
//! decoder itself takes a cut file for a shorter one, and does not look at sync markers. Knows no records.
//!
//! Source: Apache Avro specification, "Object Container Files".

use std::io::{self, BufRead};

use super::FileError;

/// The rows that the blocks promise. A file that ends inside a block, or whose markers do not match, is damaged.
pub(super) fn count_rows(file: impl BufRead) -> Result<u64, FileError> {
    let mut frame = Frame { file, at: 0 };
    let sync = frame.header().map_err(|error| frame.error("its Avro header", &error))?;
    let (mut rows, mut block) = (0_u64, 0_u64);
    loop {
        block += 1;
        let start = frame.at;
        match frame.block(&sync) {
            Ok(Some(count)) => rows = rows.saturating_add(count),
            Ok(None) => return Ok(rows),
            Err(error) => return Err(frame.error(&format!("its Avro block {block} (from byte {start})"), &error)),
        }
    }
}

struct Frame<R> {
    file: R,
    at: u64,
}

impl<R: BufRead> Frame<R> {
    fn header(&mut self) -> io::Result<[u8; 16]> {
        if self.bytes::<4>()? != *b"Obj\x01" {
            return Err(invalid("no Avro magic"));
        }
        loop {
            let count = self.long()?;
            if count == 0 {
                return self.bytes();
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                self.skip_sized()?;
                self.skip_sized()?;
            }
        }
    }

    /// Rows of the next block; `None` at the end of the file.
    fn block(&mut self, sync: &[u8; 16]) -> io::Result<Option<u64>> {
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let count = u64::try_from(self.long()?).map_err(|_| invalid("a negative number of rows"))?;
        self.skip_sized()?;
        if self.bytes::<16>()? != *sync {
            return Err(invalid("its sync marker is not the file's"));
        }
        Ok(Some(count))
    }

    fn skip_sized(&mut self) -> io::Result<()> {
        let mut left = u64::try_from(self.long()?).map_err(|_| invalid("a negative length"))?;
        while left > 0 {
            let available = self.file.fill_buf()?.len();
            if available == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(available);
            self.file.consume(step);
            self.at += step as u64;
            left -= step as u64;
        }
        Ok(())
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

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
