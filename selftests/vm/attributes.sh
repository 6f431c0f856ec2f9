#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ACLs, extended attributes and directories of every size are the same as on the server, or fail as they do over TCP: around the length
# of an inline message, and where the results have pages that sunrpc leaves to the transport to allocate.
#
# LONG_FORMS=yes tries more lengths of inline messages.

. ./lib.sh
need_pair

tcp=/mnt/tcp there=/src/selftests/vm/attributes.py
mkdir -p $tcp

# What nfsd puts into a reply are about 330 entries.
acls=(1 2 5 77 83 84 85 120 166 200 300)
too_long=(345 400 700)
xattrs=(0 1 2 3 4 200 700 800 850 900 1000 1024 3800 3900 4000 4096 7900 8000 8100 8191 8192 8193 16000 30001 60000)

# The mount at the place, of another protocol or not, shows what the other one wrote.
same() {
	[ "$1" = "$2" ] || { diff <(echo "$1") <(echo "$2"); return 1; }
}

# acls DIRECTORY: set over RDMA and read over TCP, and the other way round.
acls() {
	local dir=acls-$1
	mkdir "$mnt/$dir" "$mnt/$dir/r" "$mnt/$dir/t" || return
	same "$(./attributes.py set-acls "$mnt/$dir/r" "${acls[@]}")" "$(./attributes.py set-acls "$tcp/$dir/t" "${acls[@]}")" || return
	drop_caches
	same "$(./attributes.py acls "$tcp/$dir/r" "${acls[@]}")" "$(./attributes.py acls "$mnt/$dir/t" "${acls[@]}")" || return
	! ./attributes.py acls "$mnt/$dir/t" "${acls[@]}" | grep -v '^[0-9]* [0-9]'
}

# The call fails, whatever carries it, and does not cost other calls their connection. rxe ends one, too, if a machine is too slow to
# acknowledge packets; then the test tries again.
too_long() {
	local status try
	for try in 1 2 3; do
		fails_alone "too-long-$1-$try"
		status=$?
		[ $status -eq 2 ] || break
	done
	return $status
}
# fails_alone DIRECTORY: the status is 2 if the results are right, and rxe ended the connection.
fails_alone() {
	local before after got lost dir=$1
	lost=$(retries_exceeded)
	mkdir "$mnt/$dir" && on_server $there set-acls "/export/$dir" "${too_long[@]}" || return 1
	before=$(counter connect_count)
	got=$(./attributes.py acls "$mnt/$dir" "${too_long[@]}")
	after=$(counter connect_count)
	echo "$got"
	echo "connections: $before before, $after after"
	same "$(./attributes.py acls "$tcp/$dir" "${too_long[@]}")" "$got" && not grep -v '^[0-9]* E' <<<"$got" || return 1
	[ "$before" != "$after" ] || return 0
	[ "$(retries_exceeded)" = "$lost" ] || { echo "the connection was given up"; return 2; }
	return 1
}

xattrs() {
	local dir=xattrs-$1
	mkdir "$mnt/$dir" "$mnt/$dir/r" "$mnt/$dir/s" && chmod 777 "$mnt/$dir/s" || return
	same "$(./attributes.py set-xattrs "$mnt/$dir/r" "${xattrs[@]}")" \
		"$(on_server $there set-xattrs "/export/$dir/s" "${xattrs[@]}")" || return
	drop_caches
	same "$(on_server $there xattrs "/export/$dir/r" "${xattrs[@]}")" "$(./attributes.py xattrs "$mnt/$dir/s" "${xattrs[@]}")"
}

many_xattrs() {
	./attributes.py many-xattrs "$mnt/many-$1" 150 && drop_caches &&
		same "$(on_server $there list-xattrs "/export/many-$1")" "$(./attributes.py list-xattrs "$mnt/many-$1")"
}

# with_messages LENGTH VERSION: mounts that way.
with_messages() {
	local status
	echo "$1" >/proc/sys/sunrpc/rdma_max_inline_read && echo "$1" >/proc/sys/sunrpc/rdma_max_inline_write || return
	mount_nfs "$2"
	status=$?
	echo "$usual" >/proc/sys/sunrpc/rdma_max_inline_read && echo "$usual" >/proc/sys/sunrpc/rdma_max_inline_write && return $status
}

lists() { drop_caches && ./attributes.py names "$mnt/directory" "$names"; }
lists_while_it_breaks() { load_lists=3 && during_lists drop_connection; }
# during_lists COMMAND...: the command, again and again, while the directory is listed.
during_lists() {
	local reader status
	(for ((i = 0; i < load_lists; i++)); do lists || exit; done) &
	reader=$!
	while kill -0 $reader 2>/dev/null; do "$@" && sleep 1; done
	wait $reader
}
lists_while_it_changes() {
	on_server "$there stir /export/directory 3 >/tmp/stir.log 2>&1 &"
	load_lists=3 during_lists true
	local status=$?
	on_server "cat /tmp/stir.log; while pgrep -f '[a]ttributes.py stir' >/dev/null; do sleep 0.2; done"
	return $status
}

names=1000 lengths=(8192 1024)
if long_form; then names=5000 lengths=(8192 1024 4096 65536); fi
modprobe rpcrdma
usual=$(</proc/sys/sunrpc/rdma_max_inline_read)
on_server "$there fill /export/directory $names" || exit

plan $((4 * ${#lengths[@]} + 6))
mount -t nfs -o "proto=tcp,vers=3,nolock,retry=0" "$SERVER_ADDR:/export" $tcp || exit
for length in "${lengths[@]}"; do
	with_messages "$length" 3 || exit
	check "messages of $length: ACLs of up to 300 entries are the same as over TCP" acls "$length"
	check "messages of $length: longer ones fail, and the connection stays" too_long "$length"
	umount "$mnt"
	with_messages "$length" 4.2 || exit
	check "messages of $length: attributes of up to 60000 octets are the same as on the server" xattrs "$length"
	check "messages of $length: 150 attributes are listed" many_xattrs "$length"
	umount "$mnt"
done
umount $tcp
for version in 3 4.2; do
	mount_nfs "$version" rsize=4096 || exit
	check "NFSv$version: a directory of $names names is listed" lists
	check "NFSv$version: it is listed while others add and remove names" lists_while_it_changes
	check "NFSv$version: it is listed while connections break" lists_while_it_breaks
	umount "$mnt"
done
finish
