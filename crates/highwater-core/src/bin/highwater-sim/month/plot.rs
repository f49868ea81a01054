//! The days as a small SVG: four curves below each other, each from zero.

use highwater_core::sim::month::Day;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 150.0;
const BAND: f64 = 90.0;

/// One curve.
struct Curve {
    title: &'static str,
    unit: &'static str,
    of: fn(&Day) -> f64,
}

const CURVES: [Curve; 5] = [
    Curve { title: "files landed so far", unit: "k", of: |_| 0.0 },
    Curve { title: "resident memory", unit: "MiB", of: |day| day.most.resident_bytes as f64 / 1_048_576.0 },
    Curve { title: "state", unit: "KiB", of: |day| day.most.state_bytes as f64 / 1_024.0 },
    Curve { title: "log, all objects", unit: "KiB", of: |day| day.most.log_bytes as f64 / 1_024.0 },
    Curve { title: "LIST requests a day", unit: "k", of: |day| day.lists.values().sum::<u64>() as f64 / 1_000.0 },
];

/// The plot.
pub fn svg(days: &[Day]) -> String {
    let height = BAND * CURVES.len() as f64 + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (number, curve) in CURVES.iter().enumerate() {
        let values: Vec<f64> = if number == 0 { landed(days) } else { days.iter().map(curve.of).collect() };
        svg += &band(curve, &values, 10.0 + BAND * number as f64);
    }
    let bottom = 10.0 + BAND * CURVES.len() as f64;
    for day in days.iter().filter(|day| day.number == 1 || day.number % 5 == 0) {
        let x = x(day.number as usize - 1, days.len());
        svg += &format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n", bottom + 4.0, day.number);
    }
    svg + &format!("<text x=\"{LEFT}\" y=\"{:.1}\">virtual day</text>\n</svg>\n", bottom + 20.0)
}

fn landed(days: &[Day]) -> Vec<f64> {
    let mut sum = 0;
    let mut values = Vec::new();
    for day in days {
        sum += day.landed;
        values.push(sum as f64 / 1_000.0);
    }
    values
}

fn band(curve: &Curve, values: &[f64], top: f64) -> String {
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let last = values.last().copied().unwrap_or_default();
    let bottom = top + BAND - 20.0;
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(day, value)| format!("{:.1},{:.1}", x(day, values.len()), bottom - value / most * (BAND - 28.0)))
        .collect();
    format!(
        "<text x=\"8\" y=\"{:.1}\">{}</text>\n<text x=\"8\" y=\"{:.1}\" fill=\"#666\">at the end {last:.0} {}</text>\n\
         <line x1=\"{LEFT}\" y1=\"{bottom:.1}\" x2=\"{:.1}\" y2=\"{bottom:.1}\" stroke=\"#bbb\"/>\n\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#1f5f99\" stroke-width=\"1.5\"/>\n",
        top + 24.0,
        curve.title,
        top + 40.0,
        curve.unit,
        WIDTH - 20.0,
        points.join(" "),
    )
}

fn x(day: usize, days: usize) -> f64 {
    LEFT + day as f64 / (days.max(2) - 1) as f64 * (WIDTH - 20.0 - LEFT)
}
