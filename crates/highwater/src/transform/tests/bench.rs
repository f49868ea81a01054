//! Ads, campaigns and copurchases: the documents of the SQL against a plain computation over the same rows.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Field, Schema};
use highwater_core::SourceName;

use super::support::*;
use crate::config::TableKind;

const SQL: &str = "
WITH ad AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY ad_id ORDER BY updated_at DESC) AS rn FROM ads) t WHERE rn = 1),
camp AS (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY campaign_id ORDER BY updated_at DESC) AS rn FROM campaigns) t WHERE rn = 1),
sig AS (SELECT ad_id, count(*) AS copurchases, count(DISTINCT other_id) AS partners, sum(qty) AS qty FROM copurchase GROUP BY ad_id)
SELECT ad.ad_id AS id, ad.title, ad.body, ad.bid_micros, camp.name AS campaign, camp.budget_micros, coalesce(sig.copurchases, 0) AS copurchases, coalesce(sig.partners, 0) AS partners, coalesce(sig.qty, 0) AS qty
FROM ad LEFT JOIN camp ON ad.campaign_id = camp.campaign_id LEFT JOIN sig ON ad.ad_id = sig.ad_id
WHERE NOT ad.deleted";

#[derive(Clone)]
struct Ad {
    id: String,
    campaign: String,
    title: String,
    bid: i64,
    deleted: bool,
    at: i64,
}

#[derive(Clone)]
struct Campaign {
    id: String,
    name: String,
    budget: i64,
    at: i64,
}

#[derive(Clone)]
struct Purchase {
    ad: String,
    other: String,
    qty: i64,
}

/// Rows by part, in ascending (partition, path, row).
struct World {
    ads: Vec<Vec<Ad>>,
    campaigns: Vec<Vec<Campaign>>,
    purchases: Vec<Vec<Purchase>>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Few ids and few instants, so that there are ties.
fn world(parts: usize, rows: u64, universe: u64) -> World {
    let mut random = Random(7);
    let mut world = World { ads: Vec::new(), campaigns: Vec::new(), purchases: Vec::new() };
    for part in 0..parts as i64 {
        let ads = (0..rows).map(|_| {
            let id = random.below(universe);
            Ad {
                id: format!("ad-{id:08}"),
                campaign: format!("c-{:05}", id % 40),
                title: format!("title \"{}\"", random.below(1000)),
                bid: random.below(5_000_000) as i64,
                deleted: random.below(10) == 0,
                at: part * 300 + random.below(3) as i64,
            }
        });
        world.ads.push(ads.collect());
        let campaigns = (0..20).map(|_| Campaign {
            id: format!("c-{:05}", random.below(50)),
            name: format!("name {}", random.below(100)),
            budget: random.below(900_000_000) as i64,
            at: part * 300 + random.below(2) as i64,
        });
        world.campaigns.push(campaigns.collect());
        let purchases = (0..rows * 4).map(|_| Purchase {
            ad: format!("ad-{:08}", random.below(universe)),
            other: format!("ad-{:08}", random.below(universe)),
            qty: 1 + random.below(4) as i64,
        });
        world.purchases.push(purchases.collect());
    }
    world
}

fn texts(values: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn instants(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC"))
}

fn table(name: &str, parts: Vec<Vec<(&str, ArrayRef)>>) -> Table {
    let fields = parts[0].iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let parts = parts.into_iter().enumerate();
    let parts = parts.map(|(n, columns)| Arc::new(table_part(&format!("p{n}/part-0"), n as i64 * 300, columns)));
    Table { source: SourceName::new(name), schema, kind: TableKind::Append, parts: parts.collect() }
}

fn tables(world: &World) -> Vec<Table> {
    let ads = world.ads.iter().map(|rows| {
        vec![
            ("ad_id", texts(rows.iter().map(|r| r.id.clone()))),
            ("campaign_id", texts(rows.iter().map(|r| r.campaign.clone()))),
            ("title", texts(rows.iter().map(|r| r.title.clone()))),
            ("body", texts(rows.iter().map(|r| format!("{} body", r.title)))),
            ("bid_micros", numbers(rows.iter().map(|r| r.bid))),
            ("deleted", Arc::new(rows.iter().map(|r| Some(r.deleted)).collect::<BooleanArray>()) as ArrayRef),
            ("updated_at", instants(rows.iter().map(|r| r.at))),
        ]
    });
    let campaigns = world.campaigns.iter().map(|rows| {
        vec![
            ("campaign_id", texts(rows.iter().map(|r| r.id.clone()))),
            ("name", texts(rows.iter().map(|r| r.name.clone()))),
            ("budget_micros", numbers(rows.iter().map(|r| r.budget))),
            ("updated_at", instants(rows.iter().map(|r| r.at))),
        ]
    });
    let purchases = world.purchases.iter().map(|rows| {
        vec![
            ("ad_id", texts(rows.iter().map(|r| r.ad.clone()))),
            ("other_id", texts(rows.iter().map(|r| r.other.clone()))),
            ("qty", numbers(rows.iter().map(|r| r.qty))),
            ("at", instants(rows.iter().map(|r| r.qty))),
        ]
    });
    vec![table("ads", ads.collect()), table("campaigns", campaigns.collect()), table("copurchase", purchases.collect())]
}

/// The same documents, computed row by row. Descending order takes the greatest place among equal times.
fn expected(world: &World) -> Vec<String> {
    let mut ads: BTreeMap<&str, &Ad> = BTreeMap::new();
    for ad in world.ads.iter().flatten() {
        let best = ads.entry(&ad.id).or_insert(ad);
        if ad.at >= best.at {
            *best = ad;
        }
    }
    let mut campaigns: BTreeMap<&str, &Campaign> = BTreeMap::new();
    for campaign in world.campaigns.iter().flatten() {
        let best = campaigns.entry(&campaign.id).or_insert(campaign);
        if campaign.at >= best.at {
            *best = campaign;
        }
    }
    let mut signals: BTreeMap<&str, (i64, BTreeSet<&str>, i64)> = BTreeMap::new();
    for purchase in world.purchases.iter().flatten() {
        let signal = signals.entry(&purchase.ad).or_default();
        signal.0 += 1;
        signal.1.insert(&purchase.other);
        signal.2 += purchase.qty;
    }
    let live = ads.into_values().filter(|ad| !ad.deleted);
    let document = |ad: &Ad| {
        let campaign = campaigns.get(ad.campaign.as_str());
        let signal = signals.get(ad.id.as_str());
        let members = BTreeMap::from([
            ("id", serde_json::json!(ad.id)),
            ("title", serde_json::json!(ad.title)),
            ("body", serde_json::json!(format!("{} body", ad.title))),
            ("bid_micros", serde_json::json!(ad.bid)),
            ("campaign", serde_json::json!(campaign.map(|c| &c.name))),
            ("budget_micros", serde_json::json!(campaign.map(|c| c.budget))),
            ("copurchases", serde_json::json!(signal.map_or(0, |s| s.0))),
            ("partners", serde_json::json!(signal.map_or(0, |s| s.1.len()))),
            ("qty", serde_json::json!(signal.map_or(0, |s| s.2))),
        ]);
        serde_json::to_string(&members).unwrap()
    };
    live.map(document).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_main_workload_gives_what_a_plain_computation_gives() {
    let world = world(6, 400, 500);
    let expected = expected(&world);
    assert!(expected.len() > 300);
    for partitions in [1, 2, 8] {
        let mut tables = tables(&world);
        tables.iter_mut().for_each(|table| table.parts.reverse());
        let got = run_with(SQL, tables, partitions, BIG).await.unwrap();
        assert_eq!(json(&got), expected, "{partitions} partitions");
    }
    let little = run_with(SQL, tables(&world), 2, 12 << 20).await.unwrap();
    assert_eq!(json(&little), expected);
}

#[test]
fn the_main_workload_is_understood() {
    let compiled = compiled(SQL, &tables(&world(1, 10, 10)));
    assert_eq!(compiled.id_origin, Some((SourceName::new("ads"), "ad_id".to_owned())));
    assert!(!compiled.reads_watermark);
    let reads: Vec<&str> = compiled.reads.iter().map(SourceName::as_str).collect();
    assert_eq!(reads, ["ads", "campaigns", "copurchase"]);
    let fields: Vec<String> = compiled.fields.iter().map(|f| format!("{} {:?}", f.name, f.kind)).collect();
    let expected = [
        "id Text",
        "title Text",
        "body Text",
        "bid_micros I64",
        "campaign Text",
        "budget_micros I64",
        "copurchases I64",
        "partners I64",
        "qty I64",
    ];
    assert_eq!(fields, expected);
    let plan = crate::transform::document::optimised(&compiled);
    assert!(!plan.contains("count(DISTINCT"), "distinct counts are grouped twice, not kept as sets: {plan}");
}
