//! How the page says numbers, times and spans. Knows nothing of pipelines.

use highwater_core::Timestamp;
use maud::{Markup, html};

/// A count, in groups of three digits.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A span of seconds, as exact as its size deserves.
pub fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if seconds < 0.9995 => format!("{:.0} ms", seconds.max(0.0) * 1_000.0),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        0..=119 => format!("{whole} s"),
        120..=7_199 => format!("{} min", whole / 60),
        7_200..=172_799 => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// A span of milliseconds.
pub fn span_ms(ms: u64) -> String {
    span(ms as f64 / 1_000.0)
}

/// How long before `now` a time was.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs_f64();
    match seconds {
        _ if seconds < -0.5 => format!("in {}", span(-seconds)),
        _ if seconds < 1.0 => "now".to_owned(),
        _ => format!("{} ago", span(seconds)),
    }
}

/// A time in UTC; the day only where it is not today.
pub fn instant(at: Timestamp, now: Timestamp) -> Markup {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let format = if day(at) == day(now) { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    html! { time datetime=(at) title=(at) { (at.strftime(format)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn spans_are_as_exact_as_their_size() {
        let cases = [
            (-3.0, "0 ms"),
            (0.0304, "30 ms"),
            (0.9996, "1.0 s"),
            (4.23, "4.2 s"),
            (9.97, "10 s"),
            (119.4, "119 s"),
            (754.0, "12 min"),
            (11_520.0, "3 h 12 min"),
            (190_000.0, "2 d 4 h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn the_day_is_said_unless_it_is_today() {
        let at: Timestamp = "2026-05-01T12:05:00Z".parse().unwrap();
        let later: Timestamp = "2026-05-02T00:00:00Z".parse().unwrap();
        assert!(instant(at, at).into_string().ends_with(">12:05:00</time>"));
        assert!(instant(at, later).into_string().ends_with(">2026-05-01 12:05:00</time>"));
        assert_eq!(ago(at, later), "11 h 55 min ago");
        assert_eq!(ago(later, at), "in 11 h 55 min");
    }
}
