//! The functions that this room puts into plans: canonical rows, ids as text, and the batch's watermark. No user can
//! call them: they are in no registry, save the watermark, which the SQL writes `$watermark`.

use std::sync::Arc;

use arrow::array::{ArrayRef, LargeBinaryBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::canonical::{Column, RowEncoder};
use super::hash_document;

/// The name of the watermark's function; `$watermark` in the SQL becomes a call of it.
pub const WATERMARK: &str = "$watermark";

/// The canonical bytes of `columns` by name, with the document's hash behind them if a spec's version is given. A JSON
/// object is never the beginning of another one, so the hash does not change the order.
pub fn canonical_row(columns: Vec<(String, Expr)>, hashed_by: Option<u32>) -> Expr {
    let (names, columns): (Vec<String>, Vec<Expr>) = columns.into_iter().unzip();
    let function = CanonicalRow { names, hashed_by, signature: Signature::variadic_any(Volatility::Immutable) };
    ScalarUDF::from(function).call(columns)
}

/// The text of an id: its JSON without quotes and escapes; null for what JSON writes as null.
pub fn id_text(id: Expr) -> Expr {
    ScalarUDF::from(IdText { signature: Signature::any(1, Volatility::Immutable) }).call(vec![id])
}

/// The watermark's function: without a value for planning, with one for a batch.
pub fn watermark(value_us: Option<i64>) -> ScalarUDF {
    // Until its value is known it must not be folded, nor moved as a constant.
    let volatility = if value_us.is_some() { Volatility::Immutable } else { Volatility::Stable };
    ScalarUDF::from(WatermarkValue { value_us, signature: Signature::nullary(volatility) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CanonicalRow {
    names: Vec<String>,
    hashed_by: Option<u32>,
    signature: Signature,
}

impl ScalarUDFImpl for CanonicalRow {
    fn name(&self) -> &str {
        "__canonical_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeBinary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns = args.args.into_iter().map(|value| value.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let encoder = RowEncoder::new(self.names.iter().map(String::as_str).zip(&columns))?;
        let mut out = LargeBinaryBuilder::with_capacity(rows, rows * 256);
        let mut row_bytes = Vec::with_capacity(1024);
        for row in 0..rows {
            row_bytes.clear();
            encoder.write(row, &mut row_bytes);
            if let Some(version) = self.hashed_by {
                let hash = hash_document(version, &row_bytes);
                row_bytes.extend_from_slice(&hash);
            }
            out.append_value(&row_bytes);
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IdText {
    signature: Signature,
}

impl ScalarUDFImpl for IdText {
    fn name(&self) -> &str {
        "__id_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(values) = args.args.into_iter().next() else { return exec_err!("an id is one column") };
        Ok(ColumnarValue::Array(texts(&values.into_array(args.number_rows)?)?))
    }
}

/// Every value's text, as [`id_text`] makes it.
pub fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    if matches!(values.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return Ok(arrow::compute::cast(values, &DataType::Utf8View)?);
    }
    let column = Column::new(values)?;
    let mut out = StringViewBuilder::with_capacity(values.len());
    let mut text = Vec::new();
    for row in 0..values.len() {
        if column.is_null(row) {
            out.append_null();
            continue;
        }
        text.clear();
        column.write_plain(row, &mut text);
        out.append_value(String::from_utf8_lossy(&text));
    }
    Ok(Arc::new(out.finish()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WatermarkValue {
    value_us: Option<i64>,
    signature: Signature,
}

impl ScalarUDFImpl for WatermarkValue {
    fn name(&self) -> &str {
        WATERMARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.value_us.is_none() {
            return exec_err!("the watermark has no value yet");
        }
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(self.value_us, Some("UTC".into()))))
    }
}
