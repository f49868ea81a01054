//! Amounts of memory as a person writes them: `2GiB`, `512MB`, `1048576`.

use super::problem::Complaint;

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];
const FIX: &str = "write a whole number with a unit, as in \"2GiB\" or \"512MB\" (units: KiB, MiB, GiB, TiB, KB, MB, GB, TB), or plain bytes";

/// Bytes of a number with a unit; without a unit, bytes.
pub fn parse_size(text: &str) -> Result<u64, Complaint> {
    let trimmed = text.trim();
    let (number, unit) = trimmed.split_at(trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len()));
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(Complaint::new(format!("\"{text}\" is not an amount of memory"), FIX));
    }
    let unit_bytes = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        Some((_, bytes)) => *bytes,
        None if unit.is_empty() => 1,
        None => return Err(Complaint::new(format!("\"{unit}\" in \"{text}\" is not a unit of memory"), FIX)),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit_bytes))
        .ok_or_else(|| Complaint::new(format!("\"{text}\" is more than any machine has"), FIX))
}

/// Writes bytes as [`parse_size`] reads them, exactly.
pub fn format_size(bytes: u64) -> String {
    for (name, unit) in UNITS {
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    "0B".into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_units_or_are_bytes() {
        for (text, bytes) in
            [("2GiB", 2 << 30), ("512MB", 512_000_000), ("1048576", 1 << 20), ("7 kib", 7 << 10), ("5B", 5)]
        {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for (text, complaint) in [
            ("GiB", "\"GiB\" is not an amount of memory"),
            ("2gigs", "\"gigs\" in \"2gigs\" is not a unit of memory"),
            ("1.5GiB", "\".5GiB\" in \"1.5GiB\" is not a unit of memory"),
            ("99999999999TiB", "\"99999999999TiB\" is more than any machine has"),
        ] {
            assert_eq!(parse_size(text).unwrap_err().message, complaint);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(bytes: u64) {
            prop_assert_eq!(parse_size(&format_size(bytes)).unwrap(), bytes);
        }
    }
}
