// Shows a store in C++. It owns handles with std::unique_ptr, and several threads ask one filter.
//
//   c++ -std=c++17 -pthread examples/embed.cc $(pkg-config --cflags --libs filterblock) -o embed && ./embed
#include <filterblock.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

template <auto Free>
struct Freed {
    template <typename T>
    void operator()(T *handle) const {
        Free(handle);
    }
};

using Hasher = std::unique_ptr<filterblock_hasher, Freed<filterblock_hasher_free>>;
using Builder = std::unique_ptr<filterblock_builder, Freed<filterblock_builder_free>>;
using Bytes = std::unique_ptr<filterblock_bytes, Freed<filterblock_bytes_free>>;
using Filter = std::unique_ptr<filterblock_filter, Freed<filterblock_filter_free>>;

constexpr std::string_view kTableId = "table 0000000012";
constexpr char kExtractor[] = "first-4";

// Returns an owning handle, or throws the error as an exception. The library itself never throws.
template <typename Handle, typename Raw>
Handle Checked(Raw *raw, const filterblock_error &error) {
    if (raw == nullptr) {
        throw std::runtime_error(error.message);
    }
    return Handle(raw);
}

filterblock_options OfTable() {
    filterblock_options options{};
    std::memcpy(options.table_id, kTableId.data(), sizeof options.table_id);
    return options;
}

Bytes Build(const Hasher &hasher, const std::vector<std::string> &keys) {
    filterblock_error error;
    filterblock_options options = OfTable();
    options.extractor = kExtractor;
    auto builder =
        Checked<Builder>(filterblock_builder_new("bumped-ribbon:fpr=0.001", hasher.get(), &options, &error), error);
    filterblock_builder_reserve(builder.get(), 2 * keys.size());
    for (const std::string &key : keys) {
        filterblock_builder_add(builder.get(), key.data(), key.size());
        filterblock_builder_add_prefix(builder.get(), key.data(), 4);
    }
    return Checked<Bytes>(filterblock_builder_finish(builder.get(), &error), error);
}

Filter Open(const Hasher &hasher, const Bytes &bytes) {
    filterblock_error error;
    filterblock_expected expected{};
    expected.hasher = hasher.get();
    std::memcpy(expected.table_id, kTableId.data(), sizeof expected.table_id);
    expected.flags = FILTERBLOCK_EXPECT_PREFIXES;
    expected.extractor = kExtractor;
    // `bytes` must outlive the filter.
    return Checked<Filter>(
        filterblock_filter_open_borrowed(filterblock_bytes_data(bytes.get()), filterblock_bytes_len(bytes.get()),
                                         &expected, FILTERBLOCK_VERIFY_ON_FIRST_TOUCH, &error),
        error);
}

std::vector<std::string> Keys(const char *prefix, int count) {
    std::vector<std::string> keys;
    for (int i = 0; i < count; i++) {
        keys.push_back(prefix + std::to_string(i));
    }
    return keys;
}

// Returns the number of keys for which the filter answers "maybe". Asks for all keys in one call.
size_t Found(const Hasher &hasher, const filterblock_filter *filter, const std::vector<std::string> &keys) {
    std::vector<uint64_t> hashes;
    for (const std::string &key : keys) {
        hashes.push_back(filterblock_hasher_hash(hasher.get(), key.data(), key.size()));
    }
    const std::unique_ptr<bool[]> answers(new bool[keys.size()]);
    filterblock_filter_may_contain_hashes(filter, hashes.data(), keys.size(), answers.get());
    size_t found = 0;
    for (size_t i = 0; i < keys.size(); i++) {
        found += answers[i] ? 1 : 0;
    }
    return found;
}

// Builds a filter of these keys with a range filter. Returns whether the filter may have a key `k`
// with `lower <= k < upper`.
bool MayContainRange(const Hasher &hasher, const std::vector<std::string> &keys, std::string_view lower,
                     std::string_view upper) {
    filterblock_error error;
    filterblock_options options = OfTable();
    options.ranges = "grafite:fpr=0.001";
    auto builder = Checked<Builder>(filterblock_builder_new("blocked-bloom:10", hasher.get(), &options, &error), error);
    for (const std::string &key : keys) {
        filterblock_builder_add(builder.get(), key.data(), key.size());
    }
    const auto bytes = Checked<Bytes>(filterblock_builder_finish(builder.get(), &error), error);
    filterblock_expected expected{};
    expected.hasher = hasher.get();
    std::memcpy(expected.table_id, kTableId.data(), sizeof expected.table_id);
    const auto filter = Checked<Filter>(
        filterblock_filter_open_borrowed(filterblock_bytes_data(bytes.get()), filterblock_bytes_len(bytes.get()),
                                         &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error),
        error);
    return filterblock_filter_may_contain_range(filter.get(), lower.data(), lower.size(), upper.data(), upper.size());
}

}  // namespace

int main() {
    const auto present = Keys("user", 10000), absent = Keys("item", 10000);
    const Hasher hasher(filterblock_hasher_new_xxh3(42));
    const Bytes bytes = Build(hasher, present);
    const Filter filter = Open(hasher, bytes);

    filterblock_metadata metadata;
    if (filterblock_filter_metadata(filter.get(), &metadata, nullptr) != FILTERBLOCK_CODE_OK) {
        return 1;
    }
    std::printf("%s: %llu keys and prefixes\n", metadata.kind, static_cast<unsigned long long>(metadata.num_keys));

    std::atomic<size_t> found{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] { found += Found(hasher, filter.get(), present); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    const size_t false_positives = Found(hasher, filter.get(), absent);
    std::printf("present keys found: %zu of %zu; false positives: %s\n", found.load(), 4 * present.size(),
                false_positives < 50 ? "below 0.5 %" : "too many");
    std::printf("prefixes: user %d, item %d\n",
                filterblock_filter_may_contain_prefix(filter.get(), kExtractor, "user", 4),
                filterblock_filter_may_contain_prefix(filter.get(), kExtractor, "item", 4));

    std::printf("ranges: user5 to user6 %d, item to user %d\n", MayContainRange(hasher, present, "user5", "user6"),
                MayContainRange(hasher, present, "item", "user"));

    // A query that needs a damaged page answers "maybe", and the filter counts the page.
    const auto *first = static_cast<const unsigned char *>(filterblock_bytes_data(bytes.get()));
    std::vector<unsigned char> damaged(first, first + filterblock_bytes_len(bytes.get()));
    damaged[100] ^= 1;
    filterblock_expected expected{};
    expected.hasher = hasher.get();
    expected.flags = FILTERBLOCK_EXPECT_ANY_TABLE;
    const Filter doubtful(filterblock_filter_open_copied(damaged.data(), damaged.size(), &expected,
                                                         FILTERBLOCK_VERIFY_ON_FIRST_TOUCH, nullptr));
    const bool is_lossless = Found(hasher, doubtful.get(), present) == present.size();
    std::printf("one flipped bit: damaged pages %llu, keys lost: %s\n",
                static_cast<unsigned long long>(filterblock_filter_damaged_pages(doubtful.get())),
                is_lossless ? "none" : "some");
    return found == 4 * present.size() && is_lossless && false_positives < 50 ? 0 : 1;
}
