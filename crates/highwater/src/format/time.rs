//! Dates and instants as text, exactly: `YYYY-MM-DD` and RFC 3339. Knows no zones but offsets, and no clock.

use jiff::SignedDuration;
use jiff::civil::DateTime;

const DAY_MICROS: i64 = 86_400_000_000;

/// Days from 1970-01-01 of 0000-01-01 and 9999-12-31: what four digits of a year can write.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;

/// A day that text can name, as days from 1970-01-01.
pub(super) fn day_in_range(day: i64) -> Option<i32> {
    if DAYS.contains(&day) { i32::try_from(day).ok() } else { None }
}

/// The instant can be written with a year of four digits.
pub(super) fn micros_in_range(micros: i64) -> bool {
    (*DAYS.start() * DAY_MICROS..(*DAYS.end() + 1) * DAY_MICROS).contains(&micros)
}

/// Midnight UTC of the day, in microseconds.
pub(super) fn midnight(day: i32) -> i64 {
    i64::from(day) * DAY_MICROS
}

/// The day, if the instant is its midnight UTC.
pub(super) fn exact_day(micros: i64) -> Option<i32> {
    if micros.rem_euclid(DAY_MICROS) != 0 {
        return None;
    }
    day_in_range(micros.div_euclid(DAY_MICROS))
}

/// `YYYY-MM-DD` as days from 1970-01-01.
pub(super) fn parse_date(text: &str) -> Option<i32> {
    let text = text.as_bytes();
    if text.len() != 10 || text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..])?);
    if day < 1 || day > month_length(year, month)? {
        return None;
    }
    day_in_range(days_from_civil(year, month, day))
}

/// An instant as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant {
    /// Microseconds since 1970 in UTC; finer digits are dropped.
    pub micros: i64,
    /// The text names its offset; without one it is read as UTC.
    pub has_offset: bool,
}

/// RFC 3339, with a blank allowed for the `T`, and the offset allowed to be missing.
pub(super) fn parse_instant(text: &str) -> Option<Instant> {
    let day = parse_date(text.get(..10)?)?;
    let time = text.as_bytes().get(10..)?;
    if time.len() < 9 || !matches!(time[0], b'T' | b't' | b' ') || time[3] != b':' || time[6] != b':' {
        return None;
    }
    let (hour, minute, second) = (digits(&time[1..3])?, digits(&time[4..6])?, digits(&time[7..9])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &time[9..];
    let mut fraction = 0;
    if let Some(tail) = rest.strip_prefix(b".") {
        let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        let kept = count.min(6);
        fraction = digits(&tail[..kept])? * 10_i64.pow(6 - u32::try_from(kept).ok()?);
        rest = &tail[count..];
    }
    let offset = match rest {
        b"" => None,
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = (hours * 60 + minutes) * 60;
            Some(if *sign == b'+' { seconds } else { -seconds })
        }
        _ => return None,
    };
    let seconds = (hour * 60 + minute) * 60 + second - offset.unwrap_or(0);
    let micros = midnight(day) + seconds * 1_000_000 + fraction;
    if micros_in_range(micros) { Some(Instant { micros, has_offset: offset.is_some() }) } else { None }
}

/// `YYYY-MM-DD`.
pub(super) fn date_text(day: i32) -> String {
    instant_text(midnight(day)).split('T').next().unwrap_or_default().to_owned()
}

/// RFC 3339 in UTC, with as many digits of a second as it needs.
pub(super) fn instant_text(micros: i64) -> String {
    let epoch = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    match epoch.checked_add(SignedDuration::from_micros(micros)) {
        Ok(civil) => format!("{civil}Z"),
        Err(_) => format!("{micros} microseconds from 1970"),
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, byte| match byte.is_ascii_digit() {
        true => Some(number * 10 + i64::from(byte - b'0')),
        false => None,
    })
}

fn month_length(year: i64, month: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    Some(match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    })
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, years counted from March so that the leap day is the last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_rfc_3339_writes() {
        let micros = |text: &str| parse_instant(text).map(|instant| instant.micros);
        assert_eq!(micros("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(micros("2024-05-01T12:00:00.5+02:00"), micros("2024-05-01 10:00:00.500000"));
        assert_eq!(micros("1969-12-31T23:59:59.9999999Z"), Some(-1));
        assert_eq!(micros("2024-02-29T00:00:00Z"), Some(1_709_164_800_000_000));
        for bad in [
            "",
            "2024-05-01",
            "2024-05-01T10:00",
            "2024-05-01T24:00:00Z",
            "2024-05-01T10:00:00.Z",
            "2024-05-01T10:00:60Z",
            "2023-02-29T00:00:00Z",
            "2024-05-01T10:00:00+0200",
            "2024-05-01T10:00:00 Z",
            "9999-12-31T23:59:59-01:00",
            "2024-05-0éT10:00:00Z",
        ] {
            assert_eq!(micros(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_ends_of_the_calendar_are_exact() {
        assert_eq!(parse_date("0000-01-01").map(i64::from), Some(*DAYS.start()));
        assert_eq!(parse_date("9999-12-31").map(i64::from), Some(*DAYS.end()));
        assert_eq!(date_text(parse_date("0001-01-01").unwrap()), "0001-01-01");
        assert_eq!(
            instant_text(parse_instant("9999-12-31T23:59:59.999999Z").unwrap().micros),
            "9999-12-31T23:59:59.999999Z"
        );
        assert!(!micros_in_range(i64::MAX));
    }

    proptest! {
        #[test]
        fn every_instant_survives_text(micros in -62_167_219_200_000_000_i64..=253_402_300_799_999_999) {
            prop_assert_eq!(parse_instant(&instant_text(micros)), Some(Instant { micros, has_offset: true }));
        }

        #[test]
        fn every_day_survives_text(day in -719_528..=2_932_896) {
            prop_assert_eq!(parse_date(&date_text(day)), Some(day));
        }
    }
}
