//! Whether what was measured grows from day to day.

use super::Day;

/// What one measure does over the days.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    /// What is measured.
    pub measure: &'static str,
    /// Its median over the days.
    pub median: f64,
    /// How much it grows from the first to the last of them, as a share of the median: the median slope of all pairs
    /// of days (Theil 1950, Sen 1968), so that a day of its own kind does not count for more than one.
    pub growth: f64,
    /// What growth would still be called flat.
    pub allowed: f64,
}

impl Trend {
    /// True if it does not grow.
    pub fn is_flat(&self) -> bool {
        self.growth <= self.allowed
    }
}

/// The trends of memory, state and log over all days but the first, in which the window fills.
pub fn trends(days: &[Day]) -> Vec<Trend> {
    let later: Vec<&Day> = days.iter().filter(|day| day.number > 1).collect();
    vec![
        trend("state bytes", 0.05, &later, |day| day.most.state_bytes),
        trend("snapshot bytes", 0.05, &later, |day| day.most.snapshot_bytes),
        trend("log objects", 0.05, &later, |day| day.most.log_objects),
        trend("log bytes", 0.05, &later, |day| day.most.log_bytes),
        trend("resident bytes", 0.10, &later, |day| day.most.resident_bytes),
    ]
}

fn trend(measure: &'static str, allowed: f64, days: &[&Day], of: fn(&Day) -> u64) -> Trend {
    let values: Vec<f64> = days.iter().map(|day| of(day) as f64).collect();
    let median = median(values.clone());
    let growth = if median > 0.0 { slope(&values) * values.len().saturating_sub(1) as f64 / median } else { 0.0 };
    Trend { measure, median, growth, allowed }
}

fn slope(values: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (later, value) in values.iter().enumerate() {
        for (earlier, before) in values[..later].iter().enumerate() {
            slopes.push((value - before) / (later - earlier) as f64);
        }
    }
    median(slopes)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}
