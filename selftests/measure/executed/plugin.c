// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU that counts how often the guest executes instructions of
 * some kind, between marks. x86-64 only.
 *
 * count=locked: those of the kernel that are locked: with the prefix LOCK, or
 * an exchange with memory, which needs none. It counts calls of functions, too:
 * those that a module calls say on whose behalf a helper of the kernel executes
 * what is locked.
 *
 * count=strings: each step of a string instruction that is repeated, of the
 * kernel and of programs. With icount QEMU executes, and counts, each step as an
 * instruction of its own; a processor copies or clears 32 octets or more at once.
 *
 * A program of the guest marks begin and end (executed.py): it executes a NOP
 * whose operand says which phase begins, or with 0 that one has ended. out=FILE
 * has a line "phase address count target" for each place at the end, whose
 * target is 0 unless it is a call.
 */
#include "qemu_plugin.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* Around the phase in `nop dword ptr [rax + 0x10c0ed00 + phase]`, as executed.py has it. */
static const __u8 mark_begin[] = { 0x0f, 0x1f, 0x80 };
static const __u8 mark_end[] = { 0xed, 0xc0, 0x10 };
#define MARK_LENGTH 7

#define PHASES 32
#define BUCKETS 65536

struct place {
	struct place *next;
	__u64 address;
	__u64 target;
	__u64 counts[PHASES];
};

static struct place *places[BUCKETS];
static size_t phase; /* 0: nothing is looked at. */
static bool strings; /* What is counted: string instructions, or locked ones. */
static const char *out;

static struct place *find(__u64 address, __u64 target)
{
	struct place **at = &places[address % BUCKETS];
	struct place *place;

	/* QEMU translates one block at a time; the same one again if it has forgotten it. */
	for (; *at; at = &(*at)->next)
		if ((*at)->address == address)
			return *at;
	place = calloc(1, sizeof(*place));
	if (!place)
		abort();
	place->address = address;
	place->target = target;
	__atomic_store_n(at, place, __ATOMIC_RELEASE);
	return place;
}

static void executed(unsigned int cpu, void *data)
{
	struct place *place = data;
	size_t now = __atomic_load_n(&phase, __ATOMIC_RELAXED);

	(void)cpu;
	__atomic_fetch_add(&place->counts[now], 1, __ATOMIC_RELAXED);
}

static void marked(unsigned int cpu, void *data)
{
	(void)cpu;
	__atomic_store_n(&phase, (size_t)data, __ATOMIC_RELAXED);
}

static bool is_mark(const __u8 *octets, size_t length)
{
	return length == MARK_LENGTH && octets[3] < PHASES &&
	       !memcmp(octets, mark_begin, sizeof(mark_begin)) &&
	       !memcmp(octets + 4, mark_end, sizeof(mark_end));
}

/* Prefixes other than LOCK: segments, sizes, repetitions, REX. */
static bool is_prefix(__u8 octet)
{
	switch (octet) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x40 ... 0x4f:
	case 0x64 ... 0x67:
	case 0xf2:
	case 0xf3:
		return true;
	default:
		return false;
	}
}

static bool is_locked(const __u8 *octets, size_t length)
{
	size_t at = 0;

	while (at < length && is_prefix(octets[at]))
		at++;
	if (at < length && octets[at] == 0xf0)
		return true;
	/* XCHG whose operand is memory. */
	return at + 1 < length && (octets[at] == 0x86 || octets[at] == 0x87) &&
	       octets[at + 1] >> 6 != 3;
}

/* MOVS or STOS that is repeated: what copies or clears memory. */
static bool is_string(const __u8 *octets, size_t length)
{
	bool repeated = false;
	size_t at = 0;

	for (; at < length && is_prefix(octets[at]); at++)
		repeated |= octets[at] == 0xf2 || octets[at] == 0xf3;
	return repeated && at + 1 == length &&
	       (octets[at] == 0xa4 || octets[at] == 0xa5 || octets[at] == 0xaa ||
		octets[at] == 0xab);
}

/* Returns the target of a call, or 0. */
static __u64 called(__u64 address, const __u8 *octets, size_t length)
{
	__s32 distance;

	if (length != 5 || octets[0] != 0xe8)
		return 0;
	memcpy(&distance, octets + 1, sizeof(distance));
	return address + length + distance;
}

static void translated(__u64 id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t index = 0; index < qemu_plugin_tb_n_insns(tb); index++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, index);
		__u64 address = qemu_plugin_insn_vaddr(insn);
		__u8 octets[16];
		size_t length = qemu_plugin_insn_data(insn, octets, sizeof(octets));
		__u64 target = strings ? 0 : called(address, octets, length);
		bool counted = strings ? is_string(octets, length) :
					 address >> 63 && (target || is_locked(octets, length));

		if (is_mark(octets, length))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, marked, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(size_t)octets[3]);
		else if (counted)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, executed,
							       QEMU_PLUGIN_CB_NO_REGS,
							       find(address, target));
	}
}

static void print(FILE *file, const struct place *place)
{
	for (size_t at = 1; at < PHASES; at++)
		if (place->counts[at])
			fprintf(file, "%zu %llx %llu %llx\n", at, place->address,
				place->counts[at], place->target);
}

static void ended(__u64 id, void *data)
{
	FILE *file = fopen(out, "w");

	(void)id;
	(void)data;
	for (size_t bucket = 0; file && bucket < BUCKETS; bucket++)
		for (struct place *place = places[bucket]; place; place = place->next)
			print(file, place);
	if (!file || fclose(file))
		perror(out);
}

EXPORT int qemu_plugin_install(__u64 id, const void *info, int argc, char **argv)
{
	(void)info;
	if (argc != 2 || strncmp(argv[0], "count=", 6) || strncmp(argv[1], "out=", 4))
		return 1;
	strings = !strcmp(argv[0] + 6, "strings");
	out = strdup(argv[1] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return !out;
}
