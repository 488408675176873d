// Defines the C functions through which src/sys.rs calls the C++ header.
#include <cstdio>

#include "filterblock_rocksdb.h"
#include "rocksdb/c.h"

namespace {

using filterblock_rocksdb::Counters;

std::string Text(const char* data, size_t len) { return std::string(data, len); }

}  // namespace

extern "C" {

// The settings of src/sys.rs. The texts have no zero byte at their end.
struct filterblock_rocksdb_settings {
  const char* upper;
  size_t upper_len;
  const char* lower;
  size_t lower_len;
  const char* bottommost;
  size_t bottommost_len;
  const char* secret;
  size_t secret_len;
  uint64_t seed;
  int32_t lower_from_level;
  // A value of filterblock_rocksdb::Hash.
  uint32_t hash;
  bool self_check;
};

// The members of filterblock_rocksdb::Counters.
struct filterblock_rocksdb_counts {
  uint64_t filters_built;
  uint64_t filters_failed;
  uint64_t filters_opened;
  uint64_t filters_damaged;
  uint64_t filters_of_newer_version;
  uint64_t filters_of_other_hasher;
  uint64_t filters_refused;
  uint64_t unfiltered_queries;
};

// Installs a policy into the options of a table. Returns a handle of its counters. If the settings
// are invalid, returns nullptr and writes a message. The message and its zero byte have at most
// `message_len` bytes.
void* filterblock_rocksdb_install(rocksdb_block_based_table_options_t* options,
                                  const filterblock_rocksdb_settings* settings, char* message,
                                  size_t message_len) {
  filterblock_rocksdb::Options chosen;
  chosen.upper = Text(settings->upper, settings->upper_len);
  chosen.lower = Text(settings->lower, settings->lower_len);
  chosen.bottommost = Text(settings->bottommost, settings->bottommost_len);
  chosen.secret = Text(settings->secret, settings->secret_len);
  chosen.seed = settings->seed;
  chosen.lower_from_level = settings->lower_from_level;
  chosen.hash = static_cast<filterblock_rocksdb::Hash>(settings->hash);
  chosen.self_check = settings->self_check;
  std::shared_ptr<const rocksdb::FilterPolicy> policy;
  auto counters = std::make_unique<std::shared_ptr<Counters>>();
  const rocksdb::Status made =
      filterblock_rocksdb::NewFilterPolicy(chosen, &policy, counters.get());
  if (!made.ok()) {
    std::snprintf(message, message_len, "%s", made.ToString().c_str());
    return nullptr;
  }
  // RocksDB defines this struct in db/c.cc, with the options of C++ as its first member.
  reinterpret_cast<rocksdb::BlockBasedTableOptions*>(options)->filter_policy = std::move(policy);
  return counters.release();
}

void filterblock_rocksdb_read_counts(const void* handle, filterblock_rocksdb_counts* counts) {
  const Counters& counters = **static_cast<const std::shared_ptr<Counters>*>(handle);
  counts->filters_built = counters.filters_built;
  counts->filters_failed = counters.filters_failed;
  counts->filters_opened = counters.filters_opened;
  counts->filters_damaged = counters.filters_damaged;
  counts->filters_of_newer_version = counters.filters_of_newer_version;
  counts->filters_of_other_hasher = counters.filters_of_other_hasher;
  counts->filters_refused = counters.filters_refused;
  counts->unfiltered_queries = counters.unfiltered_queries;
}

// Writes the reason why the last filter could not be built or opened, with a zero byte at its end.
void filterblock_rocksdb_last_error(const void* handle, char* message, size_t message_len) {
  const Counters& counters = **static_cast<const std::shared_ptr<Counters>*>(handle);
  std::snprintf(message, message_len, "%s", counters.LastError().c_str());
}

void filterblock_rocksdb_free(void* handle) {
  delete static_cast<std::shared_ptr<Counters>*>(handle);
}

}  // extern "C"
