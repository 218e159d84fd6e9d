#!/usr/bin/env bash
# All checks and tests of the repository, in groups that are found by folder, with a table of where the time went.
# Usage: scripts/test.sh [step...]   without arguments every step; the names are in the table at the end.
#
# Every step runs, also after one that failed; the exit code is that of the first failed step. The output ends with the
# result line of every package. Environment: TESTFLAGS (default -count=1) is passed to every go test.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

TESTFLAGS=${TESTFLAGS:--count=1}
BUDGET_MINUTES=25
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" # a checkout that belongs to another user has no readable history
export CGO_ENABLED=1                          # the race detector needs it

# SQLite is C that was translated to Go, in one thread at a time behind our locks. The race detector makes it six times as slow and can only look
# into its memory; the locks around it (modernc.org/libc, sync), and all other code, are watched. Only this package: one with instances of generic code
# would lend them, unwatched, to the rest of the program.
RACE=(-race '-gcflags=modernc.org/sqlite/lib=-race=false')

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
: >"$tmp/table"
: >"$tmp/results"
first_rc=0
only=("$@")

now() { date +%s%N; }

# step NAME BUDGET-MINUTES COMMAND... runs one step and notes its time and its result.
step() {
	local name=$1 budget=$2 begin rc
	shift 2
	if [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]]; then return; fi
	printf '\n== %s\n' "$name"
	begin=$(now)
	"$@" 2>&1 | tee "$tmp/out"
	rc=${PIPESTATUS[0]}
	printf '%s %s %s %s\n' "$name" "$budget" "$((($(now) - begin) / 1000000))" "$rc" >>"$tmp/table"
	grep -E '^(ok|FAIL|panic:|\s*--- FAIL:|\?)\s' "$tmp/out" | grep -v 'no test files' >>"$tmp/results"
	if [ "$rc" -ne 0 ]; then
		printf 'FAIL\tstep %s (exit code %s)\n' "$name" "$rc" | tee -a "$tmp/results"
		if [ "$first_rc" -eq 0 ]; then first_rc=$rc; fi
	fi
}

# need PROGRAM PACKAGE... installs Debian packages when a program is missing and that is possible, else says what to type.
updated=
need() {
	command -v "$1" >/dev/null && return
	local program=$1
	shift
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "$program is missing. Install it and try again: sudo apt-get update && sudo apt-get install -y $*"
		return 1
	fi
	if [ -z "$updated" ]; then
		DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 update || return
		updated=yes
	fi
	echo "installing $*"
	DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" >/dev/null
}

tools() {
	go version || return
	need gcc gcc libc6-dev || return
	if [ -z "${TWOLANE_REDIS_SERVER:-}" ]; then need redis-server redis-server || return; fi
	"${TWOLANE_REDIS_SERVER:-redis-server}" --version
	# Tests of gates against a real Prometheus are skipped, and say so, where there is none.
	if [ -z "${TWOLANE_PROMETHEUS:-}" ]; then need prometheus prometheus || true; fi
}

format() {
	local bad
	bad=$(gofmt -l .) || return
	if [ -n "$bad" ]; then
		printf 'gofmt would change:\n%s\n' "$bad"
		return 1
	fi
}

# tags lists the build tags of this repository that are in use, one a line, the empty set first.
tags() {
	echo
	local tag
	for tag in mutants soak chaos; do
		if grep -rqE --include='*.go' "^//go:build .*\b$tag\b" .; then echo "$tag"; fi
	done
}

vet() {
	local tag
	while read -r tag; do go vet -tags "$tag" ./... || return; done < <(tags)
}

static() {
	local tag
	while read -r tag; do go tool staticcheck -tags "$tag" ./... || return; done < <(tags)
}

# Compiling everything first, without linking, so that the other steps show what their tests take.
compile() {
	go list "${RACE[@]}" -test -deps -export ./... >/dev/null && go build ./...
}

# The groups: a package belongs to the first whose pattern matches its folder.
patterns=(
	'architecture ^internal/archtest$'
	'stores       ^store(/|$)'
	'simrt        (^|/)simrt(/|$)'
	'sim          ^sim(/|$)'
	'model        ^model(/|$)'
	'faults       ^(internal/)?faults(/|$)'
	'processes    ^internal/proctest(/|$)'
	'mutants      ^internal/mutants(/|$)'
	'inference    ^inference(/|$)'
	'demo         ^(cmd|examples|internal/demo)(/|$)'
	'rest         .'
)

# packages GROUP lists the packages of a group. Sizes are those packages whose tests of size the race detector would distort.
packages() {
	local dir line name pattern
	if [ "$1" = sizes ]; then
		while read -r dir; do
			if grep -qsE '^func Test\w+_Size\(' "$dir"/*_test.go; then echo "./$dir"; fi
		done <"$tmp/packages"
		return
	fi
	while read -r dir; do
		for line in "${patterns[@]}"; do
			read -r name pattern <<<"$line"
			if [[ "$dir" =~ $pattern ]]; then
				if [ "$name" = "$1" ]; then echo "./$dir"; fi
				break
			fi
		done
	done <"$tmp/packages"
}

# group NAME BUDGET FLAGS... is a step that tests one group; no step when it has no package.
group() {
	local name=$1 budget=$2 list
	shift 2
	mapfile -t list < <(packages "$name")
	if [ ${#list[@]} -eq 0 ]; then return; fi
	# shellcheck disable=SC2086 # TESTFLAGS are several words
	step "$name" "$budget" go test -vet=off -timeout 15m $TESTFLAGS "$@" "${list[@]}"
}

step tools 0 tools
if [ "$first_rc" -ne 0 ]; then exit "$first_rc"; fi
if ! go list -e -tags mutants -f '{{.Dir}}' ./... >"$tmp/dirs"; then
	echo "FAIL: the packages cannot be listed"
	exit 1
fi
sed -e "s|^$PWD/||" -e "s|^$PWD\$|.|" "$tmp/dirs" >"$tmp/packages"

step gofmt 0.1 format
step vet 1.6 vet
step staticcheck 1 static
group architecture 0.3
step compile 5 compile
group stores 4.5 "${RACE[@]}"
# One goroutine by construction: the race detector could only slow these two down.
group sim 1.75
group model 0.7
group simrt 1.75 "${RACE[@]}"
group faults 2.5 "${RACE[@]}"
group sizes 0.5 -run '_Size$'
group processes 2 "${RACE[@]}"
group mutants 0.8 -tags mutants
group inference 2 "${RACE[@]}"
group demo 1 "${RACE[@]}"
group rest 1.5 "${RACE[@]}"

echo
awk -v limit="$BUDGET_MINUTES" '
BEGIN { printf "%-14s %9s %9s %7s\n", "step", "seconds", "budget", "share" }
{
	seconds = $3 / 1000; total += seconds
	share = ($2 > 0) ? sprintf("%.0f%%", 100 * seconds / ($2 * 60)) : "-"
	printf "%-14s %9.1f %9.0f %7s%s%s\n", $1, seconds, $2 * 60, share,
		($2 > 0 && seconds > $2 * 60) ? "  over its budget" : "", ($4 != 0) ? "  FAILED" : ""
}
END {
	printf "%-14s %9.1f %9.0f %6.0f%%%s\n", "total", total, limit * 60, 100 * total / (limit * 60),
		(total > limit * 60) ? "  over the budget of the whole" : ""
}' "$tmp/table"
echo
cat "$tmp/results"
echo
echo "Not part of this, and skipped by name: soaks (make soak), full rounds and durations (make chaos, make faults-full), measurements (TWOLANE_BENCH=1, make bench),"
echo "a kill of a worker that had lost its leases before, since the machine stood still (TestF028_KilledHolder),"
echo "and the largest scenarios of the model (TWOLANE_MODEL=full).$(command -v "${TWOLANE_PROMETHEUS:-prometheus}" >/dev/null || echo ' SKIPPED for want of a program: tests of gates against a real Prometheus.')"
if [ "$first_rc" -eq 0 ]; then echo PASS; else echo FAIL; fi
exit "$first_rc"
