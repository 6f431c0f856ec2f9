#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a VM whose disk has a Debian system of which nothing is installed yet (machine.sh): the first packages are unpacked, but dpkg does
# not know them. Installs them, as debootstrap does in its second stage, and tells apt where the other ones are.

set -ex
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true INITRD=No

mkdir -p /var/lib/dpkg/info
touch /var/lib/dpkg/status
ln -sf mawk /usr/bin/awk
cp /usr/share/base-passwd/passwd.master /etc/passwd
cp /usr/share/base-passwd/group.master /etc/group
echo guest >/etc/hostname
printf '127.0.0.1\tlocalhost\n::1\tlocalhost\n' >/etc/hosts
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # No daemon starts: no systemd runs.
chmod +x /usr/sbin/policy-rc.d
# No test outlives the machine.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/90tests

# They need each other before they are configured.
xargs dpkg --force-depends --install </srv/first
[ -z "$(dpkg --audit)" ]

# Nobody answers questions.
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/90tests
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/packages ./' >/etc/apt/sources.list
apt-get -q update
apt-get -q check
