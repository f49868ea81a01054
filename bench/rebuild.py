#!/usr/bin/env python3
"""A rebuild beside a live pipeline: how much later readers find what lands, while a candidate of all documents is built.

rebuild.py [--documents 1000000] [--seconds 180] [--every 1.0] [--solr] [--work DIR]

`highwater run` over an upsert table; every --every seconds a file of 100 changed documents lands, and `highwater serve`
(another process; with --solr Solr itself) is asked until it finds the change. For --seconds without a rebuild, then from
`rebuild --promote` to its end, then for --seconds beside the former index that is kept fresh. A file counts for the phase in
which it lands. In the end `verify` must be equal, and the gates' report must tell of as many documents as the live index had.
Prints a table, and the ratio of each phase's p99 to the first one's, which is to stay at or under 2.
Needs the PyPI package pyarrow, and a release build (see bench/README.md); with --solr Java and Maven too.
"""
import argparse, datetime as dt, http.client, json, os, random, shutil, socket, statistics, subprocess, sys, threading, time
from pathlib import Path
from urllib.parse import quote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HIGHWATER = Path(os.environ.get("HIGHWATER_BENCH_BINARY", TARGET / "release" / "highwater"))
WORDS = "amber atlas basil birch cedar cobalt coral crimson delta ember fable fern flint garnet harbor hazel indigo".split()

CONFIG = """
[pipeline]
name = "items"
state = "{work}/state"
step = "1m"
window = "6h"
settle = "1s"
poll = "200ms"
[source.items]
location = "{work}/lake"
layout = "dt=%Y-%m-%d/hr=%H/mi=%M"
format = "parquet"
kind = "upsert"
key = "id"
retain = "window"
[document]
sql = "{work}/document.sql"
id = "id"
[document.fields]
title = "text"
body = "text"
[index]
{index}
"""
TANTIVY = 'kind = "tantivy"\npath = "{work}/index"'
SOLR = 'kind = "solr"\nurl = "{url}"\ncollection = "items{pid}"\nshards = 2'


class Lake:
    def __init__(self, work, documents):
        self.root, self.documents, self.rng = work / "lake", documents, random.Random(7)

    def land(self, name, ids, step):
        words = self.rng.choices(WORDS, k=4096)
        at = lambda n, k: " ".join(words[(n * 31) % 4000:(n * 31) % 4000 + k])
        table = pa.table({
            "id": [f"d{n:08}" for n in ids],
            "step": pa.array([step] * len(ids), pa.int64()),
            "title": [at(n + step, 4) for n in ids],
            "body": [at(n * 7 + step, 24) for n in ids],
        })
        folder = self.root / f"{dt.datetime.now(dt.timezone.utc):dt=%Y-%m-%d/hr=%H/mi=%M}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f".{name}", compression="zstd")
        (folder / f".{name}").rename(folder / f"{name}.parquet")
        return time.perf_counter()

    def fill(self, files=10):
        for file in range(files):
            first, last = self.documents * file // files, self.documents * (file + 1) // files
            self.land(f"base{file}", range(first, last), 0)

    def change(self, step):
        return self.land(f"step{step:06}", self.rng.sample(range(self.documents), 100), step)


class Reader:
    """Finds how many documents carry a step's number."""

    def __init__(self, netloc, path):
        self.http, self.path = http.client.HTTPConnection(netloc, timeout=120), path

    def finds(self, step):
        self.http.request("GET", self.path + quote(f"step:{step}"))
        answer = self.http.getresponse()
        found = json.loads(answer.read())
        return answer.status == 200 and (found["total"] if "total" in found else found["response"]["numFound"]) > 0


class Watch(threading.Thread):
    """Lands a change every so often, and notes when each is found. A later step's visible commit holds the earlier ones."""

    def __init__(self, lake, reader, every):
        super().__init__(daemon=True)
        self.lake, self.reader, self.every = lake, reader, every
        self.phase, self.phases, self.over = None, {}, False

    def run(self):
        step, waiting, due = 0, [], time.perf_counter()
        while not self.over or waiting:
            now = time.perf_counter()
            if now >= due and not self.over:
                step += 1
                waiting.append((step, self.lake.change(step), self.phase))
                due = max(due + self.every, now)
            while waiting and self.reader.finds(waiting[0][0]):
                _, landed, phase = waiting.pop(0)
                self.phases.setdefault(phase, []).append(time.perf_counter() - landed)
            if waiting and time.perf_counter() - waiting[0][1] > 600:
                sys.exit(f"step {waiting[0][0]} was not found in ten minutes")
            time.sleep(0.02)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def figures(seconds):
    ordered = sorted(seconds)
    at = lambda part: ordered[min(len(ordered) - 1, int(len(ordered) * part))]
    return len(ordered), statistics.median(ordered), at(0.99), ordered[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--solr", action="store_true")
    parser.add_argument("--work", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")) / "highwater-bench-rebuild")
    args = parser.parse_args()
    work = args.work.resolve()
    for name in ("state", "lake", "index"):
        shutil.rmtree(work / name, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    started, index = [], TANTIVY.format(work=work)
    if args.solr:
        out = subprocess.run([ROOT / "services/solr/start.sh", work / "solr"], stdout=subprocess.PIPE, text=True, check=True)
        index = SOLR.format(url=out.stdout.strip(), pid=os.getpid())
        reader = Reader(urlparse(out.stdout.strip()).netloc, f"/solr/items{os.getpid()}/select?rows=0&q=")
    (work / "document.sql").write_text("SELECT id, step, title, body FROM items")
    config = work / "highwater.toml"
    config.write_text(CONFIG.format(work=work, index=index))
    command = lambda *words: subprocess.run([HIGHWATER, "-c", config, *words], stdout=subprocess.PIPE, text=True, check=True).stdout
    log = open(work / "run.log", "w")
    spawn = lambda *words: started.append(subprocess.Popen([HIGHWATER, "-c", config, *words], stdout=log, stderr=log))
    try:
        lake = Lake(work, args.documents)
        lake.fill()
        print(f"filled: {json.loads(command('once', '--json'))['documents']:,} documents", flush=True)
        spawn("run", "--json")
        if not args.solr:
            port = free_port()
            spawn("serve", "--listen", f"127.0.0.1:{port}")
            reader = Reader(f"127.0.0.1:{port}", "/api/v1/pipelines/items/search?limit=1&q=")
            for _ in range(600):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.1)
        watch = Watch(lake, reader, args.every)
        watch.phase = "begin"
        watch.start()
        # The first batch of a start reads everything, and what landed meanwhile waits for it.
        while len(watch.phases.get("begin", [])) < 5 or watch.phases["begin"][-1] > 3 * min(watch.phases["begin"]) + 2:
            time.sleep(0.2)
        watch.phase = "alone"
        time.sleep(args.seconds)
        watch.phase = "rebuild"
        begin = time.perf_counter()
        report = json.loads(command("rebuild", "--promote", "--json"))
        seconds = time.perf_counter() - begin
        watch.phase = "after"
        time.sleep(args.seconds)
        watch.over = True
        watch.join()
        print(f"rebuilt and promoted in {seconds:.0f} s: {report['live']} is live")
        for gate in report["generations"][0]["judgement"]["gates"]:
            print(f"  {gate['gate']}: {gate['detail']}")
        base = figures(watch.phases["alone"])
        print("phase      files   median      p99  longest   p99 to the first")
        for phase in ("alone", "rebuild", "after"):
            count, median, p99, longest = figures(watch.phases[phase])
            print(f"{phase:8} {count:7} {median:6.2f} s {p99:6.2f} s {longest:6.2f} s   {p99 / base[2]:.2f}")
        print(f"verify: equal {json.loads(command('verify', '--json'))['equal']}")
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()
        if args.solr:
            subprocess.run([ROOT / "services/solr/stop.sh", work / "solr"], check=True)


if __name__ == "__main__":
    main()
