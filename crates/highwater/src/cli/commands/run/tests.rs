use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use highwater_core::Timestamp;

use super::*;
use crate::config::{check_layout, load};

/// A stream that a test can look at.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u8>>>);

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn alarm(kind: &str, source: &str, detail: &str) -> Alarm {
    let since: Timestamp = "2026-05-01T11:00:00Z".parse().unwrap();
    Alarm { kind: kind.to_owned(), source: Some(SourceName::new(source)), since, detail: detail.to_owned() }
}

#[test]
fn an_alarm_is_told_when_it_arises_and_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("highwater.toml");
    let config = "[pipeline]\nname = \"p\"\nstate = \"./state\"\nstep = \"1m\"\nwindow = \"1h\"\n\
         [source.s]\nlocation = \"./lake\"\nlayout = \"dt=%Y-%m-%d/hr=%H/min=%M\"\nformat = \"ndjson\"\nkind = \"append\"\n\
         [document]\nsql = \"d.sql\"\nid = \"id\"\n[index]\nkind = \"tantivy\"\npath = \"./index\"\n";
    std::fs::write(&file, config).unwrap();
    std::fs::write(dir.path().join("d.sql"), "SELECT id FROM s").unwrap();
    let config = load(&file, &|_| None, &check_layout).unwrap();
    let pipeline = Pipeline::open(Arc::new(config), Arc::new(SystemClock), Access::Write).unwrap();
    let site = Site::new(Arc::new(pipeline), true);
    let notes = Seen::default();
    let output = Output::to(io::sink(), notes.clone());
    let mut lines = Lines::new(&output, false, &site);
    let (silent, failed) = (alarm("source_silent", "s", "no new data"), alarm("listing_failed", "s", "dt=1: no route"));
    lines.alarms(&[]);
    lines.alarms(std::slice::from_ref(&silent));
    lines.alarms(&[alarm("source_silent", "s", "other words"), failed.clone()]);
    lines.alarms(std::slice::from_ref(&failed));
    lines.alarms(&[]);
    let told = String::from_utf8(notes.0.lock().unwrap().clone()).unwrap();
    insta::assert_snapshot!(told, @r"
    ALARM source_silent s: no new data (since 2026-05-01 11:00:00Z)
    ALARM listing_failed s: dt=1: no route (since 2026-05-01 11:00:00Z)
    over: source_silent s (since 2026-05-01 11:00:00Z)
    over: listing_failed s (since 2026-05-01 11:00:00Z)
    ");
}
