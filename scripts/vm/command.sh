#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the command of a VM that has started with systemd, as guest.sh does in others: its output goes to a port of its own, its exit
# status to the shared directory /vm. Then systemd turns the machine off, which is part of what is tested.

export HOME=/root LANG=C.UTF-8
# shellcheck source=/dev/null
. /vm/config
port=$(cd /sys/class/virtio-ports && grep -lx command ./*/name | cut -d/ -f2)
cd /src || exit
# shellcheck disable=SC2153 # it is one of what /vm/config sets
bash -c "$COMMAND" </dev/null >"/dev/$port" 2>&1
status=$?
dmesg >/vm/dmesg
echo "$status" >/vm/status
systemctl poweroff
