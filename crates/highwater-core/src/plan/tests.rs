mod backfill;
mod bases;
mod files;
mod guard;
mod holes;
mod lag;
mod properties;
mod quarantine;
pub(crate) mod script;
mod sources;
mod table;
mod time;

use script::check;
