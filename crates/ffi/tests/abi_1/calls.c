/* Calls every function of ABI 1 with the types of ABI 1. From the first release on, this file does not
 * change, and the test also compiles it with the header of that release. */
#include <filterblock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

/* A pointer to a function, of the type that ABI 1 gives it. */
#define FUNCTION(result, name, ...) static result (*const name)(__VA_ARGS__) = filterblock_##name;

typedef filterblock_error error_t1;
typedef const void *ptr;

FUNCTION(const char *, version, void)
FUNCTION(uint32_t, abi_version, void)
FUNCTION(bool, code_is_damage, uint32_t)
FUNCTION(uint32_t, plan, const char *, uint64_t, filterblock_plan_info *, error_t1 *)
FUNCTION(bool, block_checksum, ptr, size_t, uint32_t *)
FUNCTION(filterblock_hasher *, hasher_new_xxh3, uint64_t)
FUNCTION(filterblock_hasher *, hasher_new_xxh3_secret, uint64_t, ptr, size_t, error_t1 *)
FUNCTION(filterblock_hasher *, hasher_new_sip13, uint64_t, ptr, size_t, error_t1 *)
FUNCTION(void, hasher_free, filterblock_hasher *)
FUNCTION(uint64_t, hasher_hash, const filterblock_hasher *, ptr, size_t)
FUNCTION(ptr, bytes_data, const filterblock_bytes *)
FUNCTION(size_t, bytes_len, const filterblock_bytes *)
FUNCTION(void, bytes_free, filterblock_bytes *)
FUNCTION(filterblock_builder *, builder_new, const char *, const filterblock_hasher *, const filterblock_options *,
         error_t1 *)
FUNCTION(void, builder_free, filterblock_builder *)
FUNCTION(void, builder_reserve, filterblock_builder *, size_t)
FUNCTION(void, builder_add, filterblock_builder *, ptr, size_t)
FUNCTION(void, builder_add_hash, filterblock_builder *, uint64_t)
FUNCTION(void, builder_add_prefix, filterblock_builder *, ptr, size_t)
FUNCTION(size_t, builder_len, const filterblock_builder *)
FUNCTION(void, builder_clear, filterblock_builder *)
FUNCTION(filterblock_bytes *, builder_finish, filterblock_builder *, error_t1 *)
FUNCTION(filterblock_bytes *, builder_finish_compact, filterblock_builder *, error_t1 *)
FUNCTION(filterblock_partitioned *, partitioned_new, const char *, const filterblock_hasher *,
         const filterblock_options *, size_t, error_t1 *)
FUNCTION(void, partitioned_free, filterblock_partitioned *)
FUNCTION(void, partitioned_add, filterblock_partitioned *, ptr, size_t)
FUNCTION(void, partitioned_add_prefix, filterblock_partitioned *, ptr, size_t)
FUNCTION(filterblock_bytes *, partitioned_finish, filterblock_partitioned *, error_t1 *)
FUNCTION(filterblock_filter *, filter_open_borrowed, ptr, size_t, const filterblock_expected *, uint32_t, error_t1 *)
FUNCTION(filterblock_filter *, filter_open_copied, ptr, size_t, const filterblock_expected *, uint32_t, error_t1 *)
FUNCTION(filterblock_filter *, filter_open_mapped, const char *, uint64_t, size_t, const filterblock_expected *,
         uint32_t, error_t1 *)
FUNCTION(void, filter_free, filterblock_filter *)
FUNCTION(bool, filter_may_contain, const filterblock_filter *, ptr, size_t)
FUNCTION(bool, filter_may_contain_hash, const filterblock_filter *, uint64_t)
FUNCTION(bool, filter_may_contain_prefix, const filterblock_filter *, const char *, ptr, size_t)
FUNCTION(bool, filter_may_contain_range, const filterblock_filter *, ptr, size_t, ptr, size_t)
FUNCTION(void, filter_may_contain_hashes, const filterblock_filter *, const uint64_t *, size_t, bool *)
FUNCTION(uint64_t, filter_damaged_pages, const filterblock_filter *)
FUNCTION(uint32_t, filter_verify_pages, const filterblock_filter *, error_t1 *)
FUNCTION(uint32_t, filter_metadata, const filterblock_filter *, filterblock_metadata *, error_t1 *)
FUNCTION(filterblock_set *, set_new, const filterblock_hasher *)
FUNCTION(void, set_free, filterblock_set *)
FUNCTION(filterblock_slot, set_insert, filterblock_set *, const filterblock_filter *)
FUNCTION(filterblock_slot, set_insert_degraded, filterblock_set *)
FUNCTION(filterblock_cache *, cache_new, uint64_t)
FUNCTION(void, cache_free, filterblock_cache *)
FUNCTION(filterblock_cached *, cached_new, const filterblock_cache *, uint64_t, const filterblock_expected *,
         const filterblock_source *, error_t1 *)
FUNCTION(void, cached_free, filterblock_cached *)
FUNCTION(filterblock_slot, set_insert_cached, filterblock_set *, const filterblock_cached *)
FUNCTION(bool, cache_needs_rebalance, const filterblock_cache *)
FUNCTION(bool, cache_rebalance, const filterblock_cache *)
FUNCTION(bool, cache_counts, const filterblock_cache *, filterblock_cache_counts_info *)
FUNCTION(uint8_t, set_ask, const filterblock_set *, filterblock_slot, ptr, size_t)
FUNCTION(uint8_t, set_ask_hash, const filterblock_set *, filterblock_slot, uint64_t)
FUNCTION(uint8_t, set_ask_prefix, const filterblock_set *, filterblock_slot, const char *, ptr, size_t)
FUNCTION(uint8_t, set_ask_range, const filterblock_set *, filterblock_slot, ptr, size_t, ptr, size_t)
FUNCTION(bool, set_ask_batch, const filterblock_set *, filterblock_slot, const uint64_t *, size_t, bool *)
FUNCTION(void, set_ask_pairs, const filterblock_set *, const filterblock_slot *, const uint64_t *, size_t, uint8_t *)
FUNCTION(bool, set_counts, const filterblock_set *, filterblock_set_counts_info *)
FUNCTION(uint8_t, verified_ask, ptr, size_t, const filterblock_expected *, ptr, size_t)
FUNCTION(uint8_t, verified_ask_hash, ptr, size_t, const filterblock_expected *, uint64_t)
FUNCTION(uint8_t, verified_ask_prefix, ptr, size_t, const filterblock_expected *, const char *, ptr, size_t)
FUNCTION(uint8_t, verified_ask_range, ptr, size_t, const filterblock_expected *, ptr, size_t, ptr, size_t)
FUNCTION(uint32_t, verified_check, ptr, size_t, const filterblock_expected *, error_t1 *)
FUNCTION(uint8_t, compact_ask, ptr, size_t, const filterblock_hasher *, ptr, size_t)
FUNCTION(uint8_t, compact_ask_hash, ptr, size_t, const filterblock_hasher *, uint64_t)
FUNCTION(uint32_t, compact_check, ptr, size_t, const filterblock_hasher *, error_t1 *)

/* The layout of the structs, on machines with pointers of 64 bits. */
#if UINTPTR_MAX == UINT64_MAX
#define OFFSET(type, member, at) _Static_assert(offsetof(type, member) == (at), #type "." #member);
_Static_assert(sizeof(filterblock_error) == 512, "error");
OFFSET(filterblock_error, code, 0)
OFFSET(filterblock_error, is_hasher_mismatch, 4)
OFFSET(filterblock_error, offset, 8)
OFFSET(filterblock_error, message, 16)
_Static_assert(sizeof(filterblock_expected) == 56, "expected");
OFFSET(filterblock_expected, hasher, 0)
OFFSET(filterblock_expected, table_id, 8)
OFFSET(filterblock_expected, flags, 24)
OFFSET(filterblock_expected, checksum, 28)
OFFSET(filterblock_expected, num_entries, 32)
OFFSET(filterblock_expected, extractor, 40)
OFFSET(filterblock_expected, offset, 48)
_Static_assert(sizeof(filterblock_options) == 48, "options");
OFFSET(filterblock_options, table_id, 0)
OFFSET(filterblock_options, extractor, 16)
OFFSET(filterblock_options, ranges, 24)
OFFSET(filterblock_options, threads, 32)
OFFSET(filterblock_options, flags, 40)
_Static_assert(sizeof(filterblock_plan_info) == 48, "plan");
OFFSET(filterblock_plan_info, payload_len_bytes, 0)
OFFSET(filterblock_plan_info, block_len_bytes, 8)
OFFSET(filterblock_plan_info, bits_per_key, 16)
OFFSET(filterblock_plan_info, expected_fpr, 24)
OFFSET(filterblock_plan_info, lines_if_absent, 32)
OFFSET(filterblock_plan_info, lines_if_present, 40)
_Static_assert(sizeof(filterblock_metadata) == 208, "metadata");
OFFSET(filterblock_metadata, num_keys, 0)
OFFSET(filterblock_metadata, num_partitions, 8)
OFFSET(filterblock_metadata, payload_len_bytes, 16)
OFFSET(filterblock_metadata, block_len_bytes, 24)
OFFSET(filterblock_metadata, expected_fpr, 32)
OFFSET(filterblock_metadata, hash_seed, 40)
OFFSET(filterblock_metadata, probes, 48)
OFFSET(filterblock_metadata, hash_function, 52)
OFFSET(filterblock_metadata, table_id, 56)
OFFSET(filterblock_metadata, has_whole_keys, 72)
OFFSET(filterblock_metadata, has_prefixes, 73)
OFFSET(filterblock_metadata, kind, 74)
OFFSET(filterblock_metadata, extractor, 104)
_Static_assert(sizeof(filterblock_source) == 32, "source");
OFFSET(filterblock_source, read, 0)
OFFSET(filterblock_source, free, 8)
OFFSET(filterblock_source, context, 16)
OFFSET(filterblock_source, load_on_use, 24)
_Static_assert(sizeof(filterblock_cache_counts_info) == 80, "cache counts");
OFFSET(filterblock_cache_counts_info, max_bytes, 0)
OFFSET(filterblock_cache_counts_info, bytes, 8)
OFFSET(filterblock_cache_counts_info, filters, 16)
OFFSET(filterblock_cache_counts_info, resident, 24)
OFFSET(filterblock_cache_counts_info, queries, 32)
OFFSET(filterblock_cache_counts_info, refused, 40)
OFFSET(filterblock_cache_counts_info, loads, 48)
OFFSET(filterblock_cache_counts_info, failed_loads, 56)
OFFSET(filterblock_cache_counts_info, damaged, 64)
OFFSET(filterblock_cache_counts_info, evictions, 72)
_Static_assert(sizeof(filterblock_slot) == 16, "slot");
_Static_assert(sizeof(filterblock_set_counts_info) == 64, "counts");
OFFSET(filterblock_set_counts_info, ready, 0)
OFFSET(filterblock_set_counts_info, degraded, 8)
OFFSET(filterblock_set_counts_info, absent, 16)
OFFSET(filterblock_set_counts_info, other_hasher, 24)
OFFSET(filterblock_set_counts_info, damaged_pages, 32)
OFFSET(filterblock_set_counts_info, unfiltered_answers, 40)
OFFSET(filterblock_set_counts_info, len_bytes, 48)
#endif
_Static_assert(FILTERBLOCK_ABI_VERSION == 1 && FILTERBLOCK_NO_HASH == 0, "constants");
_Static_assert(FILTERBLOCK_EXPECT_ANY_TABLE == 1 && FILTERBLOCK_EXPECT_NUM_ENTRIES == 2, "flags");
_Static_assert(FILTERBLOCK_EXPECT_CHECKSUM == 4 && FILTERBLOCK_EXPECT_PREFIXES == 8, "flags");
_Static_assert(FILTERBLOCK_OPTION_PREFIXES_ONLY == 1 && FILTERBLOCK_OPTION_NO_SELF_CHECK == 2, "flags");
_Static_assert(FILTERBLOCK_VERIFY_AT_OPEN == 0 && FILTERBLOCK_VERIFY_ON_FIRST_TOUCH == 1, "verify");
_Static_assert(FILTERBLOCK_ANSWER_NO == 0 && FILTERBLOCK_ANSWER_MAYBE == 1, "answers");
_Static_assert(FILTERBLOCK_ANSWER_UNFILTERED == 2, "answers");
_Static_assert(FILTERBLOCK_CODE_OK == 0 && FILTERBLOCK_CODE_NULL_ARGUMENT == 1, "codes");
_Static_assert(FILTERBLOCK_CODE_PANIC == 2 && FILTERBLOCK_CODE_INVALID == 3 && FILTERBLOCK_CODE_IO == 4, "codes");
_Static_assert(FILTERBLOCK_CODE_CORRUPT == 5 && FILTERBLOCK_CODE_CHECKSUM_MISMATCH == 6, "codes");
_Static_assert(FILTERBLOCK_CODE_UNSUPPORTED == 7 && FILTERBLOCK_CODE_UNEXPECTED == 8, "codes");
_Static_assert(FILTERBLOCK_CODE_SECRET == 9 && FILTERBLOCK_CODE_TOO_LARGE == 10, "codes");
_Static_assert(FILTERBLOCK_CODE_SELF_CHECK_FAILED == 11 && FILTERBLOCK_CODE_OTHER == 12, "codes");

static const char table_id[] = "table 0000000012";
static const ptr keys[] = {"apple", "apricot", "pear"};
static const size_t lens[] = {5, 7, 4};

/* NULL and zeros in every argument: nothing crashes, and doubt is never "absent". */
static void null_arguments(void) {
    const filterblock_slot none = {0, 0};
    error_t1 error;
    uint64_t hashes[3] = {1, 2, 3};
    bool maybe[3];
    uint8_t answers[3];

    CHECK(plan(NULL, 0, NULL, NULL) == FILTERBLOCK_CODE_NULL_ARGUMENT);
    CHECK(plan("bloom:10", 9, NULL, &error) == FILTERBLOCK_CODE_NULL_ARGUMENT && error.message[0] != 0);
    CHECK(!block_checksum(NULL, 0, NULL) && !block_checksum(NULL, 99, NULL));
    CHECK(hasher_new_xxh3_secret(0, NULL, 0, NULL) == NULL && hasher_new_xxh3_secret(0, NULL, 16, NULL) == NULL);
    CHECK(hasher_new_sip13(0, NULL, 0, NULL) == NULL && hasher_new_sip13(0, NULL, 16, NULL) == NULL);
    CHECK(hasher_hash(NULL, "a", 1) == FILTERBLOCK_NO_HASH);
    hasher_free(NULL);

    CHECK(bytes_data(NULL) == NULL && bytes_len(NULL) == 0);
    bytes_free(NULL);

    CHECK(builder_new(NULL, NULL, NULL, NULL) == NULL && builder_new("bloom:10", NULL, NULL, &error) == NULL);
    CHECK(error.code == FILTERBLOCK_CODE_NULL_ARGUMENT);
    builder_reserve(NULL, 3);
    builder_add(NULL, "a", 1);
    builder_add_hash(NULL, 1);
    builder_add_prefix(NULL, "a", 1);
    builder_clear(NULL);
    CHECK(builder_len(NULL) == 0 && builder_finish(NULL, NULL) == NULL);
    CHECK(builder_finish_compact(NULL, &error) == NULL && error.code == FILTERBLOCK_CODE_NULL_ARGUMENT);
    builder_free(NULL);

    CHECK(partitioned_new(NULL, NULL, NULL, 0, NULL) == NULL);
    partitioned_add(NULL, "a", 1);
    partitioned_add_prefix(NULL, "a", 1);
    CHECK(partitioned_finish(NULL, NULL) == NULL);
    partitioned_free(NULL);

    CHECK(filter_open_borrowed(NULL, 0, NULL, 0, NULL) == NULL && filter_open_copied(NULL, 9, NULL, 9, NULL) == NULL);
    CHECK(filter_open_mapped(NULL, 0, 0, NULL, 0, NULL) == NULL);
    CHECK(filter_may_contain(NULL, "a", 1) && filter_may_contain(NULL, NULL, 1) && filter_may_contain_hash(NULL, 7));
    CHECK(filter_may_contain_prefix(NULL, NULL, NULL, 0) && filter_may_contain_range(NULL, NULL, 0, NULL, 0));
    memset(maybe, 0, sizeof maybe);
    filter_may_contain_hashes(NULL, hashes, 3, maybe);
    CHECK(maybe[0] && maybe[1] && maybe[2]);
    CHECK(filter_damaged_pages(NULL) == 0 && filter_verify_pages(NULL, NULL) == FILTERBLOCK_CODE_NULL_ARGUMENT);
    CHECK(filter_metadata(NULL, NULL, NULL) == FILTERBLOCK_CODE_NULL_ARGUMENT);
    filter_free(NULL);

    CHECK(set_new(NULL) == NULL && set_insert(NULL, NULL).set == 0 && set_insert_degraded(NULL).index == 0);
    CHECK(set_ask(NULL, none, "a", 1) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(set_ask_hash(NULL, none, 7) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(set_ask_range(NULL, none, NULL, 0, NULL, 0) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(set_ask_prefix(NULL, none, NULL, NULL, 0) == FILTERBLOCK_ANSWER_UNFILTERED);
    memset(answers, 0, sizeof answers);
    set_ask_pairs(NULL, NULL, NULL, 3, answers);
    CHECK(answers[0] == FILTERBLOCK_ANSWER_UNFILTERED && answers[2] == FILTERBLOCK_ANSWER_UNFILTERED);
    memset(maybe, 0, sizeof maybe);
    CHECK(!set_ask_batch(NULL, none, hashes, 3, maybe) && maybe[0] && maybe[1] && maybe[2]);
    CHECK(!set_counts(NULL, NULL));
    set_free(NULL);

    CHECK(verified_ask(NULL, 0, NULL, NULL, 0) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(verified_ask_hash(NULL, 9, NULL, 7) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(verified_ask_prefix(NULL, 0, NULL, NULL, NULL, 0) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(verified_ask_range(NULL, 0, NULL, NULL, 0, NULL, 9) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(verified_check(NULL, 0, NULL, NULL) == FILTERBLOCK_CODE_NULL_ARGUMENT);
    CHECK(compact_ask(NULL, 0, NULL, NULL, 0) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(compact_ask_hash(NULL, 9, NULL, 7) == FILTERBLOCK_ANSWER_UNFILTERED);
    CHECK(compact_check(NULL, 0, NULL, NULL) == FILTERBLOCK_CODE_NULL_ARGUMENT);
}

static void ask(const filterblock_filter *filter, const filterblock_hasher *hasher) {
    uint64_t hashes[3];
    bool maybe[3] = {false, false, false};
    error_t1 error;
    filterblock_metadata metadata;
    CHECK(filter != NULL);
    for (size_t i = 0; i < 3; i++) {
        hashes[i] = hasher_hash(hasher, keys[i], lens[i]);
        CHECK(filter_may_contain(filter, keys[i], lens[i]) && filter_may_contain_hash(filter, hashes[i]));
    }
    CHECK(!filter_may_contain(filter, "plum", 4) && !filter_may_contain_hash(filter, hasher_hash(hasher, "plum", 4)));
    CHECK(filter_may_contain_prefix(filter, "first-2", "ap", 2) && !filter_may_contain_prefix(filter, "first-2", "xy", 2));
    CHECK(filter_may_contain_prefix(filter, "first-3", "xy", 2));
    filter_may_contain_hashes(filter, hashes, 3, maybe);
    CHECK(maybe[0] && maybe[1] && maybe[2]);
    CHECK(filter_may_contain_range(filter, "a", 1, "b", 1) && !filter_may_contain_range(filter, "x", 1, "y", 1));
    CHECK(filter_damaged_pages(filter) == 0 && filter_verify_pages(filter, &error) == FILTERBLOCK_CODE_OK);
    CHECK(error.code == FILTERBLOCK_CODE_OK && error.message[0] == 0);
    CHECK(filter_metadata(filter, &metadata, &error) == FILTERBLOCK_CODE_OK && metadata.num_keys == 5);
    CHECK(strcmp(metadata.kind, "bloom") == 0 && strcmp(metadata.extractor, "first-2") == 0);
    CHECK(metadata.hash_seed == 42 && memcmp(metadata.table_id, table_id, 16) == 0);
    CHECK(metadata.has_whole_keys && metadata.has_prefixes);
}

static void ask_set(const filterblock_hasher *hasher, filterblock_filter *filter, filterblock_filter *partitioned) {
    filterblock_set *set = set_new(hasher);
    filterblock_slot slots[4];
    uint64_t hashes[4], apple = hasher_hash(hasher, "apple", 5), plum = hasher_hash(hasher, "plum", 4);
    uint8_t answers[4];
    bool maybe[2];
    filterblock_set_counts_info counts;

    slots[0] = set_insert(set, filter);
    slots[1] = set_insert(set, partitioned);
    slots[2] = set_insert(set, NULL);
    slots[3] = set_insert_degraded(set);
    filter_free(filter);
    filter_free(partitioned);
    for (size_t i = 0; i < 4; i++) {
        const uint8_t no = i < 2 ? FILTERBLOCK_ANSWER_NO : FILTERBLOCK_ANSWER_UNFILTERED;
        const uint8_t yes = i < 2 ? FILTERBLOCK_ANSWER_MAYBE : FILTERBLOCK_ANSWER_UNFILTERED;
        CHECK(set_ask(set, slots[i], "apple", 5) == yes && set_ask(set, slots[i], "plum", 4) == no);
        CHECK(set_ask_hash(set, slots[i], apple) == yes && set_ask_hash(set, slots[i], plum) == no);
        CHECK(set_ask_prefix(set, slots[i], "first-2", "ap", 2) == yes);
        CHECK(set_ask_prefix(set, slots[i], "first-2", "xy", 2) == no);
        hashes[i] = i % 2 == 0 ? apple : plum;
    }
    CHECK(set_ask_range(set, slots[0], "x", 1, "y", 1) == FILTERBLOCK_ANSWER_NO);
    CHECK(set_ask_range(set, slots[1], "x", 1, "y", 1) == FILTERBLOCK_ANSWER_UNFILTERED);
    set_ask_pairs(set, slots, hashes, 4, answers);
    CHECK(answers[0] == FILTERBLOCK_ANSWER_MAYBE && answers[1] == FILTERBLOCK_ANSWER_NO);
    CHECK(set_ask_batch(set, slots[0], hashes, 2, maybe) && maybe[0] && !maybe[1]);
    CHECK(!set_ask_batch(set, slots[3], hashes, 2, maybe) && maybe[0] && maybe[1]);
    CHECK(set_counts(set, &counts) && counts.ready == 2 && counts.degraded == 1 && counts.absent == 1);
    CHECK(counts.unfiltered_answers > 0 && counts.len_bytes > 0 && counts.other_hasher == 0);
    set_free(set);
}

struct file {
    ptr data;
    int calls;
};

static int32_t read_file(void *context, void *buffer, size_t len) {
    struct file *file = context;
    file->calls++;
    memcpy(buffer, file->data, len);
    return 0;
}

static void close_file(void *context) {
    struct file *file = context;
    file->data = NULL;
}

static void ask_cache(const filterblock_hasher *hasher, ptr data, size_t len, const filterblock_expected *expected) {
    filterblock_cache *cache = cache_new(1 << 20);
    filterblock_set *set = set_new(hasher);
    struct file file = {data, 0};
    filterblock_source source = {read_file, close_file, &file, 1};
    filterblock_cache_counts_info counts;
    error_t1 error;
    filterblock_cached *filter = cached_new(cache, len, expected, &source, &error);
    filterblock_slot slot;

    CHECK(filter != NULL);
    slot = set_insert_cached(set, filter);
    cached_free(filter);
    CHECK(file.calls == 0);
    CHECK(set_ask(set, slot, "apple", 5) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(set_ask(set, slot, "plum", 4) == FILTERBLOCK_ANSWER_NO && file.calls == 1);
    CHECK(!cache_needs_rebalance(cache));
    CHECK(!cache_rebalance(cache));
    CHECK(cache_counts(cache, &counts) && counts.loads == 1 && counts.bytes >= len);
    set_free(set);
    CHECK(file.data == NULL);
    cache_free(cache);
}

int main(int argc, char **argv) {
    error_t1 error;
    filterblock_plan_info planned;
    uint32_t checksum;

    null_arguments();
    CHECK(strlen(version()) > 0 && abi_version() >= 1);
    CHECK(code_is_damage(FILTERBLOCK_CODE_CORRUPT) && !code_is_damage(FILTERBLOCK_CODE_UNSUPPORTED));
    CHECK(plan("bloom:fpr=0.01", 1000000, &planned, &error) == FILTERBLOCK_CODE_OK);
    CHECK(planned.payload_len_bytes == 1199128 && planned.expected_fpr < 0.0101);
    CHECK(plan("no such filter", 1, &planned, &error) == FILTERBLOCK_CODE_INVALID);

    filterblock_hasher *hasher = hasher_new_xxh3(42);
    filterblock_hasher *secrets[2] = {
        hasher_new_xxh3_secret(42, "sixteen bytes!!!", 16, &error),
        hasher_new_sip13(42, "sixteen bytes!!!", 16, &error),
    };
    CHECK(secrets[0] != NULL && secrets[1] != NULL);
    CHECK(hasher_hash(secrets[0], "a", 1) != hasher_hash(secrets[1], "a", 1));
    hasher_free(secrets[0]);
    hasher_free(secrets[1]);

    filterblock_options options;
    memset(&options, 0, sizeof options);
    memcpy(options.table_id, table_id, 16);
    options.extractor = "first-2";
    options.ranges = "grafite:fpr=0.001";
    options.threads = 2;
    filterblock_builder *builder = builder_new("bloom:30", hasher, &options, &error);
    builder_reserve(builder, 8);
    for (size_t i = 0; i < 3; i++) {
        builder_add(builder, keys[i], lens[i]);
        builder_add_prefix(builder, keys[i], 2);
    }
    CHECK(builder_len(builder) == 6);
    filterblock_bytes *bytes = builder_finish(builder, &error);
    CHECK(bytes != NULL && block_checksum(bytes_data(bytes), bytes_len(bytes), &checksum));
    CHECK(builder_finish(builder, &error) == NULL && error.code == FILTERBLOCK_CODE_INVALID);

    options.ranges = NULL;
    filterblock_partitioned *parts = partitioned_new("bloom:30", hasher, &options, 4, &error);
    for (size_t i = 0; i < 3; i++) {
        partitioned_add(parts, keys[i], lens[i]);
        partitioned_add_prefix(parts, keys[i], 2);
    }
    filterblock_bytes *part_bytes = partitioned_finish(parts, &error);
    CHECK(part_bytes != NULL && partitioned_finish(parts, &error) == NULL);
    partitioned_free(parts);

    filterblock_expected expected;
    memset(&expected, 0, sizeof expected);
    expected.hasher = hasher;
    memcpy(expected.table_id, table_id, 16);
    expected.flags =
        FILTERBLOCK_EXPECT_NUM_ENTRIES | FILTERBLOCK_EXPECT_CHECKSUM | FILTERBLOCK_EXPECT_PREFIXES;
    expected.num_entries = 3;
    expected.checksum = checksum;
    expected.extractor = "first-2";
    ptr data = bytes_data(bytes);
    const size_t len = bytes_len(bytes);
    filterblock_filter *filter = filter_open_borrowed(data, len, &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error);
    ask(filter, hasher);
    filter_free(filter);
    filter = filter_open_copied(data, len, &expected, FILTERBLOCK_VERIFY_ON_FIRST_TOUCH, &error);
    ask(filter, hasher);
    CHECK(argc == 2);
    FILE *file = fopen(argv[1], "wb");
    CHECK(file != NULL && fwrite(data, 1, len, file) == len && fclose(file) == 0);
    filterblock_filter *mapped = filter_open_mapped(argv[1], 0, len, &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error);
    ask(mapped, hasher);
    filter_free(mapped);
    expected.flags = FILTERBLOCK_EXPECT_PREFIXES;
    filterblock_filter *partitioned =
        filter_open_copied(bytes_data(part_bytes), bytes_len(part_bytes), &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error);
    CHECK(partitioned != NULL);
    ask_set(hasher, filter, partitioned);
    ask_cache(hasher, bytes_data(part_bytes), bytes_len(part_bytes), &expected);

    expected.flags = FILTERBLOCK_EXPECT_ANY_TABLE;
    CHECK(verified_check(data, len, &expected, &error) == FILTERBLOCK_CODE_OK);
    CHECK(verified_check(data, len - 1, &expected, &error) == FILTERBLOCK_CODE_CORRUPT);
    CHECK(verified_ask(data, len, &expected, "pear", 4) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(verified_ask(data, len, &expected, "plum", 4) == FILTERBLOCK_ANSWER_NO);
    CHECK(verified_ask_hash(data, len, &expected, hasher_hash(hasher, "pear", 4)) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(verified_ask_prefix(data, len, &expected, "first-2", "ap", 2) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(verified_ask_prefix(data, len, &expected, "first-2", "xy", 2) == FILTERBLOCK_ANSWER_NO);
    CHECK(verified_ask_range(data, len, &expected, "a", 1, "b", 1) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(verified_ask_range(data, len, &expected, "x", 1, "y", 1) == FILTERBLOCK_ANSWER_NO);
    bytes_free(bytes);
    bytes_free(part_bytes);

    builder_clear(builder);
    builder_add(builder, "apple", 5);
    CHECK(builder_finish_compact(builder, &error) == NULL && error.code == FILTERBLOCK_CODE_INVALID);
    builder_free(builder);
    builder = builder_new("bloom:30", hasher, NULL, &error);
    builder_add_hash(builder, hasher_hash(hasher, "apple", 5));
    bytes = builder_finish_compact(builder, &error);
    CHECK(bytes != NULL);
    data = bytes_data(bytes);
    CHECK(compact_ask(data, bytes_len(bytes), hasher, "apple", 5) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(compact_ask(data, bytes_len(bytes), hasher, "plum", 4) == FILTERBLOCK_ANSWER_NO);
    CHECK(compact_ask_hash(data, bytes_len(bytes), hasher, hasher_hash(hasher, "apple", 5)) == FILTERBLOCK_ANSWER_MAYBE);
    CHECK(compact_check(data, bytes_len(bytes), hasher, &error) == FILTERBLOCK_CODE_OK);
    CHECK(compact_check(data, bytes_len(bytes) - 1, hasher, &error) == FILTERBLOCK_CODE_CHECKSUM_MISMATCH);
    bytes_free(bytes);
    builder_free(builder);
    hasher_free(hasher);
    puts("ABI 1 works");
    return 0;
}
