//! Delimited text, columns found by header, each record by itself. Knows nothing of types but what a field looks like.

use std::io::{self, BufRead, Chain, Cursor, Read};

use ::csv::{ByteRecord, Reader, ReaderBuilder};

use super::cell::Cell;
use super::input::{broken, open_text};
use super::number::{is_number, number_type};
use super::rows::{MAX_ROW_BYTES, Rows};
use super::seen::{FileSchema, Seen};
use super::time;
use super::types::{ColumnType, CsvOptions};
use super::{DecodeRequest, Decoded, FileError};
use crate::store::Content;

pub(super) fn learn(path: &str, content: &Content, options: &CsvOptions) -> Result<FileSchema, FileError> {
    if !options.header {
        return Ok(FileSchema::default());
    }
    let mut records = Records::open(path, content, options)?;
    let header = records.header()?;
    let mut columns = vec![Seen::Nulls; header.len()];
    let mut record = ByteRecord::new();
    while records.next(&mut record)? {
        if record.len() != header.len() || not_utf8(&record).is_some() {
            continue;
        }
        for (seen, field) in columns.iter_mut().zip(&record) {
            observe(seen, std::str::from_utf8(field).unwrap_or_default(), options);
        }
    }
    Ok(FileSchema { columns: header.into_iter().zip(columns).collect() })
}

fn observe(seen: &mut Seen, text: &str, options: &CsvOptions) {
    if seen.is_widest() || is_null(text, options) {
        return;
    }
    let kind = field_type(text);
    if !matches!(seen, Seen::Scalar(known) if *known == kind) {
        seen.join(Seen::Scalar(kind));
    }
}

/// What a field looks like: a flag, a number as JSON writes it, a date, an RFC 3339 instant with its offset, else text.
fn field_type(text: &str) -> ColumnType {
    match text {
        "true" | "false" => ColumnType::Bool,
        _ if is_number(text) => number_type(text),
        _ if time::parse_date(text).is_some() => ColumnType::Date,
        _ if time::parse_instant(text).is_some_and(|instant| instant.has_offset) => ColumnType::Timestamp,
        _ => ColumnType::String,
    }
}

fn is_null(text: &str, options: &CsvOptions) -> bool {
    text.is_empty() || options.null.as_deref() == Some(text)
}

pub(super) fn decode(request: &DecodeRequest, content: &Content) -> Result<Decoded, FileError> {
    let options = &request.spec.csv;
    let mut records = Records::open(&request.path, content, options)?;
    let mut rows = Rows::new(request);
    let header = match options.header {
        true => records.header()?,
        false => rows.types().iter().map(|(name, _)| name.clone()).collect(),
    };
    let positions: Vec<Option<usize>> =
        rows.types().iter().map(|(wanted, _)| header.iter().position(|name| name == wanted)).collect();
    let is_foreign = !positions.is_empty() && positions.iter().all(Option::is_none);
    let mut record = ByteRecord::new();
    while records.next(&mut record)? {
        if is_foreign {
            let what = format!("its header ({}) names none of the table's columns", header.join(", "));
            return Err(FileError::Damaged(what));
        }
        let line = records.line;
        let size = record.as_slice().len();
        if size > MAX_ROW_BYTES {
            rows.refuse(line, format!("the record is longer than {MAX_ROW_BYTES} bytes"));
        } else if record.len() != header.len() {
            rows.refuse(line, format!("the record has {} fields, not {}", record.len(), header.len()));
        } else if let Some(field) = not_utf8(&record) {
            rows.refuse(line, format!("column {} is not UTF-8", header[field]));
        } else {
            let cells = positions.iter().map(|position| match position {
                Some(position) => cell(&record[*position], options),
                None => Cell::Null,
            });
            rows.append(line, size, cells)?;
        }
    }
    rows.finish()
}

fn cell<'r>(field: &'r [u8], options: &CsvOptions) -> Cell<'r> {
    match std::str::from_utf8(field) {
        Ok(text) if is_null(text, options) => Cell::Null,
        Ok(text) => Cell::Text(text.into()),
        Err(error) => Cell::Unreadable(error.to_string()),
    }
}

fn not_utf8(record: &ByteRecord) -> Option<usize> {
    record.iter().position(|field| std::str::from_utf8(field).is_err())
}

/// What the reader may take in for one record. A quote that is never closed would make one of the whole file.
const MAX_TAKEN_BYTES: usize = 2 * MAX_ROW_BYTES;

/// The text and the mark behind it.
type Marked<'c> = Chain<Box<dyn BufRead + 'c>, Cursor<Vec<u8>>>;

/// Gives so many bytes, then an error.
struct Bounded<R> {
    text: R,
    left: usize,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let most = buffer.len().min(self.left);
        let count = self.text.read(&mut buffer[..most])?;
        self.left -= count;
        Ok(count)
    }
}

/// The records of a file. The reader takes a file that ends inside quotes for a file with a long last field, and would
/// swallow all rows behind a stray quote; so a mark is read behind the file's end, which must come out as a record.
struct Records<'c> {
    reader: Reader<Bounded<Marked<'c>>>,
    limit: usize,
    mark: Vec<u8>,
    /// Line on which the record last given starts, from 1.
    line: u64,
    ahead: ByteRecord,
    ahead_line: u64,
    /// Lines end in CR LF, as the first does: then the reader has not met a record's LF yet when it gives the record.
    crlf: bool,
    ended: bool,
}

impl<'c> Records<'c> {
    fn open(path: &str, content: &'c Content, options: &CsvOptions) -> Result<Self, FileError> {
        Self::bounded(path, content, options, MAX_TAKEN_BYTES)
    }

    fn bounded(path: &str, content: &'c Content, options: &CsvOptions, limit: usize) -> Result<Self, FileError> {
        let special = [Some(options.delimiter), Some(options.quote), options.escape];
        let byte = (b'A'..=b'Z').find(|byte| !special.contains(&Some(*byte))).unwrap_or(b'A');
        let mark = vec![byte; 16];
        let end = [b"\n".as_slice(), &mark, b"\n"].concat();
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(options.delimiter)
            .quote(options.quote)
            .escape(options.escape)
            .double_quote(options.escape.is_none())
            .from_reader(Bounded { text: open_text(path, content)?.chain(Cursor::new(end)), left: limit });
        let mut records =
            Self { reader, limit, mark, line: 0, ahead: ByteRecord::new(), ahead_line: 0, crlf: false, ended: false };
        records.read_ahead()?;
        records.crlf = records.ahead_line == 0;
        records.ahead_line = records.ahead_line.max(1);
        Ok(records)
    }

    /// The column names; none in an empty file.
    fn header(&mut self) -> Result<Vec<String>, FileError> {
        let mut record = ByteRecord::new();
        if !self.next(&mut record)? {
            return Ok(Vec::new());
        }
        let mut names: Vec<String> = Vec::with_capacity(record.len());
        for field in &record {
            let Ok(name) = std::str::from_utf8(field) else {
                return Err(FileError::Damaged(format!("name {} of its header is not UTF-8", names.len() + 1)));
            };
            if names.iter().any(|known| known == name) {
                return Err(FileError::Damaged(format!("its header names column {name} twice")));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    /// The next record; `false` after the last.
    fn next(&mut self, record: &mut ByteRecord) -> Result<bool, FileError> {
        if self.ended {
            return Ok(false);
        }
        std::mem::swap(record, &mut self.ahead);
        self.line = self.ahead_line;
        if self.read_ahead()? {
            return Ok(true);
        }
        self.ended = true;
        if record.len() == 1 && record[0] == self.mark[..] {
            return Ok(false);
        }
        // The record ran into the end of the file, so that no line end of its own stands behind it.
        self.line += self.line_end();
        let what = format!("a quote in the record that starts on line {} is never closed", self.line);
        Err(FileError::Damaged(what))
    }

    fn read_ahead(&mut self) -> Result<bool, FileError> {
        let line = self.reader.position().line();
        self.reader.get_mut().left = self.limit;
        let limit = self.limit;
        let found = self.reader.read_byte_record(&mut self.ahead).map_err(|error| match error.into_kind() {
            ::csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let what = "a quote in it may never be closed";
                FileError::Damaged(format!("the record on line {line} is longer than {limit} bytes: {what}"))
            }
            ::csv::ErrorKind::Io(error) => broken(&error, &format!("after line {line}")),
            other => FileError::Damaged(format!("its record on line {line} cannot be read: {other:?}")),
        })?;
        let quoted = self.ahead.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        self.ahead_line = self.reader.position().line().saturating_sub(quoted + self.line_end());
        Ok(found)
    }

    /// Line ends that the reader has met at the end of a record, when it gives the record.
    fn line_end(&self) -> u64 {
        u64::from(!self.crlf)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_record_without_end_is_given_up_in_bounded_memory() {
        let of = |text: String| {
            let content = Content::Bytes(Bytes::from(text));
            let mut records = Records::bounded("x", &content, &CsvOptions::default(), 20_000)?;
            let (mut record, mut count) = (ByteRecord::new(), 0);
            while records.next(&mut record)? {
                count += 1;
            }
            Ok::<usize, FileError>(count)
        };
        assert_eq!(of("id,t\n".to_owned() + &"1,x\n".repeat(100_000)), Ok(100_001));
        let error = of(format!("id,t\n1,x\n2,\"{}", "y".repeat(100_000))).unwrap_err().to_string();
        assert!(error.contains("the record on line 3 is longer than 20000 bytes: a quote"), "{error}");
    }
}
