#!/usr/bin/env bash
# Submits a request with the commands of llm-d-async's producer library.
# Usage: produce.sh ID [-q SET] [-r RESULT-LIST] [-d SECONDS-TO-DEADLINE] [-u TENANT] [-e ENDPOINT] [-p PROMPT]   (no quotes in any of them)
#        produce.sh --cancel ID
set -euo pipefail
redis() { redis-cli -p "${REDIS_PORT:-6390}" "$@"; }

if [ "$1" = --cancel ]; then
	redis EVAL "local v = redis.call('GET', KEYS[1]) if v then redis.call('SET', KEYS[2], v, 'EX', 604800) return 1 end return 0" \
		2 "request-active:$2" "request-cancel:$2" >/dev/null
	exit
fi

id=$1 set=request-sortedset results=result-list seconds=60 tenant=nobody endpoint= prompt="say hello"
shift
while getopts q:r:d:u:e:p: option; do
	case $option in
	q) set=$OPTARG ;; r) results=$OPTARG ;; d) seconds=$OPTARG ;; u) tenant=$OPTARG ;; e) endpoint=$OPTARG ;; p) prompt=$OPTARG ;;
	*) exit 2 ;;
	esac
done
now=$(date +%s)
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
member='{"internal":{"request_token":"'$token'","request_queue_name":"'$set'","result_queue_name":"'$results'"},"request_kind":"plain",'
member+='"data":{"id":"'$id'","created":'$now',"deadline":'$((now + seconds))',"payload":{"model":"m","prompt":"'$prompt'"},"metadata":{"userid":"'$tenant'"}'
member+=${endpoint:+',"endpoint":"'$endpoint'"'}'}}'
redis >/dev/null <<-END
	MULTI
	DEL request-cancel:$id
	SET request-active:$id $token PX $((seconds * 1000))
	ZADD $set $((now + seconds)) '$member'
	EXEC
END
