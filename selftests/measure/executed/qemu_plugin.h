/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What plugin.c uses of QEMU's interface for plugins, version 4 (QEMU 10;
 * docs/devel/tcg-plugins of its source). Debian has no header for it.
 */
#ifndef _EXECUTED_QEMU_PLUGIN_H
#define _EXECUTED_QEMU_PLUGIN_H

#include <linux/types.h>
#include <stddef.h>

#define QEMU_PLUGIN_VERSION 4

struct qemu_plugin_tb;
struct qemu_plugin_insn;

/* Whether a callback looks at the registers of the guest. */
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

/* A block of instructions was translated. */
void qemu_plugin_register_vcpu_tb_trans_cb(__u64 id,
					   void (*callback)(__u64 id, struct qemu_plugin_tb *tb));
/* QEMU ends. */
void qemu_plugin_register_atexit_cb(__u64 id, void (*callback)(__u64 id, void *data), void *data);
/* A CPU of the guest is about to execute the instruction. */
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*callback)(unsigned int cpu, void *data),
					    enum qemu_plugin_cb_flags flags, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
__u64 qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
/* Returns how long the instruction is. */
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t length);

#endif
