// Tests that the command `filterblock` reads SSTs of RocksDB with filters of filterblock, and that
// databases change between RocksDB's own filters and filterblock's without a loss.
//
// With a folder as argument, the test also copies the SSTs to the folder, as golden files.
#include <fstream>

#include "../../cxx/command.h"
#include "support.h"

namespace {

using support::Ours;

constexpr uint64_t kKeys = 1000;
constexpr char kSecret[] = "0123456789abcdef";

std::string golden_dir;

struct Case {
  std::string name;
  std::string spec;
  bool partitioned;
  bool prefixes;
  bool secret;
};

std::string WriteCase(const Case& of, const check::TempDir& dir) {
  filterblock_rocksdb::Options filters = Ours::OfSpec(of.spec);
  filters.seed = 7;
  if (of.secret) {
    filters.hash = filterblock_rocksdb::Hash::kSipHash13;
    filters.secret = kSecret;
  }
  const Ours ours(filters);
  rocksdb::BlockBasedTableOptions table = support::Table(ours.policy);
  table.block_size = 1024;
  if (of.partitioned) {
    support::Partition(&table, 300);
  }
  rocksdb::Options options = support::DbOptions(table);
  options.compression = rocksdb::kSnappyCompression;
  if (of.prefixes) {
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(10));
  }
  support::WriteSst(options, dir.Path("db"), kKeys);
  const std::string path = check::OnlyFile(dir.Path("db"), ".sst");
  if (!golden_dir.empty()) {
    std::filesystem::copy_file(path, golden_dir + "/" + of.name + ".sst",
                               std::filesystem::copy_options::overwrite_existing);
  }
  return path;
}

void TheCommandReadsSstsOfRocksDb(const Case& of) {
  const check::TempDir dir;
  const std::string sst = WriteCase(of, dir);
  const std::string secret_file = dir.Path("secret");
  std::string secret;
  if (of.secret) {
    std::ofstream(secret_file) << "30313233343536373839616263646566\n";
    secret = " --secret-file " + secret_file;
  }
  const std::string kind = of.spec.substr(0, of.spec.find(':'));
  check::Expect("inspect " + sst, 0, {"rocksdb-table", kind, "hash seed                     7"});
  check::Expect("verify " + sst + secret, 0, {"sound", "1,000 keys, 0 denied by a filter of the table"});

  const std::string keys = dir.Path("keys");
  {
    std::ofstream out(keys);
    for (uint64_t number = 0; number < kKeys; ++number) {
      out << check::Key(number) << "\n";
    }
  }
  check::Expect("verify " + sst + secret + " --against " + keys, 0, {"1,000 keys looked up, 0 false"});
  {
    std::ofstream out(keys);
    for (uint64_t number = 0; number < 10 * kKeys; ++number) {
      out << "absent-" << number << "\n";
    }
  }
  const check::Run run = check::Filterblock("query --count " + sst + secret + " --keys " + keys);
  CHECK_WITH(run.printed.compare(0, 6, "maybe\t") == 0, run.printed);
  CHECK_WITH(std::atoi(run.printed.c_str() + 6) < 200, run.printed);
  if (of.prefixes) {
    check::Expect("query --prefixes " + sst + " key-000001xx", 0, {"maybe"});
    check::Expect("query --prefixes " + sst + " key-100001xx", 1, {"absent"});
  }
  if (of.secret) {
    check::Expect("verify " + sst, 2, {"--secret-file"});
    check::Expect("query " + sst + " key-00000001", 2, {"--secret-file"});
  } else {
    check::Expect("query --secret-file /dev/null " + sst + " key", 2, {"no filter of this file needs a secret"});
  }
}

// No key is lost if a database changes its policy, and RocksDB does not ask filters of another
// policy.
void DatabasesChangePolicies() {
  const Ours ours("bumped-ribbon:fpr=0.01");
  struct Step {
    std::shared_ptr<const rocksdb::FilterPolicy> policy;
    bool rewrites;
    bool filters;  // whether gets of absent keys are filtered
  };
  const std::vector<Step> steps = {
      {support::Bloom(), false, true},   // the policy that wrote the SSTs
      {ours.policy, false, false},       // filters of RocksDB are not used
      {ours.policy, true, true},         // a compaction writes filters of filterblock
      {support::Bloom(), false, false},  // filters of filterblock are not used
      {support::Bloom(), true, true},
  };
  const check::TempDir dir;
  support::WriteSst(support::DbOptions(support::Table(support::Bloom())), dir.Path("db"), kKeys);
  for (const Step& step : steps) {
    const auto db = support::Open(support::DbOptions(support::Table(step.policy)), dir.Path("db"));
    if (step.rewrites) {
      support::Compact(db.get());
    }
    CHECK_SAME(support::GetAll(db.get(), 0, kKeys).found, kKeys);
    // The absent keys lie between present keys. Otherwise RocksDB would not ask any SST.
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    std::string value;
    for (uint64_t number = 1; number < kKeys; ++number) {
      CHECK(db->Get({}, check::Key(number - 1) + "x", &value).IsNotFound());
    }
    const uint64_t filtered = rocksdb::get_perf_context()->bloom_sst_miss_count;
    CHECK_WITH(step.filters ? filtered > 900 : filtered == 0, std::to_string(filtered));
  }
  CHECK_SAME(ours.counters->unfiltered_queries, 0);
  std::puts("interchange: databases change policies: ok");
}

}  // namespace

int main(int argc, char** argv) {
  golden_dir = argc > 1 ? argv[1] : "";
  const std::vector<Case> cases = {
      {"rocksdb-full", "blocked-bloom:10", false, false, false},
      {"rocksdb-ribbon", "bumped-ribbon:fpr=0.01", false, false, false},
      {"rocksdb-partitioned", "bumped-ribbon:fpr=0.01", true, false, false},
      {"rocksdb-prefixes", "bloom:10", false, true, false},
      {"rocksdb-secret", "blocked-bloom:10", true, false, true},
  };
  for (const Case& of : cases) {
    TheCommandReadsSstsOfRocksDb(of);
  }
  std::puts("interchange: the command reads SSTs of RocksDB: ok");
  DatabasesChangePolicies();
  return 0;
}
