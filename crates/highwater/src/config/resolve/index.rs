//! `[index]`: which sink, and where.

use std::path::Path;

use serde_spanned::Spanned;

use super::{choose, filled};
use crate::config::location::parse_location;
use crate::config::model::{Absent, IndexConfig, IndexKind, Location, Secret, SolrAuth, SolrConfig};
use crate::config::problem::{Complaint, Findings};
use crate::config::raw::{RawAuth, RawIndex};
use crate::config::section::{Scalar, Text};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tantivy,
    Solr,
}

pub fn index(raw: &RawIndex, base: &Path, found: &mut Findings) -> Option<IndexConfig> {
    let kind = raw.kind.as_ref().and_then(|kind| {
        if kind.get_ref() == "opensearch" {
            let message = "`kind` = \"opensearch\" comes in a later version";
            found.problem(kind.span(), message, "write \"tantivy\" or \"solr\"");
            return None;
        }
        choose("kind", kind, &[("tantivy", Kind::Tantivy), ("solr", Kind::Solr)], found)
    });
    let absents = [("delete", Absent::Delete), ("keep", Absent::Keep)];
    let absent = match &raw.absent {
        Some(word) => choose("absent", word, &absents, found),
        None => Some(Absent::Delete),
    };
    let path = path(raw, base, found);
    let solr = solr(raw, kind, found);
    if kind.is_some() {
        refuse_strangers(raw, kind == Some(Kind::Solr), found);
    }
    let kind = match kind? {
        Kind::Tantivy => {
            if raw.path.is_none() {
                let fix = "write path = \"./index\"";
                found.problem(raw.span.clone(), "`path` is missing in [index], where a tantivy index lives", fix);
            }
            IndexKind::Tantivy { path: path? }
        }
        Kind::Solr => IndexKind::Solr(solr?),
    };
    Some(IndexConfig { kind, absent: absent? })
}

fn path(raw: &RawIndex, base: &Path, found: &mut Findings) -> Option<std::path::PathBuf> {
    let text = raw.path.as_ref()?;
    let parsed = match parse_location(text.get_ref(), base) {
        Ok(Location::Folder(path)) => Ok(path),
        Ok(Location::S3 { .. }) => Err(Complaint::new("a tantivy index lives in a folder", "write a folder")),
        Err(complaint) => Err(Complaint { fix: "write a folder".into(), ..complaint }),
    };
    found.keep(text.span(), "path", parsed)
}

/// Keys that mean something to another kind only.
fn refuse_strangers(raw: &RawIndex, is_solr: bool, found: &mut Findings) {
    let of_solr = [
        ("url", raw.url.as_ref().map(Spanned::span)),
        ("collection", raw.collection.as_ref().map(Spanned::span)),
        ("shards", raw.shards.as_ref().map(Spanned::span)),
        ("replicas", raw.replicas.as_ref().map(Spanned::span)),
        ("configset", raw.configset.as_ref().map(Spanned::span)),
        ("auth", raw.auth.as_ref().map(|auth| auth.span.clone())),
    ];
    let of_tantivy = [("path", raw.path.as_ref().map(Spanned::span))];
    let (strangers, kind) = if is_solr { (&of_tantivy[..], "tantivy") } else { (&of_solr[..], "solr") };
    for (key, span) in strangers {
        if let Some(span) = span {
            let message = format!("`{key}` belongs to an index of the kind \"{kind}\"");
            found.problem(span.clone(), message, format!("take it out, or write kind = \"{kind}\""));
        }
    }
}

fn solr(raw: &RawIndex, kind: Option<Kind>, found: &mut Findings) -> Option<SolrConfig> {
    let wanted = kind == Some(Kind::Solr);
    if wanted && raw.url.is_none() {
        let fix = "write url = \"http://127.0.0.1:8983/solr\", or a list of nodes";
        found.problem(raw.span.clone(), "`url` is missing in [index], where Solr is", fix);
    }
    if wanted && raw.collection.is_none() {
        let fix = "write collection = \"products\"";
        found.problem(raw.span.clone(), "`collection` is missing in [index]", fix);
    }
    let urls = raw.url.as_ref().and_then(|urls| {
        if urls.get_ref().is_empty() {
            found.problem(urls.span(), "`url` names no node", "write url = \"http://127.0.0.1:8983/solr\"");
            return None;
        }
        let mut parsed = Vec::new();
        for url in urls.get_ref() {
            parsed.push(found.keep(url.span(), "url", node(url.get_ref())));
        }
        parsed.into_iter().collect::<Option<Vec<String>>>()
    });
    let collection = raw.collection.as_ref().and_then(|text| name("collection", text, found));
    let configset = raw.configset.as_ref().map(|text| name("configset", text, found));
    let shards = count("shards", raw.shards.as_ref(), found);
    let replicas = count("replicas", raw.replicas.as_ref(), found);
    let auth = raw.auth.as_ref().map(|raw| auth(raw, found));
    Some(SolrConfig {
        urls: urls?,
        collection: collection?,
        shards: shards?,
        replicas: replicas?,
        configset: match configset {
            Some(configset) => Some(configset?),
            None => None,
        },
        auth: match auth {
            Some(auth) => Some(auth?),
            None => None,
        },
    })
}

fn node(text: &str) -> Result<String, Complaint> {
    let fix = "write a node's base URL, as in \"http://127.0.0.1:8983/solr\"";
    let url = url::Url::parse(text.trim()).ok().filter(|url| url.has_host());
    let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
        return Err(Complaint::new("this is not the URL of a Solr node", fix));
    };
    if !url.username().is_empty() || url.password().is_some() {
        let fix = "take them out, and write auth = { user = \"…\", password = \"${SOLR_PASSWORD}\" }";
        return Err(Complaint::new("credentials do not belong into the URL", fix));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Complaint::new("nothing may follow the path", fix));
    }
    Ok(text.trim().trim_end_matches('/').to_owned())
}

/// As Solr takes it for collections and configsets.
fn name(key: &str, text: &Text, found: &mut Findings) -> Option<String> {
    let name = filled(key, Some(text), found)?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) && !name.starts_with('-');
    if !plain {
        let message = format!("`{key}`: \"{name}\" is no name that Solr takes");
        found.problem(text.span(), message, "use letters, digits, `.`, `_` and `-`, and no `-` in front");
        return None;
    }
    Some(name)
}

fn count(key: &str, value: Option<&Spanned<Scalar>>, found: &mut Findings) -> Option<u32> {
    let Some(value) = value else { return Some(1) };
    let number = match value.get_ref() {
        Scalar::Integer(number) => u32::try_from(*number).ok(),
        Scalar::Text(text) => text.trim().parse().ok(),
    };
    let number = number.filter(|number| (1..=1_000).contains(number));
    if number.is_none() {
        found.problem(value.span(), format!("`{key}` must be a number from 1 to 1000"), format!("write {key} = 1"));
    }
    number
}

fn auth(raw: &RawAuth, found: &mut Findings) -> Option<SolrAuth> {
    let fix =
        "write auth = { user = \"…\", password = \"${SOLR_PASSWORD}\" }, or auth = { bearer = \"${SOLR_TOKEN}\" }";
    match (&raw.user, &raw.password, &raw.bearer) {
        (Some(user), Some(password), None) => {
            let (user, password) = (filled("user", Some(user), found), filled("password", Some(password), found));
            Some(SolrAuth::Basic { user: user?, password: Secret::new(password?) })
        }
        (None, None, Some(token)) => {
            let token = filled("bearer", Some(token), found)?;
            // It becomes a header of HTTP.
            if token.chars().any(|c| !c.is_ascii_graphic()) {
                found.problem(raw.span.clone(), "`bearer` holds a character that no token has", fix);
                return None;
            }
            Some(SolrAuth::Bearer(Secret::new(token)))
        }
        _ if raw.is_broken => None,
        (_, _, Some(_)) => {
            found.problem(raw.span.clone(), "`auth` takes a user with a password, or a token, not both", fix);
            None
        }
        _ => {
            found.problem(raw.span.clone(), "`auth` needs a user and a password, or a token", fix);
            None
        }
    }
}
