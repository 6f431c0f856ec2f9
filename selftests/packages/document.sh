# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The commands of docs/install.md, taken from the document itself, so that the tests type what an administrator would; or those of
# another document in $document. Sourced in the top directory.
#
# A block is what stands indented below a heading: its name is the heading, without #, and its number below that heading.

# block HEADING NUMBER: prints it.
block() {
	awk -v heading="$1" -v number="$2" '
		/^#+ / { here = $0; sub(/^#+ /, "", here); count = inside = 0; next }
		!/^    / { inside = 0; next }
		!inside { inside = 1; count++ }
		here == heading && count == number { print substr($0, 5); found = 1 }
		END { exit !found }' "${document:-docs/install.md}" || echo "echo '${document:-docs/install.md} has no block $2 below \"$1\"'; exit 1"
}

# Prints the name of each block of the document, as it is written after `typed`.
blocks() {
	awk '/^#+ / { here = $0; sub(/^#+ /, "", here); count = inside = 0; next }
		!/^    / { inside = 0; next }
		!inside { inside = 1; print "typed \047" here "\047 " ++count }' docs/install.md | sort
}
