use arrow::array::{ArrayRef, Int64Array, StringArray, StringViewArray};
use arrow::compute::concat_batches;

use super::*;

fn version(path: &str) -> FileVersion {
    FileVersion { path: path.into(), size: 1, etag: "e".into() }
}

fn batches(from: i64) -> Vec<RecordBatch> {
    (0..3)
        .map(|n| {
            let numbers: Vec<i64> = (0..100).map(|i| from + n * 100 + i).collect();
            let texts: Vec<String> = numbers.iter().map(|i| format!("a rather long text, number {i}")).collect();
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("n", Arc::new(Int64Array::from(numbers))),
                ("t", Arc::new(StringArray::from(texts.clone()))),
                ("v", Arc::new(StringViewArray::from_iter_values(texts).slice(0, 100))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        })
        .collect()
}

fn rows(part: &Part, columns: &[usize]) -> RecordBatch {
    let schema = batches(0)[0].schema();
    let read: Vec<_> = part.batches(&schema, columns).unwrap().map(Result::unwrap).collect();
    concat_batches(&Arc::new(schema.project(columns).unwrap()), &read).unwrap()
}

#[test]
fn a_part_past_the_budget_comes_back_from_disk_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let source = SourceName::new("ads");
    let size = Part::new(version("a"), None, batches(0), None).memory_bytes;
    let mut cache = PartCache::new(folder.path().into(), size * 2);
    for path in ["a", "b", "c"] {
        cache.insert(&source, Part::new(version(path), None, batches(0), None)).unwrap();
    }
    assert!(cache.memory_bytes() <= size * 2);
    let spilled = cache.get(&source, &version("a")).unwrap();
    assert!(matches!(spilled.rows, PartRows::Disk(_)));
    let kept = cache.get(&source, &version("c")).unwrap();
    assert!(matches!(kept.rows, PartRows::Memory(_)));
    for columns in [vec![0, 1, 2], vec![2, 0], vec![1]] {
        assert_eq!(rows(&spilled, &columns), rows(&kept, &columns));
    }
    let schema = batches(0)[0].schema();
    let counted: usize = spilled.batches(&schema, &[]).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(counted, 300);
}

#[test]
fn the_least_recently_used_part_goes_first_and_a_dropped_part_takes_its_file_along() {
    let folder = tempfile::tempdir().unwrap();
    let source = SourceName::new("ads");
    let size = Part::new(version("a"), None, batches(0), None).memory_bytes;
    let mut cache = PartCache::new(folder.path().into(), size * 2);
    cache.insert(&source, Part::new(version("a"), None, batches(0), None)).unwrap();
    cache.insert(&source, Part::new(version("b"), None, batches(0), None)).unwrap();
    cache.get(&source, &version("a")).unwrap();
    cache.insert(&source, Part::new(version("c"), None, batches(0), None)).unwrap();
    assert!(matches!(cache.get(&source, &version("b")).unwrap().rows, PartRows::Disk(_)));
    assert!(matches!(cache.get(&source, &version("a")).unwrap().rows, PartRows::Memory(_)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    cache.retain(|_, version| &*version.path != "b");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(cache.get(&source, &version("b")).is_none());
    assert!(cache.remove(&source, &version("a")) && cache.remove(&source, &version("c")));
    assert_eq!(cache.memory_bytes(), 0);
    assert!(cache.is_empty());
}

#[test]
fn a_part_alone_over_the_budget_is_given_back_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut cache = PartCache::new(folder.path().into(), 10);
    let part = cache.insert(&SourceName::new("ads"), Part::new(version("a"), None, batches(0), None)).unwrap();
    assert!(matches!(part.rows, PartRows::Disk(_)));
    assert_eq!(part.row_count, 300);
}

#[test]
fn a_part_owns_its_rows_in_pieces_of_bounded_size() {
    let texts = StringViewArray::from_iter_values((0..100_000).map(|n| format!("a rather long text, number {n}")));
    let numbers = Int64Array::from_iter_values(0..100_000);
    let columns: Vec<(&str, ArrayRef)> = vec![("n", Arc::new(numbers)), ("v", Arc::new(texts))];
    let whole = RecordBatch::try_from_iter(columns).unwrap();
    let part = Part::new(version("a"), None, vec![whole.slice(10, 20_000)], None);
    let PartRows::Memory(batches) = &part.rows else { panic!("in memory") };
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [8_192, 8_192, 3_616]);
    assert_eq!(concat_batches(&whole.schema(), batches).unwrap(), whole.slice(10, 20_000));
    let small = Part::new(version("a"), None, vec![whole.slice(10, 100)], None);
    assert!(part.memory_bytes < whole.get_array_memory_size() as u64 / 3, "{} bytes", part.memory_bytes);
    assert_eq!(small.row_count, 100);
}
