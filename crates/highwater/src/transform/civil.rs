//! Days, instants and times of day as text, by the proleptic Gregorian calendar and without any time zone but UTC.

use arrow::datatypes::TimeUnit;

const DAY_S: i64 = 86_400;

/// `YYYY-MM-DD`; years outside 0000 to 9999 with a sign and at least six digits, as ISO 8601 expands them.
pub fn write_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        digits(out, year.unsigned_abs(), 4);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        digits(out, year.unsigned_abs(), 6);
    }
    out.push(b'-');
    digits(out, month, 2);
    out.push(b'-');
    digits(out, day, 2);
}

/// RFC 3339 in UTC with `Z`, the fraction without trailing zeros.
pub fn write_instant(out: &mut Vec<u8>, value: i64, unit: TimeUnit) {
    let per_second = per_second(unit);
    let seconds = value.div_euclid(per_second);
    write_date(out, seconds.div_euclid(DAY_S));
    out.push(b'T');
    clock(out, seconds.rem_euclid(DAY_S).unsigned_abs());
    fraction(out, value.rem_euclid(per_second).unsigned_abs(), unit);
    out.push(b'Z');
}

/// `HH:MM:SS`, the fraction without trailing zeros.
pub fn write_time(out: &mut Vec<u8>, value: i64, unit: TimeUnit) {
    let per_second = per_second(unit);
    clock(out, value.div_euclid(per_second).rem_euclid(DAY_S).unsigned_abs());
    fraction(out, value.rem_euclid(per_second).unsigned_abs(), unit);
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn clock(out: &mut Vec<u8>, second_of_day: u64) {
    digits(out, second_of_day / 3600, 2);
    out.push(b':');
    digits(out, second_of_day / 60 % 60, 2);
    out.push(b':');
    digits(out, second_of_day % 60, 2);
}

fn fraction(out: &mut Vec<u8>, rest: u64, unit: TimeUnit) {
    if rest == 0 {
        return;
    }
    let width = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    out.push(b'.');
    digits(out, rest, width);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

fn digits(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut buffer = [b'0'; 20];
    let mut at = buffer.len();
    while value > 0 || buffer.len() - at < width {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&buffer[at..]);
}

/// Year, month and day of a day counted from 1970-01-01, by eras of 400 years that start in March.
fn civil(days: i64) -> (i64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097).unsigned_abs();
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era as i64 + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
