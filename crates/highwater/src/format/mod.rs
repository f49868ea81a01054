//! Files to rows: Parquet, NDJSON, CSV and Avro become Arrow batches of a frozen schema, bad rows by name. Knows nothing
//! of where bytes come from, nor of SQL.

mod types;

pub use types::*;
