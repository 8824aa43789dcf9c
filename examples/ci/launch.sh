#!/bin/sh
# Launch a run on a Partita server from a CI job, wait for it, and report. It needs sh, curl and jq.
#
# The job signs in with its own OIDC token: no key is stored anywhere. Set
#   PARTITA_SERVER     https://partita.example
#   PARTITA_SUITE      id of the suite
# and, if the defaults do not fit,
#   PARTITA_PROFILE    profile of the suite               (default: that of the suite)
#   PARTITA_BACKEND    backend                            (default: that of the server)
#   PARTITA_AUDIENCE   audience of the trust rule         (default: PARTITA_SERVER)
#   PARTITA_ID_TOKEN   the job's token, where the CI system gives it in a variable (GitLab, Jenkins)
#   PARTITA_TOKEN      a token of Partita to use instead
#   PARTITA_KEY        a second call with this key attaches to the run of the first
#                      (default: made of the job's id and attempt, the suite, profile and backend)
#   PARTITA_JUNIT      file for the results               (default: junit.xml)
#   PARTITA_ARTIFACTS  file for the artifacts, a zip      (default: partita-artifacts.zip; empty: none)
#   PARTITA_TIMEOUT_S  how long to wait                   (default: 3600); the run goes on afterwards
#   PARTITA_SUITE_FILE suite.star in this checkout        (default: looked for by the suite's id)
# In GitHub Actions, with github.sh beside this file and GITHUB_TOKEN:
#   PARTITA_STATUS     1: a commit status, partita/SUITE  (needs 'statuses: write')
#   PARTITA_COMMENT    1: one comment in the pull request (needs 'pull-requests: write')
#
# Exit codes: 0 healthy; 1 your code failed; 2 wrong usage; 3 could not find out.
set -eu
umask 077

server=${PARTITA_SERVER:-}
server=${server%/}
suite=${PARTITA_SUITE:-}
junit=${PARTITA_JUNIT:-junit.xml}
artifacts=${PARTITA_ARTIFACTS-partita-artifacts.zip}
timeout_s=${PARTITA_TIMEOUT_S:-3600}
pause_s=${PARTITA_PAUSE_S:-3}
patience_s=${PARTITA_PATIENCE_S:-300} # of a server that does not answer
token=
run=
has_results=
has_details=
is_concluded=
verdict= # the exit code that was decided on
scratch=$(mktemp -d)
printf '{}' >"$scratch/empty"
trap 'leave' EXIT
trap 'stop' HUP INT TERM

say() { printf '%s\n' "$*"; }
is_github() { [ "${GITHUB_ACTIONS:-}" = true ]; }
is_on() { case $1 in 1 | true) ;; *) return 1 ;; esac }
is_safe_address() {
  case $1 in
    *[!!-~]* | *@*) return 1 ;;
    https://* | http://localhost | http://localhost[:/]* | http://127.0.0.1 | http://127.0.0.1[:/]*) ;;
    'http://[::1]' | 'http://[::1]:'* | 'http://[::1]/'*) ;;
    *) return 1 ;;
  esac
}

# escape TEXT of a workflow command of GitHub; escape_property TEXT of one of its properties
escape() { jq -rn --arg text "$1" '$text | gsub("%"; "%25") | gsub("\r"; "%0D") | gsub("\n"; "%0A")'; }
escape_property() { escape "$1" | sed 's/:/%3A/g; s/,/%2C/g'; }

fail() { # CODE SENTENCE
  if is_github; then say "::error title=Partita::$(escape "$2")" >&2; else say "partita: $2" >&2; fi
  [ -n "$has_results" ] || write_junit "$2"
  conclude error "$2"
  end "$1"
}

end() { # CODE
  verdict=$1
  exit "$1"
}

# A command that failed by itself ends the script, too: with a code that says nothing of the code.
leave() {
  set +e
  case $verdict in
    0 | 1 | 2 | 3) ;;
    *)
      verdict=3
      say "partita: the script ended too early, see above: nothing is known of the code" >&2
      say_it_goes_on
      conclude error "the script ended too early"
      ;;
  esac
  rm -rf "$scratch"
  exit "$verdict"
}

stop() { # the job is being stopped
  trap '' HUP INT TERM
  say_it_goes_on
  conclude error "the job was stopped"
  end 3
}

# announce STATE SENTENCE, to those that look at the commit; conclude: for the last time
announce() {
  is_on "${PARTITA_STATUS:-}" || is_on "${PARTITA_COMMENT:-}" || return 0
  if ! is_github; then
    say "partita: PARTITA_STATUS and PARTITA_COMMENT are for GitHub Actions" >&2
  elif [ -f "$(dirname "$0")/github.sh" ]; then
    (. "$(dirname "$0")/github.sh" && tell_github "$@") || :
  else
    say "partita: PARTITA_STATUS and PARTITA_COMMENT need github.sh beside launch.sh" >&2
  fi
}

conclude() {
  [ -z "$is_concluded" ] || return 0
  is_concluded=yes
  announce "$@"
}

say_it_goes_on() {
  [ -z "$run" ] || say "The run goes on: $server/executions/$run. The same call attaches to it again."
}

mask() { # SECRET: GitHub replaces it in everything that it shows
  if is_github; then say "::add-mask::$1"; fi
}

# ask METHOD PATH FILE [BODY]: the answer into FILE; prints the status. Without a whole answer, or with
# a page of a proxy instead of JSON, it prints 000, and FILE says why.
# The token goes through stdin: arguments of programs can be seen by everybody on the machine.
ask() {
  set -- "$1" "$2" "$3" "${4:-}"
  printf 'header = "Authorization: Bearer %s"\n' "$token" >"$scratch/head"
  [ -n "$token" ] || : >"$scratch/head"
  [ -z "$4" ] || printf 'header = "Content-Type: application/json"\ndata-binary = "@%s"\n' "$4" >>"$scratch/head"
  [ -z "${key:-}" ] || [ "$1" != POST ] || printf 'header = "Idempotency-Key: %s"\n' "$key" >>"$scratch/head"
  limit_s=60
  case $2 in */archive) limit_s=600 ;; esac
  code=$(curl -sS --config - --request "$1" --output "$3" --write-out '%{http_code}' --max-time "$limit_s" \
    --proto '=https,http' "$server/api/v1$2" <"$scratch/head" 2>"$scratch/curl") || code=000
  case $code$2 in
    2*/junit | 2*/archive | 2*/sign-out) ;;
    2*) jq -es 'length == 1 and (.[0] | type == "object")' "$3" >/dev/null 2>&1 || {
      code=000
      echo "the answer is no JSON" >"$scratch/curl"
    } ;;
  esac
  [ "$code" != 000 ] || jq -Rs '{detail: .}' <"$scratch/curl" >"$3"
  printf '%s' "$code"
}

detail() { # FILE: why the server refuses, in its own words
  jq -r '.detail // .title // empty' "$1" 2>/dev/null || :
}

# ---- who this job is ---------------------------------------------------------------------------

github_token() {
  [ -n "${ACTIONS_ID_TOKEN_REQUEST_URL:-}" ] || fail 2 \
    "this job has no OIDC token; give it 'permissions: {id-token: write, contents: read}'"
  audience=$(jq -rn --arg text "${PARTITA_AUDIENCE:-$server}" '$text | @uri')
  printf 'header = "Authorization: Bearer %s"\n' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" |
    curl -sS --fail --config - --max-time 30 --retry 3 --output "$scratch/id" \
      "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$audience" 2>"$scratch/curl" ||
    fail 3 "GitHub gave this job no OIDC token: $(cat "$scratch/curl")"
  jq -r .value "$scratch/id"
}

sign_in() {
  if [ -n "${PARTITA_TOKEN:-}" ]; then
    token=$PARTITA_TOKEN
    return
  fi
  if [ -n "${PARTITA_ID_TOKEN:-}" ]; then
    id_token=$PARTITA_ID_TOKEN
  elif is_github; then
    id_token=$(github_token) || end "$?"
  else
    fail 2 "PARTITA_ID_TOKEN is not set: the job's OIDC token (in GitLab by the keyword id_tokens)"
  fi
  mask "$id_token"
  printf '%s' "$id_token" | jq -Rs '{token: .}' >"$scratch/exchange"
  token=
  status=$(ask POST /auth/ci "$scratch/session" "$scratch/exchange")
  rm -f "$scratch/exchange"
  case $status in
    201) ;;
    000) fail 3 "$server does not answer: $(detail "$scratch/session")" ;;
    *) fail 3 "$server does not let this job in ($status): $(detail "$scratch/session")" ;;
  esac
  token=$(jq -r .token "$scratch/session")
  mask "$token"
  say "Signed in as $(jq -r .launchedBy "$scratch/session"), by the rule $(jq -r .rule "$scratch/session")."
  rm -f "$scratch/session"
}

# ---- the run -----------------------------------------------------------------------------------

job_key() { # its last part tells the legs of a matrix apart, which have the same name of a job
  printf '%s-%s' "$(name_job)" \
    "$(printf '%s\n' "$suite" "${PARTITA_PROFILE:-}" "${PARTITA_BACKEND:-}" | cksum | cut -d ' ' -f 1)"
}

name_job() {
  if is_github; then
    printf 'github-%s-%s-%s-%s' "$GITHUB_RUN_ID" "${GITHUB_RUN_ATTEMPT:-1}" "${GITHUB_JOB:-job}" "$suite"
  elif [ -n "${CI_JOB_ID:-}" ]; then
    printf 'gitlab-%s-%s' "$CI_JOB_ID" "$suite"
  else
    printf '%s-%s' "${BUILD_TAG:-$(date +%s)-$$}" "$suite"
  fi | tr -c '!-~' '-' | cut -c1-117
}

launch() {
  jq -n --arg suiteId "$suite" --arg profile "${PARTITA_PROFILE:-}" --arg backend "${PARTITA_BACKEND:-}" \
    --arg author "${GITHUB_ACTOR:-${GITLAB_USER_LOGIN:-}}" \
    --arg commit "${GITHUB_SHA:-${CI_COMMIT_SHA:-${GIT_COMMIT:-}}}" \
    --arg branch "${GITHUB_HEAD_REF:-${GITHUB_REF_NAME:-${CI_COMMIT_REF_NAME:-${GIT_BRANCH:-}}}}" \
    '{trigger: "CI"} + ($ARGS.named | with_entries(select(.value != "")))' >"$scratch/body"
  key=${PARTITA_KEY:-$(job_key)}
  until_s=$(($(date +%s) + patience_s))
  while :; do
    status=$(ask POST /executions "$scratch/run" "$scratch/body")
    case $status in
      201) break ;;
      000 | 429 | 502 | 503 | 504)
        [ "$(date +%s)" -lt "$until_s" ] || fail 3 "$server launches nothing now ($status): $(detail "$scratch/run")"
        sleep "$pause_s"
        ;;
      400 | 404 | 422) fail 2 "$server refuses the launch of $suite ($status): $(detail "$scratch/run")" ;;
      *) fail 3 "$server refuses the launch of $suite ($status): $(detail "$scratch/run")" ;;
    esac
  done
  key=
  run=$(jq -r .id "$scratch/run")
  say "Run $run of $suite: $server/executions/$run"
  output run-id "$run"
  output run-url "$server/executions/$run"
  announce pending "the run was launched"
}

output() { # NAME VALUE
  [ -z "${GITHUB_OUTPUT:-}" ] || printf '%s=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"
}

wait_for_end() {
  began_s=$(date +%s)
  heard_s=$began_s
  told=
  while :; do
    status=$(ask GET "/executions/$run?omit=suite,events,steps,artifacts,verdict,attempts" "$scratch/run")
    now_s=$(date +%s)
    case $status in
      200)
        heard_s=$now_s
        sentence=$(jq -r '"\(.status): \(.sentence | gsub("[\r\n]+"; " "))"' "$scratch/run")
        [ "$sentence" = "$told" ] || say "$sentence"
        told=$sentence
        case $(jq -r .status "$scratch/run") in Healthy | Failed | Canceled) return ;; esac
        ;;
      401) renew ;;
      000 | 429 | 5??) ;;
      *) fail 3 "$server does not show the run ($status): $(detail "$scratch/run")" ;;
    esac
    if [ $((now_s - heard_s)) -ge "$patience_s" ]; then
      say_it_goes_on
      fail 3 "$server has not answered for $patience_s s"
    fi
    if [ $((now_s - began_s)) -ge "$timeout_s" ]; then
      say_it_goes_on
      fail 3 "the run has not ended within $timeout_s s"
    fi
    sleep "$pause_s"
  done
}

is_renewable() { is_github && [ -z "${PARTITA_TOKEN:-}${PARTITA_ID_TOKEN:-}" ]; }

renew() { # a session ends after its minutes, a job of GitHub may ask for another token
  if is_renewable; then
    sign_in
    return
  fi
  say_it_goes_on
  fail 3 "the session has ended: $(detail "$scratch/run")"
}

# ---- the report --------------------------------------------------------------------------------

# fetch PATH FILE: into FILE and status, again while the server is away, once with a new session
fetch() {
  is_renewed=
  while :; do
    status=$(ask GET "$1" "$2")
    case $status in
      401)
        [ -z "$is_renewed" ] && is_renewable || return 0
        is_renewed=yes
        sign_in
        continue
        ;;
      000 | 429 | 5??) ;;
      *) return 0 ;;
    esac
    [ "$(date +%s)" -lt "$until_s" ] || return 0
    sleep "$pause_s"
  done
}

fetch_all() {
  until_s=$(($(date +%s) + patience_s)) # of all three
  fetch "/executions/$run/junit" "$scratch/junit"
  if [ "$status" = 200 ]; then
    has_results=yes
    keep "$scratch/junit" "$junit" || :
  else
    write_junit "the results could not be fetched ($status)"
  fi
  fetch "/executions/$run?omit=events,attempts" "$scratch/whole"
  if [ "$status" = 200 ]; then
    has_details=yes
  else
    say "The details of the run could not be fetched ($status): $(detail "$scratch/whole")"
    cp "$scratch/run" "$scratch/whole"
  fi
  [ -n "$artifacts" ] && [ "$(jq '.artifacts | length' "$scratch/whole")" -gt 0 ] || return 0
  fetch "/executions/$run/artifacts/archive" "$scratch/zip"
  if [ "$status" = 200 ]; then
    if keep "$scratch/zip" "$artifacts"; then say "Artifacts: $artifacts"; fi
  else
    say "The artifacts could not be fetched ($status): $(detail "$scratch/zip")"
  fi
}

# A CI system shows a job without its report as one whose tests nobody knows: say so in the report.
write_junit() {
  message=$(printf '%s' "$1" | sed 's/&/\&amp;/g; s/</\&lt;/g; s/"/\&quot;/g')
  printf '%s\n' '<?xml version="1.0" encoding="UTF-8"?>' \
    '<testsuites tests="1" errors="1"><testsuite name="partita" tests="1" errors="1">' \
    "<testcase name=\"run\" classname=\"partita\"><error message=\"$message\"/></testcase>" \
    '</testsuite></testsuites>' >"$scratch/report"
  keep "$scratch/report" "$junit" || :
}

# keep FILE TARGET: where the job wants it. That it cannot be written there changes no exit code.
keep() {
  if { mkdir -p "$(dirname "$2")" && cat "$1" >"$2"; } 2>"$scratch/error"; then return 0; fi
  say "partita: $2 could not be written: $(cat "$scratch/error")" >&2
  return 1
}

suite_file() {
  found=${PARTITA_SUITE_FILE:-}
  [ -n "$found" ] || found=$(find . -path "*/$suite/suite.star" -not -path '*/.git/*' 2>/dev/null | head -n 1)
  [ -n "$found" ] || found=suites/$suite/suite.star
  printf '%s' "${found#./}"
}

# Each failed step that fails the run, with its first cause, at the line that names the step.
annotate() {
  is_github || return 0
  file=$(suite_file)
  jq -r '
    (.suite.suiteStar // "" | split("\n")) as $lines
    | .verdict.steps[]? | select(.mayFail | not) | . as $step
    | (first(range($lines | length) as $at
        | select($lines[$at] | contains("\"\($step.stepId)\"") or contains("\u0027\($step.stepId)\u0027"))
        | $at + 1) // 1) as $line
    | [$line, $step.stepId,
       ([$step.sentence, $step.causes[0], ($step.cases[0] | select(.) | "\(.name): \(.message)")]
        | map(select(. != null and . != "")) | join("\n"))]
    | @base64 "\(.[0] | tostring) \(.[1]) \(.[2])"' "$scratch/whole" |
    while read -r line step text; do
      line=$(printf '%s' "$line" | base64 -d)
      step=$(printf '%s' "$step" | base64 -d)
      text=$(printf '%s' "$text" | base64 -d)
      say "::error file=$(escape_property "$file"),line=$line,title=$(escape_property "$step")::$(escape "$text")"
    done
}

summarize() {
  [ -n "${GITHUB_STEP_SUMMARY:-}" ] || return 0
  jq -r --arg url "$server/executions/$run" '
    def cell: gsub("\\|"; "\\|") | gsub("[\r\n]+"; " ");
    def code: "```\n" + (gsub("```"; "` ` `")) + "\n```";
    "### \(if .status == "Healthy" then "✅" elif .status == "Failed" then "❌" else "⚪" end) " +
    "\(.suiteTitle | cell): \(.status)\n",
    "\(.sentence | cell)\n",
    (.verdict.steps[]? | "**\(.sentence | cell)**\n", (.causes[]? | "- \(cell)"),
      (.cases[]? | "- `\(.name | gsub("`"; ""))`: \(.message | cell)"),
      (select(.lines | length > 0) | "", ([.lines[].text] | join("\n") | code)), ""),
    "[Run \(.id)](\($url)), \(.duration), profile \(if .profile == "" then "none" else .profile end)"
  ' "$scratch/whole" >>"$GITHUB_STEP_SUMMARY"
}

explain() { # lines of the run may look like commands to GitHub, which shall not read them
  stop=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
  if is_github; then say "::stop-commands::$stop"; fi
  jq -r '
    .verdict.steps[]? | "", .sentence, (.causes[]? | "  " + .),
      (.cases[]? | "  \(.name): \(.message)"), (.lines[]? | "  | " + .text)
  ' "$scratch/whole"
  if is_github; then say "::$stop::"; fi
}

# Whether something failed by what it ran on: as the exit code 11 of `partita run launch --watch`.
is_of_infrastructure() {
  jq -e '
    ["runtime_unavailable", "agent_unavailable", "agent_lost", "internal_error", "backend_unavailable",
     "secret_unresolved", "run_timeout", "dependency_replaced", "unschedulable", "quota_exceeded",
     "admission_refused", "container_config", "init_failed", "evicted", "preempted",
     "node_lost"] as $infrastructure
    | [.reason, (.steps[]? | select(.status == "failed") | .reason)]
    | any(.[]; . as $reason | any($infrastructure[]; . == $reason))
  ' "$scratch/whole" >/dev/null
}

finish() {
  output status "$(jq -r .status "$scratch/run")"
  for part in annotate summarize explain; do
    "$part" || say "partita: a part of the report could not be written ($part)" >&2
  done
  [ -n "${PARTITA_TOKEN:-}" ] || ask POST /auth/sign-out "$scratch/out" "$scratch/empty" >/dev/null
  case $(jq -r '"\(.status) \(.reason // "")"' "$scratch/run") in
    Healthy*)
      conclude success "$(jq -r .sentence "$scratch/run")"
      end 0
      ;;
    "Failed step_failed" | "Failed ")
      [ -n "$has_details" ] || fail 3 "the run failed, and why could not be fetched"
      if ! is_of_infrastructure; then
        conclude failure "$(jq -r .sentence "$scratch/run")"
        end 1
      fi
      fail 3 "a step failed by what it ran on: $(jq -r .sentence "$scratch/run")"
      ;;
    Canceled*) fail 3 "the run was canceled" ;;
    *) fail 3 "the run ended without an answer about your code: $(jq -r .sentence "$scratch/run")" ;;
  esac
}

for program in curl jq; do
  command -v "$program" >/dev/null || { say "partita: this script needs $program" >&2; end 2; }
done
[ -n "$server" ] || fail 2 "PARTITA_SERVER is not set: the address of the server"
[ -n "$suite" ] || fail 2 "PARTITA_SUITE is not set: the id of the suite to run"
is_safe_address "$server" || fail 2 "PARTITA_SERVER must be an https address: tokens are sent there"
write_junit "the run has not ended yet" # replaced by what comes of it
sign_in
launch
wait_for_end
fetch_all
finish
