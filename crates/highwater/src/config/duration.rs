//! Lengths of time as a person writes them: `90s`, `5m`, `1h30m`, `2d`, `250ms`.

use jiff::SignedDuration;

use super::problem::Complaint;

const UNITS: [(&str, i64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const FIX: &str = "write whole numbers with units, as in \"90s\", \"5m\" or \"1h30m\" (units: ms, s, m, h, d)";

/// Parses one or more numbers with units, summed. A day is 24 hours.
pub fn parse_duration(text: &str) -> Result<SignedDuration, Complaint> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(Complaint::new("a length of time is missing", FIX));
    }
    let mut total_ms = 0i64;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after, |c| !c.is_alphabetic() && c != 'µ');
        if number.is_empty() {
            return Err(Complaint::new(format!("\"{text}\" is not a length of time"), FIX));
        }
        if unit.is_empty() {
            return Err(Complaint::new(format!("\"{text}\" lacks a unit after {number}"), FIX));
        }
        let Some((_, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(Complaint::new(format!("\"{unit}\" in \"{text}\" is not a unit of time"), FIX));
        };
        let part = number.parse::<i64>().ok().and_then(|n| n.checked_mul(*unit_ms));
        total_ms = part
            .and_then(|part| total_ms.checked_add(part))
            .filter(|total| *total <= 36_500 * 86_400_000)
            .ok_or_else(|| Complaint::new(format!("\"{text}\" is longer than a hundred years"), FIX))?;
        rest = after;
    }
    Ok(SignedDuration::from_millis(total_ms))
}

/// Writes a length as [`parse_duration`] reads it, largest units first; what is finer than a millisecond is cut off.
pub fn format_duration(length: SignedDuration) -> String {
    let mut rest = i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(0);
    let mut text = String::new();
    for (name, unit_ms) in UNITS {
        // 24h reads better than 1d until there is more than one day.
        if name == "d" && rest < 2 * unit_ms {
            continue;
        }
        if rest >= unit_ms {
            text += &format!("{}{name}", rest / unit_ms);
            rest %= unit_ms;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn people_write_lengths_in_many_ways() {
        for (text, ms) in
            [("90s", 90_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("250ms", 250), ("0s", 0), (" 5m ", 300_000)]
        {
            assert_eq!(parse_duration(text).unwrap().as_millis(), ms, "{text}");
        }
        for (text, complaint) in [
            ("", "a length of time is missing"),
            ("5", "\"5\" lacks a unit after 5"),
            ("5min", "\"min\" in \"5min\" is not a unit of time"),
            ("1.5h", "\"1.5h\" lacks a unit after 1"),
            ("-5m", "\"-5m\" is not a length of time"),
            ("5 m", "\"5 m\" lacks a unit after 5"),
            ("99999999999999999999d", "\"99999999999999999999d\" is longer than a hundred years"),
            ("36501d", "\"36501d\" is longer than a hundred years"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().message, complaint);
        }
        assert_eq!(format_duration(SignedDuration::from_mins(90)), "1h30m");
        assert_eq!(format_duration(SignedDuration::from_hours(24)), "24h");
        assert_eq!(format_duration(SignedDuration::from_hours(48)), "2d");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0i64..36_500 * 86_400_000) {
            let length = SignedDuration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(length)).unwrap(), length);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,20}") {
            _ = parse_duration(&text);
        }
    }
}
