#!/usr/bin/env bash
# CPU time a request while nearly all are rejected: `protect` and nginx's limit_req in turn before one
# service of 400 requests a second. Servers on core 0, wrk and the service on core 1.
#
#   bench/rejections.sh target/dist/tamarisk [ROUNDS]
#
# Needs nginx and wrk. Each line: µs of ours and of nginx, and their ratio; the first round is not shown.
set -euo pipefail
tamarisk=$1 rounds=${2:-5}
scratch=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
service=$(free_port) ours=$(free_port) theirs=$(free_port)
cat >"$scratch/nginx.conf" <<END
daemon off; master_process off; pid $scratch/nginx.pid; error_log /dev/null;
events { worker_connections 4096; }
http {
    access_log off; keepalive_requests 1000000000;
    limit_req_zone \$server_port zone=all:1m rate=400r/s;
    server {
        listen 127.0.0.1:$theirs;
        location / { limit_req zone=all burst=8 nodelay; proxy_pass http://127.0.0.1:$service; }
    }
}
END

start() {
    taskset -c "$1" "${@:2}" >/dev/null 2>&1 &
    started+=($!)
}
start 1 "$tamarisk" demo --serve "127.0.0.1:$service"
start 0 "$tamarisk" protect "http://127.0.0.1:$service" --listen "127.0.0.1:$ours" --p90 100ms --cores 1
start 0 nginx -c "$scratch/nginx.conf"
sleep 1

# Clock ticks of 10 ms that a process has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
# µs a request of the process, asked at the port.
cost() {
    local before requests
    before=$(ticks "$1")
    requests=$(taskset -c 1 wrk -t1 -c64 -d3 "http://127.0.0.1:$2/" | awk '/requests in/ { print $1 }')
    awk -v ticks=$(($(ticks "$1") - before)) -v requests="$requests" 'BEGIN { print ticks * 10000 / requests }'
}

for round in $(seq 0 "$rounds"); do
    our_cost=$(cost "${started[1]}" "$ours") their_cost=$(cost "${started[2]}" "$theirs")
    [ "$round" = 0 ] ||
        awk -v ours="$our_cost" -v theirs="$their_cost" 'BEGIN { printf "%.2f %.2f %.2f\n", ours, theirs, ours / theirs }'
done
