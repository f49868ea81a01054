//! Values at the edges of their types, in every format.

use ::parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use arrow::array::*;
use arrow::datatypes::*;

use super::columnar::{int96_file, raw_avro, sized};
use super::text::ID;
use super::*;

/// One byte array column `t` under a logical type.
fn annotated(logical: Option<LogicalType>, values: &[&[u8]]) -> Vec<u8> {
    let column = Type::primitive_type_builder("t", PhysicalType::BYTE_ARRAY)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .build()
        .unwrap();
    let schema = Type::group_type_builder("m").with_fields(vec![Arc::new(column)]).build().unwrap();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let values: Vec<ByteArray> = values.iter().map(|value| value.to_vec().into()).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file
}

const TEXT: &[(&str, &str)] = &[("t", "string")];

#[test]
fn text_that_is_not_utf_8_costs_its_row() {
    let json = read(JSON, b"{\"t\":\"a\"}\n{\"t\":\"\xff\"}\n{\"t\":\"c\"}\n", TEXT).unwrap();
    let csv = read(CSV, b"t\na\n\xff\nc\n", TEXT).unwrap();
    assert_eq!(reasons(&json), ["2: the line is not UTF-8 at byte 7"]);
    assert_eq!(reasons(&csv), ["3: column t is not UTF-8"]);
    let mut all = vec![json, csv];
    for logical in [Some(LogicalType::String), Some(LogicalType::Json), Some(LogicalType::Enum), None] {
        let file = annotated(logical.clone(), &[b"a", b"\xff", b"c"]);
        assert_eq!(learnt(PARQUET, &file), "t string");
        for content in [content(&file), spooled(&file)] {
            let decoded = decode(&request("x", PARQUET, TEXT), &content).unwrap();
            assert_eq!(reasons(&decoded), ["2: column t: 1 bytes are not UTF-8"], "{logical:?}");
            all.push(decoded);
        }
        // A text cut in the middle of a character, the rest of which begins the next one.
        let split = annotated(logical, &[b"\xc3", b"\xa9", b"ok"]);
        assert_eq!(shown(&read(PARQUET, split, TEXT).unwrap()), ["ok"]);
    }
    for decoded in all {
        assert_eq!(shown(&decoded), ["a", "c"]);
    }
}

#[test]
fn avro_text_that_is_not_utf_8_costs_its_file() {
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "t", "type": "string"}]}"#;
    let text = |bytes: &[u8]| {
        let mut row = Vec::new();
        sized(bytes, &mut row);
        row
    };
    assert_eq!(shown(&read(AVRO, raw_avro(schema, &[text(b"a")]), TEXT).unwrap()), ["a"]);
    let error = read(AVRO, raw_avro(schema, &[text(b"a"), text(b"\xff")]), TEXT).unwrap_err().to_string();
    assert!(error.starts_with("its Avro block 1 (from byte "), "{error}");
}

#[test]
fn types_that_the_library_does_not_know_are_bytes() {
    let geometry = LogicalType::geometry(None);
    let file = annotated(Some(geometry), &[b"text", b"\xff\0"]);
    let decoded = read(PARQUET, file, TEXT).unwrap();
    assert_eq!((shown(&decoded), reasons(&decoded).len()), (vec!["text".to_owned()], 1));
}

#[test]
fn nul_bytes_are_text_where_a_format_can_write_them() {
    let decoded = read(JSON, "{\"t\":\"a\\u0000b\"}\n{\"t\":\"a\0b\"}\n", TEXT).unwrap();
    assert_eq!((shown(&decoded), reasons(&decoded).len()), (vec!["a\0b".to_owned()], 1));
    assert_eq!(shown(&read(CSV, "t\na\0b\n\0\n", TEXT).unwrap()), ["a\0b", "\0"]);
    assert_eq!(shown(&read(PARQUET, annotated(Some(LogicalType::String), &[b"\0"]), TEXT).unwrap()), ["\0"]);
}

#[test]
fn a_byte_order_mark_is_passed_over_at_the_start_of_a_file_only() {
    for (format, text) in [(JSON, "{\"id\":1}\n"), (CSV, "id\n1\n")] {
        assert_eq!(shown(&read(format, format!("\u{feff}{text}"), ID).unwrap()), ["1"]);
        let path = "x.gz";
        let file = gzip(format!("\u{feff}{text}").as_bytes());
        assert_eq!(shown(&decode(&request(path, format, ID), &content(file)).unwrap()), ["1"]);
    }
    let decoded = read(JSON, "{\"id\":1}\n\u{feff}{\"id\":2}\n", ID).unwrap();
    assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["1".to_owned()], 1));
}

#[test]
fn json_may_be_nested_as_deep_as_it_likes() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!("{{\"id\":1,\"t\":{deep}}}\n{{\"id\":2,\"x\":{}1\n{{\"id\":3}}\n", "{\"a\":".repeat(100_000));
    assert!(learnt(JSON, &text).starts_with("id int64"));
    let decoded = read(JSON, &text, &[("id", "int64"), ("t", "string")]).unwrap();
    assert_eq!(shown(&decoded), [format!("1|{deep}"), "3|-".to_owned()]);
    let decoded = read(JSON, &text, &[("id", "int64"), ("t", "list<list<string>>")]).unwrap();
    assert_eq!(decoded.rows, 3);
}

#[test]
fn of_a_json_key_that_stands_twice_the_last_value_counts() {
    let decoded = read(JSON, "{\"id\":1,\"\\u0069d\":2}\n{\"id\":3,\"ID\":4}\n{\"id\":1,\"id\":null}\n", ID).unwrap();
    assert_eq!(shown(&decoded), ["2", "3", "-"]);
    let nested = read(JSON, "{\"s\":{\"a\":1,\"a\":2}}\n", &[("s", "struct<a: int64>")]).unwrap();
    assert_eq!(shown(&nested), ["{a: 2}"]);
}

#[test]
fn numbers_out_of_range_are_refused_and_others_keep_their_value() {
    let of = |values: &str, kind: &str| {
        let text: String = values.split(' ').map(|value| format!("{{\"c\":{value}}}\n")).collect();
        let decoded = read(JSON, text, &[("c", kind)]).unwrap();
        (shown(&decoded).join(" "), decoded.rejected.iter().map(|one| one.row.to_string()).collect::<String>())
    };
    assert_eq!(of("-0 1.0 1e2 18446744073709551616 1e999", "int64"), ("0 1 100".to_owned(), "45".to_owned()));
    assert_eq!(
        of("-0 -0.0 1e999 -1e999 1e-999 5e-324 0.1", "float64"),
        ("-0.0 -0.0 5e-324 0.1".to_owned(), "345".to_owned())
    );
    assert_eq!(
        of("18446744073709551616 1e999 -0", "string"),
        ("18446744073709551616 1e999 -0".to_owned(), String::new())
    );
    assert_eq!(
        learnt(JSON, "{\"a\":1e999,\"b\":18446744073709551616,\"c\":-0,\"d\":1.0}"),
        "a string; b decimal(20, 0); c int64; d float64"
    );
}

#[test]
fn what_is_no_number_in_json_costs_its_row_and_columnar_nans_stay() {
    let text = "{\"c\":NaN}\n{\"c\":Infinity}\n{\"c\":-Infinity}\n{\"c\":\"NaN\"}\n{\"c\":1}\n";
    let decoded = read(JSON, text, &[("c", "float64")]).unwrap();
    assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["1.0".to_owned()], 4));
    let decoded = read(CSV, "c\nNaN\ninf\n1\n", &[("c", "float64")]).unwrap();
    assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["1.0".to_owned()], 2));
    let file = parquet_file(vec![("c", array(Float64Array::from(vec![f64::NAN, f64::NEG_INFINITY])))]);
    assert_eq!(shown(&read(PARQUET, file, &[("c", "float64")]).unwrap()), ["NaN", "-inf"]);
}

#[test]
fn quoted_newlines_may_be_cut_anywhere() {
    let rows: Vec<String> = (0..40).map(|n| format!("{n},\"line1\nline2 \"\"{n}\"\", \r\n\"\n")).collect();
    let text = format!("id,t\n{}", rows.concat());
    let expected: Vec<String> = (0..40).map(|n| format!("{n}|line1\nline2 \"{n}\", \r\n")).collect();
    for step in [1, 2, 3, 7, 16, 1000] {
        let members: Vec<u8> = text.as_bytes().chunks(step).flat_map(gzip).collect();
        let wanted = &[("id", "int64"), ("t", "string")];
        let decoded = decode(&request("x.csv.gz", CSV, wanted), &content(members)).unwrap();
        assert_eq!(shown(&decoded), expected, "members of {step} bytes");
    }
}

#[test]
fn types_may_drift_within_a_file_and_between_files() {
    let text = "{\"c\":1}\n{\"c\":\"x\"}\n{\"c\":[1]}\n{\"c\":{\"a\":1}}\n{\"c\":null}\n{\"c\":true}\n";
    assert_eq!(learnt(JSON, text), "c string");
    assert_eq!(shown(&read(JSON, text, &[("c", "string")]).unwrap()), ["1", "x", "[1]", "{\"a\":1}", "-", "true"]);
    let frozen = read(JSON, text, &[("c", "int64")]).unwrap();
    assert_eq!((shown(&frozen), frozen.rejected_count), (vec!["1".to_owned(), "-".to_owned()], 4));
    let drifted = parquet_file(vec![("c", array(StringArray::from(vec!["7", "seven"])))]);
    let frozen = read(PARQUET, drifted, &[("c", "int64")]).unwrap();
    assert_eq!(reasons(&frozen), ["2: column c: \"seven\" is not exactly of type int64"]);
    assert_eq!(shown(&frozen), ["7"]);
}

#[test]
fn times_at_the_edges() {
    let text = |value: &str| read(JSON, format!("{{\"c\":\"{value}\"}}\n{{}}\n"), &[("c", "timestamp")]).unwrap();
    for (value, expected) in [
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999Z"),
        ("2024-05-01T10:00:00", "2024-05-01T10:00:00Z"),
        ("2024-05-01T00:30:00+05:45", "2024-04-30T18:45:00Z"),
        ("1677-09-21T00:12:43Z", "1677-09-21T00:12:43Z"),
    ] {
        assert_eq!(shown(&text(value))[0], expected);
    }
    for value in ["2016-12-31T23:59:60Z", "0000-01-01T00:00:00+00:01", "10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z"]
    {
        let decoded = text(value);
        assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["-".to_owned()], 1), "{value}");
    }
    // Days whose microseconds wrap around, some of them into years that text could name.
    let days: Vec<(i32, u64)> = (0..2000).map(|n| (i32::MAX - n * 1_000_003, 0)).collect();
    let mut request = request("x", PARQUET, &[("t", "timestamp")]);
    request.max_rejects = MaxRejects::Rows(2000);
    let file = int96_file(&[&days[..], &[(2_440_588, 1_000)]].concat());
    let decoded = decode(&request, &content(file)).unwrap();
    assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["1970-01-01T00:00:00.000001Z".to_owned()], 2000));
}

#[test]
fn decimals_keep_to_their_digits() {
    let values = Decimal128Array::from(vec![99_999, 100_000, -100_000]);
    let unchecked = values.with_data_type(DataType::Decimal128(5, 2));
    let file = parquet_file(vec![("c", array(unchecked))]);
    let decoded = read(PARQUET, &file, &[("c", "decimal(5, 2)")]).unwrap();
    assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["999.99".to_owned()], 2));
    assert_eq!(read(PARQUET, &file, &[("c", "decimal(38, 2)")]).unwrap().rejected_count, 0);
    let decoded = read(JSON, "{\"c\":123.45}\n{\"c\":1234}\n{\"c\":0.001}\n", &[("c", "decimal(5, 2)")]).unwrap();
    assert_eq!((shown(&decoded), decoded.rejected_count), (vec!["123.45".to_owned()], 2));
}

#[test]
fn layouts_of_columnar_files_change_no_value() {
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let dictionary = DictionaryArray::new(keys, array(LargeStringArray::from(vec!["a", "b"])));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (key, value) in [("k", 1), ("l", 2)] {
        map.keys().append_value(key);
        map.values().append_value(value);
        map.append(true).unwrap();
    }
    map.append(false).unwrap();
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    let file = parquet_file(vec![
        ("dict", array(dictionary)),
        ("half", array(Float16Array::from([0.1, 65504.0, f32::NAN].map(Half::from_f32).to_vec()))),
        ("map", array(map.finish())),
        ("u8", array(UInt8Array::from(vec![0, 7, 255]))),
        ("u64", array(UInt64Array::from(vec![0, 1 << 63, u64::MAX]))),
    ]);
    // Writers name a map's parts as they like.
    let named = |text: String| text.replace("keys", "key").replace("values", "value");
    assert_eq!(
        named(learnt(PARQUET, &file)),
        "dict string; half float32; map list<struct<key: string, value: int32>>; u64 uint64; u8 uint8"
    );
    let wanted = &[("dict", "string"), ("half", "float32"), ("map", "string"), ("u8", "int16"), ("u64", "uint64")];
    assert_eq!(
        shown(&read(PARQUET, file, wanted).unwrap()).into_iter().map(named).collect::<Vec<_>>(),
        [
            r#"b|0.099975586|[{"key":"k","value":1}]|0|0"#,
            r#"-|65504.0|[{"key":"l","value":2}]|7|9223372036854775808"#,
            "a|NaN|-|255|18446744073709551615",
        ]
    );
}

#[test]
fn column_names_are_told_apart_by_case_and_never_guessed() {
    for (format, file) in [
        (JSON, b"{\"ID\":1,\"id\":2}\n".to_vec()),
        (CSV, b"ID,id\n1,2\n".to_vec()),
        (
            PARQUET,
            parquet_file(vec![("ID", array(Int64Array::from(vec![1]))), ("id", array(Int64Array::from(vec![2])))]),
        ),
    ] {
        assert_eq!(learnt(format, &file), "ID int64; id int64");
        assert_eq!(shown(&read(format, &file, &[("id", "int64"), ("ID", "int64")]).unwrap()), ["2|1"]);
    }
    let other = parquet_file(vec![("x", array(Int64Array::from(vec![1])))]);
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("id", DataType::Int64, true)]);
    let batch = RecordBatch::try_new(
        Arc::new(schema),
        vec![array(Int64Array::from(vec![1])), array(Int64Array::from(vec![2]))],
    )
    .unwrap();
    let mut file = Vec::new();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert_eq!(read(PARQUET, file, ID).unwrap_err().to_string(), "it has 2 columns of the name id");
    assert_eq!(shown(&read(PARQUET, other, ID).unwrap()), ["-"]);
}

#[test]
fn avro_files_may_be_written_by_other_schemas() {
    let of = |fields: &str, row: Vec<u8>| {
        let schema = format!(r#"{{"type": "record", "name": "r", "fields": [{fields}]}}"#);
        raw_avro(&schema, &[row])
    };
    let old = of(r#"{"name": "id", "type": "int"}"#, vec![2]);
    let new = of(r#"{"name": "more", "type": "boolean"}, {"name": "id", "type": ["null", "long"]}"#, vec![1, 2, 4]);
    let wanted = &[("id", "int64"), ("more", "bool")];
    assert_eq!(shown(&read(AVRO, old, wanted).unwrap()), ["1|-"]);
    assert_eq!(shown(&read(AVRO, new, wanted).unwrap()), ["2|true"]);
}
