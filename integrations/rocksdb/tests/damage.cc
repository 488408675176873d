// Tests damaged filter blocks in the files of a real database, and the same damage to RocksDB's own
// Bloom filter.
#include "../../cxx/sst.h"
#include "support.h"

namespace {

using support::Gets;
using support::Ours;

constexpr uint64_t kKeys = 2000;

struct Layout {
  const char* name;
  bool partitioned;
};
constexpr Layout kFull = {"full", false};
constexpr Layout kPartitioned = {"partitioned", true};

rocksdb::Options OptionsOf(const Layout& layout, std::shared_ptr<const rocksdb::FilterPolicy> policy,
                           bool checksums) {
  rocksdb::BlockBasedTableOptions table = support::Table(std::move(policy));
  table.cache_index_and_filter_blocks = true;
  if (!checksums) {
    table.checksum = rocksdb::kNoChecksum;  // so that damage reaches the filter
  }
  if (layout.partitioned) {
    table.format_version = 3;  // sst.h reads indexes without deltas
    support::Partition(&table, 512);
  }
  return support::DbOptions(table);
}

// Returns the entries of the metaindex or of the partition index that locate the filters.
std::vector<sst::Entry> Filters(const sst::File& file, const Layout& layout) {
  if (!layout.partitioned) {
    const sst::Entry entry = file.Named("fullfilter.");
    CHECK(!entry.key.empty());
    return {entry};
  }
  const std::vector<sst::Entry> entries = file.Entries(file.HandleOf(file.Named("partitionedfilter.")));
  CHECK(entries.size() >= 3);
  return entries;
}

// A way to damage one filter block. `at` is the position of the damage in the block, from 0 to 1.
struct Damage {
  std::string name;
  void (*apply)(sst::File*, const sst::Entry&, double at);
};

void FlipBit(sst::File* file, const sst::Entry& entry, double at) {
  const sst::Handle block = file->HandleOf(entry);
  const auto bit = static_cast<size_t>(at * static_cast<double>(block.size * 8));
  char& byte = file->bytes[block.offset + bit / 8];
  byte = static_cast<char>(byte ^ (1 << bit % 8));
}

void Zero(sst::File* file, const sst::Entry& entry, double /*at*/) {
  const sst::Handle block = file->HandleOf(entry);
  std::fill_n(file->bytes.begin() + static_cast<std::ptrdiff_t>(block.offset), block.size, '\0');
}

void Cut(sst::File* file, const sst::Entry& entry, double at) {
  const sst::Handle block = file->HandleOf(entry);
  const auto size = 1 + static_cast<uint64_t>(at * static_cast<double>(block.size - 1));
  file->SetSize(entry, size);
  // RocksDB drops a filter with an invalid trailer. A trailer of zeros means no compression and no
  // checksum.
  std::fill_n(file->bytes.begin() + static_cast<std::ptrdiff_t>(block.offset + size), 5, '\0');
}

const std::vector<std::pair<Damage, std::vector<double>>> kDamages = {
    {{"a flipped bit", FlipBit},
     {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999}},
    {{"zeroed", Zero}, {0}},
    {{"cut", Cut}, {0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999}},
};

// Damages each filter block of an SST in each way, and gets every key. Calls `check` with the name
// of the damage and the results of the gets. Skips cuts if RocksDB has checksums: a cut changes a
// handle in an index, so the SST would not open.
template <typename Check>
void ForEachDamage(const Layout& layout,
                   const std::shared_ptr<const rocksdb::FilterPolicy>& policy, bool checksums,
                   const Check& check) {
  const check::TempDir dir;
  const std::string name = dir.Path("db");
  support::WriteSst(OptionsOf(layout, policy, checksums), name, kKeys);
  const sst::File sound(check::OnlyFile(name, ".sst"));
  for (const auto& [damage, places] : kDamages) {
    if (checksums && damage.apply == Cut) {
      continue;
    }
    for (const sst::Entry& filter : Filters(sound, layout)) {
      for (const double at : places) {
        sst::File file = sound;
        damage.apply(&file, filter, at);
        file.Save();
        // New options have a new block cache. The old cache may have the sound filter.
        const auto db = support::OpenToRead(OptionsOf(layout, policy, checksums), name);
        check(damage.name, support::GetAll(db.get(), 0, kKeys));
      }
    }
  }
}

void DamageThatReachesTheFilterLosesNoKey(const Layout& layout) {
  for (const char* spec : {"blocked-bloom:10", "bumped-ribbon:fpr=0.01"}) {
    const Ours ours(spec);
    uint64_t cases = 0;
    ForEachDamage(layout, ours.policy, false,
                  [&](const std::string& name, const Gets& gets) {
                    ++cases;
                    CHECK_WITH(gets.found == kKeys, name);
                    // Every damaged filter is counted once, and so is each query of it.
                    CHECK_SAME(ours.counters->filters_damaged.exchange(0), 1);
                    const uint64_t queries = ours.counters->unfiltered_queries.exchange(0);
                    CHECK(queries > 0 && (layout.partitioned || queries == kKeys));
                  });
    std::printf("damage: %s, %s, no checksum of RocksDB: %llu damaged files, 0 keys lost, 0 gets failed\n",
                layout.name, spec, static_cast<unsigned long long>(cases));
  }
}

// RocksDB verifies its own checksum first, and drops the filter without an error.
void DamageThatRocksDbSeesLosesNoKey() {
  const Ours ours("blocked-bloom:10");
  ForEachDamage(kFull, ours.policy, true, [&](const std::string& name, const Gets& gets) {
    CHECK_WITH(gets.found == kKeys, name);
    CHECK_SAME(ours.counters->filters_damaged + ours.counters->unfiltered_queries, 0);
  });
}

// RocksDB does not open an SST whose filter partition fails RocksDB's checksum. RocksDB's own
// filters have the same limit.
void RocksDbDoesNotOpenADamagedPartition() {
  const Ours ours("blocked-bloom:10");
  for (const auto& policy : {ours.policy, support::Bloom()}) {
    const check::TempDir dir;
    support::WriteSst(OptionsOf(kPartitioned, policy, true), dir.Path("db"), kKeys);
    sst::File file(check::OnlyFile(dir.Path("db"), ".sst"));
    FlipBit(&file, Filters(file, kPartitioned)[1], 0.5);
    file.Save();
    std::unique_ptr<rocksdb::DB> db;
    const rocksdb::Options options = OptionsOf(kPartitioned, policy, true);
    CHECK(support::TryOpenToRead(options, dir.Path("db"), &db).IsCorruption());
  }
  CHECK_SAME(ours.counters->filters_damaged, 0);
}

// Shows that the same damage to RocksDB's own Bloom filter loses keys, if RocksDB has no checksums.
void TheSameDamageToRocksDbsOwnFilter() {
  for (const bool checksums : {true, false}) {
    uint64_t cases = 0;
    uint64_t lost = 0;
    uint64_t failed = 0;
    ForEachDamage(kFull, support::Bloom(), checksums,
                  [&](const std::string&, const Gets& gets) {
                    ++cases;
                    lost += gets.lost;
                    failed += gets.failed;
                  });
    std::printf("damage: RocksDB's Bloom filter, %s: %llu damaged files, %llu of %llu keys lost\n",
                checksums ? "checksum xxh3" : "no checksum", static_cast<unsigned long long>(cases),
                static_cast<unsigned long long>(lost), static_cast<unsigned long long>(cases * kKeys));
    CHECK_SAME(failed, 0);
    CHECK(checksums ? lost == 0 : lost > 0);
  }
}

// Shows a limit: format_version 5 does not bind a block to its SST, so the filter of another SST
// goes unnoticed. From format_version 6 on, RocksDB's checksum detects it.
void TheFilterOfAnotherSstLosesKeys() {
  const Ours ours("blocked-bloom:10");
  const std::vector<std::pair<std::string, std::shared_ptr<const rocksdb::FilterPolicy>>> policies = {
      {"filterblock", ours.policy}, {"RocksDB's Bloom filter", support::Bloom()}};
  for (const auto& [name, policy] : policies) {
    const check::TempDir dir;
    support::WriteSst(OptionsOf(kFull, policy, true), dir.Path("db"), kKeys);
    {
      const auto db = support::Open(OptionsOf(kFull, policy, true), dir.Path("other"));
      for (uint64_t number = 0; number < kKeys; ++number) {
        support::Ok(db->Put({}, check::Key(number + 500'000), check::Value(number)));
      }
      support::Ok(db->Flush({}));
    }
    sst::File file(check::OnlyFile(dir.Path("db"), ".sst"));
    const sst::File other(check::OnlyFile(dir.Path("other"), ".sst"));
    const sst::Handle to = file.HandleOf(file.Named("fullfilter."));
    const sst::Handle from = other.HandleOf(other.Named("fullfilter."));
    CHECK_SAME(to.size, from.size);
    file.bytes.replace(to.offset, to.size + 5, other.bytes, from.offset, from.size + 5);
    file.Save();
    const auto db = support::OpenToRead(OptionsOf(kFull, policy, true), dir.Path("db"));
    const Gets gets = support::GetAll(db.get(), 0, kKeys);
    std::printf("damage: the filter of another SST, %s: %llu of %llu keys lost\n", name.c_str(),
                static_cast<unsigned long long>(gets.lost), static_cast<unsigned long long>(kKeys));
    CHECK(gets.lost > kKeys / 2);
  }
}

}  // namespace

int main() {
  for (const Layout& layout : {kFull, kPartitioned}) {
    DamageThatReachesTheFilterLosesNoKey(layout);
  }
  DamageThatRocksDbSeesLosesNoKey();
  RocksDbDoesNotOpenADamagedPartition();
  TheSameDamageToRocksDbsOwnFilter();
  TheFilterOfAnotherSstLosesKeys();
  return 0;
}
