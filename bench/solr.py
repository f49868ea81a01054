#!/usr/bin/env python3
"""Solr: how fast documents go in beside a bare client, and how soon a changed one is found.

solr.py [--partitions 60] [--runs 3] [--steps 50] [--kept 20000] [--work DIR] [--part throughput|freshness]

Starts the SolrCloud of services/solr, two shards a collection.

throughput  gen.py's workload (doc.sql, over 200,000 documents) by `highwater once` into a new collection, and the same
            documents by solr-alone, whose requests are ready in memory, into another one of the same configset: the same
            documents a request, as many requests at once, one commit. In turn; what counts is the documents a second while
            requests are sent: highwater's apply phase against the client's sending.
freshness   `run` with poll = "200ms" over an upsert table of --kept documents; then --steps times a file of 100 changed ones
            lands, and Solr itself is asked until it finds the change.

Needs the PyPI package pyarrow, Java and Maven, and release builds of highwater and solr-alone (see bench/README.md).
"""
import argparse, datetime as dt, http.client, json, os, random, shutil, statistics, subprocess, sys, time
from pathlib import Path
from urllib.parse import quote, urlparse

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
END = "2026-05-04T12:00:00Z"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HIGHWATER = Path(os.environ.get("HIGHWATER_BENCH_BINARY", TARGET / "release" / "highwater"))
TABLES = ("ads", "campaigns", "copurchase")

FILL = """
[pipeline]
name = "fill"
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
kind = "solr"
url = "{solr}"
collection = "{collection}"
shards = 2
"""
FILL_SOURCE = """
[source.{table}]
location = "{lake}/{table}"
layout = "dt=%Y-%m-%d/hr=%H/mi=%M"
format = "parquet"
kind = "append"
"""
KEPT = """
[pipeline]
name = "kept"
state = "{work}/state"
step = "1m"
window = "6h"
settle = "1s"
poll = "200ms"
[source.items]
location = "{work}/lake"
layout = "dt=%Y-%m-%d/hr=%H/mi=%M"
format = "ndjson"
kind = "upsert"
key = "id"
retain = "window"
columns = {{ id = "string", step = "int64", body = "string" }}
[document]
sql = "{work}/document.sql"
id = "id"
[index]
kind = "solr"
url = "{solr}"
collection = "{collection}"
shards = 2
"""


class Solr:
    def __init__(self, work):
        self.dir = work / "solr"
        self.url = subprocess.run([ROOT / "services/solr/start.sh", self.dir], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        self.http = http.client.HTTPConnection(urlparse(self.url).netloc, timeout=300)

    def get(self, path):
        self.http.request("GET", f"/solr{path}")
        answer = self.http.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {body[:500]}")
        return json.loads(body)

    def admin(self, **parameters):
        return self.get("/admin/collections?" + "&".join(f"{key}={quote(value)}" for key, value in parameters.items()))

    def found(self, collection, query):
        return self.get(f"/{collection}/select?rows=0&q={quote(query)}")["response"]["numFound"]

    def stop(self):
        subprocess.run([ROOT / "services/solr/stop.sh", self.dir], check=True)


def fill(work, lake, solr, collection, partitions):
    shutil.rmtree(work / "state", ignore_errors=True)
    text = FILL.format(work=work, window=f"{partitions * 5}m", sql=HERE / "doc.sql", solr=solr.url, collection=collection)
    config = work / f"{collection}.toml"
    config.write_text(text + "".join(FILL_SOURCE.format(table=table, lake=lake) for table in TABLES))
    out = subprocess.run([HIGHWATER, "-c", config, "once", "--json", "--now", END], stdout=subprocess.PIPE, text=True, check=True)
    return config, json.loads(out.stdout)


def alone(work, solr, collection, configset, documents):
    solr.admin(action="CREATE", name=collection, numShards="2", **{"collection.configName": configset, "waitForFinalState": "true"})
    out = subprocess.run([TARGET / "release" / "solr-alone", documents, solr.url, collection], stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(out.stdout)
    if (found := solr.found(collection, "*:*")) != figures["documents"]:
        sys.exit(f"{found} documents of {figures['documents']} are in {collection}")
    solr.admin(action="DELETE", name=collection)
    return figures


def throughput(args, work, solr):
    lake = work / f"lake-{args.partitions}"
    if not lake.exists():
        subprocess.run([sys.executable, HERE / "gen.py", lake, "--partitions", str(args.partitions), "--end", END,
                        "--ads", "6000", "--universe", "400000"], check=True)
    # The first fill warms the server up, and has the documents and the configset for the client.
    config, _ = fill(work, lake, solr, "warm", args.partitions)
    documents = work / "documents.ndjson"
    with open(documents, "w") as file:
        subprocess.run([HIGHWATER, "-c", config, "dump"], stdout=file, check=True)
    figures = {"highwater": [], "alone": []}
    for run in range(args.runs):
        ours = fill(work, lake, solr, f"fill{run}", args.partitions)[1]
        figures["highwater"].append(ours["upserts"] / ours["ms"]["apply"] * 1000)
        theirs = alone(work, solr, f"alone{run}", "highwater.warm_g1", documents)
        figures["alone"].append(theirs["documents"] / theirs["seconds"])
        print(f"run {run}: highwater {ours['upserts']:,} documents, phases {ours['ms']} ms; alone {theirs['seconds']:.1f} s and {theirs['commit_seconds']:.1f} s")
        solr.admin(action="DELETEALIAS", name=f"fill{run}")
        solr.admin(action="DELETE", name=f"fill{run}_g1")
    for name, values in figures.items():
        print(f"{name:10} median {statistics.median(values):8,.0f} documents/s   of {', '.join(f'{value:,.0f}' for value in values)}")
    ratios = [ours / theirs for ours, theirs in zip(figures["highwater"], figures["alone"])]
    print(f"highwater / alone, run by run: median {statistics.median(ratios):.2f} of {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def land(folder, name, rows):
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{name}"
    aside.write_text("".join(json.dumps(row) + "\n" for row in rows))
    aside.rename(folder / f"{name}.ndjson")
    return time.perf_counter()


def now_folder(work):
    return work / "lake" / f"{dt.datetime.now(dt.timezone.utc):dt=%Y-%m-%d/hr=%H/mi=%M}"


def freshness(args, work, solr):
    for name in ("state", "lake"):
        shutil.rmtree(work / name, ignore_errors=True)
    collection = f"kept{os.getpid()}"
    (work / "document.sql").write_text("SELECT id, step, body FROM items")
    config = work / "kept.toml"
    config.write_text(KEPT.format(work=work, solr=solr.url, collection=collection))
    rng = random.Random(7)
    row = lambda n, step: {"id": f"d{n:07}", "step": step, "body": f"words {rng.random()} of document {n} at step {step}"}
    land(now_folder(work), "base", [row(n, 0) for n in range(args.kept)])
    subprocess.run([HIGHWATER, "-c", config, "once", "--json"], stdout=subprocess.DEVNULL, check=True)
    seconds, log = [], open(work / "run.log", "w")
    run = subprocess.Popen([HIGHWATER, "-c", config, "run", "--json"], stdout=log, stderr=log)
    try:
        for step in range(1, args.steps + 4):
            changed = rng.sample(range(args.kept), 100)
            begin = land(now_folder(work), f"step{step:06}", [row(n, step) for n in changed])
            while solr.found(collection, f"step:{step}") < 100:
                if time.perf_counter() - begin > 60 or run.poll() is not None:
                    sys.exit(f"step {step} was not found; see {work}/run.log")
                time.sleep(0.01)
            # The first ones begin the session.
            if step > 3:
                seconds.append(time.perf_counter() - begin)
            time.sleep(rng.random() * 0.4)
    finally:
        run.terminate()
        run.wait()
    seconds.sort()
    p99 = seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]
    print(f"{args.kept:,} documents, {len(seconds)} steps of 100: found after median {statistics.median(seconds):.2f} s, p99 {p99:.2f} s, longest {seconds[-1]:.2f} s")
    subprocess.run([HIGHWATER, "-c", config, "verify"], stdout=subprocess.DEVNULL, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--kept", type=int, nargs="+", default=[20_000])
    parser.add_argument("--part", choices=("throughput", "freshness"))
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")) / "highwater-bench-solr")
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    solr = Solr(work)
    try:
        if args.part != "freshness":
            throughput(args, work, solr)
        if args.part != "throughput":
            for kept in args.kept:
                args.kept = kept
                freshness(args, work, solr)
    finally:
        solr.stop()


if __name__ == "__main__":
    main()
