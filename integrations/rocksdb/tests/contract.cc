// Tests the builder and the reader of the adapter, without a database.
#include <new>
#include <random>

#include "support.h"

namespace {

// Whether the adapter gets no memory for the copy of a filter.
bool copies_fail = false;

}  // namespace

// While `copies_fail` is set, only the adapter calls this operator.
void* operator new[](std::size_t len, const std::nothrow_t&) noexcept {
  if (copies_fail) {
    return nullptr;
  }
  try {
    return ::operator new[](len);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

namespace {

using support::Ours;

template <typename T>
using Handle = filterblock_rocksdb::internal::Handle<T>;

using Builder = std::unique_ptr<rocksdb::FilterBitsBuilder>;
using Reader = std::unique_ptr<rocksdb::FilterBitsReader>;

Builder BuilderOf(const Ours& ours, bool verifies = false, int level = 0, bool is_bottommost = false,
                  rocksdb::TableFileCreationReason reason =
                      rocksdb::TableFileCreationReason::kCompaction) {
  rocksdb::BlockBasedTableOptions table;
  table.detect_filter_construct_corruption = verifies;
  rocksdb::FilterBuildingContext context(table);
  context.level_at_creation = level;
  context.is_bottommost = is_bottommost;
  context.reason = reason;
  return Builder(ours.policy->GetBuilderWithContext(context));
}

// Finishes a builder. Returns the bytes that RocksDB stores.
std::string Finish(rocksdb::FilterBitsBuilder* builder) {
  std::unique_ptr<const char[]> buffer;
  rocksdb::Status status = rocksdb::Status::Corruption("not set");
  const rocksdb::Slice filter = builder->Finish(&buffer, &status);
  support::Ok(status);
  return filter.ToString();
}

std::string FilterOf(const Ours& ours, uint64_t first, uint64_t count) {
  const Builder builder = BuilderOf(ours);
  for (uint64_t number = first; number < first + count; ++number) {
    builder->AddKey(check::Key(number));
  }
  return Finish(builder.get());
}

uint64_t CountMatches(rocksdb::FilterBitsReader* reader, uint64_t first, uint64_t count) {
  uint64_t matches = 0;
  for (uint64_t number = first; number < first + count; ++number) {
    matches += reader->MayMatch(check::Key(number));
  }
  return matches;
}

// Counts like CountMatches, but asks for two keys in each call.
uint64_t CountMatchesOfBatches(rocksdb::FilterBitsReader* reader, uint64_t first, uint64_t count) {
  uint64_t matches = 0;
  for (uint64_t number = first; number < first + count; number += 2) {
    std::string keys[2] = {check::Key(number), check::Key(number + 1)};
    rocksdb::Slice slices[2] = {keys[0], keys[1]};
    rocksdb::Slice* pointers[2] = {&slices[0], &slices[1]};
    bool answers[2] = {false, false};
    reader->MayMatch(2, pointers, answers);
    matches += answers[0] + answers[1];
  }
  return matches;
}

// The tested specs, each with an upper bound on its FPR.
const std::vector<std::pair<std::string, double>> kSpecs = {
    {"blocked-bloom:10", 0.02},     {"bloom:10", 0.015},      {"bumped-ribbon:fpr=0.01", 0.012},
    {"bumped-ribbon:8", 0.006},     {"ribbon:7", 0.012},      {"binary-fuse:8", 0.006},
    {"split-block:fpr=0.01", 0.02}, {"bumped-ribbon:7:compact", 0.012},
};

void EveryTestedSpecHoldsItsKeys() {
  for (const auto& [spec, rate] : kSpecs) {
    for (const uint64_t keys : {1, 2, 33, 1000, 20000}) {
      const Ours ours(spec);
      const std::string filter = FilterOf(ours, 0, keys);
      const Reader reader(ours.policy->GetFilterBitsReader(filter));
      CHECK_SAME(CountMatches(reader.get(), 0, keys), keys);
      const uint64_t passed = CountMatches(reader.get(), 1'000'000, 20000);
      CHECK_WITH(keys < 1000 || static_cast<double>(passed) <= rate * 20000,
                 spec + ": " + std::to_string(passed) + " of 20000 pass");
      CHECK_SAME(ours.counters->filters_built, 1);
      CHECK_SAME(ours.counters->filters_opened, 1);
      CHECK_SAME(ours.counters->unfiltered_queries, 0);
    }
  }
}

void BatchesAnswerAsSingleQueries() {
  for (const auto& [spec, rate] : kSpecs) {
    const Ours ours(spec);
    const std::string filter = FilterOf(ours, 0, 5000);
    const Reader reader(ours.policy->GetFilterBitsReader(filter));
    for (const int count : {0, 1, 31, 32, 33, 100}) {
      std::vector<std::string> keys;
      for (int i = 0; i < count; ++i) {
        keys.push_back(check::Key(static_cast<uint64_t>(i) * 97));
      }
      std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
      std::vector<rocksdb::Slice*> pointers;
      for (rocksdb::Slice& slice : slices) {
        pointers.push_back(&slice);
      }
      const std::unique_ptr<bool[]> answers(new bool[count + 1]);
      answers[count] = false;
      reader->MayMatch(count, pointers.data(), answers.get());
      for (int i = 0; i < count; ++i) {
        CHECK(answers[i] == reader->MayMatch(slices[i]));
      }
      CHECK(!answers[count]);
    }
  }
}

void PrefixesShareTheStreamOfKeys() {
  const Ours ours("bumped-ribbon:fpr=0.01");
  const Builder builder = BuilderOf(ours);
  CHECK_SAME(builder->EstimateEntriesAdded(), 0);
  auto& ours_builder = static_cast<filterblock_rocksdb::internal::BitsBuilder&>(*builder);
  for (uint64_t number = 0; number < 10000; ++number) {
    const std::string key = check::Key(number);
    ours_builder.AddKeyAndAlt(key, key.substr(0, 10));  // 100 keys have the same prefix
  }
  // Each prefix counts once.
  CHECK_SAME(builder->EstimateEntriesAdded(), 10100);
  // The next filter gets the same prefix again.
  for (int round = 0; round < 2; ++round) {
    const std::string filter = Finish(builder.get());
    CHECK_SAME(builder->EstimateEntriesAdded(), 0);
    const Reader reader(ours.policy->GetFilterBitsReader(filter));
    CHECK(reader->MayMatch("key-000099"));
    CHECK(reader->MayMatch("key-00009999"));
    ours_builder.AddKeyAndAlt("key-00009999", "key-000099");
  }
}

void OneBuilderMakesManyFilters() {
  const Ours ours("bumped-ribbon:fpr=0.01");
  const Builder builder = BuilderOf(ours, true);
  for (uint64_t part = 0; part < 5; ++part) {
    for (uint64_t number = 0; number < 3000; ++number) {
      builder->AddKey(check::Key(part * 3000 + number));
    }
    CHECK_SAME(builder->EstimateEntriesAdded(), 3000);
    const std::string filter = Finish(builder.get());
    support::Ok(builder->MaybePostVerify(filter));
    const Reader reader(ours.policy->GetFilterBitsReader(filter));
    CHECK_SAME(CountMatches(reader.get(), part * 3000, 3000), 3000);
    CHECK(CountMatches(reader.get(), (part + 1) * 3000, 3000) < 60);
  }
}

void ABuilderWithoutKeysGivesAnAlwaysMaybeFilter() {
  const Ours ours("bumped-ribbon:fpr=0.01");
  const std::string filter = Finish(BuilderOf(ours).get());
  CHECK(!filter.empty());
  const Reader reader(ours.policy->GetFilterBitsReader(filter));
  CHECK_SAME(CountMatches(reader.get(), 0, 100), 100);
  CHECK_SAME(ours.counters->filters_opened, 1);
  CHECK_SAME(ours.counters->unfiltered_queries, 0);
}

// A sound filter without keys denies every key. RocksDB never asks the filter of an SST without
// keys. So such a filter belongs to another SST, and does not open.
void AFilterOfNoKeysDoesNotOpen() {
  const Ours ours("blocked-bloom:10");
  const Handle<filterblock_hasher> hasher(filterblock_hasher_new_xxh3(0));
  const Handle<filterblock_builder> builder(
      filterblock_builder_new("blocked-bloom:10", hasher.get(), nullptr, nullptr));
  const Handle<filterblock_bytes> bytes(filterblock_builder_finish(builder.get(), nullptr));
  CHECK(bytes != nullptr);
  const rocksdb::Slice filter(static_cast<const char*>(filterblock_bytes_data(bytes.get())),
                              filterblock_bytes_len(bytes.get()));
  const Reader reader(ours.policy->GetFilterBitsReader(filter));
  CHECK_SAME(CountMatches(reader.get(), 0, 100), 100);
  CHECK_SAME(ours.counters->filters_refused, 1);
  CHECK_SAME(ours.counters->unfiltered_queries, 100);
}

void SizesAreEstimatedWithinTwoPercent() {
  for (const auto& [spec, rate] : kSpecs) {
    const Ours ours(spec);
    const Builder builder = BuilderOf(ours);
    auto& ours_builder = static_cast<filterblock_rocksdb::internal::BitsBuilder&>(*builder);
    for (const uint64_t keys : {2000, 16384, 100000}) {
      const double found = static_cast<double>(FilterOf(ours, 0, keys).size());
      const double planned = static_cast<double>(ours_builder.CalculateSpace(keys));
      CHECK_WITH(planned > 0.98 * found && planned < 1.02 * found,
                 spec + ": " + std::to_string(planned) + " planned, " + std::to_string(found));
      const double rate_of_plan = ours_builder.EstimatedFpRate(keys, 0);
      CHECK(rate_of_plan > 0.0 && rate_of_plan <= rate);
    }
    for (const size_t bytes : {0, 40, 128, 1024, 4096, 65536}) {
      const size_t keys = builder->ApproximateNumEntries(bytes);
      CHECK(keys == 0 || ours_builder.CalculateSpace(keys) <= bytes);
      CHECK(ours_builder.CalculateSpace(keys + 1) > bytes);
    }
    CHECK(builder->ApproximateNumEntries(4096) > 1000);
  }
}

void TheLevelOfAnSstChoosesItsFilter() {
  filterblock_rocksdb::Options options;
  options.upper = "blocked-bloom:10";
  options.lower = "bloom:10";
  options.bottommost = "bumped-ribbon:7";
  options.lower_from_level = 2;
  const Ours ours(options);
  const auto kind = [&](int level, bool is_bottommost, rocksdb::TableFileCreationReason reason) {
    const Builder builder = BuilderOf(ours, false, level, is_bottommost, reason);
    builder->AddKey("key");
    const std::string filter = Finish(builder.get());
    const Handle<filterblock_hasher> hasher(filterblock_hasher_new_xxh3(0));
    filterblock_expected expected = {};
    expected.hasher = hasher.get();
    expected.flags = FILTERBLOCK_EXPECT_ANY_TABLE;
    const Handle<filterblock_filter> open(
        filterblock_filter_open_borrowed(filter.data(), filter.size(), &expected,
                                         FILTERBLOCK_VERIFY_AT_OPEN, nullptr));
    filterblock_metadata metadata;
    CHECK(filterblock_filter_metadata(open.get(), &metadata, nullptr) == FILTERBLOCK_CODE_OK);
    return std::string(metadata.kind);
  };
  const auto compaction = rocksdb::TableFileCreationReason::kCompaction;
  CHECK(kind(0, false, rocksdb::TableFileCreationReason::kFlush) == "blocked-bloom");
  CHECK(kind(0, false, compaction) == "blocked-bloom");
  CHECK(kind(1, false, compaction) == "blocked-bloom");
  CHECK(kind(2, false, compaction) == "bloom");
  CHECK(kind(6, false, compaction) == "bloom");
  CHECK(kind(-1, false, rocksdb::TableFileCreationReason::kMisc) == "bloom");
  CHECK(kind(1, true, compaction) == "bumped-ribbon");
  CHECK(kind(6, true, compaction) == "bumped-ribbon");

  options.bottommost = "none";
  CHECK(BuilderOf(Ours(options), false, 6, true) == nullptr);
  options.bottommost = "";
  CHECK(BuilderOf(Ours(options), false, 6, true) != nullptr);
}

void InvalidOptionsAreErrors() {
  const auto is_refused = [](const filterblock_rocksdb::Options& options) {
    std::shared_ptr<const rocksdb::FilterPolicy> policy;
    const rocksdb::Status made = filterblock_rocksdb::NewFilterPolicy(options, &policy, nullptr);
    return made.IsInvalidArgument() && policy == nullptr;
  };
  CHECK(is_refused(Ours::OfSpec("blom:10")));
  CHECK(is_refused(Ours::OfSpec("")));
  CHECK(is_refused(Ours::OfSpec("grafite:9")));  // a range filter needs the bytes of keys
  filterblock_rocksdb::Options options;
  options.bottommost = "bloom:0";
  CHECK(is_refused(options));
  options = {};
  options.secret = std::string(16, 's');
  CHECK(is_refused(options));  // XXH3 takes no secret
  options.hash = filterblock_rocksdb::Hash::kSipHash13;
  CHECK(!is_refused(options));
  options.secret = "short";
  CHECK(is_refused(options));
}

void EveryFlippedBitAnswersMaybeAndIsCounted() {
  for (const char* spec : {"blocked-bloom:10", "bumped-ribbon:fpr=0.01"}) {
    const Ours ours(spec);
    const std::string sound = FilterOf(ours, 0, 500);
    uint64_t cases = 0;
    for (size_t bit = 0; bit < sound.size() * 8; ++bit) {
      std::string damaged = sound;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      const Reader reader(ours.policy->GetFilterBitsReader(damaged));
      CHECK_SAME(CountMatches(reader.get(), 0, 500), 500);
      CHECK_SAME(ours.counters->unfiltered_queries, ++cases * 500);
    }
    CHECK_SAME(ours.counters->filters_damaged + ours.counters->filters_of_newer_version, cases);
    CHECK(!ours.counters->LastError().empty());
  }
}

void ZeroedAndCutFiltersAnswerMaybeAndAreCounted() {
  const Ours ours("bumped-ribbon:fpr=0.01");
  const std::string sound = FilterOf(ours, 0, 500);
  std::vector<std::string> damaged = {std::string(sound.size(), '\0'),
                                      std::string(sound.size(), '\xff'), sound + "x"};
  for (size_t len = 1; len < sound.size(); ++len) {
    damaged.push_back(sound.substr(0, len));
    damaged.push_back(sound.substr(len));
  }
  for (const std::string& filter : damaged) {
    const uint64_t before = ours.counters->unfiltered_queries;
    const Reader reader(ours.policy->GetFilterBitsReader(filter));
    CHECK_SAME(CountMatches(reader.get(), 0, 500), 500);
    CHECK_SAME(CountMatchesOfBatches(reader.get(), 0, 500), 500);
    CHECK_SAME(ours.counters->unfiltered_queries, before + 1000);
  }
  CHECK_SAME(ours.counters->filters_damaged, damaged.size());
}

void OtherHashersAnswerMaybeAndAreCounted() {
  filterblock_rocksdb::Options options = Ours::OfSpec("blocked-bloom:10");
  const std::string filter = FilterOf(Ours(options), 0, 1000);
  options.seed = 1;
  const Ours reseeded(options);
  options.hash = filterblock_rocksdb::Hash::kSipHash13;
  options.secret = std::string(16, 's');
  const Ours secret(options);
  const std::string locked = FilterOf(secret, 0, 1000);
  options.secret = std::string(16, 't');
  const Ours other_secret(options);
  const std::vector<std::pair<const Ours*, std::string>> cases = {
      {&reseeded, filter}, {&secret, filter}, {&other_secret, locked}, {&reseeded, locked}};
  for (const auto& [ours, bytes] : cases) {
    const uint64_t before = ours->counters->filters_of_other_hasher;
    const Reader reader(ours->policy->GetFilterBitsReader(bytes));
    CHECK_SAME(CountMatches(reader.get(), 0, 2000), 2000);
    CHECK_SAME(ours->counters->filters_of_other_hasher, before + 1);
    CHECK_SAME(ours->counters->filters_damaged, 0);
  }
  const Reader reader(secret.policy->GetFilterBitsReader(locked));
  CHECK_SAME(CountMatches(reader.get(), 0, 1000), 1000);
}

void PostVerifyDetectsFiltersThatLostKeys() {
  const Ours ours("bumped-ribbon:fpr=0.01");
  const Builder builder = BuilderOf(ours, true);
  const auto add = [&] {
    for (uint64_t number = 0; number < 2000; ++number) {
      builder->AddKey(check::Key(number));
    }
    return Finish(builder.get());
  };
  const std::string sound = add();
  support::Ok(builder->MaybePostVerify(sound));
  std::string damaged = add();
  damaged[100] = static_cast<char>(damaged[100] ^ 1);
  CHECK(builder->MaybePostVerify(damaged).IsCorruption());
  // A sound filter of other keys. Faulty memory or a bug may pass it.
  add();
  CHECK(builder->MaybePostVerify(FilterOf(ours, 5000, 2000)).IsCorruption());
  // RocksDB's option is off by default. Then the builder keeps no hashes.
  const Builder lazy = BuilderOf(ours, false);
  support::Ok(lazy->MaybePostVerify(damaged));
}

void AFilterThatCannotBeCopiedCountsAsFailed() {
  const Ours ours("blocked-bloom:10");
  copies_fail = true;
  const std::string filter = FilterOf(ours, 0, 100);
  copies_fail = false;
  CHECK_SAME(ours.counters->filters_built, 0);
  CHECK_SAME(ours.counters->filters_failed, 1);
  CHECK(!ours.counters->LastError().empty());
  const Reader reader(ours.policy->GetFilterBitsReader(filter));
  CHECK_SAME(CountMatches(reader.get(), 0, 100), 100);
}

// Shows a limit: RocksDB does not tell the policy which SST a filter belongs to.
void ASwappedFilterGoesUnnoticed() {
  const Ours ours("blocked-bloom:10");
  const std::string of_other_sst = FilterOf(ours, 5000, 2000);
  const Reader reader(ours.policy->GetFilterBitsReader(of_other_sst));
  CHECK(CountMatches(reader.get(), 0, 2000) < 100);
  CHECK_SAME(ours.counters->unfiltered_queries, 0);
}

void ReadersOutliveTheirPolicy() {
  Reader reader;
  std::string filter;
  {
    const Ours ours("blocked-bloom:10");
    filter = FilterOf(ours, 0, 100);
    reader.reset(ours.policy->GetFilterBitsReader(filter));
  }
  CHECK_SAME(CountMatches(reader.get(), 0, 100), 100);
}

}  // namespace

int main() {
  EveryTestedSpecHoldsItsKeys();
  BatchesAnswerAsSingleQueries();
  PrefixesShareTheStreamOfKeys();
  OneBuilderMakesManyFilters();
  ABuilderWithoutKeysGivesAnAlwaysMaybeFilter();
  AFilterOfNoKeysDoesNotOpen();
  SizesAreEstimatedWithinTwoPercent();
  TheLevelOfAnSstChoosesItsFilter();
  InvalidOptionsAreErrors();
  EveryFlippedBitAnswersMaybeAndIsCounted();
  ZeroedAndCutFiltersAnswerMaybeAndAreCounted();
  OtherHashersAnswerMaybeAndAreCounted();
  PostVerifyDetectsFiltersThatLostKeys();
  AFilterThatCannotBeCopiedCountsAsFailed();
  ASwappedFilterGoesUnnoticed();
  ReadersOutliveTheirPolicy();
  std::puts("contract: ok");
  return 0;
}
