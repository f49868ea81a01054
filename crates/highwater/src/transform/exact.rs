//! Sums of floats that do not depend on the order of their terms: exact until the one rounding at the end. Knows nothing
//! of queries.

/// Values this large are kept apart, scaled down, so that no sum of fewer than 2^63 terms overflows on its way.
const LARGE: f64 = f64::from_bits((1023 + 960) << 52);
/// 2^-128.
const DOWN: f64 = f64::from_bits((1023 - 128) << 52);
/// 2^128.
const UP: f64 = f64::from_bits((1023 + 128) << 52);

/// An exact sum: terms can be added, taken away, and sums merged.
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    /// Their exact sum, with `rest`, is the sum of the ordinary terms.
    high: f64,
    low: f64,
    rest: Vec<f64>,
    count: i64,
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, Default)]
struct Rare {
    nan: i64,
    positive: i64,
    negative: i64,
    /// Partials of the large terms, times 2^-128.
    large: Vec<f64>,
}

impl ExactSum {
    /// Adds a term.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.put(value, 1);
    }

    /// Takes a term away that was added before.
    pub fn retract(&mut self, value: f64) {
        self.count -= 1;
        self.put(value, -1);
    }

    /// Adds all terms of another sum.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for &partial in [other.high, other.low].iter().chain(&other.rest) {
            self.put_plain(partial);
        }
        if let Some(theirs) = &other.rare {
            let ours = self.rare.get_or_insert_default();
            ours.nan += theirs.nan;
            ours.positive += theirs.positive;
            ours.negative += theirs.negative;
            for &partial in &theirs.large {
                grow(&mut ours.large, partial);
            }
        }
    }

    /// How many terms there are.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// The sum, rounded once, half to even; `None` of no terms.
    pub fn sum(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let Some(rare) = &self.rare else { return Some(round(&self.partials())) };
        if rare.nan > 0 || (rare.positive > 0 && rare.negative > 0) {
            return Some(f64::NAN);
        }
        if rare.positive > 0 {
            return Some(f64::INFINITY);
        }
        if rare.negative > 0 {
            return Some(f64::NEG_INFINITY);
        }
        Some(self.with_large(&rare.large))
    }

    /// The sum's state as bytes, for a merge elsewhere.
    pub fn write(&self, out: &mut Vec<u8>) {
        let partials = self.partials();
        let none = Rare::default();
        let rare = self.rare.as_deref().unwrap_or(&none);
        for number in [self.count, rare.nan, rare.positive, rare.negative, partials.len() as i64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for value in partials.iter().chain(&rare.large) {
            out.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Reads what [`ExactSum::write`] wrote; `None` for other bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let (head, values) = words.split_at_checked(5)?;
        let [count, nan, positive, negative, plain] = head.first_chunk()?.map(i64::from_le_bytes);
        let (partials, large) = values.split_at_checked(usize::try_from(plain).ok()?)?;
        let mut sum = Self { count, ..Self::default() };
        for word in partials {
            sum.put_plain(f64::from_le_bytes(*word));
        }
        if nan != 0 || positive != 0 || negative != 0 || !large.is_empty() {
            let large = large.iter().map(|word| f64::from_le_bytes(*word)).collect();
            sum.rare = Some(Box::new(Rare { nan, positive, negative, large }));
        }
        Some(sum)
    }

    fn put(&mut self, value: f64, times: i64) {
        if value.abs() < LARGE {
            return self.put_plain(if times < 0 { -value } else { value });
        }
        let rare = self.rare.get_or_insert_default();
        if value.is_nan() {
            rare.nan += times;
        } else if value == f64::INFINITY {
            rare.positive += times;
        } else if value == f64::NEG_INFINITY {
            rare.negative += times;
        } else {
            grow(&mut rare.large, if times < 0 { -value } else { value } * DOWN);
        }
    }

    fn put_plain(&mut self, value: f64) {
        let (high, error) = two_sum(self.high, value);
        self.high = high;
        if error != 0.0 {
            let (low, error) = two_sum(self.low, error);
            self.low = low;
            if error != 0.0 {
                grow(&mut self.rest, error);
            }
        }
    }

    fn partials(&self) -> Vec<f64> {
        let mut partials = self.rest.clone();
        grow(&mut partials, self.low);
        grow(&mut partials, self.high);
        partials
    }

    fn with_large(&self, large: &[f64]) -> f64 {
        let scaled = round(large);
        if (scaled * UP).abs() < LARGE * 2_f64.powi(62) {
            let mut partials = self.partials();
            for &partial in large {
                grow(&mut partials, partial * UP);
            }
            return round(&partials);
        }
        let mut partials = large.to_vec();
        grow(&mut partials, round(&self.partials()) * DOWN);
        round(&partials) * UP
    }
}

/// The rounded sum of two floats and its exact error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// Adds a term to partials that do not overlap and grow in size (Shewchuk's grow-expansion, without the zeros).
fn grow(partials: &mut Vec<f64>, mut value: f64) {
    let mut kept = 0;
    for n in 0..partials.len() {
        let (sum, error) = two_sum(value, partials[n]);
        if error != 0.0 {
            partials[kept] = error;
            kept += 1;
        }
        value = sum;
    }
    partials.truncate(kept);
    if value != 0.0 {
        partials.push(value);
    }
}

/// Rounds partials that do not overlap and grow in size to the nearest float, half to even.
fn round(partials: &[f64]) -> f64 {
    let mut left = partials;
    let Some((&last, rest)) = left.split_last() else { return 0.0 };
    left = rest;
    let (mut high, mut low) = (last, 0.0);
    while let Some((&next, rest)) = left.split_last() {
        left = rest;
        (high, low) = two_sum(high, next);
        if low != 0.0 {
            break;
        }
    }
    // The error is exactly half of the last place only if what is left says which way: then look one step further.
    if let Some(&next) = left.last()
        && ((low < 0.0 && next < 0.0) || (low > 0.0 && next > 0.0))
    {
        let doubled = low * 2.0;
        let further = high + doubled;
        if doubled == further - high {
            return further;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: &[f64]) -> Option<f64> {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.sum()
    }

    #[test]
    fn sums_are_exact_and_rounded_once() {
        assert_eq!(sum(&[]), None);
        assert_eq!(sum(&[0.1; 10]), Some(1.0));
        assert_eq!(sum(&[1e100, 1.0, -1e100]), Some(1.0));
        assert_eq!(sum(&[1e308, 1e308, -1e308]), Some(1e308));
        assert_eq!(sum(&[1e308, 1e308]), Some(f64::INFINITY));
        assert_eq!(sum(&[1e308, -1e308, 3.5]), Some(3.5));
        assert_eq!(sum(&[2_f64.powi(53), 1.0, 1e-300]), Some(2_f64.powi(53) + 2.0));
        assert_eq!(sum(&[f64::INFINITY, 1.0]), Some(f64::INFINITY));
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).unwrap().is_nan());
        assert!(sum(&[f64::NAN, 1.0]).unwrap().is_nan());
    }

    proptest! {
        #[test]
        fn no_order_and_no_split_changes_a_sum(
            values in proptest::collection::vec(proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO, 1..60),
            cut in 0_usize..60,
        ) {
            let expected = sum(&values).unwrap().to_bits();
            let mut backwards = values.clone();
            backwards.reverse();
            prop_assert_eq!(sum(&backwards).unwrap().to_bits(), expected);
            backwards.sort_by(f64::total_cmp);
            prop_assert_eq!(sum(&backwards).unwrap().to_bits(), expected);
            let (left, right) = values.split_at(cut.min(values.len()));
            let mut merged = ExactSum::default();
            for half in [right, left] {
                let mut part = ExactSum::default();
                half.iter().for_each(|value| part.add(*value));
                let mut bytes = Vec::new();
                part.write(&mut bytes);
                merged.merge(&ExactSum::read(&bytes).unwrap());
            }
            prop_assert_eq!(merged.sum().unwrap().to_bits(), expected);
        }

        #[test]
        fn what_was_taken_away_leaves_no_trace(
            kept in proptest::collection::vec(any::<f64>(), 1..20),
            gone in proptest::collection::vec(any::<f64>(), 0..20),
        ) {
            let mut moving = ExactSum::default();
            gone.iter().chain(&kept).for_each(|value| moving.add(*value));
            gone.iter().for_each(|value| moving.retract(*value));
            prop_assert_eq!(moving.count(), kept.len() as i64);
            prop_assert_eq!(moving.sum().map(|v| v.is_nan()), sum(&kept).map(|v| v.is_nan()));
            if !moving.sum().unwrap().is_nan() {
                prop_assert_eq!(moving.sum(), sum(&kept));
            }
        }
    }
}
