mod files;
mod lag;
mod properties;
mod quarantine;
mod script;
mod sources;
mod time;

use script::check;
