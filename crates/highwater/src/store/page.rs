//! Pages of an S3 listing, and S3's error documents, read from their XML with every key exactly as sent. Knows no HTTP.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// One page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// Objects on the page.
    pub(super) objects: Vec<Object>,
    /// Common prefixes on the page, each ending in the delimiter.
    pub(super) folders: Vec<String>,
    /// What `IsTruncated` says, where it stands.
    pub(super) truncated: Option<bool>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

/// One object of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Object {
    /// The key, byte for byte.
    pub(super) key: String,
    /// Stored length.
    pub(super) size: u64,
    /// Entity tag as sent, quotes included.
    pub(super) etag: Option<String>,
    /// `LastModified` as sent.
    pub(super) modified: Option<String>,
}

impl Page {
    /// Reads a `ListBucketResult` document; one that is cut short, or is another document, is an error.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let mut page = Self::default();
        let mut object = Object::default();
        let mut sized = false;
        each_element(body, "ListBucketResult", &mut |path, text| {
            match path {
                ["Contents", "Key"] => object.key = text,
                ["Contents", "Size"] => {
                    object.size = text.trim().parse().map_err(|_| format!("`{text}` is not a size"))?;
                    sized = true;
                }
                ["Contents", "ETag"] => object.etag = Some(text),
                ["Contents", "LastModified"] => object.modified = Some(text),
                ["Contents"] => {
                    if object.key.is_empty() || !sized {
                        return Err(format!("an entry has no key or no size (key `{}`)", object.key));
                    }
                    page.objects.push(std::mem::take(&mut object));
                    sized = false;
                }
                ["CommonPrefixes", "Prefix"] => page.folders.push(text),
                ["IsTruncated"] => page.truncated = Some(text.trim() == "true"),
                ["NextContinuationToken"] => page.next = Some(text),
                _ => {}
            }
            Ok(())
        })?;
        Ok(page)
    }

    /// The token of the next page, given the one that this page was asked with. A server that says that there is more
    /// without telling where, or that points at the page it has just sent, would be listed by half or for ever.
    pub(super) fn follow(&self, sent: Option<&str>) -> Result<Option<&str>, String> {
        if self.truncated == Some(false) {
            return Ok(None);
        }
        let next = self.next.as_deref().filter(|token| !token.is_empty());
        match next {
            None if self.truncated == Some(true) => {
                Err("the server says that the listing goes on (IsTruncated) but gives no continuation token".to_owned())
            }
            Some(token) if Some(token) == sent => Err(format!(
                "the server answers continuation token `{token}` with the same token: the listing would never end"
            )),
            next => Ok(next),
        }
    }
}

/// `Code` and `Message` of an S3 error document; `None` if the body is none.
pub(super) fn error_document(body: &[u8]) -> Option<(String, String)> {
    let (mut code, mut message) = (String::new(), String::new());
    each_element(body, "Error", &mut |path, text| {
        match path {
            ["Code"] => code = text,
            ["Message"] => message = text,
            _ => {}
        }
        Ok(())
    })
    .ok()?;
    Some((code, message))
}

/// Takes an element's names, from below the root, and its text.
type Visit<'a> = dyn FnMut(&[&str], String) -> Result<(), String> + 'a;

/// Calls `visit` at the end of each element below the root.
fn each_element(body: &[u8], root: &str, visit: &mut Visit<'_>) -> Result<(), String> {
    let mut reader = Reader::from_reader(body);
    let mut path: Vec<String> = Vec::new();
    let mut text = String::new();
    let mut seen_root = false;
    loop {
        match reader.read_event().map_err(|error| format!("not well-formed XML: {error}"))? {
            Event::Start(tag) => {
                let name = utf8(tag.local_name().as_ref())?;
                if path.is_empty() && (seen_root || name != root) {
                    return Err(format!("expected <{root}>, found <{name}>"));
                }
                seen_root = true;
                path.push(name);
                text.clear();
            }
            Event::Empty(tag) => {
                let name = utf8(tag.local_name().as_ref())?;
                if path.is_empty() {
                    if seen_root || name != root {
                        return Err(format!("expected <{root}>, found <{name}>"));
                    }
                    seen_root = true;
                    continue;
                }
                let mut names: Vec<&str> = path[1..].iter().map(String::as_str).collect();
                names.push(&name);
                visit(&names, String::new())?;
            }
            Event::Text(piece) => text.push_str(&utf8(&piece)?),
            Event::CData(piece) => text.push_str(&utf8(&piece)?),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(|error| error.to_string())? {
                Some(character) => text.push(character),
                None => {
                    let name = utf8(&reference)?;
                    text.push_str(resolve_predefined_entity(&name).ok_or(format!("unknown entity &{name};"))?);
                }
            },
            Event::End(_) => {
                let names: Vec<&str> = path[1..].iter().map(String::as_str).collect();
                if !names.is_empty() {
                    visit(&names, std::mem::take(&mut text))?;
                }
                path.pop();
            }
            Event::Eof if !seen_root => return Err(format!("expected <{root}>, found nothing")),
            Event::Eof if !path.is_empty() => return Err("the document is cut short".to_owned()),
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>b</Name><Prefix>in/</Prefix><KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>
  <Contents><Key>in/ a&amp;b&#x20;</Key><LastModified>2024-05-01T10:00:05.000Z</LastModified>
    <ETag>&quot;e1&quot;</ETag><Size>12</Size><Owner><ID>x</ID></Owner></Contents>
  <Contents><Key>in//x</Key><Size>0</Size></Contents>
  <CommonPrefixes><Prefix>in/dt=1/</Prefix></CommonPrefixes>
  <NextContinuationToken>t&lt;2</NextContinuationToken>
</ListBucketResult>"#;

    #[test]
    fn keys_are_read_byte_for_byte() {
        let page = Page::parse(PAGE.as_bytes()).unwrap();
        assert_eq!(page.objects[0].key, "in/ a&b ");
        assert_eq!(page.objects[0].etag.as_deref(), Some("\"e1\""));
        assert_eq!(page.objects[0].size, 12);
        assert_eq!(page.objects[1], Object { key: "in//x".into(), ..Object::default() });
        assert_eq!(page.folders, ["in/dt=1/"]);
        assert_eq!(page.follow(None), Ok(Some("t<2")));
    }

    #[test]
    fn a_page_cut_anywhere_is_an_error() {
        for end in 0..PAGE.len() - 1 {
            assert!(Page::parse(&PAGE.as_bytes()[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn another_document_is_an_error() {
        assert!(Page::parse(b"<html><body>Welcome</body></html>").is_err());
        assert!(Page::parse(b"<Error><Code>SlowDown</Code></Error>").is_err());
        assert_eq!(
            error_document(b"<Error><Code>SlowDown</Code><Message>be kind</Message></Error>"),
            Some(("SlowDown".into(), "be kind".into()))
        );
        assert_eq!(error_document(b"nonsense"), None);
    }

    #[test]
    fn broken_continuations_are_errors() {
        let page = |truncated, next: Option<&str>| Page { truncated, next: next.map(Into::into), ..Page::default() };
        assert!(page(Some(true), None).follow(None).is_err());
        assert!(page(Some(true), Some("")).follow(None).is_err());
        assert!(page(Some(true), Some("t")).follow(Some("t")).is_err());
        assert_eq!(page(Some(true), Some("u")).follow(Some("t")), Ok(Some("u")));
        assert_eq!(page(Some(false), Some("u")).follow(None), Ok(None));
        assert_eq!(page(None, None).follow(None), Ok(None));
    }
}
