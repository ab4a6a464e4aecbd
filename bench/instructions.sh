#!/usr/bin/env bash
# Instructions of a proxied request in user space: bench/instructions.sh PROGRAM [ARGUMENT …]
#
# PROGRAM is a `tamarisk` program; further arguments go to its `protect`, such as
# `--log /tmp/access.log`. A small answer of nginx is asked for on 4 connections for 6 s, one core
# serves. Of builds, counts differ by what the code does, and not by what else the machine does.
# The kernel's part is not in it.
#
# Needs valgrind, nginx, wrk, curl.
set -euo pipefail
program=$1
shift
folder=$(mktemp -d)
pids=()
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
upstream=127.0.0.1:18491 address=127.0.0.1:18492
counts=$folder/counts

. "$(dirname "$0")/common.sh"
check_free "$upstream" "$address"

cat > "$folder/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $folder/nginx.pid; error_log $folder/error.log;
events { worker_connections 1024; }
http { access_log off; keepalive_requests 100000000;
  server { listen $upstream; location / { return 200 "hello"; } } }
CONF
nginx -c "$folder/nginx.conf" -p "$folder" & pids+=($!)
valgrind --tool=callgrind --instr-atstart=no --callgrind-out-file="$counts" "$program" protect \
    "http://$upstream" --listen "$address" --cores 1 --p90 1s "$@" > "$folder/said" 2>&1 & pids+=($!)
server=$!
are_running() {
    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || fail "a server has ended"
    done
}
for attempt in $(seq 120); do
    are_running
    curl -fs -o /dev/null --max-time 5 "http://$address/" && break
    ((attempt < 120)) || fail "the program does not answer"
    sleep 0.5
done
are_running

wrk -t1 -c4 -d2s "http://$address/" > /dev/null
callgrind_control -i on "$server" > /dev/null 2>&1
requests=$(wrk -t1 -c4 -d6s "http://$address/" | awk '/requests in/ {print $1}')
callgrind_control -d "$server" > /dev/null 2>&1
total=$(awk '/^totals:/ {if ($2 > most) most = $2} END {print most}' "$counts"*)
echo "$((total / requests)) instructions each of $requests requests"
