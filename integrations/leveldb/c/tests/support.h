// Opens LevelDB databases with a filter policy, for the tests.
#pragma once

#include <leveldb/c.h>

#include <memory>
#include <string>

#include "../../../cxx/check.h"
#include "filterblock_leveldb.h"

namespace support {

// A policy of filterblock and its counts.
class Ours {
 public:
  explicit Ours(const char* spec, filterblock_hasher* hasher = nullptr) {
    filterblock_error error;
    handle_ = filterblock_leveldb_new(spec, hasher, &error);
    CHECK_WITH(handle_ != nullptr, error.message);
    policy = filterblock_leveldb_policy(handle_);
    CHECK(policy != nullptr);
  }
  ~Ours() {
    leveldb_filterpolicy_destroy(policy);
    filterblock_leveldb_free(handle_);
  }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

  filterblock_leveldb_counts Counts() const { return filterblock_leveldb_read_counts(handle_); }

  leveldb_filterpolicy_t* policy;

 private:
  filterblock_leveldb* handle_;
};

struct Bloom {
  Bloom() : policy(leveldb_filterpolicy_create_bloom(10)) {}
  ~Bloom() { leveldb_filterpolicy_destroy(policy); }
  Bloom(const Bloom&) = delete;
  Bloom& operator=(const Bloom&) = delete;

  leveldb_filterpolicy_t* policy;
};

inline void Ok(char* error) { CHECK_WITH(error == nullptr, error); }

using check::Gets;

// A database. Its SSTs are not compressed.
class Db {
 public:
  Db(const std::string& dir, leveldb_filterpolicy_t* policy, bool paranoid = false) {
    options_ = leveldb_options_create();
    leveldb_options_set_create_if_missing(options_, 1);
    leveldb_options_set_compression(options_, leveldb_no_compression);
    leveldb_options_set_paranoid_checks(options_, paranoid);
    if (policy != nullptr) {
      leveldb_options_set_filter_policy(options_, policy);
    }
    char* error = nullptr;
    db_ = leveldb_open(options_, dir.c_str(), &error);
    Ok(error);
    reads_ = leveldb_readoptions_create();
    writes_ = leveldb_writeoptions_create();
  }
  ~Db() {
    leveldb_close(db_);
    leveldb_readoptions_destroy(reads_);
    leveldb_writeoptions_destroy(writes_);
    leveldb_options_destroy(options_);
  }
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  void Put(const std::string& key, const std::string& value) {
    char* error = nullptr;
    leveldb_put(db_, writes_, key.data(), key.size(), value.data(), value.size(), &error);
    Ok(error);
  }

  void Delete(const std::string& key) {
    char* error = nullptr;
    leveldb_delete(db_, writes_, key.data(), key.size(), &error);
    Ok(error);
  }

  // Flushes the memtable and compacts all SSTs.
  void Compact() { leveldb_compact_range(db_, nullptr, 0, nullptr, 0); }

  // Gets a key. Returns whether the key is present. Ends the process after an error.
  bool Get(const std::string& key, std::string* value) {
    char* error = nullptr;
    size_t len = 0;
    char* found = leveldb_get(db_, reads_, key.data(), key.size(), &len, &error);
    Ok(error);
    if (found != nullptr) {
      value->assign(found, len);
      leveldb_free(found);
    }
    return found != nullptr;
  }

  // Gets the keys `first` to `first + count - 1`, and counts the results. A wrong value counts as
  // failed.
  Gets GetAll(uint64_t first, uint64_t count) {
    Gets gets;
    for (uint64_t number = first; number < first + count; ++number) {
      const std::string key = check::Key(number);
      char* error = nullptr;
      size_t len = 0;
      char* found = leveldb_get(db_, reads_, key.data(), key.size(), &len, &error);
      if (error != nullptr) {
        ++gets.failed;
        leveldb_free(error);
      } else if (found == nullptr) {
        ++gets.lost;
      } else {
        ++(std::string(found, len) == check::Value(number) ? gets.found : gets.failed);
        leveldb_free(found);
      }
    }
    return gets;
  }

  leveldb_iterator_t* NewIterator() { return leveldb_create_iterator(db_, reads_); }

 private:
  leveldb_options_t* options_;
  leveldb_t* db_;
  leveldb_readoptions_t* reads_;
  leveldb_writeoptions_t* writes_;
};

// Writes the keys 0 to `count` - 1 into one SST, and closes the database.
inline void WriteSst(const std::string& dir, leveldb_filterpolicy_t* policy, uint64_t count) {
  Db db(dir, policy);
  for (uint64_t number = 0; number < count; ++number) {
    db.Put(check::Key(number), check::Value(number));
  }
  db.Compact();
}

}  // namespace support
