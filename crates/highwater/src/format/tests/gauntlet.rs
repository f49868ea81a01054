//! Ways in which other readers of files lose or corrupt rows, each a public report.

use arrow::array::*;
use arrow::compute::concat_batches;

use super::columnar::int96_file;
use super::*;

fn merged(files: &[(FileFormat, Vec<u8>)]) -> FileSchema {
    let schemas = files.iter().map(|(format, file)| learn("x", &content(file), &spec(*format)).unwrap());
    schemas.reduce(|a, b| merge(&a, &b)).unwrap()
}

/// The rows of each file, in the schema learnt from all.
fn rows_of(files: &[(FileFormat, Vec<u8>)]) -> Vec<Vec<String>> {
    let schema = freeze(&[], Some(&merged(files)));
    let rows = |(format, file): &(FileFormat, Vec<u8>)| {
        let request = DecodeRequest { schema: schema.clone(), ..request("x", *format, &[]) };
        shown(&decode(&request, &content(file)).unwrap())
    };
    files.iter().map(rows).collect()
}

#[test]
fn a12_gzip_with_several_members() {
    let lines: [&[u8]; 3] = [b"{\"id\":1}\n", b"{\"id\":2}\n", b"{\"id\":3}\n"];
    let file = lines.map(gzip).concat();
    let request = request("x.ndjson.gz", JSON, &[("id", "int64")]);
    assert_eq!(shown(&decode(&request, &content(&file)).unwrap()), ["1", "2", "3"]);
    let error = decode(&request, &content(&file[..file.len() - 3])).unwrap_err().to_string();
    assert!(error.starts_with("its stream breaks off"), "{error}");
    let padded = [file, vec![0; 512]].concat();
    assert_eq!(shown(&decode(&request, &content(&padded)).unwrap()), ["1", "2", "3"]);
}

#[test]
fn a12_zstd_with_several_frames() {
    let lines: [&[u8]; 3] = [b"{\"id\":1}\n", b"{\"id\":2}\n", b"{\"id\":3}\n"];
    let file = lines.map(|line| zstd::encode_all(line, 1).unwrap()).concat();
    let request = request("x.ndjson.zst", JSON, &[("id", "int64")]);
    assert_eq!(shown(&decode(&request, &content(&file)).unwrap()), ["1", "2", "3"]);
    let error = decode(&request, &content(&file[..file.len() - 3])).unwrap_err().to_string();
    assert!(error.starts_with("its stream breaks off"), "{error}");
}

#[test]
fn a17_truncated_parquet() {
    let file = parquet_file(vec![("id", array(Int64Array::from(vec![2])))]);
    let error = read(PARQUET, &file[..file.len() - 8], &[("id", "int64")]).unwrap_err();
    assert!(matches!(&error, FileError::Damaged(reason) if reason.contains("footer")), "{error}");
    assert!(learn("x", &content(&file[..file.len() - 8]), &spec(PARQUET)).is_err());
    assert_eq!(shown(&read(PARQUET, &file, &[("id", "int64")]).unwrap()), ["2"]);
}

#[test]
fn a18_files_without_bytes_or_rows() {
    for format in [PARQUET, AVRO] {
        assert!(matches!(read(format, "", &[("id", "int64")]), Err(FileError::Damaged(_))), "{format:?}");
    }
    let empty = parquet_file(vec![("id", array(Int64Array::from(Vec::<i64>::new())))]);
    let decoded = read(PARQUET, &empty, &[("id", "int64")]).unwrap();
    assert_eq!((decoded.rows, decoded.batches.len()), (0, 0));
}

#[test]
fn a23_csv_columns_reordered_or_added() {
    let files = ["id,a,b\n1,A,B\n", "id,b,a\n2,B,A\n", "id,a,b,c\n3,A,B,C\n", "id,a,b\n"];
    let rows = rows_of(&files.map(|text| (CSV, text.into())));
    assert_eq!(rows, [vec!["A|B|-|1"], vec!["A|B|-|2"], vec!["A|B|C|3"], vec![]]);
}

#[test]
fn a24_json_key_or_type_first_seen_late() {
    let late: String = (0..1000)
        .map(|n| if n < 100 { format!("{{\"a\":{n}}}\n") } else { format!("{{\"a\":{n},\"b\":1}}\n") })
        .collect();
    let rows = rows_of(&[(JSON, late.into())]);
    assert_eq!(rows[0].iter().filter(|row| row.ends_with("|1")).count(), 900);

    let parts =
        ["{\"u\":null}\n", "{\"u\":\"x\"}\n", "{\"c\":1}\n", "{\"c\":\"007\"}\n"].map(|text| (JSON, text.into()));
    let schema = merged(&parts);
    assert_eq!(schema.columns["u"].to_string(), "string");
    assert_eq!(schema.columns["c"].to_string(), "string");
    assert_eq!(rows_of(&parts), [["-|-"], ["-|x"], ["1|-"], ["007|-"]]);
    let mut reversed = parts.clone();
    reversed.reverse();
    assert_eq!(merged(&reversed), schema);
}

#[test]
fn a25_one_malformed_json_line() {
    let good = |from: usize| (from..from + 100).map(|n| format!("{{\"id\":{n},\"b\":1}}\n")).collect::<String>();
    let text = format!("{}{{\"id\":101,\"b\":NaN}}\n{}\n{{\"id\":999,\"b\":1}}", good(0), good(200));
    let mut request = request("m.ndjson", JSON, &[("id", "int64"), ("b", "int64")]);
    let decoded = decode(&request, &content(&text)).unwrap();
    assert_eq!((shown(&decoded).len(), decoded.rejected_count), (201, 1));
    assert_eq!(decoded.rejected[0].row, 101);
    assert!(learn("x", &content(&text), &spec(JSON)).unwrap().columns["b"].to_string() == "int64");
    let cut = decode(&request, &content("{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n{\"id\":9,\"b")).unwrap();
    assert_eq!((shown(&cut).len(), cut.rejected_count), (3, 1));
    request.max_rejects = MaxRejects::Rows(0);
    let error = decode(&request, &content(&text)).unwrap_err().to_string();
    assert!(error.contains("row 101: the line is not a JSON object"), "{error}");
}

#[test]
fn a26_quoted_newline_in_csv() {
    let rows: String = (0..5000).map(|n| format!("{n},\"line1\nline2 \"\"{n}\"\"\"\n")).collect();
    let text = format!("id,t\n{rows}").into_bytes();
    let expected: Vec<String> = (0..5000).map(|n| format!("{n}|line1\nline2 \"{n}\"")).collect();
    // Ranges of a file, each compressed by itself: none ends where a record does.
    for ranges in [1, 2, 16, 1000] {
        let file: Vec<u8> = text.chunks(text.len().div_ceil(ranges)).flat_map(gzip).collect();
        let request = request("x.csv.gz", CSV, &[("id", "int64"), ("t", "string")]);
        assert_eq!(shown(&decode(&request, &content(file)).unwrap()), expected, "{ranges} ranges");
    }
}

#[test]
fn a27_schema_drift_to_a_wider_type() {
    let files = [
        parquet_file(vec![("n", array(Int32Array::from(vec![1])))]),
        parquet_file(vec![("n", array(Int64Array::from(vec![2])))]),
        parquet_file(vec![("n", array(Float64Array::from(vec![3.0])))]),
    ]
    .map(|file| (PARQUET, file));
    assert_eq!(merged(&files).columns["n"].to_string(), "float64");
    assert_eq!(rows_of(&files), [["1.0"], ["2.0"], ["3.0"]]);
    let schema = freeze(&[], Some(&merged(&files[..2])));
    let batches = files[..2].iter().map(|(_, file)| {
        let request = DecodeRequest { schema: schema.clone(), ..request("x", PARQUET, &[]) };
        decode(&request, &content(file)).unwrap().batches.remove(0)
    });
    assert_eq!(concat_batches(&schema, &batches.collect::<Vec<_>>()).unwrap().num_rows(), 2);
}

#[test]
fn a28_timestamps_out_of_nanosecond_range() {
    const HOUR: u64 = 3_600_000_000_000;
    // Julian days of 9999-12-31, 0001-01-01, 2262-04-12, and one far outside the calendar.
    let file = int96_file(&[(5_373_484, 2 * HOUR), (1_721_426, 0), (2_547_340, 0), (i32::MAX, 0)]);
    let decoded = read(PARQUET, file, &[("t", "timestamp")]).unwrap();
    assert_eq!(shown(&decoded), ["9999-12-31T02:00:00Z", "0001-01-01T00:00:00Z", "2262-04-12T00:00:00Z"]);
    assert_eq!(decoded.rejected[0].row, 4);
    let ten = 1_714_557_600_000_000;
    let file = parquet_file(vec![
        ("zoned", array(TimestampMicrosecondArray::from(vec![ten]).with_timezone("Asia/Seoul"))),
        ("naive", array(TimestampMicrosecondArray::from(vec![ten]))),
    ]);
    let decoded = read(PARQUET, file, &[("zoned", "timestamp"), ("naive", "timestamp")]).unwrap();
    assert_eq!(shown(&decoded), ["2024-05-01T10:00:00Z|2024-05-01T10:00:00Z"]);
}
