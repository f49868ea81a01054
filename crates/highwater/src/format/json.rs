//! JSON text taken apart without losing a digit: values stay as written until a column reads them. Knows no types.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields wanted of an object, found by name.
pub(super) struct Names {
    names: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Names {
    pub fn new(names: Vec<String>) -> Self {
        let positions = names.iter().enumerate().map(|(n, name)| (name.clone(), n)).collect();
        Self { names, positions }
    }

    /// `guess`: where the name stands if objects write their fields in the wanted order, as most do.
    fn find(&self, name: &str, guess: usize) -> Option<usize> {
        match self.names.get(guess) {
            Some(known) if known == name => Some(guess),
            _ => self.positions.get(name).copied(),
        }
    }
}

/// The wanted fields of the object, as written; of a repeated field the last. Others are passed over.
pub(super) fn read_object<'t>(text: &'t str, names: &Names) -> Result<Vec<Option<&'t RawValue>>, serde_json::Error> {
    let mut slots = vec![None; names.names.len()];
    read(text, Wanted { names, slots: &mut slots })?;
    Ok(slots)
}

/// All fields of the object, as written, in their order.
pub(super) fn read_fields(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, serde_json::Error> {
    let mut fields = Vec::new();
    read(text, All { fields: &mut fields })?;
    Ok(fields)
}

/// The items of the list, as written.
pub(super) fn read_items(text: &str) -> Result<Vec<&RawValue>, serde_json::Error> {
    serde_json::from_str(text)
}

fn read<'t, V: Visitor<'t>>(text: &'t str, visitor: V) -> Result<V::Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = (&mut deserializer).deserialize_map(visitor)?;
    deserializer.end()?;
    Ok(value)
}

/// A key, borrowed where it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

struct Wanted<'s, 'de> {
    names: &'s Names,
    slots: &'s mut [Option<&'de RawValue>],
}

impl<'de> Visitor<'de> for Wanted<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut guess = 0;
        while let Some(key) = map.next_key_seed(Key)? {
            match self.names.find(&key, guess) {
                Some(position) => {
                    self.slots[position] = Some(map.next_value::<&RawValue>()?);
                    guess = position + 1;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct All<'s, 'de> {
    fields: &'s mut Vec<(Cow<'de, str>, &'de RawValue)>,
}

impl<'de> Visitor<'de> for All<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            self.fields.push((key, map.next_value::<&RawValue>()?));
        }
        Ok(())
    }
}

/// The text is one whole JSON value of any kind.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_written_and_the_last_of_a_name_wins() {
        let names = Names::new(vec!["a".into(), "b".into(), "c".into()]);
        let slots = read_object(r#"{"b": 1.50, "x": {"a": 2}, "\u0061": [1, 2], "b": "two" }"#, &names).unwrap();
        let texts: Vec<Option<&str>> = slots.iter().map(|slot| slot.map(RawValue::get)).collect();
        assert_eq!(texts, [Some("[1, 2]"), Some("\"two\""), None]);
    }

    #[test]
    fn half_an_object_is_none() {
        let names = Names::new(vec!["a".into()]);
        for bad in [r#"{"a": 1"#, r#"{"a": NaN}"#, r#"{"a": 1} {"a": 2}"#, "[1]", "1", "", r#"{"a": 01}"#, r#"{"a"}"#] {
            assert!(read_object(bad, &names).is_err(), "{bad}");
            assert!(read_fields(bad).is_err(), "{bad}");
        }
    }
}
