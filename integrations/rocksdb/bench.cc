// Measures gets of absent keys in RocksDB, with its own filters and with filterblock. All databases
// are open at once, and each round measures every database once. Prints a row for each database and
// layout as JSON.
#include <memory>

#include "../cxx/bench.h"
#include "../cxx/check.h"
#include "filterblock_rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/version.h"

namespace {

constexpr int kRuns = 5;

void Ok(const rocksdb::Status& status) { CHECK_WITH(status.ok(), status.ToString()); }

// A database with one filter policy.
class Database {
 public:
  Database(const check::TempDir& dir, const std::string& name,
           std::shared_ptr<const rocksdb::FilterPolicy> policy)
      : name_(name) {
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy = std::move(policy);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.disable_auto_compactions = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = size_t{1} << 30;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* db = nullptr;
    Ok(rocksdb::DB::Open(options, dir.Path(name), &db));
    db_.reset(db);
  }

  // Puts the keys of run `run`, and flushes them.
  void Load(uint64_t keys, int run) {
    const std::string value = bench::Value();
    rocksdb::WriteOptions without_log;
    without_log.disableWAL = true;
    const double start = bench::Now();
    for (uint64_t i = keys * run / kRuns; i < keys * (run + 1) / kRuns; ++i) {
      Ok(db_->Put(without_log, bench::PresentKey(i), value));
    }
    Ok(db_->Flush({}));
    build_ns_ += bench::Now() - start;
  }

  void Compact() {
    rocksdb::CompactRangeOptions force;
    force.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    const double start = bench::Now();
    Ok(db_->CompactRange(force, nullptr, nullptr));
    compact_ns_ = bench::Now() - start;
  }

  void Measure(const std::vector<std::string>& absent) {
    rocksdb::PinnableSlice value;
    times_.Measure(absent, [&](const std::string& key) {
      CHECK(db_->Get({}, db_->DefaultColumnFamily(), key, &value).IsNotFound());
    });
  }

  // Counts reads and false negatives, and prints the row of the rounds since the last call.
  void Report(const std::string& layout, int /*runs*/, uint64_t keys,
              const std::vector<std::string>& absent) {
    bench::Row row;
    row.engine = "RocksDB";
    row.version = rocksdb::GetRocksVersionAsString();
    row.layout = layout;
    row.filter = name_;
    row.keys = keys;
    row.miss_mean_ns = times_.Mean();
    row.miss_p99_ns = times_.P99();
    times_ = {};
    rocksdb::TablePropertiesCollection tables;
    Ok(db_->GetPropertiesOfAllTables(&tables));
    for (const auto& [path, properties] : tables) {
      row.filter_bytes += properties->filter_size;
    }
    CountReads(absent, &row);
    row.build_ns_per_key = build_ns_ / static_cast<double>(keys);
    row.compact_ms = compact_ns_ < 0 ? -1 : compact_ns_ / 1e6;
    std::string value;
    for (uint64_t i = 0; i < keys; ++i) {
      row.false_negatives += !db_->Get({}, bench::PresentKey(i), &value).ok();
    }
    row.Print();
  }

 private:
  void CountReads(const std::vector<std::string>& absent, bench::Row* row) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::PerfContext* counts = rocksdb::get_perf_context();
    counts->Reset();
    std::string value;
    for (const std::string& key : absent) {
      CHECK(db_->Get({}, key, &value).IsNotFound());
    }
    // The cache has only data blocks. Indexes and filters belong to the open SSTs.
    const auto reads = static_cast<double>(counts->block_cache_hit_count + counts->block_read_count);
    const auto maybe = static_cast<double>(counts->bloom_sst_hit_count);
    const auto queries = maybe + static_cast<double>(counts->bloom_sst_miss_count);
    row->reads_per_miss = reads / static_cast<double>(absent.size());
    row->false_positive_rate = queries == 0 ? 1.0 : maybe / queries;
  }

  const std::string name_;
  std::unique_ptr<rocksdb::DB> db_;
  bench::Times times_;
  double build_ns_ = 0;
  double compact_ns_ = -1;
};

using Policies = std::vector<std::pair<std::string, std::shared_ptr<const rocksdb::FilterPolicy>>>;

Policies PoliciesOf(const bench::Arguments& arguments) {
  Policies all;
  all.emplace_back("Bloom, 10 bits", rocksdb::NewBloomFilterPolicy(10));
  all.emplace_back("Ribbon, as Bloom of 10 bits", rocksdb::NewRibbonFilterPolicy(10, -1));
  for (const char* spec : {"blocked-bloom:10", "blocked-bloom:16", "bumped-ribbon:fpr=0.0098",
                           "bumped-ribbon:7", "bumped-ribbon:10"}) {
    filterblock_rocksdb::Options options;
    options.upper = options.lower = spec;
    std::shared_ptr<const rocksdb::FilterPolicy> policy;
    Ok(filterblock_rocksdb::NewFilterPolicy(options, &policy, nullptr));
    all.emplace_back(spec, policy);
  }
  Policies chosen;
  for (const auto& [name, policy] : all) {
    if (name.find(arguments.only) != std::string::npos) {
      chosen.emplace_back(name, policy);
    }
  }
  return chosen;
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments(argc, argv);
  const std::vector<std::string> absent = bench::AbsentKeys(arguments.keys);
  const check::TempDir dir;
  std::vector<std::unique_ptr<Database>> databases;
  for (const auto& [name, policy] : PoliciesOf(arguments)) {
    databases.push_back(std::make_unique<Database>(dir, name, policy));
  }
  bench::Run(databases, arguments, kRuns, absent);
  return 0;
}
