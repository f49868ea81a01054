//! The sections besides the sources: pipeline, document, index, serve, store.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use serde_spanned::Spanned;

use super::times::{Times, length};
use super::{choose, filled};
use crate::config::duration::format_duration;
use crate::config::location::{folder, parse_location};
use crate::config::machine;
use crate::config::model::{
    DocumentConfig, FieldHint, GatesConfig, GenerationsConfig, Location, OnLag, OnMaxUptime, PipelineConfig,
    ServeConfig, StoreConfig,
};
use crate::config::problem::{Complaint, Findings};
use crate::config::raw::{RawDocument, RawGates, RawGenerations, RawPipeline, RawStore};
use crate::config::section::{Reader, Scalar, Text};
use crate::config::size::{format_size, parse_size};
use crate::config::substitute::substitute;

const POLL: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);
/// The shortest period that makes sense: each one reads everything.
const LEAST_REBUILD: SignedDuration = SignedDuration::from_mins(1);
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);
const LEAST_MEMORY: u64 = 1 << 20;

pub fn pipeline(raw: &RawPipeline, times: &Times, base: &Path, found: &mut Findings) -> Option<PipelineConfig> {
    let name = raw.name.as_ref().and_then(|name| {
        let text = name.get_ref();
        let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !plain || text.starts_with('.') {
            let message = format!("`name`: \"{text}\" cannot name a folder of the state everywhere");
            found.problem(name.span(), message, "use letters, digits, `.`, `_` and `-`, and no `.` in front");
            return None;
        }
        Some(text.clone())
    });
    let state = raw.state.as_ref().and_then(|text| {
        let parsed = parse_location(text.get_ref(), base);
        found.keep(text.span(), "state", parsed)
    });
    let lags = [("skip_to_latest", OnLag::SkipToLatest), ("catch_up", OnLag::CatchUp), ("halt", OnLag::Halt)];
    let on_lag = match &raw.on_lag {
        Some(word) => choose("on_lag", word, &lags, found),
        None => Some(OnLag::SkipToLatest),
    };
    let poll = pause("poll", raw.poll.as_ref(), POLL, Duration::from_millis(10), found);
    let lease = pause("lease", raw.lease.as_ref(), LEASE, Duration::from_secs(1), found);
    let single_writer = raw.single_writer.as_ref().is_some_and(|flag| *flag.get_ref());
    if let (Some(flag), Some(Location::Folder(_)), true) = (&raw.single_writer, &state, single_writer) {
        let message = "`single_writer` has no effect: state in a folder is locked, which costs nothing";
        found.warn(flag.span(), message, "take it out; it is for state on S3");
    }
    let max_uptime = raw
        .max_uptime
        .as_ref()
        .map(|text| pause("max_uptime", Some(text), Duration::ZERO, Duration::from_secs(1), found));
    let after = [("exit", OnMaxUptime::Exit), ("restart", OnMaxUptime::Restart)];
    let on_max_uptime = match &raw.on_max_uptime {
        Some(word) => choose("on_max_uptime", word, &after, found),
        None => Some(OnMaxUptime::Exit),
    };
    let memory_bytes = memory(raw.memory.as_ref(), found);
    Some(PipelineConfig {
        name: name?,
        state: state?,
        step: *times.step.as_ref()?.get_ref(),
        window: *times.window.as_ref()?.get_ref(),
        poll: poll?,
        on_lag: on_lag?,
        lease: lease?,
        single_writer,
        max_uptime: match max_uptime {
            Some(max_uptime) => Some(max_uptime?),
            None => None,
        },
        on_max_uptime: on_max_uptime?,
        memory_bytes: memory_bytes?,
    })
}

fn pause(key: &str, text: Option<&Text>, default: Duration, least: Duration, found: &mut Findings) -> Option<Duration> {
    let Some(text) = text else { return Some(default) };
    let pause = length(key, Some(text), found)?.into_inner().unsigned_abs();
    if pause < least {
        let message = format!("`{key}` of \"{}\" is too short", text.get_ref());
        found.problem(
            text.span(),
            message,
            format!("write \"{}\" or more", format_duration(SignedDuration::from_millis(least.as_millis() as i64))),
        );
        return None;
    }
    Some(pause)
}

/// How long one request may take; a problem is noted and leaves the default.
fn timeout(text: Option<&Text>, found: &mut Findings) -> Option<Duration> {
    text.and_then(|text| pause("timeout", Some(text), LEAST_TIMEOUT, LEAST_TIMEOUT, found))
}

fn memory(value: Option<&Spanned<Scalar>>, found: &mut Findings) -> Option<u64> {
    let machine = machine::memory_bytes();
    let Some(value) = value else { return Some((machine / 2).max(LEAST_MEMORY)) };
    let parsed = match value.get_ref() {
        Scalar::Text(text) => parse_size(text),
        Scalar::Integer(bytes) => parse_size(&bytes.to_string()),
    };
    let least = parsed.and_then(|bytes| match bytes {
        bytes if bytes < LEAST_MEMORY => {
            Err(Complaint::new(format!("{bytes} bytes are too few to work with"), "write \"64MiB\" or more"))
        }
        bytes => Ok(bytes),
    });
    let bytes = found.keep(value.span(), "memory", least)?;
    if bytes > machine {
        let message = format!("`memory` is more than the {} that this machine gives", format_size(machine));
        found.warn(value.span(), message, "take it out for half of the machine's");
    }
    Some(bytes)
}

pub fn document(raw: &RawDocument, base: &Path, found: &mut Findings) -> Option<DocumentConfig> {
    let sql = raw.sql.as_ref().and_then(|text| {
        let name = filled("sql", Some(text), found)?;
        let path = folder(&name, base);
        match std::fs::read_to_string(&path) {
            Ok(sql) if sql.trim().is_empty() => {
                let fix = "write one SELECT into it; each of its rows is a document";
                found.problem(text.span(), format!("`sql`: the file {name} is empty"), fix);
                None
            }
            Ok(sql) => Some((path, sql)),
            Err(error) => {
                let fix = "name a file that holds the SQL, relative to this file's folder";
                found.problem(text.span(), format!("`sql`: cannot read {name}: {error}"), fix);
                None
            }
        }
    });
    let id = filled("id", raw.id.as_ref(), found);
    let hints = [("text", FieldHint::Text), ("keyword", FieldHint::Keyword), ("stored", FieldHint::Stored)];
    let mut fields = BTreeMap::new();
    for (name, hint) in &raw.fields {
        if let Some(hint) = choose(name.get_ref(), hint, &hints, found) {
            fields.insert(name.get_ref().clone(), hint);
        }
    }
    let (sql_file, sql) = sql?;
    Some(DocumentConfig { sql, sql_file, id: id?, fields })
}

pub fn generations(raw: &RawGenerations, gates: &RawGates, found: &mut Findings) -> Option<GenerationsConfig> {
    let default = GenerationsConfig::default();
    let keep_hot = match &raw.keep_hot {
        Some(text) => length("keep_hot", Some(text), found).map(Spanned::into_inner),
        None => Some(default.keep_hot),
    };
    let every = raw.rebuild_every.as_ref().map(|text| {
        let every = length("rebuild_every", Some(text), found)?.into_inner();
        if every < LEAST_REBUILD {
            let message = format!("`rebuild_every` is shorter than {}", format_duration(LEAST_REBUILD));
            found.problem(text.span(), message, "write \"24h\", or take it out and rebuild by hand");
            return None;
        }
        Some(every)
    });
    let gates = GatesConfig {
        documents_percent: percent(
            "documents",
            gates.documents.as_ref(),
            default.gates.documents_percent,
            1000,
            found,
        )?,
        fill_percent: percent("fill", gates.fill.as_ref(), default.gates.fill_percent, 100, found)?,
        queries: gates
            .queries
            .iter()
            .flat_map(|queries| queries.get_ref())
            .map(|text| text.get_ref().clone())
            .collect(),
        queries_at: percent("at", gates.at.as_ref(), 10, 1000, found)? as usize,
        overlap_percent: u8::try_from(percent("overlap", gates.overlap.as_ref(), 60, 100, found)?).ok()?,
    };
    Some(GenerationsConfig {
        keep_hot: keep_hot?,
        rebuild_every: match every {
            Some(every) => Some(every?),
            None => None,
        },
        rebuild_on_change: raw.rebuild_on_change.unwrap_or(default.rebuild_on_change),
        gates,
    })
}

/// A whole number up to `most`, a percent sign allowed.
fn percent(key: &str, value: Option<&Spanned<Scalar>>, default: u32, most: u32, found: &mut Findings) -> Option<u32> {
    let Some(value) = value else { return Some(default) };
    let number = match value.get_ref() {
        Scalar::Integer(number) => u32::try_from(*number).ok(),
        Scalar::Text(text) => text.trim_end_matches('%').trim_end().parse().ok(),
    };
    let number = number.filter(|number| *number <= most);
    if number.is_none() {
        let message = format!("`{key}` must be a whole number from 0 to {most}");
        found.problem(value.span(), message, format!("write {key} = {default}"));
    }
    number
}

pub fn serve(listen: &Text, found: &mut Findings) -> Option<ServeConfig> {
    let parsed = listen.get_ref().parse::<SocketAddr>().map_err(|_| {
        let message = format!("\"{}\" is not an address and a port", listen.get_ref());
        Complaint::new(message, "write numbers, as in \"127.0.0.1:8642\" or \"[::1]:8642\"")
    });
    let address = found.keep(listen.span(), "listen", parsed)?;
    if !address.ip().is_loopback() {
        let message = format!("`listen` = \"{address}\" is open to other machines; anyone who reaches it can search");
        found.warn(listen.span(), message, "write \"127.0.0.1:PORT\", or put a proxy with authentication before it");
    }
    Some(ServeConfig { listen: address })
}

/// `used`: every location of the pipeline, if all are known.
pub fn stores(raw: &[RawStore], used: Option<&[&Location]>, reader: &mut Reader<'_>) -> BTreeMap<String, StoreConfig> {
    let http_allowed = (reader.env)("AWS_ALLOW_HTTP").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut stores = BTreeMap::new();
    for store in raw {
        let named = substitute(store.url.get_ref(), reader.env);
        let Some(named) = reader.found.keep(store.url.span(), "store", named) else { continue };
        let bucket = match parse_location(&named, Path::new("/")) {
            Ok(Location::S3 { bucket, prefix }) if prefix.is_empty() => bucket,
            _ => {
                let fix = "write [store.\"s3://bucket\"], without a prefix";
                reader.found.problem(store.url.span(), format!("\"{named}\" is not the URL of a bucket"), fix);
                continue;
            }
        };
        if let Some(endpoint) = &store.endpoint {
            check_endpoint(endpoint, http_allowed || store.allow_http == Some(true), &mut reader.found);
        }
        let idle = used
            .is_some_and(|used| !used.iter().any(|at| matches!(at, Location::S3 { bucket: b, .. } if *b == bucket)));
        if idle {
            let message = format!("no source and no state is in s3://{bucket}, so that this section does nothing");
            reader.found.warn(store.url.span(), message, "take it out, or mend the bucket's name");
        }
        let settings = StoreConfig {
            endpoint: store.endpoint.as_ref().map(|text| text.get_ref().trim_end_matches('/').to_owned()),
            region: filled("region", store.region.as_ref(), &mut reader.found),
            allow_http: store.allow_http,
            virtual_hosted_style: store.virtual_hosted_style,
            timeout: timeout(store.timeout.as_ref(), &mut reader.found),
        };
        stores.insert(format!("s3://{bucket}"), settings);
    }
    stores
}

fn check_endpoint(endpoint: &Text, http_allowed: bool, found: &mut Findings) {
    let url = url::Url::parse(endpoint.get_ref()).ok().filter(|url| url.has_host());
    match url.as_ref().map(url::Url::scheme) {
        Some("https") => {}
        Some("http") if http_allowed => {}
        Some("http") => {
            let message = "`endpoint` is plain HTTP, which is not allowed unless it is asked for";
            found.problem(endpoint.span(), message, "write https://, or allow_http = true");
        }
        _ => {
            let message = format!("`endpoint`: \"{}\" is not a URL", endpoint.get_ref());
            found.problem(endpoint.span(), message, "write the service's base URL, as in \"https://s3.example.com\"");
        }
    }
}
