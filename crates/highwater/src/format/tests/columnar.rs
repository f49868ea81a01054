//! Parquet and Avro.

use ::parquet::data_type::{Int96, Int96Type};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use arrow::array::*;
use arrow::datatypes::*;
use arrow_avro::compression::CompressionCodec;
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroOcfFormat;

use super::*;

/// A file of one INT96 column `t`: pairs of a Julian day and nanoseconds of the day.
pub(super) fn int96_file(values: &[(i32, u64)]) -> Vec<u8> {
    let schema = parse_message_type("message m { required int96 t; optional int32 n; }").unwrap();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let values: Vec<Int96> = values
        .iter()
        .map(|(day, nanos)| {
            let mut value = Int96::new();
            value.set_data(*nanos as u32, (*nanos >> 32) as u32, *day as u32);
            value
        })
        .collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&values, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let nulls = vec![0; values.len()];
    column.typed::<::parquet::data_type::Int32Type>().write_batch(&[], Some(&nulls), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn strings_of_every_layout_are_plain_strings() {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    let file = parquet_file(vec![
        ("utf8", array(StringArray::from(vec![Some("a"), None, Some("c")]))),
        ("large", array(LargeStringArray::from(vec![Some("a"), None, Some("c")]))),
        ("view", array(StringViewArray::from(vec![Some("a"), None, Some("c")]))),
        ("dictionary", array(dictionary)),
        ("binary", array(BinaryArray::from(vec![Some(&b"a"[..]), None, Some(b"c")]))),
    ]);
    assert_eq!(learnt(PARQUET, &file), "binary string; dictionary string; large string; utf8 string; view string");
    let wanted =
        &[("dictionary", "string"), ("view", "string"), ("large", "string"), ("binary", "string"), ("utf8", "string")];
    for content in [content(&file), spooled(&file)] {
        let decoded = decode(&request("x", PARQUET, wanted), &content).unwrap();
        assert_eq!(shown(&decoded), ["x|a|a|a|a", "-|-|-|-|-", "x|c|c|c|c"]);
        assert!(decoded.batches[0].columns().iter().all(|column| *column.data_type() == DataType::Utf8));
    }
    let bad = parquet_file(vec![("b", array(BinaryArray::from(vec![&b"\xff"[..], b"ok"])))]);
    assert_eq!(reasons(&read(PARQUET, bad, &[("b", "string")]).unwrap()), ["1: column b: 1 bytes are not UTF-8"]);
}

#[test]
fn values_of_other_types_are_cast_exactly_or_their_rows_rejected() {
    let file = parquet_file(vec![
        ("f", array(Float64Array::from(vec![3.0, 1.5, 4.0, f64::NAN]))),
        ("i", array(Int64Array::from(vec![1, 2, 9_007_199_254_740_993, 4]))),
        ("d", array(Decimal128Array::from(vec![150, 200, 300, 425]).with_precision_and_scale(10, 2).unwrap())),
        ("u", array(UInt64Array::from(vec![u64::MAX, 2, 3, 4]))),
    ]);
    let of = |column: &str, kind: &str| {
        let decoded = read(PARQUET, &file, &[(column, kind)]).unwrap();
        let mut all = shown(&decoded);
        all.extend(reasons(&decoded));
        all.join(" ")
    };
    assert_eq!(
        of("f", "int32"),
        "3 4 2: column f: 1.5 is not exactly of type int32 4: column f: NaN is not exactly of type int32"
    );
    assert_eq!(of("f", "string"), "3.0 1.5 4.0 NaN");
    assert_eq!(of("f", "float32"), "3.0 1.5 4.0 NaN");
    assert_eq!(of("i", "float64"), "1.0 2.0 4.0 3: column i: 9007199254740993 is not exactly of type float64");
    assert_eq!(of("i", "int8"), "1 2 4 3: column i: 9007199254740993 is not exactly of type int8");
    assert_eq!(of("i", "decimal(20, 2)"), "1.00 2.00 9007199254740993.00 4.00");
    assert_eq!(of("d", "decimal(10, 1)"), "1.5 2.0 3.0 4: column d: 4.25 is not exactly of type decimal(10, 1)");
    assert_eq!(of("d", "decimal(50, 4)"), "1.5000 2.0000 3.0000 4.2500");
    assert_eq!(of("d", "float64"), "1.5 2.0 3.0 4.25");
    assert_eq!(of("d", "string"), "1.50 2.00 3.00 4.25");
    assert_eq!(of("u", "int64"), "2 3 4 1: column u: 18446744073709551615 is not exactly of type int64");
    assert_eq!(of("u", "decimal(20, 0)"), "18446744073709551615 2 3 4");
    assert_eq!(of("u", "string"), "18446744073709551615 2 3 4");
    assert!(read(PARQUET, &file, &[("i", "timestamp")]).is_err());
    assert!(read(PARQUET, &file, &[("i", "bool")]).is_err());
}

#[test]
fn nested_columns_are_matched_by_field_name() {
    let points = StructArray::from(vec![
        (Arc::new(Field::new("y", DataType::Int32, true)), array(Int32Array::from(vec![Some(1), None]))),
        (Arc::new(Field::new("x", DataType::Float32, true)), array(Float32Array::from(vec![0.5, 2.0]))),
    ]);
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    let file = parquet_file(vec![("p", array(points)), ("l", array(lists.finish()))]);
    assert_eq!(learnt(PARQUET, &file), "l list<int32>; p struct<x: float32, y: int32>");
    let decoded =
        read(PARQUET, &file, &[("p", "struct<x: float64, y: int64, z: bool>"), ("l", "list<int64>")]).unwrap();
    assert_eq!(shown(&decoded), ["{x: 0.5, y: 1, z: }|[1, ]", "{x: 2.0, y: , z: }|-"]);
    let decoded = read(PARQUET, &file, &[("p", "string"), ("l", "string")]).unwrap();
    assert_eq!(shown(&decoded), [r#"{"y":1,"x":0.5}|[1,null]"#, r#"{"y":null,"x":2.0}|-"#]);
    let decoded = read(PARQUET, &file, &[("p", "struct<x: int64>")]).unwrap();
    assert_eq!(reasons(&decoded), ["1: column p.x: 0.5 is not exactly of type int64"]);
}

#[test]
fn times_of_every_unit_become_microseconds_in_utc() {
    let file = parquet_file(vec![
        ("s", array(TimestampSecondArray::from(vec![0, i64::MAX]))),
        ("ms", array(TimestampMillisecondArray::from(vec![-1, 1]).with_timezone("+05:30"))),
        ("us", array(TimestampMicrosecondArray::from(vec![1, i64::MIN]))),
        ("ns", array(TimestampNanosecondArray::from(vec![-1, 1_999]))),
        ("d", array(Date32Array::from(vec![0, i32::MAX]))),
    ]);
    let of = |column: &str, kind: &str| {
        let decoded = read(PARQUET, &file, &[(column, kind)]).unwrap();
        (shown(&decoded).join(" "), reasons(&decoded).len())
    };
    assert_eq!(of("s", "timestamp"), ("1970-01-01T00:00:00Z".to_owned(), 1));
    assert_eq!(of("ms", "timestamp"), ("1969-12-31T23:59:59.999Z 1970-01-01T00:00:00.001Z".to_owned(), 0));
    assert_eq!(of("us", "timestamp"), ("1970-01-01T00:00:00.000001Z".to_owned(), 1));
    assert_eq!(of("us", "string"), ("1970-01-01T00:00:00.000001Z".to_owned(), 1));
    assert_eq!(of("ns", "timestamp"), ("1969-12-31T23:59:59.999999Z 1970-01-01T00:00:00.000001Z".to_owned(), 0));
    assert_eq!(of("d", "date"), ("1970-01-01".to_owned(), 1));
    assert_eq!(of("d", "timestamp"), ("1970-01-01T00:00:00Z".to_owned(), 1));
}

#[test]
fn int96_beside_and_inside_other_columns() {
    assert_eq!(learnt(PARQUET, int96_file(&[(2_440_588, 0)])), "n int32; t timestamp");
    let decoded = read(PARQUET, int96_file(&[(2_440_588, 1_500)]), &[("n", "int64"), ("t", "timestamp")]).unwrap();
    assert_eq!(shown(&decoded), ["-|1970-01-01T00:00:00.000001Z"]);
}

#[test]
fn missing_extra_and_required_columns() {
    let file = parquet_file(vec![
        ("id", array(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("more", array(Int32Array::from(vec![1, 2, 3]))),
    ]);
    let mut request = request("x", PARQUET, &[("absent", "list<int64>"), ("id", "int64")]);
    request.required = vec!["id".to_owned()];
    let decoded = decode(&request, &content(&file)).unwrap();
    assert_eq!(shown(&decoded), ["-|1", "-|3"]);
    assert_eq!(reasons(&decoded), ["2: column id: null, and it is part of the key"]);
    assert_eq!(decoded.row_numbers, Some(vec![0, 2]));
    let decoded = read(PARQUET, &file, &[]).unwrap();
    assert_eq!(decoded.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    let decoded = read(PARQUET, &file, &[("absent", "date")]).unwrap();
    assert_eq!(shown(&decoded), ["-", "-", "-"]);
}

#[test]
fn damaged_parquet_is_an_error_and_never_a_panic() {
    let file = parquet_file(vec![
        ("id", array(Int32Array::from_iter_values(0..500))),
        ("t", array(StringArray::from_iter_values((0..500).map(|n| n.to_string())))),
    ]);
    let wanted = &[("id", "int64"), ("t", "string")];
    for end in 0..file.len() {
        assert!(read(PARQUET, &file[..end], wanted).is_err(), "cut at {end}");
    }
    for n in (0..file.len()).step_by(7) {
        let mut file = file.clone();
        file[n] ^= 0xff;
        let _ = learn("x", &content(&file), &spec(PARQUET));
        let _ = read(PARQUET, &file, wanted);
    }
    let error = read(PARQUET, &file[..file.len() - 8], wanted).unwrap_err().to_string();
    assert!(error.starts_with("its Parquet footer cannot be read"), "{error}");
    // The first page's header.
    let mut file = file;
    file[4..40].fill(0xff);
    let error = read(PARQUET, &file, wanted).unwrap_err().to_string();
    assert!(error.contains("row group 1 of 1"), "{error}");
}

pub(super) fn avro_file(codec: Option<CompressionCodec>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("id", array(Int64Array::from_iter_values(0..300)), false),
        ("name", array(StringArray::from_iter((0..300).map(|n| (n % 3 > 0).then(|| format!("name {n}"))))), true),
        ("at", array(TimestampMicrosecondArray::from_iter_values(0..300).with_timezone("+00:00")), true),
        ("day", array(Date32Array::from_iter_values(0..300)), true),
    ])
    .unwrap();
    let schema = batch.schema().as_ref().clone();
    let mut writer = WriterBuilder::new(schema).with_compression(codec).build::<_, AvroOcfFormat>(Vec::new()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner()
}

const AVRO_COLUMNS: &[(&str, &str)] =
    &[("day", "date"), ("name", "string"), ("id", "int32"), ("at", "timestamp"), ("x", "bool")];

#[test]
fn avro_is_read_with_every_codec() {
    use CompressionCodec::*;
    for codec in [None, Some(Deflate), Some(Snappy), Some(ZStandard), Some(Bzip2), Some(Xz)] {
        let file = avro_file(codec);
        assert_eq!(learnt(AVRO, &file), "at timestamp; day date; id int64; name string", "{codec:?}");
        for content in [content(&file), spooled(&file)] {
            let decoded = decode(&request("x", AVRO, AVRO_COLUMNS), &content).unwrap();
            let rows = shown(&decoded);
            assert_eq!(rows.len(), 300, "{codec:?}");
            assert_eq!(rows[31], "1970-02-01|name 31|31|1970-01-01T00:00:00.000031Z|-");
            assert_eq!(rows[0], "1970-01-01|-|0|1970-01-01T00:00:00Z|-");
        }
        assert_eq!(read(AVRO, &file, &[("x", "bool")]).unwrap().rows, 300);
        assert_eq!(read(AVRO, &file, &[]).unwrap().rows, 300);
    }
}

#[test]
fn damaged_avro_is_an_error_and_never_a_panic() {
    let file = avro_file(Some(CompressionCodec::Snappy));
    let mut readable = Vec::new();
    for end in 0..file.len() {
        if let Ok(decoded) = read(AVRO, &file[..end], AVRO_COLUMNS) {
            readable.push((end, decoded.rows));
        }
    }
    // Cut behind its header it is a whole file without rows.
    assert!(readable.len() <= 1 && readable.iter().all(|(_, rows)| *rows == 0), "{readable:?}");
    for n in (0..file.len()).step_by(3) {
        let mut file = file.clone();
        file[n] ^= 0xff;
        let _ = learn("x", &content(&file), &spec(AVRO));
        let _ = read(AVRO, &file, AVRO_COLUMNS);
    }
    let mut file = file;
    let last = file.len() - 1;
    file[last] ^= 1;
    let error = read(AVRO, &file, AVRO_COLUMNS).unwrap_err().to_string();
    assert!(error.contains("Avro block 1 ") && error.contains("sync marker"), "{error}");
}

pub(super) fn long(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn sized(bytes: &[u8], out: &mut Vec<u8>) {
    long(bytes.len() as i64, out);
    out.extend(bytes);
}

/// A file of one block, written by hand.
pub(super) fn raw_avro(schema: &str, rows: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"Obj\x01".to_vec();
    long(1, &mut file);
    sized(b"avro.schema", &mut file);
    sized(schema.as_bytes(), &mut file);
    long(0, &mut file);
    file.extend([7; 16]);
    long(rows.len() as i64, &mut file);
    sized(&rows.concat(), &mut file);
    file.extend([7; 16]);
    file
}

#[test]
fn avro_enums_unions_and_logical_types() {
    let schema = r#"{"type": "record", "name": "r", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "colour", "symbols": ["RED", "BLUE"]}},
        {"name": "n", "type": ["null", "long"]},
        {"name": "m", "type": {"type": "map", "values": "int"}},
        {"name": "l", "type": {"type": "array", "items": "string"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "v", "type": ["string", "long"]}
    ]}"#;
    let mut row = Vec::new();
    long(1, &mut row);
    long(1, &mut row);
    long(42, &mut row);
    long(1, &mut row);
    sized(b"k", &mut row);
    long(5, &mut row);
    long(0, &mut row);
    long(1, &mut row);
    sized(b"x", &mut row);
    long(0, &mut row);
    sized(&[0x01, 0x02], &mut row);
    long(1500, &mut row);
    long(1, &mut row);
    long(9, &mut row);
    let file = raw_avro(schema, &[row]);
    assert_eq!(
        learnt(AVRO, &file),
        "d decimal(6, 2); e string; l list<string>; m list<struct<key: string, value: int32>>; n int64; \
         t timestamp; v string"
    );
    let wanted = &[
        ("e", "string"),
        ("n", "int64"),
        ("m", "list<struct<key: string, value: int64>>"),
        ("l", "list<string>"),
        ("d", "decimal(8, 2)"),
        ("t", "timestamp"),
        ("v", "string"),
    ];
    assert_eq!(
        shown(&read(AVRO, &file, wanted).unwrap()),
        ["BLUE|42|[{key: k, value: 5}]|[x]|2.58|1970-01-01T00:00:01.500Z|9"]
    );
}
