use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use highwater_core::SourceName;
use jiff::SignedDuration;

use super::*;

/// A clock that stands still, so that no test depends on how fast it runs.
struct Fixed(Mutex<Timestamp>);

#[async_trait::async_trait]
impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {}
}

struct World {
    dir: tempfile::TempDir,
    clock: Arc<Fixed>,
    counters: Arc<Counters>,
    folder: Arc<Local>,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Fixed(Mutex::new("2050-01-01T00:00:00Z".parse().unwrap())));
    let counters = Arc::new(Counters::default());
    let folder = open(dir.path(), &clock, &counters);
    World { dir, clock, counters, folder }
}

fn open(root: &Path, clock: &Arc<Fixed>, counters: &Arc<Counters>) -> Arc<Local> {
    let skipped = Skipped { source: SourceName::new("s"), root: "", names: Arc::default() };
    Arc::new(Local::new(root.to_owned(), Arc::clone(clock) as Arc<dyn Clock>, Arc::clone(counters), skipped))
}

impl World {
    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Sets the clock so long after the file's change.
    fn after_change(&self, path: &Path, length: SignedDuration) {
        let meta = fs::metadata(path).unwrap();
        let changed = Timestamp::new(meta.ctime(), i32::try_from(meta.ctime_nsec()).unwrap()).unwrap();
        *self.clock.0.lock().unwrap() = changed + length;
    }

    async fn list(&self, prefix: &str) -> Vec<FileVersion> {
        self.folder.files(prefix).await.unwrap().into_iter().map(|file| file.version).collect()
    }

    async fn paths(&self, prefix: &str) -> Vec<String> {
        self.list(prefix).await.into_iter().map(|version| version.path.to_string()).collect()
    }

    async fn one(&self) -> FileVersion {
        let mut found = self.list("").await;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    fn skipped(&self) -> Vec<(String, String)> {
        let names = self.folder.skipped.names.lock().unwrap();
        names.iter().map(|((_, name), reason)| (name.clone(), reason.clone())).collect()
    }

    /// The same folder, as another process opens it.
    fn restart(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(Counters::default());
        let folder = open(self.dir.path(), &self.clock, &counters);
        World { dir, clock: Arc::clone(&self.clock), counters, folder }
    }
}

fn bytes(content: Content) -> Vec<u8> {
    match content {
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::Spooled { mut file, len } => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len() as u64, len);
            bytes
        }
    }
}

const SOON: SignedDuration = SignedDuration::from_millis(5);
const LATER: SignedDuration = SignedDuration::from_secs(3);

#[tokio::test]
async fn lists_data_at_any_depth_below_a_folder_boundary() {
    let w = world();
    for path in ["dt=1/a", "dt=1/x/y/b", "dt=10/c", "v.1/d", "empty"] {
        w.write(path, if path == "empty" { "" } else { "1" });
    }
    for hidden in ["_SUCCESS", ".tmp", "dt=1/_temporary/a", "dt=1/.git/a", "dt=1/._x"] {
        w.write(hidden, "1");
    }
    fs::create_dir(w.dir.path().join("bare")).unwrap();
    assert_eq!(w.paths("").await, ["dt=1/a", "dt=1/x/y/b", "dt=10/c", "empty", "v.1/d"]);
    assert_eq!(w.paths("dt=1/").await, ["dt=1/a", "dt=1/x/y/b"]);
    assert_eq!(w.paths("dt=1/x/").await, ["dt=1/x/y/b"]);
    assert_eq!(w.paths("dt=2/").await, [""; 0]);
    assert_eq!(w.paths("dt=1/a/").await, [""; 0], "a file is no folder");
    assert_eq!(w.paths("dt=1/_temporary/").await, [""; 0]);
    assert_eq!(w.folder.folders("").await.unwrap(), ["bare", "dt=1", "dt=10", "v.1"]);
    assert_eq!(w.folder.folders("dt=1/").await.unwrap(), ["x"]);
    assert_eq!(w.folder.folders("dt=2/").await.unwrap(), [""; 0]);
    let empty = w.list("").await.into_iter().find(|file| &*file.path == "empty").unwrap();
    assert_eq!(empty.size, 0, "whoever plans counts it");
    assert_eq!(w.skipped(), []);
    assert_eq!(w.counters.read().list, 10, "each look at a folder counts");
    assert_eq!(w.counters.read().get, 0);
}

#[tokio::test]
async fn a_missing_root_is_a_fault_and_a_missing_prefix_is_empty() {
    let w = world();
    w.write("dt=1/a", "1");
    assert_eq!(w.paths("dt=9/hr=1/").await, [""; 0]);
    let gone = w.dir.path().to_owned();
    drop(w.dir);
    for fault in [
        w.folder.files("").await.unwrap_err(),
        w.folder.files("dt=1/").await.unwrap_err(),
        w.folder.folders("").await.unwrap_err(),
    ] {
        assert!(matches!(&fault, Fault::Unavailable(why) if why.contains(gone.to_str().unwrap())), "{fault}");
    }
    assert!(w.folder.reach().await.is_err());
    let version = FileVersion { path: "dt=1/a".into(), size: 1, etag: "1.000000000-1".into() };
    let fetched = w.folder.fetch(&version).await;
    assert!(
        matches!(fetched, Err(FetchError::Unavailable(_))),
        "an unmounted disk has not lost its files: {fetched:?}"
    );
}

#[tokio::test]
async fn a_root_that_is_a_file_is_a_fault() {
    let w = world();
    let file = w.write("a", "1");
    let folder = open(&file, &w.clock, &w.counters);
    assert!(folder.files("").await.unwrap_err().to_string().contains("not a folder"));
}

/// A folder that vanishes is simulated where the walk meets it: at the reading of a folder it has already found.
#[test]
fn a_folder_that_vanishes_or_is_denied_fails_the_listing() {
    let w = world();
    w.write("dt=1/a", "1");
    let mut walk = Walk { folder: &w.folder, chain: Vec::new(), open: Vec::new(), found: Vec::new() };
    let fault = walk.folder(w.dir.path().join("dt=2"), "dt=2/".to_owned()).unwrap_err();
    assert!(matches!(&fault, Fault::Unavailable(why) if why.contains("dt=2 vanished")), "{fault}");
    let denied = cannot_read(Path::new("/x"), &io::Error::from(ErrorKind::PermissionDenied));
    assert_eq!(denied.to_string(), "/x may not be read");
}

#[tokio::test]
async fn links_are_followed_but_never_round() {
    let w = world();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("far"), "1").unwrap();
    w.write("dt=1/a", "1");
    let root = w.dir.path();
    symlink(elsewhere.path(), root.join("dt=1/out")).unwrap();
    symlink(root.join("dt=1/a"), root.join("dt=1/again")).unwrap();
    symlink(root, root.join("dt=1/loop")).unwrap();
    symlink(root.join("dt=1"), root.join("dt=1/self")).unwrap();
    symlink("me", root.join("dt=1/me")).unwrap();
    symlink("nowhere", root.join("dt=1/dangling")).unwrap();
    for prefix in ["", "dt=1/"] {
        assert_eq!(w.paths(prefix).await, ["dt=1/a", "dt=1/again", "dt=1/out/far"], "{prefix}");
        let names: Vec<String> = w.skipped().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["dt=1/dangling", "dt=1/loop", "dt=1/me", "dt=1/self"]);
    }
    for name in ["dangling", "loop", "me", "self"] {
        fs::remove_file(root.join("dt=1").join(name)).unwrap();
    }
    w.list("dt=1/").await;
    assert_eq!(w.skipped(), [], "only what stands now is told");
}

#[tokio::test]
async fn a_name_that_is_not_utf8_is_reported() {
    let w = world();
    w.write("dt=1/a", "1");
    fs::write(w.dir.path().join("dt=1").join(std::ffi::OsStr::from_bytes(b"b\xff.csv")), "1").unwrap();
    assert_eq!(w.paths("").await, ["dt=1/a"]);
    assert_eq!(w.skipped(), [("dt=1/b\u{fffd}.csv".to_owned(), "its name is not UTF-8: rename it".to_owned())]);
}

#[tokio::test]
async fn odd_names_are_kept_byte_for_byte() {
    let w = world();
    let names = ["a b", "a+b", "a%20b", "100%", "x,y", "\u{e9}", "e\u{301}", "#~-", "a\\b", "a\nb"];
    for name in names {
        w.write(name, name);
    }
    let found = w.list("").await;
    assert_eq!(found.len(), names.len());
    for version in &found {
        assert_eq!(bytes(w.folder.fetch(version).await.unwrap()), version.path.as_bytes());
    }
}

#[tokio::test]
async fn a_steady_folder_is_never_read() {
    let w = world();
    let path = w.write("a", "1,AAA");
    w.after_change(&path, SignedDuration::from_millis(500));
    let first = w.one().await;
    assert!(first.etag.contains('#'), "{first}");
    assert_eq!(w.counters.read().get, 1);
    w.after_change(&path, LATER);
    assert_eq!(w.one().await, first);
    assert_eq!(w.counters.read().get, 1, "read once, when it was new");

    let next = w.restart();
    next.folder.remember([&first]);
    assert_eq!(next.one().await, first);
    assert_eq!(next.counters.read().get, 0, "a restart reads nothing");
}

#[tokio::test]
async fn within_the_tick_a_file_is_read_again_until_it_is_quiet() {
    let w = world();
    let path = w.write("a", "1,AAA");
    w.after_change(&path, SOON);
    let first = w.one().await;
    assert!(first.etag.contains('~'), "{first}");
    w.after_change(&path, LATER);
    assert_eq!(w.one().await, first);
    assert_eq!(w.counters.read().get, 2);
    assert_eq!(w.one().await, first);
    assert_eq!(w.counters.read().get, 2, "quiet now");
}

#[tokio::test]
async fn a15_same_path_size_and_modification_time() {
    let w = world();
    let path = w.write("a", "1,AAA");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    File::options().append(true).open(&path).unwrap().set_modified(modified).unwrap();
    w.after_change(&path, SOON);
    let first = w.one().await;
    let other = w.write("_b", "1,BBB");
    File::options().append(true).open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, &path).unwrap();
    w.after_change(&path, SOON);
    let second = w.one().await;
    assert_ne!(first.etag, second.etag);
    assert!(matches!(w.folder.fetch(&first).await, Err(FetchError::Moved(_))));
    assert_eq!(bytes(w.folder.fetch(&second).await.unwrap()), b"1,BBB");
}

/// What cannot be made at will: nothing that the file system says differs, only the bytes.
#[tokio::test]
async fn a15_when_the_file_system_says_nothing_at_all() {
    let w = world();
    let path = w.write("a", "1,BBB");
    let plain = w.one().await;
    let old = blake3::hash(b"1,AAA");
    let pinned = FileVersion { etag: format!("{}~{}", plain.etag, digest(&old)).into(), ..plain };
    w.folder.remember([&pinned]);
    assert!(matches!(w.folder.fetch(&pinned).await, Err(FetchError::Moved(_))));
    w.folder.remember([&pinned]);
    w.after_change(&path, LATER);
    let now = w.one().await;
    assert_ne!(now.etag, pinned.etag);
    assert_eq!(bytes(w.folder.fetch(&now).await.unwrap()), b"1,BBB");
}

#[tokio::test]
async fn fetches_exactly_the_listed_version() {
    let w = world();
    let path = w.write("dt=1/a", "one");
    let listed = w.one().await;
    assert_eq!(bytes(w.folder.fetch(&listed).await.unwrap()), b"one");
    fs::write(&path, "two").unwrap();
    assert!(matches!(w.folder.fetch(&listed).await, Err(FetchError::Moved(_))));
    let mut longer = w.one().await;
    longer.size += 1;
    assert!(matches!(w.folder.fetch(&longer).await, Err(FetchError::Moved(_))));
    fs::remove_file(&path).unwrap();
    let gone = w.folder.fetch(&longer).await.unwrap_err();
    assert!(matches!(&gone, FetchError::Moved(why) if why.contains("dt=1/a")), "{gone}");
    fs::create_dir(&path).unwrap();
    assert!(matches!(w.folder.fetch(&longer).await, Err(FetchError::Moved(_))));
}

#[tokio::test]
async fn large_files_are_spooled() {
    let w = world();
    let skipped = Skipped { source: SourceName::new("s"), root: "", names: Arc::default() };
    let small =
        Local { memory_bytes: 1_000, ..Local::new(w.dir.path().into(), w.clock.clone(), w.counters.clone(), skipped) };
    let small = Arc::new(small);
    let text = "0123456789".repeat(40_000);
    let path = w.write("big", &text);
    w.after_change(&path, SOON);
    let listed = small.files("").await.unwrap().remove(0).version;
    assert!(listed.etag.contains('~'));
    let content = small.fetch(&listed).await.unwrap();
    assert!(matches!(content, Content::Spooled { .. }));
    assert_eq!(bytes(content), text.as_bytes());
    fs::write(&path, text.replace('0', "x")).unwrap();
    assert!(matches!(small.fetch(&listed).await, Err(FetchError::Moved(_))));
}

/// A stack that overflows would take the process down.
#[tokio::test]
async fn a_lake_may_be_very_deep() {
    let w = world();
    // Each folder is made elsewhere and moved in, since the path as a whole is longer than the system takes.
    let inner = w.dir.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("x"), "1").unwrap();
    for n in 0..2_500 {
        let outer = w.dir.path().join(format!("outer{n}"));
        fs::create_dir(&outer).unwrap();
        fs::rename(&inner, outer.join("d")).unwrap();
        fs::rename(&outer, &inner).unwrap();
    }
    w.write("a", "1");
    assert_eq!(w.paths("").await, ["a"]);
    let skipped = w.skipped();
    assert_eq!(skipped.len(), 1);
    assert!(skipped[0].1.contains("longer than the system"), "{}", skipped[0].1);

    // What the system can open is read, on the smallest stack too.
    let readable = "d/".repeat(1_900);
    let folder = w.dir.path().join("deep");
    fs::create_dir(&folder).unwrap();
    fs::create_dir_all(folder.join(&readable[..readable.len() - 1])).unwrap();
    fs::write(folder.join(&readable).join("x"), "1").unwrap();
    let local = Arc::clone(&w.folder);
    let small = std::thread::Builder::new().stack_size(256 * 1024).spawn(move || local.list("deep/").unwrap().len());
    assert_eq!(small.unwrap().join().unwrap(), 1);
}
