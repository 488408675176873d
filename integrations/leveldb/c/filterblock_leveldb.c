/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Implements the filter policy of LevelDB: see filterblock_leveldb.h. Needs C11 with atomics. */
#include "filterblock_leveldb.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct filterblock_leveldb {
    /* The number of owners: the handle of the user, and its policies. */
    atomic_size_t owners;
    atomic_uint_fast64_t filters_built;
    atomic_uint_fast64_t filters_failed;
    atomic_uint_fast64_t unfiltered_queries;
    filterblock_hasher *hasher;
    char spec[];
};

static void count(atomic_uint_fast64_t *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static uint64_t read_count(const atomic_uint_fast64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void report(filterblock_error *error, filterblock_code code, const char *message) {
    if (error != NULL) {
        memset(error, 0, sizeof *error);
        error->code = code;
        snprintf(error->message, sizeof error->message, "%s", message);
    }
}

/* Builds a filter of the keys in the compact form. Returns NULL and an error if the build fails. */
static filterblock_bytes *build(const filterblock_leveldb *state, const char *const *keys,
                                const size_t *lens, size_t num_keys, filterblock_error *error) {
    filterblock_builder *builder = filterblock_builder_new(state->spec, state->hasher, NULL, error);
    filterblock_builder_reserve(builder, num_keys);
    for (size_t i = 0; i < num_keys; i++) {
        filterblock_builder_add(builder, keys[i], lens[i]);
    }
    filterblock_bytes *bytes = NULL;
    if (builder != NULL) {
        bytes = filterblock_builder_finish_compact(builder, error);
    }
    filterblock_builder_free(builder);
    return bytes;
}

static char *create_filter(void *state, const char *const *keys, const size_t *lens, int num_keys,
                           size_t *filter_len) {
    filterblock_leveldb *self = state;
    filterblock_bytes *bytes = NULL;
    /* A filter without keys would deny every key. */
    if (num_keys > 0) {
        bytes = build(self, keys, lens, (size_t)num_keys, NULL);
    }
    size_t len = filterblock_bytes_len(bytes);
    char *filter = len > 0 ? malloc(len) : NULL;
    if (filter != NULL) {
        memcpy(filter, filterblock_bytes_data(bytes), len);
        count(&self->filters_built);
    } else {
        /* LevelDB treats an empty filter as the filter of a range without keys, and denies every
         * key. So the filter is one byte. It is not a valid filter, so every query answers
         * "maybe". */
        count(&self->filters_failed);
        len = 1;
        filter = calloc(1, 1);
    }
    filterblock_bytes_free(bytes);
    if (filter == NULL) {
        /* A policy cannot return an error. Without a filter, LevelDB would lose the keys. */
        fputs("filterblock: no memory for a filter of one byte; free memory, and restart\n", stderr);
        abort();
    }
    *filter_len = len;
    return filter;
}

static uint8_t key_may_match(void *state, const char *key, size_t len, const char *filter,
                             size_t filter_len) {
    filterblock_leveldb *self = state;
    filterblock_answer answer =
        filterblock_compact_ask(filter, filter_len, self->hasher, key, len);
    if (answer == FILTERBLOCK_ANSWER_UNFILTERED) {
        count(&self->unfiltered_queries);
    }
    return answer != FILTERBLOCK_ANSWER_NO;
}

static const char *name(void *state) {
    (void)state;
    return FILTERBLOCK_LEVELDB_NAME;
}

static void drop(void *state) {
    filterblock_leveldb *self = state;
    if (atomic_fetch_sub_explicit(&self->owners, 1, memory_order_acq_rel) == 1) {
        filterblock_hasher_free(self->hasher);
        free(self);
    }
}

filterblock_leveldb *filterblock_leveldb_new(const char *spec, filterblock_hasher *hasher,
                                             filterblock_error *error) {
    if (filterblock_abi_version() != FILTERBLOCK_ABI_VERSION) {
        report(error, FILTERBLOCK_CODE_INVALID,
               "the library of filterblock has another ABI version; compile with the header of the library");
        filterblock_hasher_free(hasher);
        return NULL;
    }
    if (hasher == NULL) {
        hasher = filterblock_hasher_new_xxh3(0);
    }
    size_t len = spec == NULL ? 0 : strlen(spec);
    filterblock_leveldb *self = malloc(sizeof *self + len + 1);
    if (self == NULL || hasher == NULL) {
        report(error, FILTERBLOCK_CODE_TOO_LARGE, "no memory for the filter policy; free memory and try again");
        filterblock_hasher_free(hasher);
        free(self);
        return NULL;
    }
    atomic_init(&self->owners, 1);
    atomic_init(&self->filters_built, 0);
    atomic_init(&self->filters_failed, 0);
    atomic_init(&self->unfiltered_queries, 0);
    self->hasher = hasher;
    memcpy(self->spec, spec == NULL ? "" : spec, len + 1);
    /* Builds a filter of one key now, so that a spec without a compact form is an error here. */
    const char *key = "key";
    size_t key_len = 3;
    filterblock_bytes *bytes = build(self, &key, &key_len, 1, error);
    if (bytes == NULL) {
        drop(self);
        return NULL;
    }
    filterblock_bytes_free(bytes);
    return self;
}

leveldb_filterpolicy_t *filterblock_leveldb_policy(filterblock_leveldb *handle) {
    if (handle == NULL) {
        return NULL;
    }
    atomic_fetch_add_explicit(&handle->owners, 1, memory_order_relaxed);
    return leveldb_filterpolicy_create(handle, drop, create_filter, key_may_match, name);
}

filterblock_leveldb_counts filterblock_leveldb_read_counts(const filterblock_leveldb *handle) {
    filterblock_leveldb_counts counts = {0, 0, 0};
    if (handle != NULL) {
        counts.filters_built = read_count(&handle->filters_built);
        counts.filters_failed = read_count(&handle->filters_failed);
        counts.unfiltered_queries = read_count(&handle->unfiltered_queries);
    }
    return counts;
}

void filterblock_leveldb_free(filterblock_leveldb *handle) {
    if (handle != NULL) {
        drop(handle);
    }
}
