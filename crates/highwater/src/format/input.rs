//! The text of a file, decompressed as it is read. Knows no format, only where a stream ends and whether it was cut.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::FileError;
use crate::store::Content;

const BUFFER_BYTES: usize = 256 << 10;

/// What an xz stream may ask for: its strongest preset needs 65 MiB, its format could name 4 GiB. Zstandard's library has
/// such a bound of its own, 128 MiB.
const XZ_MEMORY_BYTES: u64 = 256 << 20;

/// The stored bytes. One reader at a time: a spooled file has one position.
pub(super) fn open_stored(content: &Content) -> io::Result<Box<dyn BufRead + '_>> {
    Ok(match content {
        Content::Bytes(bytes) => Box::new(&bytes[..]),
        Content::Spooled { file, .. } => {
            let mut file: &File = file;
            file.rewind()?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
        }
    })
}

/// The text, decompressed as the extension tells, without a byte order mark. A compressed stream that is cut, even in
/// its last member, is an error when its end is read.
pub(super) fn open_text<'c>(path: &str, content: &'c Content) -> Result<Box<dyn BufRead + 'c>, FileError> {
    let unreadable = |error: io::Error| FileError::Damaged(format!("its bytes cannot be read: {error}"));
    let (head, stored) = peek(open_stored(content).map_err(unreadable)?, 512).map_err(unreadable)?;
    let text = decompressed(path, &head, stored).map_err(unreadable)?;
    let (start, mut text) = peek(text, 16).map_err(|error| broken(&error, "at its start"))?;
    if let Some(what) = foreign(&start) {
        return Err(FileError::Damaged(what.to_owned()));
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        text.consume(3);
    }
    Ok(text)
}

/// What the text is, if it is no text but something that a name or a setting hid.
fn foreign(start: &[u8]) -> Option<&'static str> {
    let is_bzip2 = start.starts_with(b"BZh") && start.get(4..10) == Some(b"1AY&SY");
    Some(match start {
        [0x1f, 0x8b, ..] => "its text is gzip: its name lacks .gz, or it was compressed twice",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "its text is Zstandard: its name lacks .zst, or it was compressed twice",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "its text is xz: its name lacks .xz, or it was compressed twice",
        _ if is_bzip2 => "its text is bzip2: its name lacks .bz2, or it was compressed twice",
        [b'P', b'A', b'R', b'1', 0x15, ..] => "it is Parquet, and its source's `format` says otherwise",
        [b'O', b'b', b'j', 1, ..] => "it is Avro, and its source's `format` says otherwise",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16; write UTF-8",
        _ => return None,
    })
}

/// A stream that breaks off, or is damaged, past a place.
pub(super) fn broken(error: &io::Error, place: &str) -> FileError {
    FileError::Damaged(format!("its stream breaks off {place}: {error}"))
}

fn decompressed<'c>(path: &str, head: &[u8], stored: Box<dyn BufRead + 'c>) -> io::Result<Box<dyn BufRead + 'c>> {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
    let magic: &[u8] = match extension.as_str() {
        "gz" => b"\x1f\x8b",
        "zst" => b"\x28\xb5\x2f\xfd",
        "bz2" => b"BZh",
        "xz" => b"\xfd7zXZ\0",
        _ => return Ok(stored),
    };
    // A store may have inflated the object on the way, or hold plain text under that name.
    if !head.starts_with(magic) && is_text(head) {
        return Ok(stored);
    }
    let buffered = |reader: Box<dyn Read + 'c>| BufReader::with_capacity(BUFFER_BYTES, reader);
    Ok(Box::new(buffered(match extension.as_str() {
        "gz" => Box::new(Members { member: Some(GzDecoder::new(stored)) }),
        "zst" => Box::new(zstd::stream::read::Decoder::with_buffer(stored)?),
        "bz2" => Box::new(MultiBzDecoder::new(stored)),
        _ => Box::new(XzDecoder::new_stream(stored, Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)?)),
    })))
}

/// The bytes could be the start of a text file: UTF-8 (but for a character that the end cuts) without control bytes.
fn is_text(head: &[u8]) -> bool {
    let whole = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    whole && !head.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31))
}

/// The first bytes of a stream, and the whole stream.
fn peek<'c>(mut stream: Box<dyn BufRead + 'c>, bytes: u64) -> io::Result<(Vec<u8>, Box<dyn BufRead + 'c>)> {
    let mut head = Vec::new();
    stream.by_ref().take(bytes).read_to_end(&mut head)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(stream))))
}

/// Gzip members one after the other, and zero bytes after the last, as tape blocks and some uploaders leave them.
struct Members<R> {
    /// The member that is being read; `None` after the last.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(member) = self.member.take() else { break };
            let mut stored = member.into_inner();
            match filled(&mut stored)?.first() {
                None => {}
                Some(0) => only_zeros(&mut stored)?,
                Some(_) => self.member = Some(GzDecoder::new(stored)),
            }
        }
        Ok(0)
    }
}

/// The bytes that come next. Between members an interruption must not reach the caller, who would try again and find
/// the end.
fn filled(stored: &mut impl BufRead) -> io::Result<&[u8]> {
    while let Err(error) = stored.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    stored.fill_buf()
}

fn only_zeros(stored: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = filled(stored)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "there is more after the padding of the last member",
            ));
        }
        let count = bytes.len();
        stored.consume(count);
    }
}

/// One line at a time, each of bounded length.
pub(super) struct Lines<'c> {
    text: Box<dyn BufRead + 'c>,
    limit: usize,
    number: u64,
    buffer: Vec<u8>,
}

/// A line without its end.
pub(super) enum Line<'b> {
    /// Its bytes.
    Whole(&'b [u8]),
    /// Longer than the limit; passed over.
    TooLong,
}

impl<'c> Lines<'c> {
    pub fn new(text: Box<dyn BufRead + 'c>, limit: usize) -> Self {
        Self { text, limit, number: 0, buffer: Vec::new() }
    }

    /// The next line; `None` after the last.
    pub fn next(&mut self) -> Result<Option<Line<'_>>, FileError> {
        let number = self.number;
        let broken = |error: io::Error| broken(&error, &format!("after line {number}"));
        self.buffer.clear();
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        (&mut self.text).take(most).read_until(b'\n', &mut self.buffer).map_err(broken)?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.len() > self.limit {
            self.text.skip_until(b'\n').map_err(broken)?;
            return Ok(Some(Line::TooLong));
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        Ok(Some(Line::Whole(&self.buffer)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Gives a byte at a time, each after one interruption.
    struct Interrupted<'b> {
        bytes: &'b [u8],
        ready: bool,
    }

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.fill_buf()?.read(buffer)?;
            self.consume(count);
            Ok(count)
        }
    }

    impl BufRead for Interrupted<'_> {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            if !std::mem::replace(&mut self.ready, true) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(&self.bytes[..self.bytes.len().min(1)])
        }

        fn consume(&mut self, count: usize) {
            self.bytes = &self.bytes[count..];
            self.ready = false;
        }
    }

    #[test]
    fn an_interruption_is_not_the_end() {
        let member = |text: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let stored = [member(b"one "), member(b"two"), vec![0; 5]].concat();
        let mut members = Members { member: Some(GzDecoder::new(Interrupted { bytes: &stored, ready: true })) };
        let mut text = String::new();
        members.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
    }
}
