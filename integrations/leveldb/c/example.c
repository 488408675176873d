/* Uses a LevelDB database with filters of filterblock. Copy from here.
 *
 *   cc -std=c11 example.c filterblock_leveldb.c -lfilterblock -lleveldb -o example && ./example DIR */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filterblock_leveldb.h"

static void check(const char *what, char *error) {
    if (error != NULL) {
        fprintf(stderr, "%s: %s\n", what, error);
        exit(1);
    }
}

int main(int argc, char **argv) {
    const char *dir = argc > 1 ? argv[1] : "example.leveldb";
    filterblock_error error;
    filterblock_leveldb *filters = filterblock_leveldb_new("bloom:10", NULL, &error);
    if (filters == NULL) {
        fprintf(stderr, "filterblock: %s\n", error.message);
        return 1;
    }
    leveldb_filterpolicy_t *policy = filterblock_leveldb_policy(filters);

    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_filter_policy(options, policy);
    /* With paranoid checks, LevelDB verifies its own checksum of filters when it opens an SST. */
    leveldb_options_set_paranoid_checks(options, 1);

    char *message = NULL;
    leveldb_t *db = leveldb_open(options, dir, &message);
    check("open", message);

    leveldb_writeoptions_t *writes = leveldb_writeoptions_create();
    for (int i = 0; i < 100000; i++) {
        char key[32], value[32];
        int key_len = snprintf(key, sizeof key, "key-%08d", i);
        int value_len = snprintf(value, sizeof value, "value-%d", i);
        leveldb_put(db, writes, key, (size_t)key_len, value, (size_t)value_len, &message);
        check("put", message);
    }
    leveldb_compact_range(db, NULL, 0, NULL, 0);

    leveldb_readoptions_t *reads = leveldb_readoptions_create();
    size_t len = 0;
    char *found = leveldb_get(db, reads, "key-00000042", 12, &len, &message);
    check("get", message);
    printf("key-00000042: %.*s\n", (int)len, found == NULL ? "absent" : found);
    leveldb_free(found);
    found = leveldb_get(db, reads, "key-00000042x", 13, &len, &message);
    check("get", message);
    printf("key-00000042x: %s\n", found == NULL ? "absent" : "found");
    leveldb_free(found);

    filterblock_leveldb_counts counts = filterblock_leveldb_read_counts(filters);
    printf("%llu filters built, %llu failed; %llu queries without a usable filter\n",
           (unsigned long long)counts.filters_built, (unsigned long long)counts.filters_failed,
           (unsigned long long)counts.unfiltered_queries);

    leveldb_readoptions_destroy(reads);
    leveldb_writeoptions_destroy(writes);
    leveldb_close(db);
    leveldb_options_destroy(options);
    leveldb_filterpolicy_destroy(policy);
    filterblock_leveldb_free(filters);
    return 0;
}
