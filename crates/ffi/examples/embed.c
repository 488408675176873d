/* Shows a store with two SSTs. It builds a filter for each SST, opens the filters, and asks them
 * before it would read an SST.
 *
 *   cc -std=c11 examples/embed.c $(pkg-config --cflags --libs filterblock) -o embed && ./embed
 */
#include <filterblock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_SSTS 2

/* The data that a store records about an SST, and the filter block of the SST. */
struct sst {
    char id[17]; /* 16 bytes, and a zero byte for printing */
    const char *keys[2];
    uint32_t checksum;
    filterblock_bytes *block;
};

static void stop(const char *what, const filterblock_error *error) {
    fprintf(stderr, "%s: %s (code %u)\n", what, error->message, (unsigned)error->code);
    exit(1);
}

/* Builds the filter of an SST and records its checksum. This example stops after an error. A store
 * would write the SST without a filter. */
static void build(struct sst *sst, const filterblock_hasher *hasher) {
    filterblock_error error;
    filterblock_options options;
    memset(&options, 0, sizeof options);
    memcpy(options.table_id, sst->id, sizeof options.table_id);
    filterblock_builder *builder = filterblock_builder_new("blocked-bloom:10", hasher, &options, &error);
    if (builder == NULL) {
        stop("new builder", &error);
    }
    for (size_t i = 0; i < 2; i++) {
        filterblock_builder_add(builder, sst->keys[i], strlen(sst->keys[i]));
    }
    /* This call also fails if a key could not be added. */
    sst->block = filterblock_builder_finish(builder, &error);
    if (sst->block == NULL) {
        stop("finish", &error);
    }
    filterblock_builder_free(builder);
    if (!filterblock_block_checksum(filterblock_bytes_data(sst->block), filterblock_bytes_len(sst->block),
                                    &sst->checksum)) {
        fprintf(stderr, "checksum: the bytes are not a filter block\n");
        exit(1);
    }
}

/* Opens the filter of an SST. After an error, the store reads the SST without its filter. */
static filterblock_filter *open_filter(const struct sst *sst, const filterblock_hasher *hasher) {
    filterblock_error error;
    filterblock_expected expected;
    memset(&expected, 0, sizeof expected);
    expected.hasher = hasher;
    memcpy(expected.table_id, sst->id, sizeof expected.table_id);
    expected.flags = FILTERBLOCK_EXPECT_NUM_ENTRIES | FILTERBLOCK_EXPECT_CHECKSUM;
    expected.num_entries = 2;
    expected.checksum = sst->checksum;
    filterblock_filter *filter =
        filterblock_filter_open_copied(filterblock_bytes_data(sst->block), filterblock_bytes_len(sst->block),
                                       &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error);
    if (filter == NULL) {
        printf("%s: no filter: %s\n", sst->id, error.message);
    }
    return filter;
}

int main(void) {
    struct sst ssts[NUM_SSTS] = {
        {"table 0000000012", {"apple", "pear"}, 0, NULL},
        {"table 0000000013", {"lemon", "peach"}, 0, NULL},
    };
    if (filterblock_abi_version() != FILTERBLOCK_ABI_VERSION) {
        fprintf(stderr, "the library has another ABI version than the header; install both from one release\n");
        return 1;
    }
    filterblock_plan_info plan;
    filterblock_error error;
    if (filterblock_plan("blocked-bloom:10", 1000000, &plan, &error) != FILTERBLOCK_CODE_OK) {
        stop("plan", &error);
    }
    printf("a million keys: %llu bytes, false-positive rate %.4f, %.1f cache lines per absent key\n",
           (unsigned long long)plan.block_len_bytes, plan.expected_fpr, plan.lines_if_absent);

    filterblock_hasher *hasher = filterblock_hasher_new_xxh3(42);
    filterblock_set *set = filterblock_set_new(hasher);
    filterblock_slot slots[NUM_SSTS];
    for (size_t i = 0; i < NUM_SSTS; i++) {
        build(&ssts[i], hasher);
        filterblock_filter *filter = open_filter(&ssts[i], hasher);
        /* The set shares the filter. NULL stands for an SST without a filter. */
        slots[i] = filterblock_set_insert(set, filter);
        filterblock_filter_free(filter);
    }

    /* Hash each key once, and ask the filters of all SSTs. The set is complete now, so any number of
     * threads may ask it. */
    const char *asked[] = {"apple", "peach", "plum"};
    for (size_t i = 0; i < 3; i++) {
        uint64_t hash = filterblock_hasher_hash(hasher, asked[i], strlen(asked[i]));
        for (size_t j = 0; j < NUM_SSTS; j++) {
            filterblock_answer answer = filterblock_set_ask_hash(set, slots[j], hash);
            printf("%-5s %s: %s\n", asked[i], ssts[j].id, answer == FILTERBLOCK_ANSWER_NO ? "skip" : "read");
        }
    }

    /* The filter of another SST does not open. So the store reads the SST, and no key is denied. */
    struct sst swapped = ssts[0];
    swapped.block = ssts[1].block;
    filterblock_filter *none = open_filter(&swapped, hasher);
    printf("apple %s: %s\n", swapped.id, filterblock_filter_may_contain(none, "apple", 5) ? "read" : "skip");

    filterblock_set_free(set);
    filterblock_hasher_free(hasher);
    for (size_t i = 0; i < NUM_SSTS; i++) {
        filterblock_bytes_free(ssts[i].block);
    }
    return 0;
}
