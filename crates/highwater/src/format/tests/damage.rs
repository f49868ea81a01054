//! Files that are broken, cut, hidden under another name, or made to cost more than they weigh.

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow::array::*;

use super::columnar::{long, raw_avro, sized};
use super::text::{ID, compressed};
use super::*;

/// Three row groups of 100 rows each, uncompressed.
fn grouped() -> Vec<u8> {
    let texts = StringArray::from_iter_values((0..300).map(|n| format!("text {n}")));
    let columns = [("id", array(Int64Array::from_iter_values(0..300)), true), ("t", array(texts), true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .set_compression(Compression::UNCOMPRESSED)
        .build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

const WANTED: &[(&str, &str)] = &[("id", "int64"), ("t", "string")];

fn damage(format: FileFormat, file: impl AsRef<[u8]>) -> String {
    match read(format, file, WANTED) {
        Err(FileError::Damaged(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn garbage_in_a_page_names_the_row_groups() {
    let file = grouped();
    let second = file.windows(8).position(|bytes| bytes == b"text 150").unwrap();
    let mut bad = file.clone();
    // The length of a string of the second group.
    bad[second - 4..second].fill(0xff);
    let reason = damage(PARQUET, &bad);
    assert!(reason.starts_with("row groups 1 to 3 of 3 cannot be read: "), "{reason}");
    // A row group's middle is missing, the footer is whole.
    let hollow = [&file[..second], &file[second + 40..]].concat();
    assert!(damage(PARQUET, &hollow).contains("cannot be read"));
}

#[test]
fn a_parquet_footer_that_lies_about_its_length_is_told() {
    let file = grouped();
    let at = file.len() - 8;
    for length in [0_u32, 1, 7, 0x7fff_ffff, u32::MAX, u32::try_from(file.len()).unwrap()] {
        let mut bad = file.clone();
        bad[at..at + 4].copy_from_slice(&length.to_le_bytes());
        for content in [content(&bad), spooled(&bad)] {
            let error = decode(&request("x", PARQUET, WANTED), &content).unwrap_err().to_string();
            assert!(error.starts_with("its Parquet footer cannot be read"), "{length}: {error}");
        }
    }
}

#[test]
fn sizes_that_no_file_backs_are_errors() {
    // The first page's header: its fields are varints behind 0x15; the sizes become the greatest there are.
    let mut file = grouped();
    assert_eq!((file[4], file[6]), (0x15, 0x15));
    let end = file[7..].iter().position(|byte| *byte < 0x80).unwrap() + 8;
    file.splice(7..end, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
    assert!(damage(PARQUET, &file).starts_with("row groups 1 to 3 of 3 cannot be read"));

    let whole = raw_avro(r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}"#, &[vec![2]]);
    assert_eq!(shown(&read(AVRO, &whole, ID).unwrap()), ["1"]);
    for at in [5, whole.len() - 18] {
        let mut bad = whole[..at].to_vec();
        long(i64::MAX, &mut bad);
        bad.extend(&whole[at + 1..]);
        let _ = learn("x", &content(&bad), &spec(AVRO));
        assert!(matches!(read(AVRO, &bad, ID), Err(FileError::Damaged(_))), "at {at}");
    }
}

#[test]
fn avro_blocks_must_keep_their_promises() {
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}"#;
    let rows: Vec<Vec<u8>> = (0..5).map(|n| vec![2 * n]).collect();
    let whole = raw_avro(schema, &rows);
    let block = whole.len() - 16 - 5 - 2;
    for (count, told) in [
        (6, "cannot be read"),
        (4, "promises 4 rows and does not hold just these"),
        (1, "promises 1 rows and does not hold just these"),
        (0, "promises 0 rows and does not hold just these"),
        (1 << 40, "promises more than 1073741824 rows"),
        (-1, "a negative number of rows"),
    ] {
        let mut bad = whole[..block].to_vec();
        long(count, &mut bad);
        bad.extend(&whole[block + 1..]);
        let reason = read(AVRO, &bad, ID).unwrap_err().to_string();
        assert!(reason.starts_with("its Avro block 1 (from byte ") && reason.contains(told), "{count}: {reason}");
    }
    let mut codec = b"Obj\x01".to_vec();
    long(2, &mut codec);
    for (key, value) in [("avro.schema", schema), ("avro.codec", "lzma9")] {
        sized(key.as_bytes(), &mut codec);
        sized(value.as_bytes(), &mut codec);
    }
    long(0, &mut codec);
    codec.extend([7; 16]);
    codec.extend(&whole[block..block + 7]);
    codec.extend([7; 16]);
    let error = read(AVRO, &codec, ID).unwrap_err().to_string();
    assert!(error.starts_with("its Avro block 1 ") && error.contains("lzma9"), "{error}");
}

#[test]
fn avro_rows_without_bytes_are_refused() {
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "null"}]}"#;
    let mut file = raw_avro(schema, &[]);
    file.truncate(file.len() - 18);
    let mut small = file.clone();
    for (count, file) in [(3, &mut small), (1 << 50, &mut file)] {
        long(count, file);
        long(0, file);
        file.extend([7; 16]);
    }
    for (file, told) in [(small, "promises 3 rows and does not hold just these"), (file, "more than 1073741824 rows")] {
        let error = read(AVRO, &file, ID).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn a_schema_that_names_itself_is_refused_and_not_followed() {
    let schema = r#"{"type": "record", "name": "node", "fields": [{"name": "id", "type": "long"},
        {"name": "next", "type": ["null", "node"]}]}"#;
    assert!(matches!(read(AVRO, raw_avro(schema, &[vec![2, 0]]), ID), Err(FileError::Damaged(_))));
    let deep = format!(
        r#"{{"type": "array", "items": {}"long"{}"#,
        r#"{"type": "array", "items": "#.repeat(5000),
        "}".repeat(5001)
    );
    let schema = format!(r#"{{"type": "record", "name": "r", "fields": [{{"name": "id", "type": {deep}}}]}}"#);
    assert!(matches!(read(AVRO, raw_avro(&schema, &[]), ID), Err(FileError::Damaged(_))));
}

#[test]
fn an_encrypted_parquet_is_told() {
    let mut file = grouped();
    let at = file.len() - 4;
    file[at..].copy_from_slice(b"PARE");
    assert!(damage(PARQUET, &file).contains("encrypted"), "{}", damage(PARQUET, &file));
}

#[test]
fn files_without_a_byte_have_no_rows_or_are_refused() {
    for format in [JSON, CSV] {
        for path in ["x", "x.gz", "x.zst", "x.bz2", "x.xz"] {
            assert_eq!(decode(&request(path, format, ID), &content("")).unwrap().rows, 0, "{path}");
            assert!(learn(path, &content(""), &spec(format)).unwrap().columns.is_empty(), "{path}");
        }
        for extension in ["gz", "zst", "bz2", "xz"] {
            let empty = compressed(extension, b"");
            let path = format!("x.{extension}");
            assert_eq!(decode(&request(&path, format, ID), &content(empty)).unwrap().rows, 0, "{path}");
        }
    }
    for format in [PARQUET, AVRO] {
        assert!(matches!(read(format, "", ID), Err(FileError::Damaged(_))));
    }
    let none = raw_avro(r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}"#, &[]);
    assert_eq!(read(AVRO, &none[..none.len() - 18], ID).unwrap().rows, 0);
}

#[test]
fn garbage_behind_a_stream_is_an_error_and_what_may_stand_there_is_not() {
    let line = b"{\"id\":1,\"padding\":\"0123456789\"}\n";
    for extension in ["gz", "zst", "bz2", "xz"] {
        let path = format!("x.{extension}");
        let garbage = [compressed(extension, line), b"garbage".to_vec()].concat();
        let error = decode(&request(&path, JSON, ID), &content(garbage)).unwrap_err().to_string();
        assert!(error.starts_with("its stream breaks off"), "{path}: {error}");
    }
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
    let frame = compressed("zst", line);
    for file in [[skippable.clone(), frame.clone()].concat(), [frame.clone(), skippable, frame.clone()].concat()] {
        assert!(decode(&request("x.zst", JSON, ID), &content(file)).unwrap().rows > 0);
    }
    let padded = [compressed("xz", line), vec![0; 8], compressed("xz", line)].concat();
    assert_eq!(decode(&request("x.xz", JSON, ID), &content(padded)).unwrap().rows, 2);
}

#[test]
fn names_that_hide_what_a_file_is_are_told() {
    let line = b"{\"id\":1}\n";
    for (extension, kind) in [("gz", "gzip"), ("zst", "Zstandard"), ("bz2", "bzip2"), ("xz", "xz")] {
        let file = compressed(extension, line);
        let twice = compressed(extension, &file);
        for (path, file) in [("x.ndjson".to_owned(), &file), (format!("x.{extension}"), &twice)] {
            let expected = format!("its text is {kind}: its name lacks .{extension}, or it was compressed twice");
            let error = decode(&request(&path, JSON, ID), &content(file)).unwrap_err();
            assert_eq!(error.to_string(), expected, "{path}");
            assert!(learn(&path, &content(file), &spec(CSV)).is_err(), "{path}");
        }
        // A .gz that is zstd, and so on.
        let other = if extension == "gz" { "x.zst" } else { "x.gz" };
        assert!(matches!(decode(&request(other, JSON, ID), &content(&file)), Err(FileError::Damaged(_))), "{other}");
    }
    let avro = raw_avro(r#"{"type": "record", "name": "r", "fields": []}"#, &[]);
    for (format, file, what) in [(JSON, grouped(), "it is Parquet, "), (CSV, avro, "it is Avro, ")] {
        assert!(damage(format, file).starts_with(what));
    }
    assert!(damage(CSV, b"\xff\xfei\0d\0\n\0").starts_with("it is UTF-16"));
    assert!(damage(PARQUET, "{\"id\":1}\n{\"id\":2}\n").contains("not Parquet"));
    assert!(damage(AVRO, "{\"id\":1}\n{\"id\":2}\n").contains("no Avro magic"));
}

#[test]
fn streams_that_ask_for_much_memory_are_refused() {
    // A frame whose header asks for a window of 4 GiB.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 22 << 3, 1, 0, 0];
    let error = decode(&request("x.zst", JSON, ID), &content(frame)).unwrap_err().to_string();
    assert!(error.contains("too much memory"), "{error}");

    // The dictionary of the first block becomes one of 4 GiB; its header ends in a checksum.
    let mut file = compressed("xz", b"{\"id\":1}\n");
    let size = (usize::from(file[12]) + 1) * 4;
    let properties = (12..12 + size).find(|at| file[*at..].starts_with(&[0x21, 1])).unwrap() + 2;
    file[properties] = 40;
    let mut checksum = flate2::Crc::new();
    checksum.update(&file[12..12 + size - 4]);
    file[12 + size - 4..12 + size].copy_from_slice(&checksum.sum().to_le_bytes());
    let error = decode(&request("x.xz", JSON, ID), &content(file)).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn a_small_file_that_holds_very_much_is_given_up() {
    // Lines that hold nothing pass through; rows have to fit the memory they may take.
    let blank = compressed("zst", &vec![b'\n'; 2 << 20]);
    assert!(blank.len() < 16 << 10);
    assert_eq!(decode(&request("x.zst", JSON, ID), &content(blank)).unwrap().rows, 0);

    let many = compressed("zst", "{\"id\":1,\"t\":\"0123456789\"}\n".repeat(20_000).as_bytes());
    let mut request = request("x.zst", JSON, WANTED);
    assert_eq!(decode(&request, &content(&many)).unwrap().rows, 20_000);
    request.max_memory_bytes = 100_000;
    let error = decode(&request, &content(&many)).unwrap_err().to_string();
    assert!(error.starts_with("its rows take more than 100000 bytes of memory; write it"), "{error}");
}

#[test]
fn a_line_of_a_hundred_megabytes_costs_itself_alone() {
    let text = format!("{{\"id\":1}}\n{{\"id\":2,\"t\":\"{}\"}}\n{{\"id\":3}}\n", "x".repeat(100 << 20));
    for (path, file) in [("x", text.clone().into_bytes()), ("x.zst", compressed("zst", text.as_bytes()))] {
        let decoded = decode(&request(path, JSON, ID), &content(file)).unwrap();
        assert_eq!(shown(&decoded), ["1", "3"], "{path}");
        assert_eq!(reasons(&decoded), ["2: the line is longer than 67108864 bytes"], "{path}");
    }
}
