#!/usr/bin/env bash
# CPU time of a proxied request, of two builds in turn: bench/paired-proxy.sh OLD NEW [ROUNDS [ARGS …]]
#
# OLD and NEW are `tamarisk` programs; ARGS are given to NEW alone, such as `--log /tmp/access.log`.
# Needs nginx and wrk. Prints µs of user and system time a request, and NEW ÷ OLD.
set -euo pipefail
old=$1 new=$2 rounds=${3:-5}
shift $(($# < 3 ? $# : 3))
folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cat > "$folder/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $folder/nginx.pid; error_log $folder/error.log;
events { worker_connections 1024; }
http { access_log off; keepalive_requests 100000000;
  server { listen 127.0.0.1:18391; location / { return 200 "hello"; } } }
CONF
nginx -c "$folder/nginx.conf" -p "$folder" & pids+=($!)
ticks=$(getconf CLK_TCK)

# µs of CPU time a request of the program $1 with the arguments behind it.
measure() {
    "$1" protect http://127.0.0.1:18391 --listen 127.0.0.1:18392 --cores 1 --p90 1s "${@:2}" 2>"$folder/said" &
    local pid=$!
    sleep 0.5
    wrk -t1 -c16 -d1s http://127.0.0.1:18392/ >/dev/null
    local before after requests
    before=$(awk '{print $14 + $15}' "/proc/$pid/stat")
    requests=$(wrk -t1 -c16 -d4s http://127.0.0.1:18392/ | awk '/requests in/ {print $1}')
    after=$(awk '{print $14 + $15}' "/proc/$pid/stat")
    kill "$pid"; wait "$pid" 2>/dev/null || true
    awk -v t=$((after - before)) -v hz="$ticks" -v n="$requests" 'BEGIN {printf "%.2f\n", 1e6 * t / hz / n}'
}

for _ in $(seq "$rounds"); do
    a=$(measure "$old"); b=$(measure "$new" "$@")
    awk -v a="$a" -v b="$b" 'BEGIN {printf "old %6.2f µs  new %6.2f µs  ratio %.3f\n", a, b, b / a}'
done
