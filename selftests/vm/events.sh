# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Trace points of what a test provokes anyway: `record_events`, the test, `end_events`, and `event_came` for each event. The side is
# `here` or `there`, the server. While events are on, the module must stay loaded.

tracing=/sys/kernel/tracing
# Parts of patterns.
# shellcheck disable=SC2034 # for those who include this file
hex='0x[0-9a-f]{8}'
# shellcheck disable=SC2034
completion='cq.id=[0-9]+ cid=-?[0-9]+'

at() { if [ "$1" = there ]; then on_server "$2"; else bash -c "$2"; fi; }

# record_events SIDE EVENT...
record_events() {
	at "$1" "cd $tracing && echo 0 >tracing_on && echo >trace && echo 4096 >buffer_size_kb &&
		for event in ${*:2}; do echo 1 >events/rpcrdma/\$event/enable || exit; done && echo 1 >tracing_on"
}

# end_events SIDE
end_events() { at "$1" "cd $tracing && echo 0 >events/rpcrdma/enable && cat trace >/tmp/events && echo >trace"; }

# event_came SIDE EVENT PATTERN: an event that was recorded has fields which match. If none has, prints some that came.
event_came() { at "$1" "grep -qE ' $2: $3' /tmp/events || { grep ' $2: ' /tmp/events | head -n 3; false; }"; }
