//! Types as text, the least common type, the frozen schema.

use proptest::prelude::*;

use super::*;
use crate::format::type_text;

fn seen(text: &str) -> Seen {
    type_text::parse(text).unwrap().into()
}

fn join(a: &str, b: &str) -> String {
    let mut joined = seen(a);
    joined.join(seen(b));
    joined.to_string()
}

#[test]
fn type_text_is_read_back() {
    for text in [
        "string",
        "bool",
        "int8",
        "uint64",
        "float32",
        "decimal(10, 2)",
        "decimal(76, 76)",
        "date",
        "timestamp",
        "list<int64>",
        "struct<a: string, b: list<int32>>",
        r#"struct<"a b": string, "x\"y,<": list<list<bool>>>"#,
    ] {
        let kind: ColumnType = text.parse().unwrap();
        assert_eq!(kind.to_string(), text);
        assert_eq!(schema_types(&freeze(&[("c".to_owned(), kind.clone())], None)), [("c".to_owned(), kind.clone())]);
        assert_eq!(serde_json::from_str::<ColumnType>(&serde_json::to_string(&kind).unwrap()).unwrap(), kind);
    }
    assert_eq!("  Decimal( 10 ,2 ) ".parse::<ColumnType>(), Ok(ColumnType::Decimal(10, 2)));
}

#[test]
fn bad_type_text_says_what_was_expected() {
    for (text, part) in [
        ("", "ends where string, bool"),
        ("int", "`int` stands where string, bool"),
        ("list<int64", "ends where `>` was expected"),
        ("list", "ends where `<`"),
        ("decimal(10)", "`)` stands where `,`"),
        ("decimal(77, 0)", "1 to 76"),
        ("decimal(5, 6)", "the scale 0 to the precision"),
        ("decimal(x, 0)", "where a number"),
        ("struct<>", "leaves a type open"),
        ("struct<a string>", "where `:`"),
        ("struct<a: string, a: bool>", "twice"),
        ("int64 x", "where nothing more"),
        ("null", "leaves a type open"),
    ] {
        let error = text.parse::<ColumnType>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!("list<".repeat(10_000).parse::<ColumnType>().unwrap_err().to_string().contains("deeper"));
}

#[test]
fn the_least_common_type() {
    for (a, b, common) in [
        ("int8", "int32", "int32"),
        ("int32", "uint32", "int64"),
        ("int8", "uint64", "decimal(20, 0)"),
        ("uint8", "uint16", "uint16"),
        ("int64", "float32", "float64"),
        ("int64", "decimal(10, 2)", "decimal(22, 2)"),
        ("decimal(10, 2)", "decimal(8, 4)", "decimal(12, 4)"),
        ("decimal(76, 0)", "decimal(10, 10)", "float64"),
        ("decimal(10, 2)", "float32", "float64"),
        ("float32", "float32", "float32"),
        ("int64", "string", "string"),
        ("bool", "int64", "string"),
        ("date", "timestamp", "timestamp"),
        ("timestamp", "string", "string"),
        ("date", "int64", "string"),
        ("null", "date", "date"),
        ("list<int64>", "list<float64>", "list<float64>"),
        ("list<null>", "list<string>", "list<string>"),
        ("list<int64>", "string", "string"),
        ("list<int64>", "struct<a: int64>", "string"),
        ("struct<b: int64, a: null>", "struct<a: bool, c: date>", "struct<a: bool, b: int64, c: date>"),
    ] {
        assert_eq!(join(a, b), common, "{a} and {b}");
        assert_eq!(join(b, a), common, "{b} and {a}");
    }
}

#[test]
fn declared_columns_come_first_and_win() {
    let learnt: FileSchema =
        serde_json::from_str(r#"{"z": "null", "b": "int64", "a": "list<null>", "e": "struct<>"}"#).unwrap();
    let schema = freeze(&columns(&[("x", "date"), ("b", "string")]), Some(&learnt));
    let types: Vec<String> = schema_types(&schema).into_iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    assert_eq!(types, ["x date", "b string", "a list<string>", "e string", "z string"]);
    assert!(schema.fields().iter().all(|field| field.is_nullable()));
    assert_eq!(serde_json::to_string(&learnt).unwrap(), r#"{"a":"list<null>","b":"int64","e":"struct<>","z":"null"}"#);
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let scalars = [
        "null",
        "string",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "date",
        "timestamp",
        "decimal(3, 1)",
        "decimal(5, 0)",
        "decimal(20, 0)",
        "decimal(38, 30)",
        "decimal(60, 0)",
        "decimal(76, 40)",
    ];
    let scalar = proptest::sample::select(scalars.map(seen).to_vec());
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|item| Seen::List(Box::new(item))),
            proptest::collection::btree_map("[a-c]", inner, 0..3).prop_map(Seen::Struct),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = FileSchema> {
    proptest::collection::btree_map("[a-c]", any_seen(), 0..4).prop_map(|columns| FileSchema { columns })
}

proptest! {
    #[test]
    fn merging_does_not_depend_on_order(a in any_schema(), b in any_schema(), c in any_schema()) {
        prop_assert_eq!(merge(&a, &b), merge(&b, &a));
        prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
        prop_assert_eq!(&merge(&a, &a), &a);
        prop_assert_eq!(&merge(&a, &FileSchema::default()), &a);
    }

    #[test]
    fn schemas_survive_their_text(schema in any_schema()) {
        let text = serde_json::to_string(&schema).unwrap();
        prop_assert_eq!(serde_json::from_str::<FileSchema>(&text).unwrap(), schema);
    }

    #[test]
    fn type_text_never_panics(text in "\\PC{0,20}|(list<|struct<|a: |int64|,|>|\\(|\\)|decimal|[0-9]{1,3}){0,8}") {
        let _ = text.parse::<ColumnType>();
    }
}
