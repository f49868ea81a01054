//! The table of `docs/lag.md`, row by row.

use std::collections::BTreeSet;

use super::script::{at, run};
use crate::holes::Hole;
use crate::policy::OnLag;

const PAGE: &str = include_str!("../../../../../docs/lag.md");

struct Row<'a> {
    what: &'a str,
    rule: &'a str,
    clock: &'a str,
    before: &'a str,
    table: Vec<&'a str>,
    listing: Vec<&'a str>,
    fails: Vec<&'a str>,
    after: &'a str,
    holes: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with("| what happened")).skip(2);
    let some = |cell: &'static str| cell.split_whitespace().filter(|word| *word != "–").collect();
    lines
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [what, rule, clock, before, table, listing, fails, after, holes] = cells[..] else {
                panic!("not a row of nine cells: {line}");
            };
            let (table, listing, fails) = (some(table), some(listing), some(fails));
            Row { what, rule: rule.trim_matches('`'), clock, before, table, listing, fails, after, holes }
        })
        .collect()
}

fn files(hours: &[&str]) -> String {
    let name = |hour: &&str| match hour.strip_suffix('+') {
        Some(hour) => format!("{hour}/second#1 "),
        None => format!("{hour}/first#1 "),
    };
    hours.iter().map(name).collect()
}

/// The world before the tick, and the tick until it gets no further.
fn outcome(row: &Row<'_>, rule: &str) -> (String, String) {
    let mut script = String::from("source ads 1h\n");
    let last = row.clock[..2].parse::<u8>().unwrap();
    if row.before != "–" {
        let newest = row.table.iter().map(|hour| hour[..2].parse::<u8>().unwrap() + 1).max().unwrap();
        let passed: u8 = row.before[..2].parse().unwrap();
        let bound = passed.min(newest + 1).saturating_sub(3);
        script += &format!("W {}\nclock {passed:02}:10\nE ads {bound:02}:00\nnewest ads {newest:02}:00\n", row.before);
        script += &format!("live ads {}\n", files(&row.table));
    }
    for hour in 0..=last + 1 {
        let hour = format!("{hour:02}");
        match row.fails.contains(&&*hour) {
            true => script += &format!("fail ads {hour}\n"),
            false => script += &format!("list ads {hour} at {}: {}\n", row.clock, files(&row.listing)),
        }
    }
    let (mut world, _) = run(&script);
    world.policy.on_lag = match rule {
        "skip_to_latest" => OnLag::SkipToLatest,
        "catch_up" => OnLag::CatchUp,
        "halt" => OnLag::Halt,
        other => panic!("no such rule: {other}"),
    };
    let mut after = Vec::new();
    while let Ok(plan) = world.plan(at(row.clock)) {
        let (moves, catching_up) = (plan.advances(), plan.catching_up);
        if moves || after.is_empty() {
            after.push(plan.watermark.strftime("%H:%M").to_string());
        }
        world.commit(&plan);
        if !(moves && catching_up) {
            break;
        }
    }
    if after.is_empty() {
        after.push("exit 3".into());
    }
    let hole =
        |hole: &Hole| format!("{} {}–{}", hole.cause.as_str(), hole.from.strftime("%H:%M"), hole.to.strftime("%H:%M"));
    let holes: Vec<String> = world.state.holes.iter().map(hole).collect();
    (after.join(", "), if holes.is_empty() { "none".into() } else { holes.join(", ") })
}

#[test]
fn the_published_table_is_what_happens() {
    let rows = rows();
    let mut rules = BTreeSet::new();
    for row in &rows {
        let each = if row.rule == "any" { vec!["skip_to_latest", "catch_up", "halt"] } else { vec![row.rule] };
        for rule in each {
            let (after, holes) = outcome(row, rule);
            assert_eq!((&*after, &*holes), (row.after, row.holes), "{} with {rule}", row.what);
        }
        rules.insert(row.rule);
    }
    assert!(rows.len() >= 14 && rules.len() == 4, "the table is there, with every rule");
}
