// Opens RocksDB databases with a filter policy, for the tests.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "../../cxx/check.h"
#include "filterblock_rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"

namespace support {

using filterblock_rocksdb::Counters;

// A policy of filterblock and its counters.
struct Ours {
  explicit Ours(const filterblock_rocksdb::Options& options) {
    const rocksdb::Status made = filterblock_rocksdb::NewFilterPolicy(options, &policy, &counters);
    CHECK_WITH(made.ok(), made.ToString());
  }
  explicit Ours(const std::string& spec) : Ours(OfSpec(spec)) {}

  static filterblock_rocksdb::Options OfSpec(const std::string& spec) {
    filterblock_rocksdb::Options options;
    options.upper = options.lower = spec;
    return options;
  }

  std::shared_ptr<const rocksdb::FilterPolicy> policy;
  std::shared_ptr<Counters> counters;
};

inline std::shared_ptr<const rocksdb::FilterPolicy> Bloom() {
  return std::shared_ptr<const rocksdb::FilterPolicy>(rocksdb::NewBloomFilterPolicy(10));
}

inline rocksdb::BlockBasedTableOptions Table(std::shared_ptr<const rocksdb::FilterPolicy> policy) {
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy = std::move(policy);
  table.format_version = 5;
  return table;
}

inline rocksdb::Options DbOptions(const rocksdb::BlockBasedTableOptions& table) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.compression = rocksdb::kNoCompression;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

inline void Ok(const rocksdb::Status& status) { CHECK_WITH(status.ok(), status.ToString()); }

// Sets the options of partitioned filters and indexes.
inline void Partition(rocksdb::BlockBasedTableOptions* table, uint64_t partition_len) {
  table->index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table->partition_filters = true;
  table->metadata_block_size = partition_len;
}

// Rewrites all SSTs.
inline void Compact(rocksdb::DB* db) {
  rocksdb::CompactRangeOptions force;
  force.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  Ok(db->CompactRange(force, nullptr, nullptr));
}

// Calls `open` with a pointer to the variable for the database. Newer versions of RocksDB take a
// smart pointer, and older versions take a raw pointer.
template <typename OpenFunction>
rocksdb::Status OpenInto(std::unique_ptr<rocksdb::DB>* db, const OpenFunction& open) {
  if constexpr (std::is_invocable_v<OpenFunction, std::unique_ptr<rocksdb::DB>*>) {
    return open(db);
  } else {
    rocksdb::DB* plain = nullptr;
    const rocksdb::Status status = open(&plain);
    db->reset(plain);
    return status;
  }
}

inline std::unique_ptr<rocksdb::DB> Open(const rocksdb::Options& options, const std::string& dir) {
  std::unique_ptr<rocksdb::DB> db;
  const auto open = [&](auto* place) -> decltype(rocksdb::DB::Open(options, dir, place)) {
    return rocksdb::DB::Open(options, dir, place);
  };
  Ok(OpenInto(&db, open));
  return db;
}

inline rocksdb::Status TryOpenToRead(const rocksdb::Options& options, const std::string& dir,
                                     std::unique_ptr<rocksdb::DB>* db) {
  const auto open = [&](auto* place) -> decltype(rocksdb::DB::OpenForReadOnly(options, dir, place)) {
    return rocksdb::DB::OpenForReadOnly(options, dir, place);
  };
  return OpenInto(db, open);
}

inline std::unique_ptr<rocksdb::DB> OpenToRead(const rocksdb::Options& options,
                                               const std::string& dir) {
  std::unique_ptr<rocksdb::DB> db;
  Ok(TryOpenToRead(options, dir, &db));
  return db;
}

using check::Gets;

// Gets the keys `first` to `first + count - 1`, and counts the results. A wrong value counts as
// failed.
inline Gets GetAll(rocksdb::DB* db, uint64_t first, uint64_t count) {
  Gets gets;
  std::string value;
  for (uint64_t number = first; number < first + count; ++number) {
    const rocksdb::Status status = db->Get({}, check::Key(number), &value);
    if (status.IsNotFound()) {
      ++gets.lost;
    } else if (status.ok() && value == check::Value(number)) {
      ++gets.found;
    } else {
      ++gets.failed;
    }
  }
  return gets;
}

// Writes the keys 0 to `count` - 1 into one SST, and closes the database.
inline void WriteSst(const rocksdb::Options& options, const std::string& dir, uint64_t count) {
  const std::unique_ptr<rocksdb::DB> db = Open(options, dir);
  for (uint64_t number = 0; number < count; ++number) {
    Ok(db->Put({}, check::Key(number), check::Value(number)));
  }
  Ok(db->Flush({}));
}

}  // namespace support
