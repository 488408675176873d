/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Implements the filter policy of LevelDB with filterblock, over LevelDB's C API. README.md is the
 * how-to, and example.c is a program.
 *
 * A filter that cannot be used answers "maybe", and filterblock_leveldb_counts counts the query. So
 * a get never loses a key because of damage to a filter. It only reads one more block. */
#ifndef FILTERBLOCK_LEVELDB_H
#define FILTERBLOCK_LEVELDB_H

#include <leveldb/c.h>
#include <stddef.h>
#include <stdint.h>

#include "filterblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of the policy: an SST has the entry `filter.filterblock.compact.v1` in its metaindex.
 * The number is the version of the compact form. LevelDB ignores filters with other names. */
#define FILTERBLOCK_LEVELDB_NAME "filterblock.compact.v1"

/* A handle with the settings and the counters of policies. Threads may share the handle. */
typedef struct filterblock_leveldb filterblock_leveldb;

/* The counts since filterblock_leveldb_new. */
typedef struct filterblock_leveldb_counts {
    /* The number of filters that were built: one for each 2 KiB of an SST in which a data block
     * begins. */
    uint64_t filters_built;
    /* The number of filters that could not be built, for example because of too little memory, a
     * failed self-check, an FPR that is too low for the number of keys, or no keys. They answer
     * "maybe" to every key, and their queries count in `unfiltered_queries`. */
    uint64_t filters_failed;
    /* The number of queries that were answered "maybe" because the filter is damaged, of another
     * hasher, of a newer version, or could not be built. Each cost a read of a block. */
    uint64_t unfiltered_queries;
} filterblock_leveldb_counts;

/* Makes the settings and the counters of policies. `spec` is text such as "bloom:10" (bits per key)
 * or "bloom:fpr=0.01". Only the kinds bloom, blocked-bloom and always-maybe have the compact form.
 * The kind bloom suits filters of 2 KiB of data, which have a few dozen keys.
 *
 * Takes ownership of `hasher`, even after an error. NULL means XXH3 with seed 0. Filters of another
 * hasher answer "maybe", so always open a database with an equal hasher.
 *
 * Returns a handle for filterblock_leveldb_free, or NULL and an error. */
filterblock_leveldb *filterblock_leveldb_new(const char *spec, filterblock_hasher *hasher,
                                             filterblock_error *error);

/* Makes a filter policy for leveldb_options_set_filter_policy. Destroy the policy with
 * leveldb_filterpolicy_destroy after the database is closed. The policy may outlive `handle`, and
 * any number of databases may use the policy. Returns NULL if `handle` is NULL. */
leveldb_filterpolicy_t *filterblock_leveldb_policy(filterblock_leveldb *handle);

/* Returns the counts of all policies of the handle. Threads may call this function at any time. */
filterblock_leveldb_counts filterblock_leveldb_read_counts(const filterblock_leveldb *handle);

/* Frees the handle. NULL is fine. Policies of the handle continue to work. */
void filterblock_leveldb_free(filterblock_leveldb *handle);

#ifdef __cplusplus
}
#endif

#endif
