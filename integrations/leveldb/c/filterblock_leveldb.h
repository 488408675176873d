/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * filterblock as the filter policy of LevelDB, over LevelDB's C API. README.md is the how-to, and
 * example.c a program.
 *
 * A filter that cannot be used answers "maybe", and filterblock_leveldb_counts counts it. So a get
 * never loses a key because of damage to a filter; it only reads one more block. */
#ifndef FILTERBLOCK_LEVELDB_H
#define FILTERBLOCK_LEVELDB_H

#include <leveldb/c.h>
#include <stddef.h>
#include <stdint.h>

#include "filterblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of the policy: an SST has the entry `filter.filterblock.compact.v1` in its metaindex. The
 * number is the version of the compact form. LevelDB ignores the filters of other names. */
#define FILTERBLOCK_LEVELDB_NAME "filterblock.compact.v1"

/* Counts what policies did. Threads may share it. */
typedef struct filterblock_leveldb filterblock_leveldb;

/* Counts since filterblock_leveldb_new. */
typedef struct filterblock_leveldb_counts {
    /* Filters that were built: one for each 2 KiB of data. */
    uint64_t filters_built;
    /* Filters that could not be built, for want of memory. They answer "maybe" to every key. */
    uint64_t filters_failed;
    /* Queries that a damaged filter, or one of another hasher, answered with "maybe". Each cost a
     * read of a block. */
    uint64_t unfiltered_queries;
} filterblock_leveldb_counts;

/* Makes the counters and the settings of policies. `spec` is text such as "bloom:10" (bits per key)
 * or "bloom:fpr=0.01". Only the kinds bloom, blocked-bloom and full have the compact form; bloom
 * suits filters of 2 KiB of data, which have a few dozen keys.
 *
 * Takes ownership of `hasher`, also after an error. NULL means XXH3 under seed 0. A filter denies keys
 * only if it was written under an equal hasher, so a database needs the same hasher each time.
 *
 * Returns a handle for filterblock_leveldb_free, or NULL and an error. */
filterblock_leveldb *filterblock_leveldb_new(const char *spec, filterblock_hasher *hasher,
                                             filterblock_error *error);

/* Makes a filter policy for leveldb_options_set_filter_policy. Destroy it by
 * leveldb_filterpolicy_destroy after the database is closed. It may outlive `handle`, and serve any
 * number of databases. Returns NULL for NULL. */
leveldb_filterpolicy_t *filterblock_leveldb_policy(filterblock_leveldb *handle);

/* Returns what all policies of the handle did. Any thread may call this at any time. */
filterblock_leveldb_counts filterblock_leveldb_read_counts(const filterblock_leveldb *handle);

/* Frees the handle. NULL is fine. Its policies go on. */
void filterblock_leveldb_free(filterblock_leveldb *handle);

#ifdef __cplusplus
}
#endif

#endif
