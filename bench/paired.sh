#!/usr/bin/env bash
# CPU time of a request, of two builds in turn: bench/paired.sh OLD NEW [ROUNDS [ROW …]]
#
# OLD and NEW are `tamarisk` programs. NEW_ARGS (a variable) has more arguments for NEW alone, such
# as `--log /tmp/access.log`. The rows, all of them if none is named:
#
#   proxy              a small answer of nginx behind `protect`
#   1k 16k 1m          files from memory behind `serve`, over HTTP/1
#   tls                the file of 1 KB over TLS, on connections that stay
#   h2                 the same over HTTP/2, 10 streams on each of 4 connections
#
# Prints for each row µs of user and system time a request, and NEW ÷ OLD, one line a round.
# Needs nginx, wrk, curl, openssl, and for `h2` h2load (Debian: nghttp2-client).
set -euo pipefail
old=$1 new=$2 rounds=${3:-5}
shift $(($# < 3 ? $# : 3))
rows=("$@")
((${#rows[@]})) || rows=(proxy 1k 16k 1m tls h2)
folder=$(mktemp -d)
pids=() server=
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'kill "${pids[@]}" ${server:+"$server"} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
upstream=127.0.0.1:18391 address=127.0.0.1:18392
ticks=$(getconf CLK_TCK)

. "$(dirname "$0")/common.sh"
check_free "$upstream" "$address"

mkdir "$folder/public"
head -c 1024 /dev/urandom > "$folder/public/1k"
head -c 16384 /dev/urandom > "$folder/public/16k"
head -c 1048576 /dev/urandom > "$folder/public/1m"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
    -keyout "$folder/key.pem" -out "$folder/chain.pem" 2>/dev/null
cat > "$folder/nginx.conf" <<CONF
daemon off; worker_processes 1; pid $folder/nginx.pid; error_log $folder/error.log;
events { worker_connections 1024; }
http { access_log off; keepalive_requests 100000000;
  server { listen $upstream; location / { return 200 "hello"; } } }
CONF
nginx -c "$folder/nginx.conf" -p "$folder" & pids+=($!)

# Requests that were answered for so many seconds, by row $1.
load() {
    case $1 in
        proxy) wrk -t1 -c16 -d"$2s" "http://$address/" | awk '/requests in/ {print $1}' ;;
        tls) wrk -t1 -c16 -d"$2s" "https://$address/1k" | awk '/requests in/ {print $1}' ;;
        h2) h2load -t1 -c4 -m10 -D"$2" "http://$address/1k" | awk '/^requests:/ {print $8}' ;;
        *) wrk -t1 -c16 -d"$2s" "http://$address/$1" | awk '/requests in/ {print $1}' ;;
    esac
}

are_running() {
    local pid
    for pid in "${pids[@]}" "$server"; do
        kill -0 "$pid" 2>/dev/null || fail "a server has ended"
    done
}

# Sets `cost`, the µs of CPU time a request in row $1 of the program $2 with the arguments behind it.
# Not in a subshell: what it starts would be out of reach of the trap.
measure() {
    local row=$1 program=$2 before after requests
    shift 2
    case $row in
        proxy) "$program" protect "http://$upstream" --listen "$address" --cores 1 --p90 1s "$@" 2>"$folder/said" & ;;
        tls) "$program" serve "$folder/public" --listen "$address" --cores 1 --tls-cert "$folder/chain.pem" \
            --tls-key "$folder/key.pem" "$@" 2>"$folder/said" & ;;
        *) "$program" serve "$folder/public" --listen "$address" --cores 1 "$@" 2>"$folder/said" & ;;
    esac
    server=$!
    sleep 0.5
    are_running
    load "$row" 1 >/dev/null
    are_running
    before=$(awk '{print $14 + $15}' "/proc/$server/stat")
    requests=$(load "$row" 4)
    after=$(awk '{print $14 + $15}' "/proc/$server/stat")
    kill "$server"; wait "$server" 2>/dev/null || true
    server=
    cost=$(awk -v t=$((after - before)) -v hz="$ticks" -v n="$requests" 'BEGIN {printf "%.2f\n", 1e6 * t / hz / n}')
}

for row in "${rows[@]}"; do
    for _ in $(seq "$rounds"); do
        measure "$row" "$old"; a=$cost
        measure "$row" "$new" ${NEW_ARGS:-}; b=$cost
        awk -v row="$row" -v a="$a" -v b="$b" \
            'BEGIN {printf "%-6s old %7.2f µs  new %7.2f µs  ratio %.3f\n", row, a, b, b / a}'
    done
done
