#!/bin/sh
# CPU time of a trivial page: PyTeC, Python's own web server sending a file, and its CGI.
# TAMARISK names the command; the default is the release build, with `--features services`.
set -eu
tamarisk=${TAMARISK:-target/release/tamarisk}
address=127.0.0.1:18080
folder=$(mktemp -d)
server=
# Background jobs ignore Ctrl-C, and a plain sh runs the trap of EXIT only if it exits.
trap 'exit 130' INT
trap 'exit 143' TERM
trap '${server:+kill "$server"} 2>/dev/null || true; wait; rm -r "$folder"' EXIT
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

fail() {
    echo "$name: $1" >&2
    cat "$folder/log" >&2
    exit 1
}

# Ends all if somebody listens already, who would be measured instead. 7: there is no connection.
is_free() {
    status=0
    curl -s -o /dev/null --max-time 5 "http://$address/" || status=$?
    [ "$status" = 7 ] || fail "$address is in use"
}

is_running() {
    kill -0 "$server" 2>/dev/null || fail 'the server has ended'
}

# Waits until the server sends $1, for 10 s at most.
is_ready() {
    for _ in $(seq 100); do
        is_running
        if curl -fs -o /dev/null --max-time 5 "http://$address$1"; then
            is_running
            return
        fi
        sleep 0.1
    done
    fail 'the server does not answer'
}

# Ticks of CPU time of a process and of the children that it has and had.
ticks() {
    for process in "$1" $(ps -o pid= --ppid "$1"); do
        cut -d ' ' -f 14-17 "/proc/$process/stat" 2>/dev/null || true
    done | awk '{ sum += $1 + $2 + $3 + $4 } END { print sum + 0 }'
}

run() {
    name=$1 path=$2 users=$3
    shift 3
    : > "$folder/log"
    is_free
    (cd "$folder" && exec "$@") > "$folder/log" 2>&1 &
    server=$!
    is_ready "$path"
    "$tamarisk" load "http://$address$path" --users "$users" --duration 2s --quiet > /dev/null
    before=$(ticks "$server")
    "$tamarisk" load "http://$address$path" --users "$users" --duration 10s --quiet --json "$folder/report.json" > /dev/null
    after=$(ticks "$server")
    python3 - "$name" "$folder/report.json" $((after - before)) <<'END'
import json, os, sys
name, report, ticks = sys.argv[1:]
total = json.load(open(report))["total"]
seconds = int(ticks) / os.sysconf("SC_CLK_TCK")
print(f"{name}: {total['throughput']:.0f} a second, {1e6 * seconds / total['completed']:.0f} µs of CPU time each")
END
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

case "$tamarisk" in /*) ;; *) tamarisk=$PWD/$tamarisk ;; esac
run 'PyTeC' /hello 8 "$tamarisk" pytec "$folder" --listen "$address" --p90 10s --processes 2
run 'http.server, a file' /hello.html 2 python3 -m http.server 18080 --bind 127.0.0.1
run 'http.server, CGI' /cgi-bin/hello.py 2 python3 -m http.server 18080 --bind 127.0.0.1 --cgi
