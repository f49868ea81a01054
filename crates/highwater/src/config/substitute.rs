//! `${NAME}` in string values, replaced by the environment; `$${` stands for `${` itself.

use super::problem::Complaint;

/// Looks an environment variable up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The text with every variable put in. What a variable holds is not looked at again.
pub fn substitute(text: &str, env: Env<'_>) -> Result<String, Complaint> {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            done.push_str(&rest[..at]);
            done.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        done.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let Some(end) = inside.find('}') else {
            return Err(Complaint::new(
                "`${` without a closing `}`",
                "close it, or write `$${` for the two characters",
            ));
        };
        let name = &inside[..end];
        if !is_name(name) {
            return Err(Complaint::new(
                format!("`${{{name}}}` does not name an environment variable"),
                "use letters, digits and _, or write `$${` for the two characters",
            ));
        }
        let Some(value) = env(name) else {
            return Err(Complaint::new(
                format!("the environment variable {name} is not set"),
                format!("set {name}, or write `$${{{name}}}` for the text itself"),
            ));
        };
        done.push_str(&value);
        rest = &inside[end + 1..];
    }
    done.push_str(rest);
    Ok(done)
}

/// The text that [`substitute`] turns into `text`.
pub fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "BUCKET" => Some("lake".into()),
            "ODD" => Some("${BUCKET}".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_put_in_once() {
        for (text, result) in [
            ("s3://${BUCKET}/ads-${BUCKET}", "s3://lake/ads-lake"),
            ("${ODD}", "${BUCKET}"),
            ("a${EMPTY}b", "ab"),
            ("$${BUCKET} costs $5 {x}", "${BUCKET} costs $5 {x}"),
            ("$$${BUCKET}", "$${BUCKET}"),
            ("region={region}/%Y", "region={region}/%Y"),
        ] {
            assert_eq!(substitute(text, &env).as_deref(), Ok(result), "{text}");
        }
        for (text, complaint) in [
            ("${NOWHERE}", "the environment variable NOWHERE is not set"),
            ("x${BUCKET", "`${` without a closing `}`"),
            ("${}", "`${}` does not name an environment variable"),
            ("${1A}", "`${1A}` does not name an environment variable"),
        ] {
            assert_eq!(substitute(text, &env).unwrap_err().message, complaint);
        }
    }

    proptest! {
        #[test]
        fn escaped_text_comes_back(text in "[a${}1]{0,12}") {
            prop_assert_eq!(substitute(&escape(&text), &|_| None).unwrap(), text);
        }

        #[test]
        fn text_around_a_variable_stays(before in "[a-z/%= ]{0,9}", value in ".{0,9}", after in "[a-z/%=} ]{0,9}") {
            let whole = substitute(&format!("{before}${{V}}{after}"), &|_| Some(value.clone())).unwrap();
            prop_assert_eq!(whole, format!("{before}{value}{after}"));
        }
    }
}
