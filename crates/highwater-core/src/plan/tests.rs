mod files;
mod guard;
mod lag;
mod properties;
mod quarantine;
pub(crate) mod script;
mod sources;
mod time;

use script::check;
