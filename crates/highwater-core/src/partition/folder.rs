//! One folder name of a layout: literal text, parts of a time, captures. Knows nothing of zones or steps.

use std::borrow::Cow;
use std::fmt;

use jiff::civil::DateTime;
use percent_encoding::percent_decode_str;

/// A part of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

impl Field {
    pub(super) fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'Y' => Self::Year,
            'm' => Self::Month,
            'd' => Self::Day,
            'j' => Self::DayOfYear,
            'H' => Self::Hour,
            'M' => Self::Minute,
            'S' => Self::Second,
            _ => return None,
        })
    }

    pub(super) fn letter(self) -> char {
        match self {
            Self::Year => 'Y',
            Self::Month => 'm',
            Self::Day => 'd',
            Self::DayOfYear => 'j',
            Self::Hour => 'H',
            Self::Minute => 'M',
            Self::Second => 'S',
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::DayOfYear => "day of the year",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Year => 4,
            Self::DayOfYear => 3,
            _ => 2,
        }
    }

    fn of(self, civil: &DateTime) -> i16 {
        match self {
            Self::Year => civil.year(),
            Self::Month => civil.month().into(),
            Self::Day => civil.day().into(),
            Self::DayOfYear => civil.day_of_year(),
            Self::Hour => civil.hour().into(),
            Self::Minute => civil.minute().into(),
            Self::Second => civil.second().into(),
        }
    }
}

/// A piece of a folder name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// Zero-padded to its width, or (`%-H`) without leading zeros.
    Time {
        field: Field,
        padded: bool,
    },
    /// The number of a capture.
    Capture(usize),
}

/// What a path's folders say so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// By [`Field`].
    pub fields: [Option<i16>; 7],
    /// By capture; `None` is null.
    pub captures: Vec<Option<String>>,
}

/// One folder of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    /// As the template has it.
    pub(super) text: String,
    pub(super) pieces: Vec<Piece>,
}

impl Folder {
    /// Reads a folder name into `found`. A time or text is read as it stands; where writers may have percent-encoded
    /// the name, decoded too. Captured values are always decoded. On `None` the name does not match.
    pub(super) fn read(&self, name: &str, found: &mut Found) -> Option<()> {
        if read_pieces(&self.pieces, name, &|raw| Some(Cow::Owned(decoded(raw)?.into_owned())), found) {
            return Some(());
        }
        let plain = decoded(name).filter(|plain| !self.is_exact() && plain != name)?;
        read_pieces(&self.pieces, &plain, &|text| Some(Cow::Borrowed(text)), found).then_some(())
    }

    /// True if the name would match with the other spelling of numbers, with or without leading zeros.
    pub(super) fn matches_if_respelt(&self, name: &str, captures: usize) -> bool {
        let mut other = self.clone();
        for piece in &mut other.pieces {
            if let Piece::Time { padded, field } = piece {
                *padded = !*padded && *field != Field::Year;
            }
        }
        let lenient = |folder: &Self| {
            folder.read(name, &mut Found { captures: vec![None; captures], ..Found::default() }).is_some()
        };
        self.has_time() && lenient(&other)
    }

    /// The name at a civil time. Only for folders without captures.
    pub(crate) fn render(&self, civil: &DateTime) -> String {
        assert!(!self.has_capture(), "folder {self} cannot be rendered from a time");
        let mut name = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => name += text,
                Piece::Time { field, padded: true } => {
                    name += &format!("{:0width$}", field.of(civil), width = field.width());
                }
                Piece::Time { field, padded: false } => name += &field.of(civil).to_string(),
                Piece::Capture(_) => {}
            }
        }
        name
    }

    /// The parts of a time in it.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        self.pieces.iter().filter_map(|piece| if let Piece::Time { field, .. } = piece { Some(*field) } else { None })
    }

    /// True if it holds a part of a time.
    pub(crate) fn has_time(&self) -> bool {
        self.fields().next().is_some()
    }

    /// True if it captures something.
    pub(crate) fn has_capture(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Capture(_)))
    }

    /// The name, if it is literal text alone.
    pub(crate) fn literal(&self) -> Option<&str> {
        match &self.pieces[..] {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// True if a name at a given time can be spelled in one way only: no captures, and no character beside a time that
    /// table formats percent-encode in folder names (a `%` in the template says that the spelling is meant as it is).
    pub(crate) fn is_exact(&self) -> bool {
        let mut texts =
            self.pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(text) } else { None });
        self.literal().is_some()
            || !self.has_capture()
                && (texts.clone().any(|text| text.contains('%')) || !texts.any(|t| t.contains(is_encoded)))
    }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_encoded(letter: char) -> bool {
    letter.is_ascii_control() || " \"#'*:?\\[]^<>|".contains(letter)
}

fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(raw).decode_utf8().ok()
}

type Decode<'a> = &'a dyn for<'t> Fn(&'t str) -> Option<Cow<'t, str>>;

fn read_pieces(pieces: &[Piece], name: &str, decode: Decode<'_>, found: &mut Found) -> bool {
    let Some((piece, rest)) = pieces.split_first() else { return name.is_empty() };
    match piece {
        Piece::Text(text) => name.strip_prefix(&**text).is_some_and(|name| read_pieces(rest, name, decode, found)),
        Piece::Time { field, padded } => {
            let Some((value, name)) = read_number(name, field.width(), *padded) else { return false };
            found.fields[*field as usize] = Some(value);
            read_pieces(rest, name, decode, found)
        }
        Piece::Capture(number) => {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            for end in ends.filter(|end| !rest.is_empty() || *end == name.len()) {
                if !read_pieces(rest, &name[end..], decode, found) {
                    continue;
                }
                let Some(value) = decode(&name[..end]) else { return false };
                let null = value.is_empty() || value == "__HIVE_DEFAULT_PARTITION__";
                found.captures[*number] = (!null).then(|| value.into_owned());
                return true;
            }
            false
        }
    }
}

fn read_number(name: &str, width: usize, padded: bool) -> Option<(i16, &str)> {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    let length = if padded { width } else { digits };
    let zero_led = !padded && digits > 1 && name.starts_with('0');
    if digits < length || length == 0 || length > width || zero_led {
        return None;
    }
    let (number, rest) = name.split_at(length);
    Some((number.parse().ok()?, rest))
}
