//! What a query may cost before it is parsed or compiled: nesting, length, and the size of regular expressions. Knows
//! nothing of fields.

use ::tantivy::query_grammar::{UserInputAst, UserInputLeaf};

use crate::index::{MAX_QUERY_BYTES, MAX_QUERY_NESTING};

/// The greatest regular expression, in parts. The library builds all states of an expression at once, up to a thousand
/// of them, each as large as the expression: past this that takes seconds.
const MAX_PATTERN_PARTS: usize = 600;
/// What `.` and classes count as: in UTF-8 each is made of many ranges of bytes.
const CLASS_PARTS: usize = 20;

/// Refuses what the parser could not take: it recurses into groups and exclusions, and a stack that overflows takes the
/// whole process down.
pub(super) fn check_text(text: &str) -> Result<(), String> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(format!("the query is {} bytes long; at most {MAX_QUERY_BYTES} are taken", text.len()));
    }
    for (count, what) in [
        (text.matches('(').count(), "`(`"),
        (text.matches("NOT").count(), "`NOT`"),
        (signs(text), "`-` or `+` in a row"),
    ] {
        if count > MAX_QUERY_NESTING {
            return Err(format!("the query has {count} {what}; at most {MAX_QUERY_NESTING} are taken"));
        }
    }
    Ok(())
}

/// The longest row of signs, blanks between them left out.
fn signs(text: &str) -> usize {
    let (mut longest, mut row) = (0, 0);
    for sign in text.chars().filter(|sign| !sign.is_whitespace()) {
        row = if matches!(sign, '-' | '+') { row + 1 } else { 0 };
        longest = longest.max(row);
    }
    longest
}

/// Refuses a regular expression that would take long to build, wherever it stands in the query.
pub(super) fn check_patterns(query: &UserInputAst) -> Result<(), String> {
    match query {
        UserInputAst::Clause(clauses) => clauses.iter().try_for_each(|(_, clause)| check_patterns(clause)),
        UserInputAst::Boost(inner, _) => check_patterns(inner),
        UserInputAst::Leaf(leaf) => match &**leaf {
            UserInputLeaf::Regex { pattern, .. } if parts(pattern) > MAX_PATTERN_PARTS => Err(format!(
                "the regular expression `{pattern}` is too large: repeat less, or with a smaller number in `{{}}`"
            )),
            _ => Ok(()),
        },
    }
}

/// How large a pattern is once its repetitions are written out. A pattern that does not parse counts too: it is refused
/// later, with its own reason.
fn parts(pattern: &str) -> usize {
    // What stands in each open group, and the last thing that a repetition would repeat.
    let mut groups = vec![(0_usize, 0_usize)];
    let mut rest = pattern.chars();
    while let Some(sign) = rest.next() {
        let last = match sign {
            '(' => {
                groups.push((0, 0));
                continue;
            }
            ')' if groups.len() > 1 => groups.pop().map_or(0, |(sum, last)| sum.saturating_add(last)),
            '{' => {
                let times: String = rest.by_ref().take_while(|sign| *sign != '}').collect();
                let times = times.split(',').filter_map(|n| n.trim().parse().ok()).max().unwrap_or(1);
                if let Some((_, last)) = groups.last_mut() {
                    *last = last.saturating_mul(times);
                }
                continue;
            }
            '[' => {
                class(&mut rest);
                CLASS_PARTS
            }
            '.' => CLASS_PARTS,
            '\\' => match rest.next() {
                Some('d' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P') => CLASS_PARTS,
                _ => 1,
            },
            _ => 1,
        };
        if let Some((sum, before)) = groups.last_mut() {
            *sum = sum.saturating_add(*before);
            *before = last;
        }
    }
    groups.iter().fold(0, |all, (sum, last)| all.saturating_add(*sum).saturating_add(*last))
}

/// Passes over a class to its end; classes stand in classes.
fn class(rest: &mut std::str::Chars<'_>) {
    let mut open = 1;
    let mut first = true;
    while let Some(sign) = rest.next() {
        match sign {
            '\\' => _ = rest.next(),
            '[' => open += 1,
            // A bracket at the beginning stands for itself.
            ']' if !first => open -= 1,
            '^' if first => continue,
            _ => {}
        }
        first = false;
        if open == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use ::tantivy::query_grammar::parse_query;

    use super::*;

    #[test]
    fn nesting_and_length_are_bounded() {
        for (text, ok) in [
            ("(".repeat(64), true),
            ("(".repeat(65), false),
            ("NOT ".repeat(65) + "a", false),
            ("-".repeat(65) + "a", false),
            ("+ - ".repeat(33) + "a", false),
            ("2026-01-31 ".repeat(300), true),
            ("a".repeat(MAX_QUERY_BYTES), true),
            ("a".repeat(MAX_QUERY_BYTES + 1), false),
        ] {
            assert_eq!(check_text(&text).is_ok(), ok, "{text}");
        }
        assert_eq!(check_text(&"NOT ".repeat(65)).unwrap_err(), "the query has 65 `NOT`; at most 64 are taken");
    }

    #[test]
    fn expressions_count_their_repetitions() {
        for (pattern, expected) in [
            ("red", 3),
            ("ab{3}c", 5),
            ("(ab){3}", 6),
            ("((ab){3}c){10}", 70),
            (".*", 21),
            (r"\w{2}\.", 41),
            ("[^]a]{2}x", 41),
            (r"[\]]x", 21),
            (".{0,1000}.{0,1000}", 40_000),
            ("a{9999999999}", 9_999_999_999),
            ("a{99999999}{99999999}{99999999}", usize::MAX),
            ("(((", 0),
            ("a{", 1),
        ] {
            assert_eq!(parts(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn large_expressions_are_found_anywhere() {
        for (text, ok) in [
            ("t:/red.*/", true),
            ("t:/.{0,1000}x/", false),
            ("a AND (b OR -t:/.{0,1000}x/^2)", false),
            ("t:/[a-f0-9]{29}/", true),
        ] {
            assert_eq!(check_patterns(&parse_query(text).unwrap()).is_ok(), ok, "{text}");
        }
    }
}
