#!/usr/bin/env bash
# Installs Solr (jars by Maven, once) outside the tree, compiles the small server around it, and records which classes it
# loads so that later starts are faster. Prints the folder. Does nothing when that is there already; of two that run at once,
# one installs and the other waits. Needs Java 17 or later, Maven and flock.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
home="${HIGHWATER_CACHE:-$HOME/.cache/highwater}/solr-9.10.1"
mkdir -p "$home"
exec 9>"$home/lock"
flock 9

made_of="$(cat "$here/pom.xml" "$here/SolrServer.java" | sha256sum | cut -d' ' -f1) $(java -version 2>&1 | head -1)"
stamp="$home/installed"
if [[ ! -f "$stamp" || "$(cat "$stamp")" != "$made_of" ]]; then
    rm -rf "$stamp" "$home/jars" "$home/classes" "$home/classes.jsa" "$home/train"
    mkdir -p "$home/jars" "$home/classes"
    mvn -B -q -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$home/jars" >&2
    javac -proc:none -nowarn -cp "$home/jars/*" -d "$home/classes" "$here/SolrServer.java" >&2
    # Archives of class data take no classes from folders.
    jar --create --file "$home/jars/hw-solr-server.jar" -C "$home/classes" .
    rm -rf "$home/classes"
    jars=("$home"/jars/*.jar)
    (IFS=:; printf '%s' "${jars[*]}") >"$home/classpath"

    # One short life writes the archive; a start without it works too, so that a failure here is none.
    HIGHWATER_SOLR_HOME="$home" HIGHWATER_SOLR_JAVA="-XX:ArchiveClassesAtExit=$home/classes.jsa" \
        "$here/start.sh" "$home/train" >/dev/null 9>&- && "$here/stop.sh" "$home/train" 9>&- || true
    rm -rf "$home/train"
    printf '%s' "$made_of" >"$stamp"
fi
printf '%s\n' "$home"
