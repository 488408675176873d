// Measures gets of absent keys in LevelDB, with its own filters and with filterblock. All databases
// are open at once, and each round measures every database once. Prints a row for each database and
// layout as JSON.
//
// LevelDB compacts in the background, and even gets can start a compaction. So an environment
// delays background work while the benchmark loads and measures runs.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "../../cxx/bench.h"
#include "../../cxx/check.h"
#include "../../cxx/sst.h"
#include "filterblock_leveldb.h"

namespace {

constexpr int kRuns = 5;

void Ok(const leveldb::Status& status) { CHECK_WITH(status.ok(), status.ToString()); }

// Delays background work while `holds` is true.
class HoldingEnv final : public leveldb::EnvWrapper {
 public:
  HoldingEnv() : EnvWrapper(leveldb::Env::Default()) {}

  void Schedule(void (*work)(void*), void* argument) override {
    std::thread([this, work, argument] {
      while (holds.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      work(argument);
    }).detach();
  }

  std::atomic<bool> holds{true};
};

// Counts the data blocks that gets read, from the cache or from the file.
class CountingCache final : public leveldb::Cache {
 public:
  CountingCache() : cache_(leveldb::NewLRUCache(8 << 20)) {}

  Handle* Insert(const leveldb::Slice& key, void* value, size_t charge,
                 void (*deleter)(const leveldb::Slice& key, void* value)) override {
    return cache_->Insert(key, value, charge, deleter);
  }
  Handle* Lookup(const leveldb::Slice& key) override {
    ++lookups;
    return cache_->Lookup(key);
  }
  void Release(Handle* handle) override { cache_->Release(handle); }
  void* Value(Handle* handle) override { return cache_->Value(handle); }
  void Erase(const leveldb::Slice& key) override { cache_->Erase(key); }
  uint64_t NewId() override { return cache_->NewId(); }
  size_t TotalCharge() const override { return cache_->TotalCharge(); }

  uint64_t lookups = 0;

 private:
  const std::unique_ptr<leveldb::Cache> cache_;
};

// A database with one filter policy.
class Database {
 public:
  Database(const check::TempDir& dir, std::string name, leveldb_filterpolicy_t* policy)
      : name_(std::move(name)), dir_(dir.Path(name_)), policy_(policy) {
    Open();
  }
  ~Database() {
    Close();
    leveldb_filterpolicy_destroy(policy_);
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Puts the keys of run `run`. Reopening the database writes them to an SST.
  void Load(uint64_t keys, int run) {
    const std::string value = bench::Value();
    const double start = bench::Now();
    for (uint64_t i = keys * run / kRuns; i < keys * (run + 1) / kRuns; ++i) {
      Ok(db_->Put({}, bench::PresentKey(i), value));
    }
    Close();
    Open();
    build_ns_ += bench::Now() - start;
  }

  void Compact() {
    env_.holds = false;
    const double start = bench::Now();
    db_->CompactRange(nullptr, nullptr);
    compact_ns_ = bench::Now() - start;
    Close();
    Open();
  }

  void Measure(const std::vector<std::string>& absent) {
    std::string value;
    times_.Measure(absent, [&](const std::string& key) {
      CHECK(db_->Get({}, key, &value).IsNotFound());
    });
  }

  // Counts reads and false negatives, and prints the row of the rounds since the last call.
  void Report(const std::string& layout, int runs, uint64_t keys,
              const std::vector<std::string>& absent) {
    CHECK_WITH(runs == 1 || FilesAtLevel(0) == std::to_string(runs), FilesAtLevel(0));
    bench::Row row;
    row.engine = "LevelDB";
    row.version = std::to_string(leveldb::kMajorVersion) + "." + std::to_string(leveldb::kMinorVersion);
    row.layout = layout;
    row.filter = name_;
    row.keys = keys;
    row.miss_mean_ns = times_.Mean();
    row.miss_p99_ns = times_.P99();
    times_ = {};
    row.filter_bytes = FilterBytes();
    std::string value;
    cache_->lookups = 0;
    for (const std::string& key : absent) {
      CHECK(db_->Get({}, key, &value).IsNotFound());
    }
    row.reads_per_miss = static_cast<double>(cache_->lookups) / static_cast<double>(absent.size());
    row.false_positive_rate = row.reads_per_miss / runs;
    row.build_ns_per_key = build_ns_ / static_cast<double>(keys);
    row.compact_ms = compact_ns_ < 0 ? -1 : compact_ns_ / 1e6;
    for (uint64_t i = 0; i < keys; ++i) {
      row.false_negatives += !db_->Get({}, bench::PresentKey(i), &value).ok();
    }
    row.Print();
  }

  std::string FilesAtLevel(int level) const {
    std::string files;
    CHECK(db_->GetProperty("leveldb.num-files-at-level" + std::to_string(level), &files));
    return files;
  }

 private:
  void Open() {
    cache_ = std::make_unique<CountingCache>();
    env_.holds = true;
    leveldb::Options options;
    options.create_if_missing = true;
    options.compression = leveldb::kNoCompression;
    options.write_buffer_size = size_t{1} << 30;
    options.max_file_size = size_t{1} << 30;
    options.env = &env_;
    options.block_cache = cache_.get();
    // LevelDB defines leveldb_filterpolicy_t as a class derived from FilterPolicy.
    options.filter_policy = reinterpret_cast<const leveldb::FilterPolicy*>(policy_);
    leveldb::DB* db = nullptr;
    Ok(leveldb::DB::Open(options, dir_, &db));
    db_.reset(db);
  }

  void Close() {
    // The destructor of the database waits for background work. This work does nothing during a
    // shutdown, so it is released.
    std::thread release([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      env_.holds = false;
    });
    db_.reset();
    release.join();
  }

  uint64_t FilterBytes() const {
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(dir_)) {
      if (file.path().extension() == ".ldb") {
        const sst::File sst(file.path().string());
        bytes += sst.HandleOf(sst.Named("filter.")).size;
      }
    }
    return bytes;
  }

  const std::string name_;
  const std::string dir_;
  leveldb_filterpolicy_t* const policy_;
  HoldingEnv env_;
  std::unique_ptr<CountingCache> cache_;
  std::unique_ptr<leveldb::DB> db_;
  bench::Times times_;
  double build_ns_ = 0;
  double compact_ns_ = -1;
};

leveldb_filterpolicy_t* Ours(const char* spec) {
  filterblock_error error;
  filterblock_leveldb* handle = filterblock_leveldb_new(spec, nullptr, &error);
  CHECK_WITH(handle != nullptr, error.message);
  leveldb_filterpolicy_t* policy = filterblock_leveldb_policy(handle);
  filterblock_leveldb_free(handle);
  return policy;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const std::vector<std::string> absent = bench::AbsentKeys(arguments.keys);
  const check::TempDir dir;
  std::vector<std::unique_ptr<Database>> databases;
  const auto add = [&](const std::string& name, leveldb_filterpolicy_t* policy) {
    if (name.find(arguments.only) == std::string::npos) {
      leveldb_filterpolicy_destroy(policy);
      return;
    }
    databases.push_back(std::make_unique<Database>(dir, name, policy));
  };
  for (const int bits : {10, 14, 16}) {
    add("Bloom, " + std::to_string(bits) + " bits", leveldb_filterpolicy_create_bloom(bits));
  }
  for (const char* spec : {"bloom:9", "bloom:10", "bloom:14", "bloom:16"}) {
    add(spec, Ours(spec));
  }
  bench::Run(databases, arguments, kRuns, absent);
  return 0;
}
