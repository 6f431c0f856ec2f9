#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Each trace point has the format of the in-tree module's of that name, so that tools read its events.

. ./lib.sh
clear_logs

events=/sys/kernel/tracing/events/rpcrdma
in_tree=$(find "/lib/modules/$(uname -r)/kernel" -name 'rpcrdma.ko*')
work=$(mktemp -d)

# formats DIRECTORY: copies the formats of the loaded module there, without the number that an event has until it is unloaded.
formats() {
	local event
	mkdir "$1"
	for event in "$events"/*/; do
		event=${event%/}
		sed '/^ID: /d' "$event/format" >"$1/${event##*/}"
	done
}

# All that issue trackers and scripts for the in-tree module ask for most.
has_events() {
	local event status=0
	for event in xprtrdma_{connect,disconnect,op_connect,inline_thresh,device_removal,marshal,marshal_failed,nomrs_err,post_send} \
		xprtrdma_{wc_receive,reply,mr_fastreg,mr_localinv,mr_reminv,err_chunk} \
		svcrdma_{decode_rqst,decode_parse_err,post_read_chunk,wc_read,post_send,send_err,wc_recv_err,sq_full,qp_error} \
		svcrdma_device_removal; do
		[ -e "$work/ours/$event" ] || { echo "there is no $event"; status=1; }
	done
	return $status
}

same_formats() {
	local file status=0
	for file in "$work"/ours/*; do
		diff -u "$work/theirs/${file##*/}" "$file" || status=1
	done
	return $status
}

modprobe rpcrdma
formats "$work/ours"
# insmod wants what modprobe would have loaded first.
dependencies=$(modinfo -F depends rpcrdma | tr , ' ')
rmmod rpcrdma
# shellcheck disable=SC2086 # a list of modules
modprobe -a $dependencies
insmod "$in_tree"
formats "$work/theirs"
rmmod rpcrdma

plan 3
check "the events that people look for are there" has_events
check "each has the format of the in-tree module's" same_formats
check "the events go when the module is unloaded" not test -e "$events"
echo "# $(find "$work/ours" -type f | wc -l) trace points; the in-tree module has $(find "$work/theirs" -type f | wc -l)"
finish
