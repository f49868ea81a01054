//! The spelling of a layout's folders: `%` letters, captures, and what cannot be told apart. Knows nothing of paths.

use super::folder::{Field, Folder, Piece};
use super::layout::LayoutError;

const FILE_EXTENSIONS: [&str; 11] =
    [".parquet", ".json", ".ndjson", ".jsonl", ".csv", ".tsv", ".avro", ".gz", ".zst", ".bz2", ".xz"];

/// Reads one folder of a template; captures are numbered on.
pub(super) fn parse_folder(text: &str, captures: &mut Vec<String>) -> Result<Folder, LayoutError> {
    if text.contains('*') {
        return Err(LayoutError::Wildcard(text.into()));
    }
    if text.starts_with(['_', '.']) {
        return Err(LayoutError::Hidden(text.into()));
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '%' => rest = parse_percent(rest, &mut pieces)?,
            '{' => {
                let (name, after) = rest.split_once('}').ok_or_else(|| LayoutError::Brace(text.into()))?;
                if !is_identifier(name) {
                    return Err(LayoutError::Brace(text.into()));
                }
                if captures.iter().any(|capture| capture == name) {
                    return Err(LayoutError::DuplicateCapture(name.into()));
                }
                pieces.push(Piece::Capture(captures.len()));
                captures.push(name.into());
                rest = after;
            }
            '}' => return Err(LayoutError::Brace(text.into())),
            letter => push_text(&mut pieces, letter),
        }
    }
    check_borders(text, &pieces, captures)?;
    Ok(Folder { text: text.into(), pieces })
}

/// Reads what stands behind a `%`; returns the rest.
fn parse_percent<'t>(rest: &'t str, pieces: &mut Vec<Piece>) -> Result<&'t str, LayoutError> {
    let mut letters = rest.chars();
    match letters.next() {
        Some('%') => push_text(pieces, '%'),
        Some('F') => {
            for (field, border) in [(Field::Year, Some('-')), (Field::Month, Some('-')), (Field::Day, None)] {
                pieces.push(Piece::Time { field, padded: true });
                border.into_iter().for_each(|border| push_text(pieces, border));
            }
        }
        Some('-') => {
            let letter = letters.next();
            let field = letter.and_then(Field::from_letter).filter(|field| *field != Field::Year);
            let field = field.ok_or_else(|| LayoutError::Unsupported(["-".into(), name_of(letter)].concat()))?;
            pieces.push(Piece::Time { field, padded: false });
        }
        letter => {
            let field = letter.and_then(Field::from_letter);
            let field = field.ok_or_else(|| LayoutError::Unsupported(name_of(letter)))?;
            pieces.push(Piece::Time { field, padded: true });
        }
    }
    Ok(letters.as_str())
}

fn name_of(letter: Option<char>) -> String {
    letter.map(String::from).unwrap_or_default()
}

fn push_text(pieces: &mut Vec<Piece>, letter: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(letter),
        _ => pieces.push(Piece::Text(letter.into())),
    }
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Refuses neighbours whose border cannot be found in a name.
fn check_borders(folder: &str, pieces: &[Piece], captures: &[String]) -> Result<(), LayoutError> {
    let vague = |piece: &Piece| matches!(piece, Piece::Capture(_) | Piece::Time { padded: false, .. });
    let digit = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
    let name = |piece: &Piece| match piece {
        Piece::Text(text) => format!("\"{text}\""),
        Piece::Time { field, padded } => format!("%{}{}", if *padded { "" } else { "-" }, field.letter()),
        Piece::Capture(number) => format!("{{{}}}", captures[*number]),
    };
    for pair in pieces.windows(2) {
        let [left, right] = pair else { continue };
        let blurred = match (left, right) {
            (Piece::Time { padded: false, .. }, Piece::Text(text)) => digit(text.chars().next()),
            (Piece::Time { padded: false, .. }, _) => true,
            (_, Piece::Time { padded: false, .. }) => vague(left),
            (left, right) => vague(left) && vague(right),
        };
        if blurred {
            return Err(LayoutError::Adjacent { folder: folder.into(), left: name(left), right: name(right) });
        }
    }
    Ok(())
}

/// True if the template ends in what can only be a file.
pub(super) fn is_file_name(folder: &Folder) -> bool {
    let Some(Piece::Text(text)) = folder.pieces.last() else { return false };
    let text = text.to_ascii_lowercase();
    FILE_EXTENSIONS.iter().any(|extension| text.ends_with(extension))
}
