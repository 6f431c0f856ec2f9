#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fails if the first line of a commit's message is not `area: what it does`, has more than 72 characters, or is not followed by
# an empty one.
#
#   commits.sh         looks at the commits after 794267b, which have this form; in a shallow clone at those that are there
#   commits.sh FILE    looks at the message in FILE, for the hook commit-msg (scripts/hooks)
#
# Ends with 77 if there is no history to look at.

set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.."

since=794267b
failed=0

# check NAME SUBJECT SECOND-LINE
check() {
	local area='[a-z0-9][a-z0-9._/-]*' wrong=''
	[[ $2 =~ ^(Revert\ \")?$area(,\ $area)*:\ [^[:space:]] ]] || wrong="does not begin as \`area: what it does\`"
	[ ${#2} -le 72 ] || wrong+="${wrong:+, and }has ${#2} characters, more than 72"
	[ -z "$3" ] || wrong+="${wrong:+, and }is not followed by an empty line"
	if [ -n "$wrong" ]; then
		printf '%s%s\n    %s\n' "${1:+$1: }" "this line $wrong:" "$2" >&2
		failed=1
	fi
}

if [ $# -gt 0 ]; then
	# git drops what begins with #, and empty lines before the first.
	mapfile -t lines < <(sed -n '/^# -* >8 -*$/q; /^#/d; p' "$1" | sed '/./,$!d')
	case ${lines[0]:-} in
	'') ;;                                # git refuses it itself.
	'fixup! '* | 'squash! '* | 'amend! '*) ;; # Goes away before anybody else sees it.
	'Merge '*) ;;
	*) check '' "${lines[0]}" "${lines[1]:-}" ;;
	esac
	exit $failed
fi

git() { command git -c safe.directory="$PWD" "$@"; }
nothing() { echo "skipped: $1"; exit 77; }
[ -e .git ] || nothing 'this is no checkout of git'
shallow=$(git rev-parse --is-shallow-repository)
range=$since..HEAD where="after $since"
if ! git rev-parse --quiet --verify "$since^{commit}" >/dev/null; then
	[ "$shallow" = true ] || nothing "the history has no commit $since"
	range=HEAD where="of a clone that does not reach back to $since"
fi
count=0
while read -r hash; do
	mapfile -t lines < <(git log -1 --format=%B "$hash")
	check "${hash:0:12}" "${lines[0]:-}" "${lines[1]:-}"
	count=$((count + 1))
done < <(git rev-list --no-merges "$range")
echo "$count commits $where"
exit $failed
