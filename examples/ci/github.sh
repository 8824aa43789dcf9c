# Part of launch.sh, which reads it in a job of GitHub Actions: a commit status and a comment in the
# pull request, by the job's own GITHUB_TOKEN. What goes wrong here is said; it changes no exit code.

github=${GITHUB_API_URL:-https://api.github.com}
repository=$github/repos/${GITHUB_REPOSITORY:-}
job_url=${GITHUB_SERVER_URL:-https://github.com}/${GITHUB_REPOSITORY:-}/actions/runs/${GITHUB_RUN_ID:-}
# jobs with another profile or backend have a status and a comment of their own
check=$(printf '%s' "partita/$suite${PARTITA_PROFILE:+/$PARTITA_PROFILE}${PARTITA_BACKEND:+/$PARTITA_BACKEND}" |
  tr -c 'A-Za-z0-9._/-' '-' | cut -c1-200)
# what a suite prints may hold colors, control characters, and marks that turn the direction of text
printable='def printable: gsub("\u001b\\[[0-9;]*[A-Za-z]"; "") | explode
  | map(select(. == 9 or . == 10 or (. >= 32 and . < 127) or (. > 159 and . < 8234)
      or (. > 8238 and . < 8294) or . > 8297)) | implode;'

warn() { say "::warning title=Partita::$(escape "$*")" >&2; }

of_event() { # MEMBER of the event that started the job, such as .pull_request.number; empty: no such
  jq -r "$1 // empty" "${GITHUB_EVENT_PATH:-/dev/null}" 2>/dev/null || :
}

# ask_github METHOD ADDRESS FILE [BODY]: as ask. A comment is not tried again: it may have been written.
ask_github() {
  case "$1 $2" in "POST "*/comments) retries=0 ;; *) retries=3 ;; esac
  {
    printf 'header = "Authorization: Bearer %s"\n' "$GITHUB_TOKEN"
    printf 'header = "Accept: application/vnd.github+json"\n'
    [ -z "${4:-}" ] || printf 'data-binary = "@%s"\n' "$4"
  } | curl -sS --config - --request "$1" --output "$3" --write-out '%{http_code}' --max-time 20 \
    --retry "$retries" --retry-max-time 40 --max-filesize 20000000 "$2" 2>"$scratch/curl" || :
}

github_refuses() { # STATUS FILE PERMISSION
  warn "GitHub answers $1: $(jq -r '.message // empty' "$2" 2>/dev/null || :) (needs 'permissions: {$3}')"
}

# tell_github STATE SENTENCE: pending, success, failure or error
tell_github() {
  if [ -z "${GITHUB_TOKEN:-}" ]; then
    warn "no commit status and no comment: GITHUB_TOKEN is not set"
    return
  fi
  if ! is_safe_address "$github"; then
    warn "no commit status and no comment: GITHUB_API_URL must be an https address"
    return
  fi
  commit=$(of_event '.pull_request.head.sha // .workflow_run.head_sha')
  commit=${commit:-${GITHUB_SHA:-}}
  url=$job_url
  [ -z "$run" ] || url=$server/executions/$run
  if is_on "${PARTITA_STATUS:-}"; then write_status "$1" "$2"; fi
  if is_on "${PARTITA_COMMENT:-}"; then write_comments "$1" "$2"; fi
}

write_status() {
  jq -n --arg state "$1" --arg sentence "$2" --arg url "$url" --arg check "$check" "$printable"'
    ($sentence | printable | gsub("\\s+"; " ")) as $text
    | {state: $state, target_url: $url, context: $check,
       description: (if $text | length > 140 then $text[0:139] + "…" else $text end)}
  ' >"$scratch/status"
  status=$(ask_github POST "$repository/statuses/$commit" "$scratch/github" "$scratch/status")
  [ "$status" = 201 ] || github_refuses "$status" "$scratch/github" "statuses: write"
}

write_comments() {
  list_pulls >"$scratch/pulls"
  while read -r pull; do
    write_comment "$pull" "$1" "$2"
  done <"$scratch/pulls"
}

# The open pull requests that this commit is the newest of: an older run overwrites nothing.
list_pulls() {
  number=$(of_event .pull_request.number)
  asked=$repository/commits/$commit/pulls
  [ -z "$number" ] || asked=$repository/pulls/$number
  status=$(ask_github GET "$asked" "$scratch/github")
  if [ "$status" != 200 ]; then
    github_refuses "$status" "$scratch/github" "pull-requests: write"
    return
  fi
  jq -r --arg commit "$commit" '
    [if type == "array" then .[] else . end | select(.state == "open" and .head.sha == $commit)
     | .number] | .[0:5][]' "$scratch/github"
}

write_comment() { # PULL STATE SENTENCE
  comment_body "$2" "$3" >"$scratch/comment"
  found=$(find_comment "$1")
  case $found in
    none) set -- POST "$repository/issues/$1/comments" ;;
    "") return ;;
    *) set -- PATCH "$repository/issues/comments/$found" ;;
  esac
  status=$(ask_github "$1" "$2" "$scratch/github" "$scratch/comment")
  case $status in
    200 | 201) ;;
    *) github_refuses "$status" "$scratch/github" "pull-requests: write" ;;
  esac
}

# find_comment PULL: the id of the comment to edit, none, or nothing where that is not known. Only a
# comment of this job's account counts: everybody can write the marker.
find_comment() {
  me=
  [ "$(ask_github GET "$github/user" "$scratch/github")" != 200 ] || me=$(jq -r .login "$scratch/github")
  page=1
  while [ "$page" -le 10 ]; do
    status=$(ask_github GET "$repository/issues/$1/comments?per_page=100&page=$page" "$scratch/github")
    if [ "$status" != 200 ]; then
      github_refuses "$status" "$scratch/github" "pull-requests: write"
      return
    fi
    jq -r --arg marker "<!-- $check -->" --arg me "$me" '
      (first(.[] | select((.body // "" | startswith($marker))
         and (if $me == "" then .user.type == "Bot" else .user.login == $me end))) | .id)
      // if length < 100 then "none" else empty end' "$scratch/github" >"$scratch/found"
    if [ -s "$scratch/found" ]; then
      cat "$scratch/found"
      return
    fi
    page=$((page + 1))
  done
  warn "the pull request has more than 1000 comments: none is written"
}

# What the suite printed stands in <pre>, where GitHub reads no Markdown and no names of people. At most
# 10,000 characters, which become 50,000 of HTML.
comment_body() { # STATE SENTENCE
  whole=$scratch/whole
  [ -s "$whole" ] || whole=$scratch/empty
  jq --arg state "$1" --arg sentence "$2" --arg url "$url" --arg check "$check" --arg commit "$commit" \
    --arg job "$job_url" "$printable"'
    def html: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
    def bounded: if length > 10000 then .[0:10000] + "\n… the rest is on the page of the run" else . end;
    {pending: "⏳ running", success: "✅ healthy", failure: "❌ failed",
     error: "⚪ could not be found out"}[$state] as $word
    | ([$sentence, (.verdict.steps[]? | "", .sentence, (.causes[]? | "  " + .),
        (.cases[]? | "  \(.name): \(.message)"), (.lines[]? | "  | " + .text))]
       | join("\n") | printable | bounded | html) as $text
    | {body: ("<!-- \($check) -->\n### `\($check)`: \($word)\n\n<pre>\n\($text)\n</pre>\n\n"
        + "Commit \($commit) · [run](\($url)) · [job](\($job))")}
  ' "$whole"
}
