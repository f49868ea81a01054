//! Where files are, as the user writes it: a folder or `s3://bucket/prefix`. Looks at no store.

use std::path::{Component, Path, PathBuf};

use super::model::Location;
use super::problem::Complaint;

const FIX: &str = "write a folder, or s3://bucket/prefix";

/// Parses a location; a relative folder is relative to `base`, an absolute one.
pub fn parse_location(text: &str, base: &Path) -> Result<Location, Complaint> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Complaint::new("a location is missing", FIX));
    }
    if let Some(rest) = text.strip_prefix("s3://") {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || bucket.contains(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c))) {
            return Err(Complaint::new(format!("\"{text}\" does not name a bucket"), "write s3://bucket/prefix"));
        }
        return Ok(Location::S3 { bucket: bucket.into(), prefix: prefix.trim_matches('/').into() });
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let fix = match scheme {
            "s3a" | "s3n" | "S3" => format!("write s3://{rest}"),
            "file" => format!("write the folder alone: {rest}"),
            _ => FIX.into(),
        };
        return Err(Complaint::new(format!("\"{scheme}://\" is no store that highwater knows"), fix));
    }
    if text == "~" || text.starts_with("~/") {
        let fix = format!("write ${{HOME}}{}", &text[1..]);
        return Err(Complaint::new("`~` is not expanded", fix));
    }
    Ok(Location::Folder(folder(text, base)))
}

/// The folder without `.` components; `..` stays, since a link may stand before it.
pub fn folder(text: &str, base: &Path) -> PathBuf {
    base.join(text).components().filter(|part| *part != Component::CurDir).collect()
}

/// True if everything below `inner` is below `outer` too.
pub fn contains(outer: &Location, inner: &Location) -> bool {
    match (outer, inner) {
        (Location::Folder(outer), Location::Folder(inner)) => inner.starts_with(outer),
        (Location::S3 { bucket, prefix }, Location::S3 { bucket: other, prefix: below }) => {
            let rest = below.strip_prefix(prefix.as_str());
            bucket == other && rest.is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        parse_location(text, Path::new("/conf")).unwrap()
    }

    #[test]
    fn locations_are_folders_or_prefixes() {
        assert_eq!(at("./lake/./ads").to_string(), "/conf/lake/ads");
        assert_eq!(at("../lake").to_string(), "/conf/../lake");
        assert_eq!(at("/data").to_string(), "/data");
        assert_eq!(at("s3://lake"), Location::S3 { bucket: "lake".into(), prefix: String::new() });
        assert_eq!(at("s3://lake/a/b/"), Location::S3 { bucket: "lake".into(), prefix: "a/b".into() });
        let refused = |text| parse_location(text, Path::new("/conf")).unwrap_err();
        assert_eq!(refused("s3a://lake/x").fix, "write s3://lake/x");
        assert_eq!(refused("file:///data").fix, "write the folder alone: /data");
        assert_eq!(refused("~/lake").fix, "write ${HOME}/lake");
        assert_eq!(refused("s3:///x").message, "\"s3:///x\" does not name a bucket");
        assert_eq!(refused(" ").message, "a location is missing");
    }

    #[test]
    fn a_prefix_contains_whole_components_only() {
        assert!(contains(&at("s3://lake/a"), &at("s3://lake/a/b")));
        assert!(contains(&at("s3://lake"), &at("s3://lake/a")));
        assert!(!contains(&at("s3://lake/a"), &at("s3://lake/ab")));
        assert!(!contains(&at("s3://lake/a/b"), &at("s3://lake/a")));
        assert!(!contains(&at("s3://lake/a"), &at("s3://pond/a")));
        assert!(contains(&at("/a"), &at("/a/b")));
        assert!(!contains(&at("/a"), &at("/ab")));
    }
}
