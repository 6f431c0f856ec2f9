#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# Prints what kmemleak suspects, from /sys/kernel/debug/kmemleak, but for what the kernel itself (7.3) leaks, by where it was allocated:
#   * nfsd frees the calls that a CB_OFFLOAD refers to when the client has answered that, and not when the callback ends without an answer,
#     because the connection is gone (nfsd4_cb_offload_done, nfsd4_cb_offload_release).
#   * iw_cm copies the private data of a request or a reply (cm_event_handler), and frees the copy when it has handled the event. If the id
#     is being destroyed, it drops the event without that (cm_work_handler): a listener that goes while a peer connects, for instance.

function out() {
	if (object !~ /nfsd41_cb_referring_call|kmemdup_noprof\+[^\n]*\n[^\n]* cm_event_handler\+/) printf "%s", object
	object = ""
}
/^unreferenced object/ { out() }
{ object = object $0 "\n" }
END { out() }
