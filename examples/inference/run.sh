#!/usr/bin/env bash
# Runs everything on this machine: a Redis server, a stand-in for a gateway, the processor with llm-d-async's flags and files, and a producer.
# Ports: REDIS_PORT (6390), GATEWAY_PORT (8000), HEALTH_PORT (8081), METRICS_PORT (9090). Needs go and redis-server with redis-cli, no root and no network.
set -euo pipefail
cd "$(dirname "$0")"
export REDIS_PORT=${REDIS_PORT:-6390}
gateway=${GATEWAY_PORT:-8000} health=${HEALTH_PORT:-8081} metrics=${METRICS_PORT:-9090}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT

echo "== start"
go build -o "$work/" ../../cmd/twolane ./gateway
sed "s/:6390/:$REDIS_PORT/; s/:8000/:$gateway/" transport.json >"$work/transport.json"
redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --dir "$work" >"$work/redis.log" &
"$work/gateway" --listen "127.0.0.1:$gateway" &
until redis-cli -p "$REDIS_PORT" PING >/dev/null 2>&1; do sleep 0.1; done
"$work/twolane" inference --transport redis-sortedset --transport-config-file "$work/transport.json" --pool-config-file pools.json \
	--health-port "$health" --metrics-port "$metrics" --drain-timeout 5s --zap-encoder console &
processor=$!

# get PORT PATH is curl, for machines without it.
get() {
	exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && cat <&3
}
until get "$health" /readyz 2>/dev/null | grep -q '"ok"'; do sleep 0.1; done

echo "== submit: twelve of alice, who may have two at once, then two of bob; one that is too slow for its deadline, one that is cancelled, one that is no request"
for i in {1..12}; do ./produce.sh "alice-$i" -u alice -r result-alice -p "a story of $i words"; done
for i in 1 2; do ./produce.sh "bob-$i" -u bob -r result-bob; done
./produce.sh late -u carol -e /slow -d 2
./produce.sh regretted -u dora -e /slow
redis-cli -p "$REDIS_PORT" ZADD request-sortedset 0 '{"internal":{},"request_kind":"plain","data":{"id":"broken","deadline":"tomorrow"}}' >/dev/null
./produce.sh --cancel regretted

# results LIST N takes N results from a list, as consumers do.
results() {
	for ((i = 0; i < $2; i++)); do redis-cli -p "$REDIS_PORT" BRPOP "$1" 30 | tail -n 1; done
}
echo "== results of bob"
results result-bob 2
echo "== results of alice"
results result-alice 12
echo "== results of the others"
results result-list 3
echo "== some of the metrics"
get "$metrics" /metrics 2>/dev/null | grep -E '^(llm_d_async_async_(request|successful_requests|request_retries|exceeded_deadline_requests)_total|twolane_inference_dead_letters_total)'

echo "== stop"
kill "$processor"
wait "$processor" # its exit code is 0 when it has drained
