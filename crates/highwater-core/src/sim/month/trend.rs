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
    let measures: [(&'static str, f64, fn(&Day) -> u64); 5] = [
        ("state bytes", 0.05, |day| day.most.state_bytes),
        ("snapshot bytes", 0.05, |day| day.most.snapshot_bytes),
        ("log objects", 0.05, |day| day.most.log_objects),
        ("log bytes", 0.05, |day| day.most.log_bytes),
        ("resident bytes", 0.10, |day| day.most.resident_bytes),
    ];
    let later: Vec<&Day> = days.iter().filter(|day| day.number > 1).collect();
    let mut trends = Vec::new();
    for (measure, allowed, of) in measures {
        let values: Vec<f64> = later.iter().map(|day| of(day) as f64).collect();
        let median = median(values.clone());
        let growth = if median > 0.0 { slope(&values) * values.len().saturating_sub(1) as f64 / median } else { 0.0 };
        trends.push(Trend { measure, median, growth, allowed });
    }
    trends
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
