// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Implements the filter policy of RocksDB with filterblock. Its classes derive from RocksDB's
// internal header table/block_based/filter_policy_internal.h, which is not part of RocksDB's public
// API. Compile with the headers of exactly the RocksDB that you link. Tested with RocksDB 7.8.3 and
// 11.8.1.
//
// A filter that cannot be used answers "maybe", and Counters counts it. So a get never loses a key
// because of damage, a newer format or another seed. It only reads more blocks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "filterblock.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"
#include "rocksdb/table.h"
#include "table/block_based/filter_policy_internal.h"

namespace filterblock_rocksdb {

namespace engine = ROCKSDB_NAMESPACE;

// The name of the policy. The metaindex of an SST has the entry `fullfilter.filterblock.v1` or
// `partitionedfilter.filterblock.v1`. The number is the version of the block format.
inline constexpr char kCompatibilityName[] = "filterblock.v1";

// The hash function of the keys.
enum class Hash {
  kXxh3,        // needs no secret
  kXxh3Secret,  // as fast, and harder to attack by chosen keys
  kSipHash13,   // for keys that attackers choose
};

// The specs of filters by level, and the hash function of keys. A spec is text such as
// "blocked-bloom:10" (bits per key) or "bumped-ribbon:fpr=0.01" (false-positive rate). The spec
// "none" makes no filter.
struct Options {
  // The spec for flushed SSTs, and for SSTs of levels 0 to `lower_from_level` - 1. These SSTs are
  // small and short-lived, and gets ask them first.
  std::string upper = "blocked-bloom:10";
  // The spec for all other SSTs, including SSTs of unknown level (SstFileWriter).
  std::string lower = "bumped-ribbon:fpr=0.01";
  // The spec for bottommost SSTs. It takes precedence over `upper` and `lower`. If it is empty,
  // bottommost SSTs get `upper` or `lower` like other SSTs.
  std::string bottommost;
  // The first level whose SSTs get `lower`.
  int lower_from_level = 1;

  // The hash function, its seed and its secret. After a change of one of them, old filters answer
  // "maybe" until a compaction rewrites their SSTs.
  Hash hash = Hash::kXxh3;
  uint64_t seed = 0;
  std::string secret;  // 16 or 32 random bytes; empty for kXxh3

  // Whether each new filter is asked for all its keys before it is written.
  bool self_check = true;
};

// The counters of a policy. Keep the handle that NewFilterPolicy returns, and read it at any time.
struct Counters {
  std::atomic<uint64_t> filters_built{0};
  // Filters that could not be built, for example because of too little memory or a failed
  // self-check. The SST got an always-maybe filter, or no filter if the builder could not be made.
  // With detect_filter_construct_corruption, a failed self-check instead fails the flush or
  // compaction.
  std::atomic<uint64_t> filters_failed{0};
  std::atomic<uint64_t> filters_opened{0};
  // The next four count filters that could not be opened. They answer "maybe" to every key.
  std::atomic<uint64_t> filters_damaged{0};
  std::atomic<uint64_t> filters_of_newer_version{0};
  std::atomic<uint64_t> filters_of_other_hasher{0};
  std::atomic<uint64_t> filters_refused{0};  // for another reason, such as too little memory
  // Queries of filters that could not be opened. Each may have cost a read of a data block.
  std::atomic<uint64_t> unfiltered_queries{0};

  // Returns the reason why the last filter could not be built or opened, or an empty text.
  std::string LastError() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_error_;
  }

  void SetLastError(const char* message) {
    std::lock_guard<std::mutex> lock(mutex_);
    last_error_ = message;
  }

 private:
  mutable std::mutex mutex_;
  std::string last_error_;
};

namespace internal {

struct Free {
  void operator()(filterblock_hasher* hasher) const { filterblock_hasher_free(hasher); }
  void operator()(filterblock_builder* builder) const { filterblock_builder_free(builder); }
  void operator()(filterblock_bytes* bytes) const { filterblock_bytes_free(bytes); }
  void operator()(filterblock_filter* filter) const { filterblock_filter_free(filter); }
};

template <typename T>
using Handle = std::unique_ptr<T, Free>;

// The state that a policy shares with its builders and readers. RocksDB may drop the policy first.
struct Shared {
  Options options;
  Handle<filterblock_hasher> hasher;
  std::shared_ptr<Counters> counters;
  // A filter that answers "maybe" to every key.
  std::string always_maybe;

  filterblock_expected Expected() const {
    filterblock_expected expected = {};
    expected.hasher = hasher.get();
    // RocksDB does not tell a reader which SST it reads. An SST with a filter has keys, so a filter
    // without keys belongs to another SST.
    expected.flags = FILTERBLOCK_EXPECT_ANY_TABLE | FILTERBLOCK_EXPECT_NUM_ENTRIES;
    expected.num_entries = UINT64_MAX;
    return expected;
  }

  const std::string& SpecOf(const engine::FilterBuildingContext& context) const {
    if (context.is_bottommost && !options.bottommost.empty()) {
      return options.bottommost;
    }
    const bool is_upper = context.reason == engine::TableFileCreationReason::kFlush ||
                          (context.level_at_creation >= 0 &&
                           context.level_at_creation < options.lower_from_level);
    return is_upper ? options.upper : options.lower;
  }
};

inline void Add(std::atomic<uint64_t>& counter, uint64_t count = 1) {
  counter.fetch_add(count, std::memory_order_relaxed);
}

// Newer versions of RocksDB add virtual functions to these classes. A function that only some
// versions have must override without the keyword `override`.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#pragma clang diagnostic ignored "-Wsuggest-override"
#endif

class BitsBuilder final : public engine::FilterBitsBuilder {
 public:
  BitsBuilder(std::shared_ptr<const Shared> shared, std::string spec,
              Handle<filterblock_builder> builder, bool verifies)
      : shared_(std::move(shared)),
        spec_(std::move(spec)),
        builder_(std::move(builder)),
        verifies_(verifies) {}

  void AddKey(const engine::Slice& key) override { AddHash(HashOf(key)); }

  void AddKeyAndAlt(const engine::Slice& key, const engine::Slice& alt) {
    const uint64_t key_hash = HashOf(key);
    const uint64_t alt_hash = HashOf(alt);
    // The builder skips a hash that equals the last hash. Here key and prefix alternate, so without
    // this check the same prefix would be stored once per key.
    const bool is_last = alt_hash == last_alt_ && alt_hash != FILTERBLOCK_NO_HASH;
    if (!is_last || filterblock_builder_len(builder_.get()) == 0) {
      AddHash(alt_hash);
      last_alt_ = alt_hash;
    }
    AddHash(key_hash);
  }

  size_t EstimateEntriesAdded() override { return filterblock_builder_len(builder_.get()); }

  engine::Slice Finish(std::unique_ptr<const char[]>* buf) override { return Finish(buf, nullptr); }

  engine::Slice Finish(std::unique_ptr<const char[]>* buf, engine::Status* status) override {
    if (status != nullptr) {
      *status = engine::Status::OK();
    }
    filterblock_error error;
    Handle<filterblock_bytes> bytes;
    // A filter without keys would deny every key. So the SST gets the always-maybe filter.
    if (filterblock_builder_len(builder_.get()) > 0) {
      bytes.reset(filterblock_builder_finish(builder_.get(), &error));
      if (bytes == nullptr) {
        Add(shared_->counters->filters_failed);
        shared_->counters->SetLastError(error.message);
        // With detect_filter_construct_corruption, RocksDB then fails the flush or compaction, as
        // it does for its own filters.
        if (error.code == FILTERBLOCK_CODE_SELF_CHECK_FAILED && verifies_ && status != nullptr) {
          *status = engine::Status::Corruption("filterblock", error.message);
        }
      }
    }
    filterblock_builder_clear(builder_.get());
    last_alt_ = 0;
    written_.swap(hashes_);
    hashes_.clear();
    if (bytes == nullptr) {
      return Copy(shared_->always_maybe.data(), shared_->always_maybe.size(), buf);
    }
    const auto* data = static_cast<const char*>(filterblock_bytes_data(bytes.get()));
    const engine::Slice copy = Copy(data, filterblock_bytes_len(bytes.get()), buf);
    // Without a copy, the SST gets no usable filter.
    if (*buf == nullptr) {
      Add(shared_->counters->filters_failed);
      shared_->counters->SetLastError("too little memory to copy the new filter; free memory");
    } else {
      Add(shared_->counters->filters_built);
    }
    return copy;
  }

  // Opens the filter that RocksDB is about to write, and asks it for every key. Does nothing
  // without detect_filter_construct_corruption.
  engine::Status MaybePostVerify(const engine::Slice& content) override {
    if (!verifies_) {
      return engine::Status::OK();
    }
    const std::vector<uint64_t> hashes = std::exchange(written_, {});
    const filterblock_expected expected = shared_->Expected();
    filterblock_error error;
    const Handle<filterblock_filter> filter(filterblock_filter_open_borrowed(
        content.data(), content.size(), &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error));
    if (filter == nullptr) {
      return engine::Status::Corruption("filterblock", error.message);
    }
    std::array<bool, 256> answers;
    for (size_t first = 0; first < hashes.size(); first += answers.size()) {
      const size_t count = std::min(answers.size(), hashes.size() - first);
      filterblock_filter_may_contain_hashes(filter.get(), &hashes[first], count, answers.data());
      if (std::find(answers.begin(), answers.begin() + count, false) != answers.begin() + count) {
        return engine::Status::Corruption("filterblock", "the new filter denies one of its keys");
      }
    }
    return engine::Status::OK();
  }

  // Returns the largest number of keys whose planned filter has at most `bytes` bytes, or 0.
  size_t ApproximateNumEntries(size_t bytes) override {
    size_t low = 0;
    size_t high = bytes * CHAR_BIT + 1;  // an upper limit: a filter takes at least one bit per key
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (CalculateSpace(middle) <= bytes ? low : high) = middle;
    }
    return low;
  }

  size_t CalculateSpace(size_t num_entries) {
    return num_entries == 0 ? 0 : static_cast<size_t>(Plan(num_entries).block_len_bytes);
  }

  double EstimatedFpRate(size_t num_entries, size_t /*bytes*/) {
    return num_entries == 0 ? 0.0 : Plan(num_entries).expected_fpr;
  }

 private:
  uint64_t HashOf(const engine::Slice& key) const {
    return filterblock_hasher_hash(shared_->hasher.get(), key.data(), key.size());
  }

  void AddHash(uint64_t hash) {
    filterblock_builder_add_hash(builder_.get(), hash);
    if (verifies_) {
      hashes_.push_back(hash);
    }
  }

  filterblock_plan_info Plan(size_t num_entries) const {
    filterblock_plan_info plan = {};
    if (filterblock_plan(spec_.c_str(), num_entries, &plan, nullptr) != FILTERBLOCK_CODE_OK) {
      plan.block_len_bytes = SIZE_MAX;
      plan.expected_fpr = 1.0;
    }
    return plan;
  }

  static engine::Slice Copy(const char* data, size_t len, std::unique_ptr<const char[]>* buf) {
    char* copy = new (std::nothrow) char[len];
    if (copy == nullptr) {
      // This byte is not a valid filter, so every answer is "maybe". RocksDB treats an empty
      // partition as one without keys, so the filter must not be empty.
      buf->reset();
      return engine::Slice("?", 1);
    }
    std::memcpy(copy, data, len);
    buf->reset(copy);
    return engine::Slice(copy, len);
  }

  const std::shared_ptr<const Shared> shared_;
  const std::string spec_;
  const Handle<filterblock_builder> builder_;
  const bool verifies_;
  uint64_t last_alt_ = 0;
  // The hashes of the current filter, and of the last finished filter. Both are empty if
  // `verifies_` is false.
  std::vector<uint64_t> hashes_;
  std::vector<uint64_t> written_;
};

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

class BitsReader final : public engine::FilterBitsReader {
 public:
  BitsReader(std::shared_ptr<const Shared> shared, Handle<filterblock_filter> filter)
      : shared_(std::move(shared)), filter_(std::move(filter)) {}

  bool MayMatch(const engine::Slice& entry) override {
    return filterblock_filter_may_contain(filter_.get(), entry.data(), entry.size());
  }

  void MayMatch(int num_keys, engine::Slice** keys, bool* may_match) override {
    std::array<uint64_t, 32> hashes;
    while (num_keys > 0) {
      const int count = std::min(num_keys, static_cast<int>(hashes.size()));
      for (int i = 0; i < count; ++i) {
        hashes[i] = filterblock_hasher_hash(shared_->hasher.get(), keys[i]->data(), keys[i]->size());
      }
      filterblock_filter_may_contain_hashes(filter_.get(), hashes.data(), static_cast<size_t>(count), may_match);
      keys += count;
      may_match += count;
      num_keys -= count;
    }
  }

 private:
  const std::shared_ptr<const Shared> shared_;
  const Handle<filterblock_filter> filter_;
};

// The reader of a filter that could not be opened. It answers "maybe" to every key.
class AlwaysMaybe final : public engine::FilterBitsReader {
 public:
  explicit AlwaysMaybe(std::shared_ptr<Counters> counters) : counters_(std::move(counters)) {}

  bool MayMatch(const engine::Slice& /*entry*/) override {
    Add(counters_->unfiltered_queries);
    return true;
  }

  void MayMatch(int num_keys, engine::Slice** /*keys*/, bool* may_match) override {
    Add(counters_->unfiltered_queries, static_cast<uint64_t>(num_keys));
    std::fill(may_match, may_match + num_keys, true);
  }

 private:
  const std::shared_ptr<Counters> counters_;
};

class Policy final : public engine::FilterPolicy {
 public:
  explicit Policy(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  const char* Name() const override { return "filterblock"; }

  const char* CompatibilityName() const override { return kCompatibilityName; }

  engine::FilterBitsBuilder* GetBuilderWithContext(
      const engine::FilterBuildingContext& context) const override {
    const std::string& spec = shared_->SpecOf(context);
    if (spec == "none") {
      return nullptr;
    }
    filterblock_error error;
    filterblock_options options = {};
    options.flags = shared_->options.self_check ? 0 : FILTERBLOCK_OPTION_NO_SELF_CHECK;
    Handle<filterblock_builder> builder(
        filterblock_builder_new(spec.c_str(), shared_->hasher.get(), &options, &error));
    if (builder == nullptr) {
      Add(shared_->counters->filters_failed);
      shared_->counters->SetLastError(error.message);
      return nullptr;  // the SST gets no filter
    }
    const bool verifies = context.table_options.detect_filter_construct_corruption;
    return new BitsBuilder(shared_, spec, std::move(builder), verifies);
  }

  engine::FilterBitsReader* GetFilterBitsReader(const engine::Slice& contents) const override {
    const filterblock_expected expected = shared_->Expected();
    filterblock_error error;
    // We measured and rejected an aligned copy, with which a query of a blocked filter touches one
    // cache line instead of two. Gets took the same time, and the copy doubles the memory.
    Handle<filterblock_filter> filter(filterblock_filter_open_borrowed(
        contents.data(), contents.size(), &expected, FILTERBLOCK_VERIFY_AT_OPEN, &error));
    Counters& counters = *shared_->counters;
    if (filter != nullptr) {
      Add(counters.filters_opened);
      return new BitsReader(shared_, std::move(filter));
    }
    if (filterblock_code_is_damage(error.code)) {
      Add(counters.filters_damaged);
    } else if (error.code == FILTERBLOCK_CODE_UNSUPPORTED) {
      Add(counters.filters_of_newer_version);
    } else if (error.is_hasher_mismatch != 0) {
      Add(counters.filters_of_other_hasher);
    } else {
      Add(counters.filters_refused);
    }
    counters.SetLastError(error.message);
    return new AlwaysMaybe(shared_->counters);
  }

 private:
  const std::shared_ptr<const Shared> shared_;
};

inline engine::Status Invalid(const char* what, const filterblock_error& error) {
  return engine::Status::InvalidArgument(what, error.message);
}

inline engine::Status MakeHasher(const Options& options, Handle<filterblock_hasher>* hasher) {
  filterblock_error error;
  const char* secret = options.secret.data();
  const size_t len = options.secret.size();
  switch (options.hash) {
    case Hash::kXxh3:
      if (!options.secret.empty()) {
        return engine::Status::InvalidArgument(
            "filterblock", "Hash::kXxh3 takes no secret; clear the secret or choose Hash::kXxh3Secret");
      }
      hasher->reset(filterblock_hasher_new_xxh3(options.seed));
      return engine::Status::OK();
    case Hash::kXxh3Secret:
      hasher->reset(filterblock_hasher_new_xxh3_secret(options.seed, secret, len, &error));
      break;
    case Hash::kSipHash13:
      hasher->reset(filterblock_hasher_new_sip13(options.seed, secret, len, &error));
      break;
  }
  return *hasher == nullptr ? Invalid("filterblock: secret", error) : engine::Status::OK();
}

}  // namespace internal

// Makes a filter policy for BlockBasedTableOptions::filter_policy, and sets `counters` to its
// counters. `counters` may be nullptr. Any number of databases and threads may share the policy.
//
// Returns InvalidArgument if a spec or the secret is invalid, or if the header and the library of
// filterblock have different ABI versions.
inline engine::Status NewFilterPolicy(const Options& options,
                                      std::shared_ptr<const engine::FilterPolicy>* policy,
                                      std::shared_ptr<Counters>* counters) {
  if (filterblock_abi_version() != FILTERBLOCK_ABI_VERSION) {
    return engine::Status::InvalidArgument(
        "filterblock", "the library has another ABI version; compile with the header of the library");
  }
  auto shared = std::make_shared<internal::Shared>();
  shared->options = options;
  shared->counters = std::make_shared<Counters>();
  const engine::Status made = internal::MakeHasher(options, &shared->hasher);
  if (!made.ok()) {
    return made;
  }
  filterblock_error error;
  const auto builder_of = [&](const std::string& spec) {
    return internal::Handle<filterblock_builder>(
        filterblock_builder_new(spec.c_str(), shared->hasher.get(), nullptr, &error));
  };
  for (const std::string* spec : {&options.upper, &options.lower, &options.bottommost}) {
    const bool is_optional = spec == &options.bottommost && spec->empty();
    if (is_optional || *spec == "none") {
      continue;
    }
    const auto builder = builder_of(*spec);
    // A range filter cannot be built from hashes. So the spec of a range filter is an error here,
    // and not at each flush.
    if (builder != nullptr) {
      filterblock_builder_add_hash(builder.get(), 1);
    }
    if (builder == nullptr ||
        internal::Handle<filterblock_bytes>(filterblock_builder_finish(builder.get(), &error)) == nullptr) {
      return internal::Invalid("filterblock: spec", error);
    }
  }
  const auto always_maybe = builder_of("always-maybe");
  filterblock_builder_add(always_maybe.get(), "", 0);
  const internal::Handle<filterblock_bytes> bytes(filterblock_builder_finish(always_maybe.get(), &error));
  if (bytes == nullptr) {
    return internal::Invalid("filterblock", error);
  }
  shared->always_maybe.assign(static_cast<const char*>(filterblock_bytes_data(bytes.get())),
                              filterblock_bytes_len(bytes.get()));
  if (counters != nullptr) {
    *counters = shared->counters;
  }
  policy->reset(new internal::Policy(std::move(shared)));
  return engine::Status::OK();
}

}  // namespace filterblock_rocksdb
