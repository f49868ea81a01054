//! The example of flights on Solr, by another `[index]` and nothing else.

use std::fmt::Write as _;
use std::fs;

use serde_json::json;

use super::Collection;
use crate::lake::{Dice, Lake};

const HOURS: u64 = 6;
const TOML: &str = include_str!("../../../../../examples/flights/highwater.toml");
const SQL: &str = include_str!("../../../../../examples/flights/document.sql");
const TANTIVY: &str = "kind = \"tantivy\"\npath = \"./index\"";

/// Some hours of flights, weather and airplanes, of the columns that the example reads.
fn land(lakes: &[Lake], hour: u64, dice: &mut Dice) {
    let time = format!("2013-01-01T{hour:02}:00:00Z");
    let mut flights = String::from("carrier,tailnum,origin,dest,dep_time,dep_delay,arr_delay,distance,time_hour\n");
    for n in 0..60 {
        let (tail, origin) = (dice.roll(40), ["EWR", "JFK", "LGA"][dice.roll(3) as usize]);
        let tail = if n == 7 { "NA".to_owned() } else { format!("N{tail:03}") };
        let flown = match dice.roll(8) {
            0 => "NA,NA,NA".to_owned(),
            _ => format!("{},{},{}", hour * 100 + dice.roll(60), dice.roll(90), dice.roll(120)),
        };
        let (carrier, dest) = (["UA", "B6"][dice.roll(2) as usize], ["SFO", "MIA", "ORD"][dice.roll(3) as usize]);
        writeln!(flights, "{carrier},{tail},{origin},{dest},{flown},{},{time}", 200 + dice.roll(2_000)).unwrap();
    }
    let mut weather = String::from("origin,visib,wind_speed,time_hour\n");
    for origin in ["EWR", "JFK"] {
        writeln!(weather, "{origin},{}.5,{}.25,{time}", dice.roll(10), dice.roll(30)).unwrap();
    }
    let planes: String = (hour * 7..hour * 7 + 7)
        .map(|n| {
            let maker = ["BOEING", "AIRBUS INDUSTRIE"][dice.roll(2) as usize];
            let plane = json!({"tailnum": format!("N{n:03}"), "year": 1990 + n, "manufacturer": maker, "model": "737-824",
                               "engines": 2, "seats": 149, "type": "Fixed wing multi engine", "engine": "Turbo-fan"});
            format!("{plane}\n")
        })
        .collect();
    for lake in lakes {
        for (source, name, content) in
            [("flights", "f.csv", &flights), ("weather", "w.csv", &weather), ("planes", "p.ndjson", &planes)]
        {
            lake.land(&format!("{source}/2013/01/01/{hour:02}/{name}"), content);
        }
    }
}

#[test]
fn the_example_of_flights_runs_on_solr_by_another_index_alone() {
    let collection = Collection::shared();
    assert!(TOML.contains(TANTIVY));
    let lakes = [Lake::new(&TOML.replace(TANTIVY, &collection.index()), SQL), Lake::new(TOML, SQL)];
    let mut dice = Dice(2013);
    for hour in 0..HOURS {
        land(&lakes, hour, &mut dice);
        let reports = lakes.each_ref().map(|lake| lake.once(&format!("2013-01-01T{:02}:00:30Z", hour + 1)));
        let told = |report: &serde_json::Value| ["upserts", "deletes", "documents"].map(|key| report[key].clone());
        assert_eq!(told(&reports[0]), told(&reports[1]), "hour {hour}");
    }
    let [solr, tantivy] = &lakes;
    assert!(solr.documents().len() > 30);
    assert_eq!(solr.dump(), tantivy.dump());
    solr.verify_equal();
    // The searches of the README.
    for query in ["manufacturer:boeing AND cancelled:[1 TO *]", "\"EWR SFO\"", "routes:\"EWR SFO\""] {
        let found = lakes.each_ref().map(|lake| lake.json(&["search", query, "--json"])["total"].as_u64().unwrap());
        assert!(found[0] > 0 && found[0] == found[1], "{query}: {found:?}");
    }
    assert!(fs::read_to_string(solr.path("highwater.toml")).unwrap().contains("kind = \"solr\""));
}
