#!/bin/sh
# CPU time of a trivial page: PyTeC, Python's own web server sending a file, and its CGI.
# TAMARISK names the command; the default is the release build.
set -eu
tamarisk=${TAMARISK:-target/release/tamarisk}
folder=$(mktemp -d)
# CGI scripts run as another user, if this one is root.
chmod 755 "$folder"
mkdir "$folder/cgi-bin"
echo '<p>Hello, <%= req.get("name", "you") %>' > "$folder/hello.pytec"
echo '<p>Hello, you' > "$folder/hello.html"
cat > "$folder/cgi-bin/hello.py" <<'END'
#!/usr/bin/env python3
print("Content-Type: text/html\n\n<p>Hello, you")
END
chmod +x "$folder/cgi-bin/hello.py"
trap 'kill $server 2>/dev/null || true; rm -r "$folder"' EXIT

# Ticks of CPU time of a process and of the children that it has and had.
ticks() {
    for process in "$1" $(ps -o pid= --ppid "$1"); do
        cut -d ' ' -f 14-17 "/proc/$process/stat" 2>/dev/null || true
    done | awk '{ sum += $1 + $2 + $3 + $4 } END { print sum + 0 }'
}

run() {
    name=$1 path=$2 users=$3
    shift 3
    (cd "$folder" && exec "$@") > "$folder/log" 2>&1 &
    server=$!
    until curl -fs "http://127.0.0.1:18080$path" > /dev/null; do sleep 0.1; done
    "$tamarisk" load "http://127.0.0.1:18080$path" --users "$users" --duration 2s --quiet > /dev/null
    before=$(ticks $server)
    "$tamarisk" load "http://127.0.0.1:18080$path" --users "$users" --duration 10s --quiet --json "$folder/report.json" > /dev/null
    after=$(ticks $server)
    python3 - "$name" "$folder/report.json" $((after - before)) <<'END'
import json, os, sys
name, report, ticks = sys.argv[1:]
total = json.load(open(report))["total"]
seconds = int(ticks) / os.sysconf("SC_CLK_TCK")
print(f"{name}: {total['throughput']:.0f} a second, {1e6 * seconds / total['completed']:.0f} µs of CPU time each")
END
    kill $server
    wait $server 2>/dev/null || true
}

case "$tamarisk" in /*) ;; *) tamarisk=$PWD/$tamarisk ;; esac
run 'PyTeC' /hello 8 "$tamarisk" pytec "$folder" --listen 127.0.0.1:18080 --p90 10s --processes 2
run 'http.server, a file' /hello.html 2 python3 -m http.server 18080 --bind 127.0.0.1
run 'http.server, CGI' /cgi-bin/hello.py 2 python3 -m http.server 18080 --bind 127.0.0.1 --cgi
