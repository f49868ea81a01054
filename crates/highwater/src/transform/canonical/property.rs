//! Every row of every type is JSON, one text a row whatever reads it back, and the same bytes on any number of threads.

use std::collections::BTreeMap;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::value::RawValue;

use super::*;
use crate::transform::hash_document;

const ROWS: usize = 12;

fn any_i64() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -9_i64..9, select(vec![i64::MIN, i64::MAX, 0])]
}

fn any_i128() -> impl Strategy<Value = i128> {
    prop_oneof![any::<i128>(), -99_i128..99, select(vec![i128::MIN, i128::MAX, 10_i128.pow(37)])]
}

fn any_f64() -> impl Strategy<Value = f64> {
    use proptest::num::f64::*;
    let extremes = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, 1e16, 1e-5];
    prop_oneof![ANY, SUBNORMAL, select(extremes.to_vec())]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,12}",
        proptest::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter),
        "[\u{0}-\u{1f}\u{7f}\u{2028}\u{2029}\u{feff}\"\\\\/]{0,8}",
    ]
}

fn column<T, S>(values: S, build: fn(Vec<Option<T>>) -> ArrayRef) -> BoxedStrategy<ArrayRef>
where
    T: std::fmt::Debug + 'static,
    S: Strategy<Value = T> + 'static,
{
    proptest::collection::vec(proptest::option::weighted(0.9, values), ROWS).prop_map(build).boxed()
}

fn made<A: Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

fn scalar() -> BoxedStrategy<ArrayRef> {
    let decimal = |scale: i8| {
        column(any_i128(), |v| made(Decimal128Array::from(v)))
            .prop_map(move |array| {
                made(array.as_primitive::<Decimal128Type>().clone().with_data_type(DataType::Decimal128(38, scale)))
            })
            .boxed()
    };
    let wide = |scale: i8| {
        column((any_i128(), any::<u128>()), |v: Vec<Option<(i128, u128)>>| {
            made(Decimal256Array::from(
                v.into_iter().map(|v| v.map(|(high, low)| i256::from_parts(low, high))).collect::<Vec<_>>(),
            ))
        })
        .prop_map(move |array| {
            made(array.as_primitive::<Decimal256Type>().clone().with_data_type(DataType::Decimal256(76, scale)))
        })
        .boxed()
    };
    prop_oneof![
        column(any::<bool>(), |v| made(BooleanArray::from(v))),
        column(any::<i8>(), |v| made(Int8Array::from(v))),
        column(any::<i32>(), |v| made(Int32Array::from(v))),
        column(any_i64(), |v| made(Int64Array::from(v))),
        column(any::<u64>(), |v| made(UInt64Array::from(v))),
        column(any::<f32>(), |v| made(Float32Array::from(v))),
        column(any_f64(), |v| made(Float64Array::from(v))),
        column(any_text(), |v| made(StringArray::from(v))),
        column(any_text(), |v| made(StringViewArray::from(v))),
        column(any::<Vec<u8>>(), |v| made(v.into_iter().collect::<BinaryArray>())),
        column(any::<i32>(), |v| made(Date32Array::from(v))),
        column(any_i64(), |v| made(Date64Array::from(v))),
        column(any_i64(), |v| made(TimestampSecondArray::from(v))),
        column(any_i64(), |v| made(TimestampMillisecondArray::from(v).with_timezone("Asia/Seoul"))),
        column(any_i64(), |v| made(TimestampMicrosecondArray::from(v).with_timezone("UTC"))),
        column(any_i64(), |v| made(TimestampNanosecondArray::from(v))),
        column(any_i64(), |v| made(Time64MicrosecondArray::from(v))),
        (-128_i8..=38).prop_flat_map(decimal),
        (-128_i8..=76).prop_flat_map(wide),
    ]
    .boxed()
}

/// `ROWS` lists over fewer or as many items.
fn lists(items: ArrayRef) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths((0..ROWS).map(|row| usize::from(row % 3 > 0 && row < 10)));
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    made(ListArray::new(field, offsets, items, None))
}

fn any_column() -> impl Strategy<Value = ArrayRef> {
    scalar().prop_recursive(3, 8, 2, |inner| {
        let named = (any_text(), any_text()).prop_filter("names differ", |(a, b)| a != b);
        prop_oneof![
            inner.clone().prop_map(lists),
            (named, inner.clone(), inner).prop_map(|((a, b), x, y)| {
                let field =
                    |name: String, values: &ArrayRef| Arc::new(Field::new(name, values.data_type().clone(), true));
                made(StructArray::from(vec![(field(a, &x), x), (field(b, &y), y)]))
            }),
        ]
    })
}

fn documents(columns: &BTreeMap<String, ArrayRef>, rows: std::ops::Range<usize>) -> Vec<Vec<u8>> {
    let encoder = RowEncoder::new(columns.iter().map(|(name, values)| (name.as_str(), values))).unwrap();
    let write = |row| {
        let mut out = Vec::new();
        encoder.write(row, &mut out);
        out
    };
    rows.map(write).collect()
}

/// The JSON read, and written by the rules of `docs/documents.md` again.
fn again(json: &str) -> String {
    match json.as_bytes()[0] {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap();
            let members = members
                .iter()
                .map(|(key, value)| format!("{}:{}", serde_json::to_string(key).unwrap(), again(value.get())));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap();
            format!("[{}]", items.iter().map(|item| again(item.get())).collect::<Vec<_>>().join(","))
        }
        b'"' => serde_json::to_string(&serde_json::from_str::<String>(json).unwrap()).unwrap(),
        _ => json.to_owned(),
    }
}

proptest! {
    #[test]
    fn every_document_is_json_written_in_one_way(
        columns in proptest::collection::btree_map(any_text(), any_column(), 0..4)
    ) {
        for document in documents(&columns, 0..ROWS) {
            let text = std::str::from_utf8(&document).unwrap();
            serde_json::from_str::<serde_json::Value>(text).unwrap();
            prop_assert_eq!(again(text), text);
            prop_assert!(!text.contains('\n'), "a dump has one document a line");
        }
    }

    #[test]
    fn documents_are_the_same_on_any_number_of_threads(
        columns in proptest::collection::btree_map("[a-c]", any_column(), 1..4)
    ) {
        let alone = documents(&columns, 0..ROWS);
        let hashes: Vec<_> = alone.iter().map(|json| hash_document(1, json)).collect();
        for threads in [2, 8] {
            let together: Vec<Vec<u8>> = std::thread::scope(|scope| {
                let step = ROWS.div_ceil(threads);
                let starts = (0..ROWS).step_by(step);
                let columns = &columns;
                let runs: Vec<_> = starts.map(|from| scope.spawn(move || {
                    let slice = |values: &ArrayRef| values.slice(from, step.min(ROWS - from));
                    let part = columns.iter().map(|(name, values)| (name.clone(), slice(values))).collect();
                    documents(&part, 0..step.min(ROWS - from))
                })).collect();
                runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
            });
            prop_assert_eq!(together.iter().map(|json| hash_document(1, json)).collect::<Vec<_>>(), hashes.clone());
        }
    }

    #[test]
    fn floats_read_back_as_themselves(number in any_f64()) {
        let columns = BTreeMap::from([("v".to_owned(), made(Float64Array::from(vec![number])))]);
        let text = String::from_utf8(documents(&columns, 0..1).remove(0)).unwrap();
        let value = text.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap();
        match number.is_finite() {
            true => prop_assert_eq!(value.parse::<f64>().unwrap(), number),
            false => prop_assert_eq!(value, "null"),
        }
    }
}

/// Another text here is another hash of every document in every index: say so in the changelog, and why.
#[test]
fn the_canonical_form_is_what_it_was() {
    let structs = StructArray::from(vec![
        (
            Arc::new(Field::new("z", DataType::Utf8, true)),
            made(StringArray::from(vec![Some("é\u{2028}"), None, Some("")])),
        ),
        (Arc::new(Field::new("a", DataType::Int32, true)), made(Int32Array::from(vec![Some(-1), Some(0), None]))),
    ]);
    let items = ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(1.0), Some(f64::NAN), None]),
        None,
        Some(vec![]),
    ]);
    let decimals = Decimal128Array::from(vec![1230, -5, 0]).with_precision_and_scale(20, 2).unwrap();
    let columns = BTreeMap::from([
        ("bool".to_owned(), made(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("bytes".to_owned(), made(BinaryArray::from(vec![&b"\xff\0"[..], b"", b"foo"]))),
        ("date".to_owned(), made(Date32Array::from(vec![0, -719_529, 2_932_897]))),
        ("decimal".to_owned(), made(decimals)),
        ("float".to_owned(), made(Float64Array::from(vec![-0.0, 5e-324, f64::NEG_INFINITY]))),
        ("int".to_owned(), made(Int64Array::from(vec![i64::MIN, 0, i64::MAX]))),
        ("items".to_owned(), made(items)),
        ("single".to_owned(), made(Float32Array::from(vec![0.1, 1e16, 1e-7]))),
        ("struct".to_owned(), made(structs)),
        ("text".to_owned(), made(StringArray::from(vec!["a\"b\\\n\u{0}", "\u{7f}\u{feff}🦀", "/"]))),
        ("time".to_owned(), made(TimestampMicrosecondArray::from(vec![i64::MIN, 1_714_557_600_500_000, i64::MAX]))),
        ("uint".to_owned(), made(UInt64Array::from(vec![u64::MAX, 0, 1]))),
    ]);
    let shown: Vec<String> = documents(&columns, 0..3)
        .iter()
        .map(|json| {
            let hash: String = hash_document(1, json).iter().map(|byte| format!("{byte:02x}")).collect();
            let shown = std::str::from_utf8(json).unwrap().replace('\u{2028}', "<2028>").replace('\u{7f}', "<7f>");
            format!("{hash} {}", shown.replace('\u{feff}', "<feff>"))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    d20f61812099f26b84bd87fdb6745fd4 {"bool":true,"bytes":"/wA=","date":"1970-01-01","decimal":12.30,"float":0.0,"int":-9223372036854775808,"items":[1.0,null,null],"single":0.1,"struct":{"a":-1,"z":"é<2028>"},"text":"a\"b\\\n\u0000","time":"-290308-12-21T19:59:05.224192Z","uint":18446744073709551615}
    e1af08dd7cfdfd6e6173d0dbc814b3e1 {"bool":false,"bytes":"","date":"-000001-12-31","decimal":-0.05,"float":5e-324,"int":0,"items":null,"single":1e16,"struct":{"a":0,"z":null},"text":"<7f><feff>🦀","time":"2024-05-01T10:00:00.5Z","uint":0}
    199e8aa00541a24640ab1f97a77ed821 {"bool":null,"bytes":"Zm9v","date":"+010000-01-01","decimal":0.00,"float":null,"int":9223372036854775807,"items":[],"single":1e-7,"struct":{"a":null,"z":""},"text":"/","time":"+294247-01-10T04:00:54.775807Z","uint":1}
    "#);
}
