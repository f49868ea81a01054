//! NDJSON, CSV, and compression.

use proptest::prelude::*;

use super::*;
use crate::format::input::{Line, Lines};

pub(super) fn compressed(extension: &str, text: &[u8]) -> Vec<u8> {
    match extension {
        "gz" => gzip(text),
        "zst" => zstd::encode_all(text, 1).unwrap(),
        "bz2" => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        _ => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
    }
}

pub(super) const ID: &[(&str, &str)] = &[("id", "int64")];

#[test]
fn every_compression_is_read_with_all_its_members() {
    for extension in ["gz", "zst", "bz2", "xz", "GZ"] {
        let kind = extension.to_ascii_lowercase();
        let file =
            [&b"{\"id\":1}\n"[..], b"{\"id\":2}", b"\n{\"id\":3}\n"].map(|text| compressed(&kind, text)).concat();
        let path = format!("x.ndjson.{extension}");
        for content in [content(&file), spooled(&file)] {
            assert!(learn(&path, &content, &spec(JSON)).unwrap().columns.contains_key("id"), "{path}");
            assert_eq!(shown(&decode(&request(&path, JSON, ID), &content).unwrap()), ["1", "2", "3"], "{path}");
        }
    }
}

#[test]
fn a_cut_stream_is_an_error_wherever_it_is_cut() {
    for extension in ["gz", "zst", "bz2", "xz"] {
        let first = compressed(extension, b"{\"id\":1}\n");
        let file = [first.clone(), compressed(extension, b"{\"id\":2}\n")].concat();
        let path = format!("x.ndjson.{extension}");
        for end in 1..file.len() {
            let decoded = decode(&request(&path, JSON, ID), &content(&file[..end]));
            match decoded {
                Ok(decoded) => {
                    assert!(end == first.len() && decoded.rows == 1, "{extension} cut at {end}: {decoded:?}")
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn gzip_padding_is_fine_and_anything_else_behind_a_member_is_not() {
    let mut file = gzip(b"{\"id\":1}\n");
    file.extend([0; 1000]);
    assert_eq!(decode(&request("x.gz", JSON, ID), &content(&file)).unwrap().rows, 1);
    file.push(7);
    let error = decode(&request("x.gz", JSON, ID), &content(&file)).unwrap_err().to_string();
    assert!(error.contains("padding"), "{error}");
}

#[test]
fn plain_text_under_a_compressed_name_is_read_as_it_is_but_garbage_is_not() {
    for path in ["x.gz", "x.zst", "x.bz2", "x.xz"] {
        assert_eq!(decode(&request(path, JSON, ID), &content("{\"id\":1}\n")).unwrap().rows, 1, "{path}");
        assert_eq!(decode(&request(path, JSON, ID), &content("")).unwrap().rows, 0, "{path}");
        let error = decode(&request(path, CSV, ID), &content(b"id\n\x00\x01\x02\n")).unwrap_err();
        assert!(matches!(error, FileError::Damaged(_)), "{path}: {error}");
    }
}

#[test]
fn lines_are_bounded() {
    let mut lines = Lines::new(Box::new(&b"abc\nabcd\nabcde\r\n\nabcdefgh\nab"[..]), 4);
    let mut met = Vec::new();
    while let Some(line) = lines.next().unwrap() {
        met.push(match line {
            Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
            Line::TooLong => "too long".to_owned(),
        });
    }
    assert_eq!(met, ["abc", "abcd", "too long", "", "too long", "ab"]);
}

#[test]
fn json_lines_cost_themselves_alone() {
    let text = b"\xef\xbb\xbf{\"id\":1}\r\n\n  \n{\"id\":NaN}\n{\"id\":2,\"id\":3}\n[1]\n5\n{\"id\":\"\xff\"}\n{\"id\":4} x\n{\"id\":1.5}\n{\"id\":null}\n{\"id\":\"\\ud800\"}\n{}\n{\"id\":5";
    let mut request = request("x.json", JSON, ID);
    let decoded = decode(&request, &content(text)).unwrap();
    assert_eq!(shown(&decoded), ["1", "3", "-", "-"]);
    assert_eq!(decoded.row_numbers, Some(vec![0, 2, 8, 10]));
    assert_eq!((decoded.rows, decoded.rejected_count), (12, 8));
    let named: Vec<u64> = decoded.rejected.iter().map(|one| one.row).collect();
    assert_eq!(named, [4, 6, 7, 8, 9, 10, 12, 14]);
    request.required = vec!["id".to_owned(), "captured".to_owned()];
    let decoded = decode(&request, &content(text)).unwrap();
    assert_eq!(shown(&decoded), ["1", "3"]);
    assert!(reasons(&decoded).contains(&"11: column id: null, and it is part of the key".to_owned()), "{decoded:?}");
    assert!(reasons(&decoded).contains(&"10: column id: 1.5 is not exactly of type int64".to_owned()), "{decoded:?}");
}

#[test]
fn a_json_array_is_told_apart_from_bad_lines() {
    for text in ["[\n{\"id\":1},\n{\"id\":2}\n]\n", "\n[{\"id\":1},\n{\"id\":2}]"] {
        let error = read(JSON, text, ID).unwrap_err().to_string();
        assert!(error.contains("one JSON array"), "{error}");
        assert!(learn("x", &content(text), &spec(JSON)).is_err());
    }
    assert!(matches!(read(JSON, "[{\"id\":1}]", ID), Err(FileError::NoneReadable { rows: 1, .. })));
    assert_eq!(read(JSON, "[1]\n{\"id\":1}\n", ID).unwrap().rejected_count, 1);
}

#[test]
fn nested_json_is_cast_field_by_field() {
    let wanted = &[("tags", "list<struct<n: int64, t: string>>"), ("s", "struct<a: date, b: list<float64>>")];
    let text = r#"{"tags":[{"t":"x","n":1},{"n":2,"more":3},null],"s":{"b":[1,2.5],"a":"2024-05-01"}}
{"tags":[],"s":{}}
{"tags":[{"n":1},{"n":1.5}],"s":null}
{"s":{"a":"2024-13-01"}}
{"tags":{"n":1}}
{"tags":null,"s":"{\"b\":[3]}"}
"#;
    let decoded = read(JSON, text, wanted).unwrap();
    assert_eq!(
        shown(&decoded),
        ["[{n: 1, t: x}, {n: 2, t: }, ]|{a: 2024-05-01, b: [1.0, 2.5]}", "[]|{a: , b: }", "-|{a: , b: [3.0]}"]
    );
    assert_eq!(
        reasons(&decoded),
        [
            "3: column tags[1].n: 1.5 is not exactly of type int64",
            "4: column s.a: \"2024-13-01\" is not exactly of type date",
            "5: column tags: {\"n\":1} is not exactly of type list<struct<n: int64, t: string>>",
        ]
    );
}

#[test]
fn strings_keep_what_was_written() {
    let text = r#"{"c":1.50}
{"c":12345678901234567890123}
{"c":"\u0041\n\"\\"}
{"c":true}
{"c":[1, 2]}
{"c":{"a":1.0}}
"#;
    let decoded = read(JSON, text, &[("c", "string")]).unwrap();
    assert_eq!(shown(&decoded), ["1.50", "12345678901234567890123", "A\n\"\\", "true", "[1, 2]", "{\"a\":1.0}"]);
}

#[test]
fn values_fit_exactly_or_not_at_all() {
    for (kind, good, bad) in [
        ("int8", "-128 127 1.0 1e2 \"5\"", "128 1.5 \"007\" \"+1\" \"x\" true -129 1e400"),
        ("uint64", "18446744073709551615 0", "-1 18446744073709551616"),
        ("int64", "9223372036854775807 -9223372036854775808", "9223372036854775808 \"1 \""),
        ("float64", "9007199254740992 0.1 1e300 \"1.5\"", "9007199254740993 1e400 1e-400 \"NaN\" false"),
        ("float32", "16777216 0.1", "16777217 1e39"),
        ("decimal(5,2)", "123.45 -1 1e2 \"7.10\"", "1234 1.234 \"01\" true"),
        ("decimal(76,0)", "1234567890123456789012345678901234567890", "0.5"),
        ("bool", "true false \"TRUE\" \"False\"", "0 1 \"yes\""),
        (
            "date",
            "\"2024-02-29\" \"2024-05-01T00:00:00Z\"",
            "\"2023-02-29\" \"2024-05-01T00:00:01Z\" 19000 \"24-05-01\"",
        ),
        (
            "timestamp",
            "\"2024-05-01T10:00:00Z\" \"2024-05-01T10:00:00\" \"2024-05-01\" \"2024-05-01T10:00:00.123456789+05:30\"",
            "\"2024-05-01T25:00:00Z\" 1714557600 \"now\" \"9999-12-31T23:00:00-05:00\"",
        ),
    ] {
        let rows = |values: &str| values.split(' ').map(|value| format!("{{\"c\":{value}}}\n")).collect::<String>();
        let wanted = &[("c", kind)];
        assert_eq!(read(JSON, rows(good), wanted).unwrap().rejected, [], "{kind}");
        for bad in bad.replace("\"1 \"", "\"1_\"").split(' ') {
            assert!(read(JSON, rows(bad), wanted).is_err(), "{kind} {bad}");
        }
    }
    let decoded = read(JSON, "{\"c\":\"2024-05-01T10:00:00.1234567+02:00\"}\n", &[("c", "timestamp")]).unwrap();
    assert_eq!(shown(&decoded), ["2024-05-01T08:00:00.123456Z"]);
}

#[test]
fn json_types_are_learnt_from_the_whole_file() {
    let text = r#"{"i":1,"u":1,"h":1,"f":1,"s":1,"n":null,"d":"2024-05-01","b":true,"m":true,"l":[],"o":{"x":null}}
{"u":18446744073709551615,"h":99999999999999999999999,"f":0.5,"s":"007","b":false,"m":1,"l":[1,null],"o":{"x":1,"y":[{}]}}
not json
{"i":-5,"l":[2.5]}"#;
    assert_eq!(
        learnt(JSON, text),
        "b bool; d string; f float64; h decimal(23, 0); i int64; l list<float64>; m string; n null; \
         o struct<x: int64, y: list<struct<>>>; s string; u decimal(20, 0)"
    );
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    assert!(learnt(JSON, &deep).starts_with("a list<list<list<"));
    assert!(learnt(JSON, deep).ends_with(&format!("string{}", ">".repeat(32))));
}

#[test]
fn csv_types_are_learnt_from_the_whole_file() {
    let text = "i,f,z,b,d,t,n,s,m\n1,1,1,true,2024-05-01,2024-05-01T10:00:00Z,,x,1\n-2,2.5,007,false,2024-02-29,2024-05-01,,1,true\nragged,x\n";
    assert_eq!(
        learnt(CSV, text),
        "b bool; d date; f float64; i int64; m string; n null; s string; t timestamp; z string"
    );
    assert_eq!(learnt(CSV, "t\n2024-05-01 10:00:00\n"), "t string");
    assert_eq!(learnt(CSV, ""), "");
}

#[test]
fn csv_lines_and_nulls() {
    let text = "\u{feff}id,name,more\r\n1,,x\r\n2,\"a \"\"b\"\"\r\nc\",x\r\n\r\n3\r\nx,y,z\r\n4,NULL,x";
    let mut request = request("x.csv", CSV, &[("name", "string"), ("id", "int64"), ("absent", "date")]);
    request.spec.csv.null = Some("NULL".to_owned());
    let decoded = decode(&request, &content(text)).unwrap();
    assert_eq!(shown(&decoded), ["-|1|-", "a \"b\"\r\nc|2|-", "-|4|-"]);
    assert_eq!(
        reasons(&decoded),
        ["6: the record has 1 fields, not 3", "7: column id: \"x\" is not exactly of type int64"]
    );
    assert_eq!(reasons(&decode(&request, &content(text.replace('\r', ""))).unwrap()), reasons(&decoded));
    assert_eq!(decoded.row_numbers, Some(vec![0, 1, 4]));
    let decoded = decode(&request, &content(b"id,name\n1,\xff\n2,x\n")).unwrap();
    assert_eq!(reasons(&decoded), ["2: column name is not UTF-8"]);
}

#[test]
fn csv_dialects() {
    let mut request = request("x", CSV, &[("a", "string"), ("b", "string")]);
    request.spec.csv = CsvOptions { header: false, delimiter: b'\x01', quote: b'\'', escape: Some(b'\\'), null: None };
    let decoded = decode(&request, &content("1\x01'it\\'s'\n2\x01\"x\"\n")).unwrap();
    assert_eq!(shown(&decoded), ["1|it's", "2|\"x\""]);
    assert!(learn("x", &content("1,2\n"), &request.spec).unwrap().columns.is_empty());
}

#[test]
fn a_csv_whose_quote_is_never_closed_loses_no_rows_silently() {
    let error = read(CSV, "id,t\n1,x\n2,\"y\n3,z\n4,w\n", &[("id", "int64"), ("t", "string")]).unwrap_err();
    assert_eq!(error.to_string(), "a quote in the record that starts on line 3 is never closed");
    assert!(learn("x", &content("id\n\"1"), &spec(CSV)).is_err());
}

#[test]
fn a_csv_header_must_fit() {
    let error = read(CSV, "id,a,id\n1,2,3\n", ID).unwrap_err();
    assert_eq!(error.to_string(), "its header names column id twice");
    let error = read(CSV, "id;a\n1;2\n", ID).unwrap_err();
    assert_eq!(error.to_string(), "its header (id;a) names none of the table's columns");
    assert_eq!(read(CSV, "", ID).unwrap().rows, 0);
}

#[test]
fn rejection_has_a_limit() {
    let file = |good: usize, bad: usize| "{\"id\":1}\n".repeat(good) + &"{\"id\":\"x\"}\n".repeat(bad);
    let mut request = request("x", JSON, ID);
    let decoded = decode(&request, &content(file(50, 100))).unwrap();
    assert_eq!((decoded.rows, decoded.rejected_count, decoded.rejected.len()), (150, 100, 100));
    assert_eq!(
        decode(&request, &content(file(50, 101))).unwrap_err().to_string(),
        "101 of 151 rows rejected, more than the 100 allowed: \
         row 51: column id: \"x\" is not exactly of type int64; \
         row 52: column id: \"x\" is not exactly of type int64; \
         row 53: column id: \"x\" is not exactly of type int64"
    );
    let decoded = decode(&request, &content(file(20_000, 202))).unwrap();
    assert_eq!((decoded.rejected_count, decoded.rejected.len()), (202, MAX_NAMED));
    assert!(decode(&request, &content(file(20_000, 203))).is_err());
    request.max_rejects = MaxRejects::Rows(0);
    assert!(decode(&request, &content(file(1000, 1))).is_err());
    assert_eq!(decode(&request, &content(file(1000, 0))).unwrap().row_numbers, None);
    request.max_rejects = MaxRejects::Rows(10);
    assert!(matches!(decode(&request, &content(file(0, 1))), Err(FileError::NoneReadable { rows: 1, .. })));
}

#[test]
fn batches_are_bounded_and_rows_stay_in_order() {
    let text: String = (0..20_000).map(|id| format!("{{\"id\":{}}}\n", if id == 9000 { -1 } else { id })).collect();
    let decoded = read(JSON, text.replace("-1", "1.5"), ID).unwrap();
    assert_eq!(decoded.batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8192, 8191, 3616]);
    let numbers = decoded.row_numbers.as_ref().unwrap();
    assert_eq!(shown(&decoded), numbers.iter().map(u64::to_string).collect::<Vec<_>>());
    assert_eq!(numbers.len(), 19_999);
}

#[test]
fn a_table_without_data_columns_still_has_rows() {
    for (format, text) in [(JSON, "{\"a\":1}\n{}\n[]\n"), (CSV, "a\n1\n2\n3,4\n")] {
        let decoded = read(format, text, &[]).unwrap();
        assert_eq!(decoded.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2, "{format:?}");
        assert_eq!(decoded.rejected_count, 1);
    }
}

fn any_json_value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        (-1e9..1e9).prop_map(|number: f64| serde_json::to_string(&number).unwrap()),
        "[a-z]{0,3}|00[0-9]".prop_map(|text| format!("\"{text}\"")),
        proptest::collection::vec(0..3_i64, 0..3).prop_map(|items| format!("{items:?}")),
    ]
}

proptest! {
    /// What is learnt of lines does not depend on their order or file, and everything that was learnt from can be read.
    #[test]
    fn learning_is_independent_of_order_and_covers_what_it_saw(
        values in proptest::collection::vec(any_json_value(), 1..8), split in 0..8_usize,
    ) {
        let lines = |values: &[String]| values.iter().map(|value| format!("{{\"c\":{value}}}\n")).collect::<String>();
        let of = |text: String| learn("x", &content(text), &spec(JSON)).unwrap();
        let whole = of(lines(&values));
        let mut reversed = values.clone();
        reversed.reverse();
        prop_assert_eq!(&of(lines(&reversed)), &whole);
        let (a, b) = values.split_at(split.min(values.len()));
        prop_assert_eq!(&merge(&of(lines(b)), &of(lines(a))), &whole);
        let mut request = request("x", JSON, &[]);
        request.schema = freeze(&[], Some(&whole));
        let decoded = decode(&request, &content(lines(&values)));
        // Integers that the learnt float cannot hold are the one thing that is told at reading.
        if whole.columns["c"].to_string() != "float64" {
            prop_assert_eq!(decoded.unwrap().rejected, vec![]);
        } else if let Ok(decoded) = decoded {
            prop_assert_eq!(decoded.rows, values.len() as u64);
        }
    }

    #[test]
    fn integers_pass_through_every_format_of_text(value: i64) {
        let text = value.to_string();
        for (format, file) in [(JSON, format!("{{\"c\":{text}}}\n")), (CSV, format!("c\n{text}\n"))] {
            for kind in ["int64", "string", "decimal(19, 0)"] {
                prop_assert_eq!(shown(&read(format, &file, &[("c", kind)]).unwrap()), vec![text.clone()]);
            }
            if let Ok(decoded) = read(format, &file, &[("c", "float64")]) {
                prop_assert_eq!(shown(&decoded)[0].parse::<f64>().unwrap() as i128, i128::from(value));
            } else {
                prop_assert!(value.unsigned_abs() > 1 << 53);
            }
        }
    }

    #[test]
    fn any_text_passes_through_csv_and_json(text in "\\PC{1,20}|[\"\n\r,\\\\a]{1,10}") {
        let wanted = &[("a", "int64"), ("c", "string")];
        let csv = format!("a,c\n1,\"{}\"\n", text.replace('"', "\"\""));
        let json = format!("{{\"a\":1,\"c\":{}}}\n", serde_json::to_string(&text).unwrap());
        for (format, file) in [(CSV, csv), (JSON, json)] {
            let decoded = read(format, file, wanted).unwrap();
            let column = arrow::array::AsArray::as_string::<i32>(decoded.batches[0].column(1));
            prop_assert_eq!(column.value(0), &text);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [JSON, CSV, PARQUET, AVRO] {
            for path in ["x", "x.gz", "x.zst", "x.bz2", "x.xz"] {
                let _ = learn(path, &content(&bytes), &spec(format));
                let _ = decode(&request(path, format, ID), &content(&bytes));
            }
        }
    }
}
