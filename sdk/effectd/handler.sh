# effectd's handler protocol 1 for bash. Source it; it starts nothing by itself and needs no jq.
#
#   . /path/to/handler.sh
#   input=$(cat)
#   if effectd_announce send-mail "$input"; then            # leave: it was not made before
#     id=$(provider --key "$EFFECTD_IDEMPOTENCY_KEY") || exit 1       # unknown, unless you know
#     effectd_confirm applied "{\"id\":$(effectd_string "$id")}"
#   elif [ $? -ne 10 ]; then exit 1                         # refused; 10: it was made before
#   fi
#   effectd_result "$EFFECTD_RESULT"
#
# effectd_announce NAME REQUEST   REQUEST is JSON. Returns 0 with leave, 10 when the effect is
#                                 applied already, 11 when it is refused; exits 74 when the daemon
#                                 has gone. Sets EFFECTD_ORDINAL, EFFECTD_EFFECT_ID,
#                                 EFFECTD_IDEMPOTENCY_KEY (leave), EFFECTD_RESULT (applied: JSON),
#                                 EFFECTD_CODE (refused).
# effectd_confirm applied [JSON]          reports the effect that got leave last, and waits until
# effectd_confirm not_applied REASON      that is recorded. Sets EFFECTD_RESULT to the JSON.
# effectd_progress FRACTION [MESSAGE]     0.0 to 1.0
# effectd_result JSON                     the call's result (handlers with several effects)
# effectd_string TEXT                     prints TEXT as a JSON string
#
# Without a confirmation the effect is unknown, however the script ends. So confirm
# `not_applied` only when it is certain: the provider said no, or nothing was sent.

if [ -z "${BASH_VERSION:-}" ]; then
  echo "effectd: handler.sh needs bash" >&2
  exit 2
fi
if [ "${EFFECTD_FD:-}" != 3 ]; then
  echo "effectd: not started by effectd: use effectctl handlers try NAME" >&2
  exit 2
fi

# The daemon may go at any time; a write to it must then fail instead of killing the script.
trap '' PIPE

EFFECTD_ORDINAL='' EFFECTD_RESULT=null EFFECTD_CODE=''

_effectd_send() {
  # A newline outside a string is only white space in JSON, and inside one it is not allowed.
  printf '%s\n' "${1//$'\n'/ }" 2>/dev/null >&3 || exit 74
}

_effectd_receive() {
  IFS= read -r -u 3 _effectd_line || exit 74
}

_effectd_garbage() {
  printf 'effectd: not a message of handler protocol 1: %.80s\n' "$_effectd_line" >&2
  exit 1
}

# The value of a string member of a message that has no nested values.
_effectd_take() {
  local pattern="\"$1\":\"([^\"\\]*)\""
  [[ $_effectd_line =~ $pattern ]] && _effectd_taken=${BASH_REMATCH[1]} && [ -n "$_effectd_taken" ]
}

effectd_string() {
  local text=$1 out='' char i
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\r'/\\r}
  text=${text//$'\t'/\\t}
  if [[ $text == *[$'\001'-$'\037']* ]]; then
    for ((i = 0; i < ${#text}; i++)); do
      char=${text:i:1}
      if [[ $char == [$'\001'-$'\037'] ]]; then printf -v char '\\u%04x' "'$char"; fi
      out+=$char
    done
    text=$out
  fi
  printf '"%s"' "$text"
}

# The result of an `applied` message: whatever stands behind its top-level "result", the last
# member. What stands before it is one scalar after another, so no nested "result" can be met.
_effectd_applied() {
  local rest=${_effectd_line#'{"type":"applied"'}
  local member='^,"[a-z_]+":("[^"\\]*"|-?[0-9]+|true|false|null)'
  EFFECTD_RESULT=null
  while [ "$rest" != '}' ]; do
    if [[ $rest == ',"result":'*'}' ]]; then
      rest=${rest#',"result":'}
      EFFECTD_RESULT=${rest%'}'}
      return 0
    fi
    [[ $rest =~ $member ]] || _effectd_garbage
    rest=${rest:${#BASH_REMATCH[0]}}
  done
}

effectd_announce() {
  local ordinal='"ordinal":([0-9]+)'
  _effectd_send "{\"type\":\"announce\",\"effect\":$(effectd_string "$1"),\"request\":$2}"
  _effectd_receive
  case $_effectd_line in
    '{"type":"leave",'*)
      [[ $_effectd_line =~ $ordinal ]] || _effectd_garbage
      EFFECTD_ORDINAL=${BASH_REMATCH[1]}
      _effectd_take effect_id || _effectd_garbage
      EFFECTD_EFFECT_ID=$_effectd_taken
      _effectd_take idempotency_key || _effectd_taken=$EFFECTD_EFFECT_ID
      EFFECTD_IDEMPOTENCY_KEY=$_effectd_taken
      export EFFECTD_EFFECT_ID EFFECTD_IDEMPOTENCY_KEY
      return 0
      ;;
    '{"type":"applied"'*)
      _effectd_applied
      return 10
      ;;
    '{"type":"refused"'*)
      _effectd_take code || _effectd_taken=Refused
      EFFECTD_CODE=$_effectd_taken
      printf 'effectd: no leave for effect %s: %s\n' "$1" "$EFFECTD_CODE" >&2
      return 11
      ;;
  esac
  _effectd_garbage
}

effectd_confirm() {
  local recorded="^\\{\"type\":\"recorded\",(.*,)?\"ordinal\":${EFFECTD_ORDINAL}[,}]"
  local confirm="{\"type\":\"confirm\",\"ordinal\":$EFFECTD_ORDINAL,\"outcome\":\"$1\""
  case $1 in
    applied)
      EFFECTD_RESULT=${2:-null}
      _effectd_send "$confirm,\"result\":$EFFECTD_RESULT}"
      _effectd_receive
      case $_effectd_line in
        '{"type":"refused","code":"InvalidInput"'*)
          # Its result cannot be kept. It is applied all the same, and must not become unknown.
          echo "effectd: the result of the effect is not kept: it is too large, or not JSON" >&2
          _effectd_send "$confirm}"
          _effectd_receive
          ;;
      esac
      ;;
    not_applied)
      _effectd_send "$confirm,\"reason\":$(effectd_string "${2:-}")}"
      _effectd_receive
      ;;
    *)
      printf 'effectd: effectd_confirm takes applied or not_applied, not %s\n' "$1" >&2
      exit 2
      ;;
  esac
  [[ $_effectd_line =~ $recorded ]] || _effectd_garbage
}

effectd_progress() {
  _effectd_send "{\"type\":\"progress\",\"fraction\":$1,\"message\":$(effectd_string "${2:-}")}"
}

effectd_result() {
  _effectd_send "{\"type\":\"result\",\"value\":${1:-null}}"
}
