/*
 * heapattach.h: what a program can tell `heapattach check` about itself. Nothing to link.
 *
 *   HEAPATTACH_CHECK("name")       check here and now, if heapattach watches, and wait until the moment
 *                                  is taken: HEAPATTACH_PATIENCE milliseconds at most (define it
 *                                  before; 10000), and if no answer came, not again
 *   HEAPATTACH_MARK("name")        call this moment so in reports; does not wait
 *   HEAPATTACH_IGNORE(block)       this block, and what it leads to, is not leaked, whatever points to it
 *   HEAPATTACH_IGNORE_BEGIN()      what this thread allocates from here on is not leaked, nor what that leads
 *   HEAPATTACH_IGNORE_END()        to, until here; they nest
 *   HEAPATTACH_ROOT(start, bytes)  what is kept there leads to blocks that are not leaked
 *   HEAPATTACH_UNROOT(start)       no more
 *
 * While no heapattach watches, CHECK, MARK, IGNORE_BEGIN and IGNORE_END are a load and a branch. IGNORE and ROOT are noted always, in a
 * table of 1024 places for each program or library; what finds no room there is told by the check. A
 * block that is freed is ignored no more.
 *
 * For gcc and clang on x86-64 Linux; elsewhere, and where HEAPATTACH_DISABLE is defined, all of it is
 * nothing. C89 or C++98 will do.
 */
#ifndef HEAPATTACH_H
#define HEAPATTACH_H

#if defined(__linux__) && defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__) \
    && !defined(HEAPATTACH_DISABLE)

#ifndef HEAPATTACH_PATIENCE
#define HEAPATTACH_PATIENCE 10000
#endif

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPATTACH_REQUESTS 16u
#define HEAPATTACH_ENTRIES 1024u
#define HEAPATTACH_WHOLE (~0ul)

struct heapattach_request {
    volatile unsigned number; /* counted from 1; 0 while it is written */
    unsigned kind;            /* 1: check, 2: mark */
    char name[56];
};

struct heapattach_mailbox {
    char magic[16];
    volatile unsigned long watch; /* 0: no session; else written by heapattach */
    volatile unsigned head;       /* requests so far */
    volatile unsigned overflow;   /* entries that found no room */
    volatile unsigned stamp;      /* changes of the entries so far */
    unsigned spare;
    struct heapattach_request requests[HEAPATTACH_REQUESTS];
};

struct heapattach_entry {
    volatile unsigned long key;   /* the address, inverted: it must not look like a pointer */
    volatile unsigned long bytes; /* HEAPATTACH_WHOLE for a block to be ignored */
    volatile unsigned long stamp; /* 0 while it is written */
};

/* One for each program and each library, however many files include this, or are made one by the
 * optimiser of the linker. The note tells where. */
__asm__(".ifndef heapattach_mailbox_v1\n"
        ".pushsection .data.heapattach_v1,\"awG\",%progbits,heapattach_mailbox_v1,comdat\n"
        ".balign 64\n"
        ".weak heapattach_mailbox_v1\n"
        ".hidden heapattach_mailbox_v1\n"
        ".type heapattach_mailbox_v1,%object\n"
        ".size heapattach_mailbox_v1,1064\n"
        "heapattach_mailbox_v1:\n"
        ".ascii \"HEAPATTACHMAIL01\"\n"
        ".zero 1048\n"
        ".popsection\n"
        ".endif\n");
__asm__(".ifndef heapattach_entries_v1\n"
        ".pushsection .bss.heapattach_v1,\"awG\",%nobits,heapattach_mailbox_v1,comdat\n"
        ".balign 64\n"
        ".weak heapattach_entries_v1\n"
        ".hidden heapattach_entries_v1\n"
        ".type heapattach_entries_v1,%object\n"
        ".size heapattach_entries_v1,24576\n"
        "heapattach_entries_v1:\n"
        ".zero 24576\n"
        ".popsection\n"
        ".endif\n");
__asm__(".ifndef .Lheapattach_note_v1\n"
        ".pushsection .note.heapattach,\"aG\",%note,heapattach_mailbox_v1,comdat\n"
        ".balign 4\n"
        ".Lheapattach_note_v1:\n"
        ".long 11, 16, 1\n"
        ".asciz \"heapattach\"\n"
        ".balign 4\n"
        ".quad heapattach_mailbox_v1 - .\n"
        ".quad heapattach_entries_v1 - .\n"
        ".popsection\n"
        ".endif\n");

extern struct heapattach_mailbox heapattach_mailbox_v1 __attribute__((visibility("hidden")));
extern struct heapattach_entry heapattach_entries_v1[HEAPATTACH_ENTRIES]
    __attribute__((visibility("hidden")));

/* Children that are forked inherit the word, but no session that answers. */
static __inline__ int heapattach_is_watched(unsigned long watch) {
    return watch != 0 && (unsigned)(watch >> 32) == (unsigned)getpid();
}

__attribute__((unused, noinline, cold)) static void heapattach_post(unsigned kind, const char *name) {
    struct heapattach_mailbox *box = &heapattach_mailbox_v1;
    unsigned long watch = box->watch;
    struct heapattach_request *request;
    unsigned number, at, waited;
    int error = errno;
    if (!heapattach_is_watched(watch)) return;
    number = __sync_add_and_fetch(&box->head, 1u);
    request = &box->requests[(number - 1) % HEAPATTACH_REQUESTS];
    request->number = 0;
    __sync_synchronize();
    request->kind = kind;
    for (at = 0; name && name[at] && at + 1 < sizeof request->name; at++) request->name[at] = name[at];
    request->name[at] = 0;
    __sync_synchronize();
    request->number = number;
    if (kind != 1 || !(watch & 2)) return;
    for (waited = 0; waited < (unsigned)(HEAPATTACH_PATIENCE); waited++) {
        watch = box->watch;
        /* Its number, cut to the bits that there are, is reached or passed. */
        if (!heapattach_is_watched(watch)) break;
        if ((((unsigned)watch >> 2) - number) % 0x40000000u < 0x20000000u) break;
        poll(0, 0, 1);
    }
    /* What does not answer was killed, perhaps: no thread is to wait for it again until it says more. */
    if (waited == (unsigned)(HEAPATTACH_PATIENCE)) __sync_bool_compare_and_swap(&box->watch, watch, watch & ~2ul);
    errno = error;
}

/* The kernel refuses to unmap from the middle of a page, and heapattach sees the call in its place among
 * the thread's allocations. */
__attribute__((unused, noinline, cold)) static void heapattach_say(unsigned long word) {
    int error = errno;
    munmap((void *)1, word);
    errno = error;
}

__attribute__((unused, noinline)) static void heapattach_note(unsigned long start, unsigned long bytes) {
    struct heapattach_entry *entry, *end = heapattach_entries_v1 + HEAPATTACH_ENTRIES;
    unsigned long key = ~start;
    if (!start || !bytes) return;
    for (entry = heapattach_entries_v1; entry < end; entry++) {
        if (entry->key == key && entry->bytes == bytes) break;
    }
    if (entry == end) {
        for (entry = heapattach_entries_v1; entry < end; entry++) {
            if (!entry->key && __sync_bool_compare_and_swap(&entry->key, 0ul, key)) break;
        }
        if (entry == end) {
            __sync_add_and_fetch(&heapattach_mailbox_v1.overflow, 1u);
            return;
        }
        entry->bytes = bytes;
    }
    __sync_synchronize();
    entry->stamp = __sync_add_and_fetch(&heapattach_mailbox_v1.stamp, 1u) | 0x100000000ul;
}

__attribute__((unused, noinline)) static void heapattach_forget(unsigned long start) {
    struct heapattach_entry *entry, *end = heapattach_entries_v1 + HEAPATTACH_ENTRIES;
    for (entry = heapattach_entries_v1; entry < end; entry++) {
        if (entry->key != ~start || entry->bytes == HEAPATTACH_WHOLE) continue;
        entry->stamp = 0;
        entry->bytes = 0;
        __sync_synchronize();
        entry->key = 0;
        __sync_add_and_fetch(&heapattach_mailbox_v1.stamp, 1u);
    }
}

#ifdef __cplusplus
}
#endif

#define HEAPATTACH_POST(kind, name) \
    ((void)(__builtin_expect(heapattach_mailbox_v1.watch != 0, 0) && (heapattach_post(kind, name), 0)))
#define HEAPATTACH_CHECK(name) HEAPATTACH_POST(1u, name)
#define HEAPATTACH_MARK(name) HEAPATTACH_POST(2u, name)
#define HEAPATTACH_SAY(word) \
    ((void)(__builtin_expect((heapattach_mailbox_v1.watch & 2) != 0, 0) && (heapattach_say(word), 0)))
#define HEAPATTACH_IGNORE_BEGIN() HEAPATTACH_SAY(0xadd1ul)
#define HEAPATTACH_IGNORE_END() HEAPATTACH_SAY(0xadd3ul)
#define HEAPATTACH_IGNORE(block) heapattach_note((unsigned long)(block), HEAPATTACH_WHOLE)
#define HEAPATTACH_ROOT(start, bytes) heapattach_note((unsigned long)(start), (unsigned long)(bytes))
#define HEAPATTACH_UNROOT(start) heapattach_forget((unsigned long)(start))

#else

#define HEAPATTACH_CHECK(name) ((void)0)
#define HEAPATTACH_MARK(name) ((void)0)
#define HEAPATTACH_IGNORE_BEGIN() ((void)0)
#define HEAPATTACH_IGNORE_END() ((void)0)
#define HEAPATTACH_IGNORE(block) ((void)(block))
#define HEAPATTACH_ROOT(start, bytes) ((void)(start), (void)(bytes))
#define HEAPATTACH_UNROOT(start) ((void)(start))

#endif
#endif
