#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dmesg.sh [FILE...]: prints the lines of a kernel log that report a fault of the kernel. Exits with 1 if there are any. Without
# a FILE it reads the kernel log of this machine.
#
# Bash and grep only: the tests run it in emulated machines, where Python takes seconds to start.

# Extended regular expressions, one for each kind of report.
faults='\bWARNING: 
\bBUG: |\bBUG [^ ]+ \(|kernel BUG at
\bOops\b|general protection fault|Kernel panic|Unable to handle kernel|Modules linked in
refcount_t: |list_(add|del) corruption|ODEBUG: |ref_tracker: |unregister_netdevice: waiting
\b(UBSAN|KASAN|KCSAN|KMSAN|KFENCE): |DMA-API: 
\bleak(s|ed|ing)?\b|kmemleak: [0-9]+ new suspected
INFO: (trying to register non-static key|task .* blocked for more than|.*(lock|dead))
possible (recursive|circular) locking|inconsistent lock state|suspicious RCU usage
rcu:? .*(stall|detected)|soft lockup|hard LOCKUP|sleeping function called
rust_kernel: panicked|panicked at'

# Lines that match the above and report no fault: the last are results of tests in the kernel, whose names may have any word in them.
# The line about a module that is out of tree or unsigned, which taints the kernel, matches none of the above.
harmless='WARNING: .*unencrypted
DMA-API: (preallocated|debugging enabled|enable driver filter)
Kernel memory leak detector
: (not )?ok [0-9]+ '

set -o pipefail
if [ $# -eq 0 ]; then dmesg; else cat "$@"; fi | {
	! LC_ALL=C grep -aE "$faults" | LC_ALL=C grep -avE "$harmless"
}
