// Tests that no get, batch, seek or scan of a real database loses a key. The tests cover every
// layout of filters, deletes, overwritten keys and merge operands, before and after compaction and
// reopening.
#include <map>

#include "rocksdb/merge_operator.h"
#include "support.h"

namespace {

using support::Ok;
using support::Ours;

class Append final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing,
             const rocksdb::Slice& value, std::string* result, rocksdb::Logger*) const override {
    *result = existing == nullptr ? value.ToString() : existing->ToString() + "," + value.ToString();
    return true;
  }
  const char* Name() const override { return "test.Append"; }
};

// One layout of filters.
struct Layout {
  std::string name;
  bool partitioned = false;
  bool prefixes = false;
  bool whole_keys = true;
  bool verifies = false;
};

constexpr uint64_t kKeys = 20000;
// The length of the prefixes in bytes. 100 keys have the same prefix.
constexpr size_t kPrefixLen = 10;

rocksdb::Options OptionsOf(const Layout& layout, const Ours& ours) {
  rocksdb::BlockBasedTableOptions table = support::Table(ours.policy);
  table.whole_key_filtering = layout.whole_keys;
  table.detect_filter_construct_corruption = layout.verifies;
  if (layout.partitioned) {
    support::Partition(&table, 1024);
    table.cache_index_and_filter_blocks = true;
  }
  rocksdb::Options options = support::DbOptions(table);
  options.merge_operator = std::make_shared<Append>();
  if (layout.prefixes) {
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(kPrefixLen));
  }
  return options;
}

using Model = std::map<std::string, std::string>;

void Write(rocksdb::DB* db, Model* model) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    const std::string key = check::Key(i * 7919 % kKeys * 2);  // odd numbers are absent
    Ok(db->Put({}, key, check::Value(i)));
    (*model)[key] = check::Value(i);
    if (i % 5 == 0) {
      Ok(db->Merge({}, key, "more"));
      (*model)[key] += ",more";
    }
    if (i % 4 == 0 && i > 0) {
      const std::string gone = check::Key((i - 1) * 7919 % kKeys * 2);
      Ok(db->Delete({}, gone));
      model->erase(gone);
    }
    if (i % 10 == 3) {
      const std::string alone = check::Key(i * 7919 % kKeys * 2 + 1'000'000);
      Ok(db->Merge({}, alone, "alone"));
      (*model)[alone] = "alone";
    }
    if (i % 4001 == 4000) {
      Ok(db->Flush({}));
    }
  }
  Ok(db->Put({}, "", "the empty key"));
  (*model)[""] = "the empty key";
  Ok(db->Put({}, "short", "shorter than a prefix"));
  (*model)["short"] = "shorter than a prefix";
  Ok(db->Flush({}));
}

void CheckGets(rocksdb::DB* db, const Model& model) {
  std::vector<std::string> asked;
  for (uint64_t number = 0; number < 2 * kKeys + 100; ++number) {
    asked.push_back(check::Key(number));
  }
  for (const auto& [key, value] : model) {
    asked.push_back(key);
  }
  std::string value;
  for (const std::string& key : asked) {
    const rocksdb::Status status = db->Get({}, key, &value);
    const auto expected = model.find(key);
    CHECK_WITH(expected == model.end() ? status.IsNotFound() : status.ok(), key);
    CHECK(!status.ok() || value == expected->second);
  }
  for (size_t first = 0; first < asked.size(); first += 50) {
    const size_t end = std::min(first + 50, asked.size());
    const std::vector<rocksdb::Slice> keys(&asked[first], &asked[first] + (end - first));
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db->MultiGet({}, db->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                 statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto expected = model.find(asked[first + i]);
      CHECK_WITH(expected == model.end() ? statuses[i].IsNotFound() : statuses[i].ok(), asked[first + i]);
      CHECK(!statuses[i].ok() || values[i] == expected->second);
    }
  }
}

void CheckScans(rocksdb::DB* db, const Model& model, bool prefixes) {
  rocksdb::ReadOptions whole;
  whole.total_order_seek = true;
  std::unique_ptr<rocksdb::Iterator> all(db->NewIterator(whole));
  auto expected = model.begin();
  for (all->SeekToFirst(); all->Valid(); all->Next(), ++expected) {
    CHECK(expected != model.end() && all->key() == expected->first);
    CHECK(all->value() == expected->second);
  }
  CHECK(expected == model.end());
  if (!prefixes) {
    return;
  }
  // Seeks within every present and absent prefix, from the prefix itself and from a key in the
  // middle.
  rocksdb::ReadOptions within;
  within.prefix_same_as_start = true;
  const std::unique_ptr<rocksdb::Iterator> scan(db->NewIterator(within));
  for (uint64_t number = 0; number < 2 * kKeys + 5000; number += 53) {
    const std::string key = check::Key(number);
    for (const std::string& start : {key.substr(0, kPrefixLen), key}) {
      if (start.size() < kPrefixLen) {
        continue;
      }
      auto next = model.lower_bound(start);
      for (scan->Seek(start); scan->Valid(); scan->Next(), ++next) {
        CHECK_WITH(next != model.end() && scan->key() == next->first, start);
      }
      Ok(scan->status());
      CHECK_WITH(next == model.end() || next->first.compare(0, kPrefixLen, start, 0, kPrefixLen) != 0,
                 "lost " + (next == model.end() ? "" : next->first));
      // Seeks backwards, which may need the previous partition.
      scan->SeekForPrev(key);
      auto before = model.upper_bound(key);
      if (before != model.begin() && std::prev(before)->first.compare(0, kPrefixLen, key, 0, kPrefixLen) == 0) {
        CHECK_WITH(scan->Valid() && scan->key() == std::prev(before)->first, key);
      }
    }
  }
}

// Gets 1,000 absent keys. Returns the number of gets in which a filter answered "absent".
uint64_t CountFiltered(rocksdb::DB* db) {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  std::string value;
  uint64_t filtered = 0;
  for (uint64_t number = 1; number < 2000; number += 2) {
    const uint64_t before = rocksdb::get_perf_context()->bloom_sst_miss_count;
    CHECK(db->Get({}, check::Key(number), &value).IsNotFound());
    filtered += rocksdb::get_perf_context()->bloom_sst_miss_count > before;
  }
  return filtered;
}

void Run(const Layout& layout, const filterblock_rocksdb::Options& filters) {
  const Ours ours(filters);
  const rocksdb::Options options = OptionsOf(layout, ours);
  const check::TempDir dir;
  Model model;
  std::unique_ptr<rocksdb::DB> db = support::Open(options, dir.Path("db"));
  Write(db.get(), &model);
  const auto check_all = [&] {
    CheckGets(db.get(), model);
    CheckScans(db.get(), model, layout.prefixes);
  };
  for (const bool is_compacted : {false, true}) {
    if (is_compacted) {
      support::Compact(db.get());
    }
    check_all();
    db.reset();
    db = support::Open(options, dir.Path("db"));
    check_all();
    if (layout.whole_keys) {
      CHECK(CountFiltered(db.get()) > 900);
    }
  }
  const support::Counters& counters = *ours.counters;
  CHECK_WITH(counters.filters_built > (layout.partitioned && layout.whole_keys ? 20u : 5u),
             std::to_string(counters.filters_built));
  CHECK(counters.filters_opened > 5);
  CHECK_SAME(counters.filters_failed + counters.unfiltered_queries, 0);
}

}  // namespace

int main() {
  const std::vector<Layout> layouts = {
      {"full", false, false, true, true},
      {"partitioned", true, false, true, true},
      {"prefixes", false, true, true, false},
      {"prefixes only", false, true, false, false},
      {"partitioned prefixes", true, true, true, true},
      {"partitioned prefixes only", true, true, false, false},
  };
  for (const Layout& layout : layouts) {
    Run(layout, {});
    for (const char* spec : {"bloom:10", "binary-fuse:8"}) {
      filterblock_rocksdb::Options options = Ours::OfSpec(spec);
      options.seed = 42;
      options.hash = filterblock_rocksdb::Hash::kSipHash13;
      options.secret = std::string(16, 's');
      Run(layout, options);
    }
    std::printf("gets: %s: ok\n", layout.name.c_str());
  }
  return 0;
}
