use insta::assert_snapshot;
use jiff::SignedDuration;
use jiff::civil::date;
use proptest::prelude::*;

use super::{Layout, Located};

fn layout(template: &str) -> Layout {
    Layout::parse(template).unwrap_or_else(|error| panic!("{error}"))
}

fn located(template: &str, path: &str) -> String {
    match layout(template).locate(path) {
        Ok(Located { civil, captures }) if captures.is_empty() => civil.to_string(),
        Ok(Located { civil, captures }) => {
            let captures: Vec<_> = captures.iter().map(|value| value.as_deref().unwrap_or("null")).collect();
            format!("{civil} [{}]", captures.join(" | "))
        }
        Err(misplaced) => format!("misplaced: {misplaced}"),
    }
}

fn refused(template: &str) -> String {
    Layout::parse(template).expect_err(template).to_string()
}

#[test]
fn paths_tell_their_time() {
    for (template, path, expected) in [
        ("dt=%Y-%m-%d/hr=%H/mi=%M", "dt=2026-05-01/hr=10/mi=07/a.parquet", "2026-05-01T10:07:00"),
        ("in/dt=%F/hr=%H/min=%M/", "in/dt=2026-05-01/hr=10/min=07/deep/er/a", "2026-05-01T10:07:00"),
        ("%Y%m%d/%H%M", "20260501/1007/a", "2026-05-01T10:07:00"),
        ("%Y%m%d%H", "2026050110/a", "2026-05-01T10:00:00"),
        ("%Y/%j", "2024/366/a", "2024-12-31T00:00:00"),
        ("%Y/%m", "2024/02/a", "2024-02-01T00:00:00"),
        ("%d.%m.%Y", "01.05.2026/a", "2026-05-01T00:00:00"),
        ("hr=%H/dt=%F", "hr=07/dt=2026-05-01/a", "2026-05-01T07:00:00"),
        ("%F/%-H", "2026-05-01/7/a", "2026-05-01T07:00:00"),
        ("%Y/month=%-m/%-d-%-H", "2026/month=12/1-0/a", "2026-12-01T00:00:00"),
        ("100%%/%F %H:%M:%S", "100%/2026-05-01 10:07:09/a", "2026-05-01T10:07:09"),
        ("ts=%Y-%m-%d %H:%M:%S", "ts=2024-05-01 10%3A00%3A00/a", "2024-05-01T10:00:00"),
        ("ts=%Y-%m-%d %H%%3A%M", "ts=2024-05-01 10%3A07/a", "2024-05-01T10:07:00"),
    ] {
        assert_eq!(located(template, path), expected, "{template} {path}");
    }
}

#[test]
fn captures_are_decoded_once_and_null_is_null() {
    let by_region = |path| located("region={region}/%Y/%m/%d/%H", path);
    assert_eq!(by_region("region=eu/2026/05/01/10/a"), "2026-05-01T10:00:00 [eu]");
    assert_eq!(by_region("region=San%20Francisco/2026/05/01/10/a"), "2026-05-01T10:00:00 [San Francisco]");
    assert_eq!(by_region("region=a%252Fb/2026/05/01/10/a"), "2026-05-01T10:00:00 [a%2Fb]");
    assert_eq!(by_region("region=100%/2026/05/01/10/a"), "2026-05-01T10:00:00 [100%]");
    assert_eq!(by_region("region=a+b=c/2026/05/01/10/a"), "2026-05-01T10:00:00 [a+b=c]");
    assert_eq!(by_region("region=__HIVE_DEFAULT_PARTITION__/2026/05/01/10/a"), "2026-05-01T10:00:00 [null]");
    assert_eq!(by_region("region=/2026/05/01/10/a"), "2026-05-01T10:00:00 [null]");
    assert_snapshot!(by_region("region=%FF/2026/05/01/10/a"), @r#"misplaced: folder "region=%FF" is not like "region={region}""#);
    assert_eq!(located("{a}-{b}.%Y", "x-y-z.2026/a"), "2026-01-01T00:00:00 [x | y-z]");
    assert_eq!(located("{host}-%F", "web-1-2026-05-01/a"), "2026-05-01T00:00:00 [web-1]");
    assert_eq!(located("{host}%Y", "us12024/a"), "2024-01-01T00:00:00 [us1]");
    assert_eq!(layout("{b}/%Y/{a}").captures(), ["b", "a"]);
}

#[test]
fn misplaced_says_why() {
    let path = |path| located("dt=%Y-%m-%d/hr=%H", path);
    assert_snapshot!(path("dt=2026-05-01/a"), @r#"misplaced: it is not below a folder like "dt=%Y-%m-%d/hr=%H""#);
    assert_snapshot!(path("a"), @r#"misplaced: it is not below a folder like "dt=%Y-%m-%d/hr=%H""#);
    assert_snapshot!(path("dt=2026-02-30/hr=10/a"), @"misplaced: there is no time 2026-02-30 10h");
    assert_snapshot!(path("dt=2026-02-03/hr=24/a"), @"misplaced: there is no time 2026-02-03 24h");
    assert_snapshot!(path("dt=2026-02-03/hr=7/a"), @r#"misplaced: folder "hr=7" is like "hr=%H" but for leading zeros; the layout takes %H for 07 and %-H for 7"#);
    assert_snapshot!(path("dt=2026-02-03/hour=07/a"), @r#"misplaced: folder "hour=07" is not like "hr=%H""#);
    assert_snapshot!(path("dt=2026-02-03//a"), @r#"misplaced: folder "" is not like "hr=%H""#);
    assert_snapshot!(path("dt%3D2026-02-03/hr=07/a"), @r#"misplaced: folder "dt%3D2026-02-03" is not like "dt=%Y-%m-%d""#);
    assert_snapshot!(path("dt=+026-02-03/hr=07/a"), @r#"misplaced: folder "dt=+026-02-03" is not like "dt=%Y-%m-%d""#);
    assert_snapshot!(located("%F/%-H", "2026-05-01/07/a"), @r#"misplaced: folder "07" is like "%-H" but for leading zeros; the layout takes %H for 07 and %-H for 7"#);
    assert_snapshot!(located("%Y/%j", "2025/366/a"), @"misplaced: there is no time 2025, day 366");
    assert_snapshot!(located("%F/%H/%M", "2026-05-01/10/60/a"), @"misplaced: there is no time 2026-05-01 10:60");
}

#[test]
fn names_at_a_level_are_judged_alone() {
    let layout = layout("in/dt=%F/hr=%H");
    assert!(layout.check_folder(0, "in").is_ok());
    assert!(layout.check_folder(1, "dt=2026-05-01").is_ok());
    assert!(layout.check_folder(3, "anything").is_ok());
    assert_snapshot!(layout.check_folder(1, "date=2026-05-01").expect_err("refused"), @r#"folder "date=2026-05-01" is not like "dt=%F""#);
}

#[test]
fn bad_templates_are_refused_with_the_way_out() {
    assert_snapshot!(refused(""), @r#"layout "" holds no time; name the folders that do, such as "dt=%Y-%m-%d/hr=%H", or leave the layout out for a reference source"#);
    assert_snapshot!(refused("region={region}"), @r#"layout "region={region}" holds no time; name the folders that do, such as "dt=%Y-%m-%d/hr=%H", or leave the layout out for a reference source"#);
    assert_snapshot!(refused("%H"), @"layout has the hour (%H) but no day; add %d in the folder that names the day");
    assert_snapshot!(refused("%F/%M"), @"layout has the minute (%M) but no hour; add %H in the folder that names the hour");
    assert_snapshot!(refused("%Y/%d"), @"layout has the day (%d) but no month; add %m in the folder that names the month");
    assert_snapshot!(refused("%m/%d"), @"layout has the month (%m) but no year; add %Y in the folder that names the year");
    assert_snapshot!(refused("%j/%H"), @"layout has the day of the year (%j) but no year; add %Y in the folder that names the year");
    assert_snapshot!(refused("%F/%Y"), @"layout has the year twice; keep one and make the other a capture such as {name}");
    assert_snapshot!(refused("%Y/%m/%j"), @"layout has %j beside %m or %d, which say the same; keep %j or the two others");
    assert_snapshot!(refused("{a}/{a}/%F"), @r#"layout captures "a" twice; give each capture its own name"#);
    assert_snapshot!(refused("{a}{b}/%F"), @r#"in layout folder "{a}{b}" it cannot be told where {a} ends and {b} begins; put text between them"#);
    assert_snapshot!(refused("%F/%-H%M"), @r#"in layout folder "%-H%M" it cannot be told where %-H ends and %M begins; put text between them"#);
    assert_snapshot!(refused("%F/%-H00"), @r#"in layout folder "%-H00" it cannot be told where %-H ends and "00" begins; put text between them"#);
    assert_snapshot!(refused("%F/{x}%-H"), @r#"in layout folder "{x}%-H" it cannot be told where {x} ends and %-H begins; put text between them"#);
    assert_snapshot!(refused("%F/part-%H.parquet"), @r#"layout folder "part-%H.parquet" is a file's name; a layout names folders only, so that a partition can be listed without reading every name: drop it, files at any depth below are found"#);
    assert_snapshot!(refused("%F/{name}.json.GZ"), @r#"layout folder "{name}.json.GZ" is a file's name; a layout names folders only, so that a partition can be listed without reading every name: drop it, files at any depth below are found"#);
    assert_snapshot!(refused("%Y/%q"), @r#"layout has "%q", which is not supported; supported are %Y %m %d %j %H %M %S, %F for %Y-%m-%d, %-m %-d %-j %-H %-M %-S for numbers without leading zeros, and %% for a percent sign"#);
    assert!(refused("%F/%T").starts_with("layout has \"%T\""));
    assert!(refused("%-Y").starts_with("layout has \"%-Y\""));
    assert!(refused("%F/%").starts_with("layout has \"%\""));
    assert_snapshot!(refused("{re gion}/%F"), @r#"layout folder "{re gion}" has a brace that is no capture; a capture is {name} with a name of letters, digits and _, within one folder"#);
    assert!(refused("{a/%F}").contains("brace"));
    assert!(refused("a}/%F").contains("brace"));
    assert_snapshot!(refused("%F/*"), @r#"layout folder "*" has a *; a folder of any name is a capture such as {name}, and files at any depth below the last folder are found without it"#);
    assert_snapshot!(refused("/%F"), @r#"layout "/%F" has an empty, "." or ".." folder; write folders below the location, separated by single slashes"#);
    assert!(refused("../%F").contains("\"..\" folder"));
    assert_snapshot!(refused("_in/%F"), @r#"layout folder "_in" begins with _ or . and so is hidden: its files are never data; move the location below it"#);
}

#[test]
fn a_step_finer_than_the_paths_is_refused() {
    let refused = |template, seconds| {
        layout(template).check_step(SignedDuration::from_secs(seconds)).expect_err(template).to_string()
    };
    assert_snapshot!(refused("%F/%H", 300), @r#"step 5m is shorter than the hour, the finest time in layout "%F/%H"; set step = "1h", or add %M to the layout"#);
    assert_snapshot!(refused("%Y/%m", 86_400), @r#"step 24h is shorter than the month, the finest time in layout "%Y/%m"; no step is that long: add %d to the layout"#);
    assert_snapshot!(refused("%F/%H/%M", 5), @r#"step 5s is shorter than the minute, the finest time in layout "%F/%H/%M"; set step = "1m", or add %S to the layout"#);
    assert!(layout("%F/%H/%M").check_step(SignedDuration::from_mins(5)).is_ok());
    assert!(layout("%F").check_step(SignedDuration::from_hours(24)).is_ok());
    assert!(layout("%F/%H%M%S").check_step(SignedDuration::from_secs(1)).is_ok());
}

proptest! {
    #[test]
    fn what_is_rendered_is_read_back(
        template in prop::sample::select(vec![
            "dt=%Y-%m-%d/hr=%H/mi=%M/s=%S", "%Y%m%d/%H%M%S", "y=%Y/%j/%-H/%-M.%-S", "%-d_%-m_%Y/%H-%M-%S",
        ]),
        second in 0i64..4_000_000_000,
    ) {
        let layout = layout(template);
        let civil = date(1970, 1, 1).at(0, 0, 0, 0) + SignedDuration::from_secs(second);
        let mut path: Vec<_> = layout.folders().iter().map(|folder| folder.render(&civil)).collect();
        path.push("file".into());
        prop_assert_eq!(layout.locate(&path.join("/")).expect("located").civil, civil);
        prop_assert_eq!(Layout::parse(&layout.to_string()).expect("same"), layout);
    }

    #[test]
    fn no_path_breaks_it(path in "[a%0-9=/.-]{0,40}|\\PC{0,40}") {
        for template in ["{a}=%Y-{b}/%m%d/{c}-%-H", "%F %H:%M/{x}", "{a}.{b}.{c}/%Y"] {
            let _ = layout(template).locate(&path);
        }
    }
}
