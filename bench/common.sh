# What the scripts here share. `folder` is where the servers write what they say.

fail() {
    echo "$1" >&2
    cat "$folder/said" "$folder/error.log" >&2 2>/dev/null || true
    exit 1
}

# Whoever listens already would be measured instead. 7: there is no connection.
check_free() {
    local place status
    for place in "$@"; do
        status=0
        curl -s -o /dev/null --max-time 5 "http://$place/" || status=$?
        ((status == 7)) || fail "$place is in use"
    done
}
