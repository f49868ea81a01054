//! Numbers as text: which text is one, what type it needs, and its exact value in another type. Knows no columns.

use arrow::datatypes::i256;

use super::types::ColumnType;

/// The text is a number as JSON writes it: no plus sign, no leading zeros, digits on both sides of a point. Other
/// spellings (`007`, `+1`, `.5`) are text, since a number would not give them back.
pub(super) fn is_number(text: &str) -> bool {
    let mut rest = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let whole = take_digits(&mut rest);
    if whole.is_empty() || whole.len() > 1 && whole[0] == b'0' {
        return false;
    }
    if let Some(tail) = rest.strip_prefix(b".") {
        rest = tail;
        if take_digits(&mut rest).is_empty() {
            return false;
        }
    }
    if let Some(tail) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        rest = tail.strip_prefix(b"+").or_else(|| tail.strip_prefix(b"-")).unwrap_or(tail);
        if take_digits(&mut rest).is_empty() {
            return false;
        }
    }
    rest.is_empty()
}

fn take_digits<'t>(rest: &mut &'t [u8]) -> &'t [u8] {
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, tail) = rest.split_at(count);
    *rest = tail;
    digits
}

/// The type that a number needs: `int64`, then `uint64`, then a decimal for integers; `float64` with a point or an
/// exponent. Numbers that none of them holds are strings.
pub(super) fn number_type(text: &str) -> ColumnType {
    if text.contains(['.', 'e', 'E']) {
        return if parse_f64(text).is_some() { ColumnType::Float64 } else { ColumnType::String };
    }
    if text.parse::<i64>().is_ok() {
        return ColumnType::Int64;
    }
    if text.parse::<u64>().is_ok() {
        return ColumnType::UInt64;
    }
    match u8::try_from(text.trim_start_matches('-').len()) {
        Ok(digits) if digits <= 76 => ColumnType::Decimal(digits, 0),
        _ => ColumnType::String,
    }
}

/// The value, if it is an integer.
pub(super) fn parse_integer(text: &str) -> Option<i128> {
    if let Ok(small) = text.parse::<i64>() {
        return Some(small.into());
    }
    unscaled(text, 38, 0)?.to_i128()
}

/// The nearest double. `None` for an integer that it would change, and for a number out of its range.
pub(super) fn parse_f64(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    in_range(text, number)?;
    if !text.contains(['.', 'e', 'E']) {
        integer_is_exact(text, number)?;
    }
    Some(number)
}

/// The nearest single-precision number, by the same rule.
pub(super) fn parse_f32(text: &str) -> Option<f32> {
    let number: f32 = text.parse().ok()?;
    in_range(text, number.into())?;
    if !text.contains(['.', 'e', 'E']) {
        integer_is_exact(text, number.into())?;
    }
    Some(number)
}

fn in_range(text: &str, number: f64) -> Option<()> {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let vanished = number == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if number.is_finite() && !vanished { Some(()) } else { None }
}

fn integer_is_exact(text: &str, number: f64) -> Option<()> {
    // Below 2^53 every integer is a double.
    if number.abs() < 9_007_199_254_740_992.0 && text.parse::<i64>().is_ok_and(|exact| exact as f64 == number) {
        return Some(());
    }
    let exact: i128 = text.parse().ok()?;
    if exact_f64(exact)? == number { Some(()) } else { None }
}

/// The integer as a double, if it is one.
pub(super) fn exact_f64(integer: i128) -> Option<f64> {
    let number = integer as f64;
    // A double of 2^127 saturates to the greatest integer, and would look exact.
    if number.abs() < 2_f64.powi(126) && number as i128 == integer { Some(number) } else { None }
}

/// The double as an integer, if it is one.
pub(super) fn exact_integer(number: f64) -> Option<i128> {
    if number.fract() == 0.0 && number.abs() < 2_f64.powi(126) { Some(number as i128) } else { None }
}

/// The number times ten to the `scale`, if that is an integer of at most `precision` digits.
pub(super) fn unscaled(text: &str, precision: u8, scale: i8) -> Option<i256> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = [whole, fraction].concat();
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some(i256::ZERO);
    }
    let dropped = all.len() - all.trim_end_matches('0').len();
    let length = |text: &str| i64::try_from(text.len()).ok();
    let zeros = exponent
        .checked_sub(length(fraction)?)?
        .checked_add(i64::try_from(dropped).ok()?)?
        .checked_add(i64::from(scale))?;
    if zeros < 0 || length(significant)?.checked_add(zeros)? > i64::from(precision) {
        return None;
    }
    let mut digits = String::with_capacity(80);
    if negative {
        digits.push('-');
    }
    digits.push_str(significant);
    digits.extend(std::iter::repeat_n('0', usize::try_from(zeros).ok()?));
    i256::from_string(&digits)
}

/// `digits` with `scale` of them behind the point; a negative scale appends zeros.
pub(super) fn scaled_text(digits: &str, scale: i8) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        let zeros = if digits == "0" { 0 } else { places };
        return format!("{sign}{digits}{}", "0".repeat(zeros));
    }
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tells_numbers_from_text() {
        for number in
            ["0", "-0", "7", "-12", "1.0", "0.5", "1e3", "1E-7", "-1.25e+10", "123456789012345678901234567890"]
        {
            assert!(is_number(number), "{number}");
        }
        for text in
            ["", "-", "007", "00", "+1", ".5", "5.", "1e", "1e+", "NaN", "inf", "0x10", "1 ", " 1", "1,5", "٣", "1_000"]
        {
            assert!(!is_number(text), "{text}");
        }
    }

    #[test]
    fn types_grow_with_the_digits() {
        assert_eq!(number_type("9223372036854775807"), ColumnType::Int64);
        assert_eq!(number_type("9223372036854775808"), ColumnType::UInt64);
        assert_eq!(number_type("18446744073709551616"), ColumnType::Decimal(20, 0));
        assert_eq!(number_type("-9223372036854775809"), ColumnType::Decimal(19, 0));
        assert_eq!(number_type(&"9".repeat(77)), ColumnType::String);
        assert_eq!(number_type("1.5"), ColumnType::Float64);
        assert_eq!(number_type("1e400"), ColumnType::String);
        assert_eq!(number_type("1e-400"), ColumnType::String);
        assert_eq!(number_type("0e-400"), ColumnType::Float64);
    }

    #[test]
    fn floats_take_integers_only_exactly() {
        assert_eq!(parse_f64("9007199254740992"), Some(9_007_199_254_740_992.0));
        assert_eq!(parse_f64("9007199254740993"), None);
        assert_eq!(parse_f64("9007199254740994"), Some(9_007_199_254_740_994.0));
        assert_eq!(parse_f32("16777217"), None);
        assert_eq!(parse_f32("16777216"), Some(16_777_216.0));
        assert_eq!(parse_f32("1e39"), None);
        assert_eq!(exact_f64(i128::MAX), None);
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        let unscaled = |text, precision, scale| unscaled(text, precision, scale).and_then(i256::to_i128);
        assert_eq!(unscaled("12.34", 4, 2), Some(1234));
        assert_eq!(unscaled("-12.340", 4, 2), Some(-1234));
        assert_eq!(unscaled("12.345", 10, 2), None);
        assert_eq!(unscaled("123.4", 4, 2), None);
        assert_eq!(unscaled("1.2e3", 6, 2), Some(120_000));
        assert_eq!(unscaled("0.000", 1, 0), Some(0));
        assert_eq!(unscaled("1e9223372036854775807", 38, 10), None);
        assert_eq!(unscaled("1e-9223372036854775808", 38, 10), None);
        assert_eq!(parse_integer("1.0"), Some(1));
        assert_eq!(parse_integer("1e3"), Some(1000));
        assert_eq!(parse_integer("1.5"), None);
    }

    #[test]
    fn decimals_are_written_with_all_their_digits() {
        let of = |digits, scale| scaled_text(digits, scale);
        assert_eq!([of("100000", 2), of("-5", 2), of("0", 2), of("7", 0)], ["1000.00", "-0.05", "0.00", "7"]);
        assert_eq!([of("-7", -2), of("0", -2)], ["-700", "0"]);
    }

    proptest! {
        #[test]
        fn integers_survive_text(value: i128) {
            let value = value / 10;
            prop_assert_eq!(parse_integer(&value.to_string()), Some(value));
        }

        #[test]
        fn doubles_survive_text(value in any::<f64>().prop_filter("finite", |value| value.is_finite())) {
            let text = serde_json::to_string(&value).unwrap();
            prop_assert!(is_number(&text));
            prop_assert_eq!(parse_f64(&text).map(f64::to_bits), Some(value.to_bits()));
        }

        #[test]
        fn decimals_survive_text(value in -999_999_999_999_i64..=999_999_999_999, scale in 0_i8..=12) {
            let digits = format!("{:0>13}", value.unsigned_abs());
            let (whole, fraction) = digits.split_at(13 - usize::try_from(scale).unwrap());
            let text = format!("{}{}.{fraction}0", if value < 0 { "-" } else { "" }, whole);
            prop_assert_eq!(unscaled(&text, 12, scale), Some(i256::from_i128(value.into())));
        }
    }
}
