#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs inside a fresh Debian trixie root: makes it what a user has who follows docs/install.md, with trixie-backports in the
# apt sources and nothing of this project.

set -eu
sed -n 's/ trixie main/ trixie-backports main/p' /etc/apt/sources.list >/etc/apt/sources.list.d/backports.list
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # No daemon starts in a chroot.
chmod +x /usr/sbin/policy-rc.d

# Nobody answers questions, and what one test downloads the next one uses.
cat >/etc/apt/apt.conf.d/90tests <<'END'
APT::Get::Assume-Yes "true";
Binary::apt::APT::Keep-Downloaded-Packages "true";
END

# No test outlives the machine.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/90tests

# Debian 13 makes its initramfs with initramfs-tools; a kernel's package alone would bring dracut.
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install --no-install-recommends initramfs-tools
rm -f /var/cache/apt/archives/*.deb
