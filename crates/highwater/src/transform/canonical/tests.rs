use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Int32Type, i256};

use super::*;

fn rows(values: ArrayRef) -> Vec<String> {
    let encoder = RowEncoder::new([("v", &values)].into_iter()).unwrap();
    (0..values.len())
        .map(|row| {
            let mut out = Vec::new();
            encoder.write(row, &mut out);
            let text = String::from_utf8(out).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
            text.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap().to_owned()
        })
        .collect()
}

#[test]
fn numbers() {
    assert_eq!(rows(Arc::new(Int8Array::from(vec![Some(-128), None]))), ["-128", "null"]);
    assert_eq!(rows(Arc::new(UInt64Array::from(vec![u64::MAX]))), ["18446744073709551615"]);
    let floats = vec![1.0, -0.0, 0.1, 1e16, 1.5e300, 1e-7, f64::NAN, f64::INFINITY, 123456789012345.0];
    assert_eq!(
        rows(Arc::new(Float64Array::from(floats))),
        ["1.0", "0.0", "0.1", "1e16", "1.5e300", "1e-7", "null", "null", "123456789012345.0"]
    );
    assert_eq!(rows(Arc::new(Float32Array::from(vec![0.1, -0.0, f32::NAN]))), ["0.1", "0.0", "null"]);
    let decimal =
        |scale, values: Vec<i128>| Arc::new(Decimal128Array::from(values).with_precision_and_scale(20, scale).unwrap());
    assert_eq!(rows(decimal(2, vec![1230, -5, 0, -12345])), ["12.30", "-0.05", "0.00", "-123.45"]);
    assert_eq!(rows(decimal(0, vec![7])), ["7"]);
    assert_eq!(rows(decimal(-2, vec![7, 0])), ["700", "0"]);
    let wide = Decimal256Array::from(vec![i256::from_i128(-1)]).with_precision_and_scale(40, 3).unwrap();
    assert_eq!(rows(Arc::new(wide)), ["-0.001"]);
}

#[test]
fn text_and_bytes() {
    let texts = vec![Some("a\"b\\\n\u{1}é🦀"), Some(""), None];
    let expected = ["\"a\\\"b\\\\\\n\\u0001é🦀\"", "\"\"", "null"];
    assert_eq!(rows(Arc::new(StringArray::from(texts.clone()))), expected);
    assert_eq!(rows(Arc::new(LargeStringArray::from(texts.clone()))), expected);
    assert_eq!(rows(Arc::new(StringViewArray::from(texts))), expected);
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    assert_eq!(rows(Arc::new(dictionary)), ["\"x\"", "null", "\"x\""]);
    let bytes: Vec<&[u8]> = vec![b"", b"f", b"fo", b"foo", b"\xff\xfe"];
    let expected = ["\"\"", "\"Zg==\"", "\"Zm8=\"", "\"Zm9v\"", "\"//4=\""];
    assert_eq!(rows(Arc::new(BinaryArray::from(bytes))), expected);
    assert_eq!(rows(Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))), ["true", "false", "null"]);
    assert_eq!(rows(Arc::new(NullArray::new(2))), ["null", "null"]);
}

#[test]
fn times() {
    let us = vec![
        0,
        1,
        1_714_557_600_500_000,
        -1,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
        -62_167_219_200_000_001,
    ];
    assert_eq!(
        rows(Arc::new(TimestampMicrosecondArray::from(us.clone()).with_timezone("UTC"))),
        [
            "\"1970-01-01T00:00:00Z\"",
            "\"1970-01-01T00:00:00.000001Z\"",
            "\"2024-05-01T10:00:00.5Z\"",
            "\"1969-12-31T23:59:59.999999Z\"",
            "\"9999-12-31T23:59:59.999999Z\"",
            "\"+010000-01-01T00:00:00Z\"",
            "\"-000001-12-31T23:59:59.999999Z\"",
        ]
    );
    assert_eq!(
        rows(Arc::new(TimestampMicrosecondArray::from(us.clone()))),
        rows(Arc::new(TimestampMicrosecondArray::from(us).with_timezone("Asia/Seoul"))),
        "an instant is written in UTC whatever its column's zone",
    );
    assert_eq!(
        rows(Arc::new(TimestampNanosecondArray::from(vec![1_000_000_010]))),
        ["\"1970-01-01T00:00:01.00000001Z\""]
    );
    assert_eq!(rows(Arc::new(TimestampSecondArray::from(vec![951_782_400]))), ["\"2000-02-29T00:00:00Z\""]);
    assert_eq!(
        rows(Arc::new(Date32Array::from(vec![0, -1, 19_844]))),
        ["\"1970-01-01\"", "\"1969-12-31\"", "\"2024-05-01\""]
    );
    assert_eq!(rows(Arc::new(Time64MicrosecondArray::from(vec![3_600_000_001]))), ["\"01:00:00.000001\""]);
}

#[test]
fn nested_values() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    assert_eq!(rows(Arc::new(lists.clone())), ["[1,null]", "null", "[]"]);
    assert_eq!(rows(Arc::new(lists.slice(2, 1))), ["[]"]);
    let text = |name| Arc::new(Field::new(name, DataType::Utf8, true));
    let structs = StructArray::from(vec![
        (text("z"), Arc::new(StringArray::from(vec!["1", "2"])) as ArrayRef),
        (text("a"), Arc::new(StringArray::from(vec![Some("3"), None])) as ArrayRef),
    ]);
    assert_eq!(rows(Arc::new(structs)), ["{\"a\":\"3\",\"z\":\"1\"}", "{\"a\":null,\"z\":\"2\"}"]);
    let entries = StructArray::from(vec![
        (
            Arc::new(Field::new("keys", DataType::Utf8, false)),
            Arc::new(StringArray::from(vec!["b", "a", "b"])) as ArrayRef,
        ),
        (Arc::new(Field::new("values", DataType::Int32, true)), Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef),
    ]);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map = MapArray::try_new(field, OffsetBuffer::new(vec![0, 3].into()), entries, None, false).unwrap();
    assert_eq!(rows(Arc::new(map)), ["{\"a\":2,\"b\":3}"]);
}

#[test]
fn keys_are_sorted_by_their_bytes_whatever_the_order_of_columns() {
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let two: ArrayRef = Arc::new(Int32Array::from(vec![2]));
    let write = |columns: Vec<(&'static str, &ArrayRef)>| {
        let mut out = Vec::new();
        RowEncoder::new(columns.into_iter()).unwrap().write(0, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(write(vec![("é", &one), ("b", &two), ("B", &one)]), "{\"B\":1,\"b\":2,\"é\":1}");
    assert_eq!(write(vec![("B", &one), ("é", &one), ("b", &two)]), "{\"B\":1,\"b\":2,\"é\":1}");
    assert_eq!(write(vec![]), "{}");
}

#[test]
fn types_without_a_form_are_told() {
    let span = DataType::Duration(TimeUnit::Second);
    let nested = DataType::List(Arc::new(Field::new("item", span.clone(), true)));
    assert_eq!(check_type(&nested), Err(span));
    assert_eq!(check_type(&DataType::Utf8), Ok(()));
}
