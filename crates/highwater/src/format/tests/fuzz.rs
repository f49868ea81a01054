//! Valid files, damaged at random: rows, rejected rows or an error, never a panic, never invented text, and what was not
//! touched survives.

use std::collections::BTreeSet;

use arrow::array::*;
use arrow_avro::compression::CompressionCodec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::columnar::avro_file;
use super::text::compressed;
use super::*;

/// One wound of a file.
#[derive(Clone, Debug)]
enum Wound {
    Flip(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    Repeat(Index, usize),
    Zero(Index, usize),
}

fn any_wound() -> impl Strategy<Value = Wound> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), 1..=255_u8).prop_map(|(at, bits)| Wound::Flip(at, bits)),
        1 => place().prop_map(Wound::Cut),
        1 => (place(), 1..40_usize).prop_map(|(at, count)| Wound::Remove(at, count)),
        1 => (place(), proptest::collection::vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Wound::Insert(at, bytes)),
        1 => (place(), 1..40_usize).prop_map(|(at, count)| Wound::Repeat(at, count)),
        1 => (place(), 1..40_usize).prop_map(|(at, count)| Wound::Zero(at, count)),
    ]
}

fn wounds() -> impl Strategy<Value = Vec<Wound>> {
    proptest::collection::vec(any_wound(), 1..4)
}

fn wounded(mut file: Vec<u8>, wounds: &[Wound]) -> Vec<u8> {
    for wound in wounds {
        if file.is_empty() {
            break;
        }
        let end = |at: usize, count: usize| (at + count).min(file.len());
        match wound {
            Wound::Flip(at, bits) => {
                let at = at.index(file.len());
                file[at] ^= bits;
            }
            Wound::Cut(at) => file.truncate(at.index(file.len())),
            Wound::Remove(at, count) => {
                let at = at.index(file.len());
                let to = end(at, *count);
                file.drain(at..to);
            }
            Wound::Insert(at, bytes) => {
                let at = at.index(file.len());
                file.splice(at..at, bytes.iter().copied());
            }
            Wound::Repeat(at, count) => {
                let at = at.index(file.len());
                let again = file[at..end(at, *count)].to_vec();
                file.splice(at..at, again);
            }
            Wound::Zero(at, count) => {
                let at = at.index(file.len());
                let to = end(at, *count);
                file[at..to].fill(0);
            }
        }
    }
    file
}

const ROWS: i64 = 60;

const WANTED: &[(&str, &str)] = &[
    ("id", "int64"),
    ("name", "string"),
    ("at", "timestamp"),
    ("day", "date"),
    ("amount", "decimal(10, 2)"),
    ("tags", "list<string>"),
    ("json", "string"),
];

fn parquet_of(compression: ::parquet::basic::Compression) -> Vec<u8> {
    let ids = 0..ROWS;
    let mut tags = ListBuilder::new(StringBuilder::new());
    for id in ids.clone() {
        tags.append_value([Some(format!("tag {id}")), None]);
    }
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", array(Int64Array::from_iter_values(ids.clone())), false),
        ("name", array(StringArray::from_iter(ids.clone().map(|n| (n % 3 > 0).then(|| format!("name {n}"))))), true),
        ("at", array(TimestampMicrosecondArray::from_iter_values(ids.clone())), true),
        ("day", array(Date32Array::from_iter_values(0..ROWS as i32)), true),
        (
            "amount",
            array(Decimal128Array::from_iter_values(0..ROWS as i128).with_precision_and_scale(10, 2).unwrap()),
            true,
        ),
        ("tags", array(tags.finish()), true),
        ("json", array(BinaryArray::from_iter_values(ids.map(|id| format!("{{\"n\":{id}}}")))), true),
    ])
    .unwrap();
    let properties = ::parquet::file::properties::WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(25))
        .build();
    let mut file = Vec::new();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

/// Whatever comes out is whole: rows add up, rejected ones are named, text is text.
fn is_sound(path: &str, format: FileFormat, file: &[u8]) -> Result<Option<Decoded>, TestCaseError> {
    let mut request = request(path, format, WANTED);
    request.max_memory_bytes = 64 << 20;
    let _ = learn(path, &content(file), &request.spec);
    let decoded = match decode(&request, &content(file)) {
        Ok(decoded) => decoded,
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            return Ok(None);
        }
    };
    let kept: u64 = decoded.batches.iter().map(|batch| batch.num_rows() as u64).sum();
    prop_assert_eq!(kept + decoded.rejected_count, decoded.rows);
    prop_assert_eq!(decoded.rejected.len() as u64, decoded.rejected_count.min(MAX_NAMED as u64));
    if let Some(numbers) = &decoded.row_numbers {
        prop_assert_eq!(numbers.len() as u64, kept);
        prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    }
    for column in decoded.batches.iter().flat_map(|batch| batch.columns()) {
        prop_assert!(column.to_data().validate_full().is_ok());
    }
    Ok(Some(decoded))
}

fn json_lines() -> String {
    (0..ROWS)
        .map(|id| format!("{{\"id\":{id},\"name\":\"näme {id}\",\"tags\":[\"a\",null],\"amount\":{id}.5}}\n"))
        .collect()
}

fn csv_lines() -> String {
    (0..ROWS).fold("id,name,amount\n".to_owned(), |text, id| text + &format!("{id},näme {id},{id}.5\n"))
}

/// Ids of the lines of the whole file that the wounded one still has, each on a line of its own.
fn untouched(before: &str, after: &[u8]) -> BTreeSet<String> {
    let lines: BTreeSet<&[u8]> = after.split(|byte| *byte == b'\n').collect();
    let id = |line: &str| line.split([',', ':']).find_map(|field| field.parse::<i64>().ok());
    before.lines().filter(|line| lines.contains(line.as_bytes())).filter_map(id).map(|id| id.to_string()).collect()
}

fn ids(decoded: &Decoded) -> BTreeSet<String> {
    shown(decoded).iter().map(|row| row.split('|').next().unwrap_or_default().to_owned()).collect()
}

/// `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 96 };
    ProptestConfig { cases, ..usual }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn wounded_lines_of_json_cost_themselves_alone(wounds in wounds()) {
        let before = json_lines();
        let after = wounded(before.clone().into_bytes(), &wounds);
        if let Some(decoded) = is_sound("x", JSON, &after)? {
            let (kept, expected) = (ids(&decoded), untouched(&before, &after));
            prop_assert!(kept.is_superset(&expected), "lost {:?}", expected.difference(&kept));
        }
    }

    #[test]
    fn wounded_lines_of_csv_cost_themselves_alone_or_the_file(wounds in wounds()) {
        let before = csv_lines();
        let after = wounded(before.clone().into_bytes(), &wounds);
        if let Some(decoded) = is_sound("x", CSV, &after)? {
            // A quote may open a field that swallows lines up to the next one, and another header names other columns.
            let (kept, expected) = (ids(&decoded), untouched(&before, &after));
            let is_clear = after.starts_with(b"id,name,amount\n") && !after.contains(&b'"');
            prop_assert!(!is_clear || kept.is_superset(&expected), "lost {:?}", expected.difference(&kept));
        }
    }

    #[test]
    fn wounded_streams_are_rows_or_an_error(wounds in wounds(), kind in 0..4_usize, format in 0..2_usize) {
        let extension = ["gz", "zst", "bz2", "xz"][kind];
        let (format, text) = [(JSON, json_lines()), (CSV, csv_lines())][format].clone();
        let file = wounded(compressed(extension, text.as_bytes()), &wounds);
        is_sound(&format!("x.{extension}"), format, &file)?;
    }

    #[test]
    fn wounded_parquet_is_rows_or_an_error(wounds in wounds(), codec in 0..3_usize) {
        use ::parquet::basic::{Compression, ZstdLevel};
        let codec = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())][codec];
        let file = wounded(parquet_of(codec), &wounds);
        is_sound("x", PARQUET, &file)?;
    }

    #[test]
    fn wounded_avro_is_rows_or_an_error(wounds in wounds(), codec in 0..3_usize) {
        let codec = [None, Some(CompressionCodec::Deflate), Some(CompressionCodec::Snappy)][codec];
        let file = wounded(avro_file(codec), &wounds);
        is_sound("x", AVRO, &file)?;
    }
}
