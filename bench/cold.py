#!/usr/bin/env python3
"""Cold start of one batch, against its peers over the same files in the same run.

cold.py [--partitions 60] [--runs 3] [--work DIR]

Makes the workload of gen.py, then times, a whole process each, in turn:

  highwater   `highwater once` from nothing to a committed index, for doc.sql and for the same tables as upsert sources
  duckdb      doc.sql over the same Parquet files, documents materialised as a table
  tantivy     indexing and committing the same documents, nothing else

and checks that highwater's documents equal DuckDB's, value by value. Prints medians, the ratio
highwater / (2 x duckdb + tantivy), which is to stay at or under 1, and highwater's peak memory.
Needs the PyPI packages pyarrow and duckdb, and a release build (see bench/README.md).
"""
import argparse, json, os, shutil, statistics, subprocess, sys, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
END = "2026-05-04T12:00:00Z"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TABLES = ("ads", "campaigns", "copurchase")

PIPELINE = """
[pipeline]
name = "{name}"
state = "{work}/state"
step = "5m"
window = "{window}"
settle = "0s"
[document]
sql = "{sql}"
id = "id"
[document.fields]
title = "text"
body = "text"
campaign = "keyword"
[index]
kind = "tantivy"
path = "{work}/index-{name}"
"""
SOURCE = """
[source.{table}]
location = "{lake}/{table}"
layout = "dt=%Y-%m-%d/hr=%H/mi=%M"
format = "parquet"
"""
KINDS = {
    "append": {table: 'kind = "append"\n' for table in TABLES},
    "upsert": {
        "ads": 'kind = "upsert"\nkey = "ad_id"\nversion = "updated_at"\ndeleted = "deleted"\nretain = "window"\n',
        "campaigns": 'kind = "upsert"\nkey = "campaign_id"\nversion = "updated_at"\nretain = "window"\n',
        "copurchase": 'kind = "append"\n',
    },
}


def configure(work, lake, name, sql, partitions):
    text = PIPELINE.format(name=name, work=work, sql=sql, window=f"{partitions * 5}m")
    for table in TABLES:
        text += SOURCE.format(table=table, lake=lake) + KINDS[name][table]
    path = work / f"{name}.toml"
    path.write_text(text)
    return path


def timed(command, **kwargs):
    """Wall seconds and peak resident bytes of a whole process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **kwargs)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} ended with status {status}")
    return time.perf_counter() - begin, usage.ru_maxrss * 1024, out


def duckdb_query(lake, sql, out):
    import duckdb
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{lake}/{table}/**/*.parquet', hive_partitioning = false)")
    begin = time.perf_counter()
    connection.execute(f"CREATE TABLE documents AS {Path(sql).read_text()}")
    seconds = time.perf_counter() - begin
    if out:
        names = [row[0] for row in connection.execute("DESCRIBE documents").fetchall()]
        with open(out, "w") as file:
            for row in connection.execute("SELECT * FROM documents ORDER BY id").fetchall():
                file.write(json.dumps(dict(zip(names, row)), default=str) + "\n")
    print(json.dumps({"seconds": seconds}))


def compare(dump, reference):
    """Both are NDJSON ascending by id; answers how many documents they hold, or ends at the first difference."""
    count = 0
    with open(dump) as ours, open(reference) as theirs:
        for ours_line, theirs_line in zip(ours, theirs, strict=True):
            mine, other = json.loads(ours_line), json.loads(theirs_line)
            if mine != other:
                sys.exit(f"documents differ:\n  highwater {mine}\n  duckdb    {other}")
            count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")) / "highwater-bench")
    parser.add_argument("--duckdb", nargs=3, metavar=("LAKE", "SQL", "OUT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.duckdb:
        return duckdb_query(*args.duckdb)
    work = args.work.resolve()
    lake = work / f"lake-{args.partitions}"
    work.mkdir(parents=True, exist_ok=True)
    if not lake.exists():
        subprocess.run([sys.executable, HERE / "gen.py", lake, "--partitions", str(args.partitions), "--end", END], check=True)
    highwater = TARGET / "release" / "highwater"
    pipelines = {
        "append": configure(work, lake, "append", HERE / "doc.sql", args.partitions),
        "upsert": configure(work, lake, "upsert", HERE / "doc_upsert.sql", args.partitions),
    }
    reference = work / "duckdb.ndjson"
    figures = {name: [] for name in ("duckdb", "tantivy", *pipelines)}
    memory = 0
    for run in range(args.runs):
        _, _, out = timed([sys.executable, __file__, "--duckdb", lake, HERE / "doc.sql", reference if run == 0 else ""])
        figures["duckdb"].append(json.loads(out)["seconds"])
        for name, config in pipelines.items():
            shutil.rmtree(work / "state", ignore_errors=True)
            shutil.rmtree(work / f"index-{name}", ignore_errors=True)
            seconds, peak, out = timed([highwater, "-c", config, "once", "--json", "--now", END])
            figures[name].append(seconds)
            memory = max(memory, peak)
            if run == 0:
                dump = work / f"{name}.ndjson"
                with open(dump, "w") as file:
                    subprocess.run([highwater, "-c", config, "dump"], stdout=file, check=True)
                count = compare(dump, reference)
                print(f"{name}: {count:,} documents, equal to DuckDB's; phases {json.loads(out)['ms']} ms")
        _, _, out = timed([TARGET / "release" / "tantivy-alone", work / "append.ndjson", work / "tantivy-alone"])
        figures["tantivy"].append(json.loads(out)["seconds"])
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, values in figures.items():
        print(f"{name:10} median {medians[name]:6.2f} s   of {', '.join(f'{value:.2f}' for value in values)}")
    bound = 2 * medians["duckdb"] + medians["tantivy"]
    for name in pipelines:
        print(f"{name}: highwater / (2 x duckdb + tantivy) = {medians[name] / bound:.2f}")
    print(f"highwater's peak memory {memory / 2**20:,.0f} MiB")


if __name__ == "__main__":
    main()
