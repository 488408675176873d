// Tests damaged filters in the SST of a real database, and the same damage to LevelDB's own Bloom
// filter.
#include "../../../cxx/sst.h"
#include "support.h"

namespace {

using support::Bloom;
using support::Db;
using support::Gets;
using support::Ours;

constexpr uint64_t kKeys = 300;

// The numbers of damaged files, lost keys and failed gets.
struct Cost {
  uint64_t cases = 0;
  uint64_t lost = 0;
  uint64_t failed = 0;

  void Tell(const char* what) const {
    std::printf("damage: %s: %llu damaged files, %llu of %llu keys lost, %llu gets failed\n", what,
                static_cast<unsigned long long>(cases), static_cast<unsigned long long>(lost),
                static_cast<unsigned long long>(cases * kKeys),
                static_cast<unsigned long long>(failed));
  }
};

// A database of one SST whose bytes a test changes.
class Victim {
 public:
  Victim(leveldb_filterpolicy_t* policy, bool paranoid) : policy_(policy), paranoid_(paranoid) {
    support::WriteSst(dir_.Path("db"), policy, kKeys);
    path_ = check::OnlyFile(dir_.Path("db"), ".ldb");
    sound = std::make_unique<sst::File>(path_);
    block = sound->HandleOf(sound->Named("filter."));
    filters = sst::LevelDbFilters(*sound, block);
    CHECK(filters.size() >= 4);
  }

  // Saves a damaged file, and gets every key. Adds the results to `cost`.
  Gets Ask(const sst::File& damaged, Cost* cost) {
    damaged.Save();
    const Gets gets = Db(dir_.Path("db"), policy_, paranoid_).GetAll(0, kKeys);
    ++cost->cases;
    cost->lost += gets.lost;
    cost->failed += gets.failed;
    return gets;
  }

  // Flips one bit of the sound file at a time, in the bytes `from` to `to` - 1. After each flip,
  // gets every key and calls `check`.
  template <typename Check>
  Cost FlipEachBit(uint64_t from, uint64_t to, const Check& check) {
    Cost cost;
    for (uint64_t bit = from * 8; bit < to * 8; ++bit) {
      sst::File file = *sound;
      file.bytes[bit / 8] = static_cast<char>(file.bytes[bit / 8] ^ (1 << bit % 8));
      Ask(file, &cost);
      check();
    }
    return cost;
  }

  uint64_t EndOfFilters() const { return filters.back().offset + filters.back().size; }

  std::unique_ptr<sst::File> sound;
  sst::Handle block;
  std::vector<sst::Handle> filters;

 private:
  const check::TempDir dir_;
  leveldb_filterpolicy_t* policy_;
  bool paranoid_;
  std::string path_;
};

// Counts the queries that no usable filter answered since the last call of Next.
class Count {
 public:
  explicit Count(const Ours& ours) : ours_(ours) {}
  uint64_t Next() {
    const uint64_t now = ours_.Counts().unfiltered_queries;
    return now - std::exchange(last_, now);
  }

 private:
  const Ours& ours_;
  uint64_t last_ = 0;
};

void EveryFlippedBitOfAFilterIsCountedAndLosesNoKey() {
  const Ours ours("bloom:10");
  Victim victim(ours.policy, false);
  Count count(ours);
  const Cost cost = victim.FlipEachBit(victim.block.offset, victim.EndOfFilters(),
                                       [&] { CHECK(count.Next() > 0); });
  cost.Tell("each bit of each filter flipped");
  CHECK_SAME(cost.lost + cost.failed, 0);
}

void ZeroedAndCutFiltersAreCountedAndLoseNoKey() {
  const Ours ours("bloom:10");
  Victim victim(ours.policy, false);
  Count count(ours);
  Cost zeroed;
  for (const sst::Handle& filter : victim.filters) {
    sst::File file = *victim.sound;
    std::fill_n(file.bytes.begin() + static_cast<std::ptrdiff_t>(filter.offset), filter.size, '\0');
    victim.Ask(file, &zeroed);
    CHECK(count.Next() > 0);
  }
  zeroed.Tell("each filter zeroed");
  CHECK_SAME(zeroed.lost + zeroed.failed, 0);
  // The offset of the next filter is the end of a filter. With a smaller offset, a filter loses its
  // last bytes, and the next filter begins with them.
  Cost cut;
  const uint64_t offsets = victim.EndOfFilters();
  for (uint64_t at = offsets; at + 5 < victim.block.offset + victim.block.size; at += 4) {
    for (const unsigned less : {1u, 2u, 5u, 20u}) {
      const uint32_t offset = victim.sound->Fixed32(at);
      if (offset < less) {
        continue;
      }
      sst::File file = *victim.sound;
      for (int i = 0; i < 4; ++i) {
        file.bytes[at + static_cast<uint64_t>(i)] = static_cast<char>((offset - less) >> (8 * i));
      }
      victim.Ask(file, &cut);
      CHECK(count.Next() > 0);
    }
  }
  cut.Tell("each filter cut");
  CHECK(cut.cases > 0);
  CHECK_SAME(cut.lost + cut.failed, 0);
}

// By default, LevelDB verifies no checksum of its own fields after the filters. If they are
// damaged, LevelDB may pass the sound filter of other keys to the policy.
void LevelDbsOwnFieldsNeedParanoidChecks() {
  const Ours ours("bloom:10");
  for (const bool paranoid : {false, true}) {
    Victim victim(ours.policy, paranoid);
    const Cost cost = victim.FlipEachBit(victim.EndOfFilters(),
                                         victim.block.offset + victim.block.size, [] {});
    cost.Tell(paranoid ? "each bit of LevelDB's own fields flipped, paranoid_checks"
                       : "each bit of LevelDB's own fields flipped");
    CHECK_SAME(cost.failed, 0);
    CHECK(paranoid ? cost.lost == 0 : cost.lost > 0);
  }
}

// Shows that the same damage to LevelDB's own filter loses keys.
void TheSameDamageToLevelDbsOwnFilter() {
  const Bloom bloom;
  Victim victim(bloom.policy, false);
  const Cost flipped = victim.FlipEachBit(victim.block.offset, victim.EndOfFilters(), [] {});
  flipped.Tell("LevelDB's Bloom filter, each bit of each filter flipped");
  Cost zeroed;
  for (const sst::Handle& filter : victim.filters) {
    sst::File file = *victim.sound;
    // The last byte is the number of probes.
    std::fill_n(file.bytes.begin() + static_cast<std::ptrdiff_t>(filter.offset), filter.size - 1, '\0');
    victim.Ask(file, &zeroed);
  }
  zeroed.Tell("LevelDB's Bloom filter, the bits of each filter zeroed");
  CHECK(flipped.lost > 0 && zeroed.lost > 0);
}

// Shows a limit: LevelDB does not tell the policy which keys a filter has, so a sound filter of
// other keys goes unnoticed.
void TheFilterOfOtherKeysLosesKeys() {
  const Ours ours("bloom:10");
  Victim victim(ours.policy, false);
  size_t from = 0;
  size_t to = 1;
  while (victim.filters[from].size != victim.filters[to].size) {
    ++to;
    if (to == victim.filters.size()) {
      ++from;
      to = from + 1;
      CHECK(to < victim.filters.size());
    }
  }
  sst::File file = *victim.sound;
  file.bytes.replace(victim.filters[to].offset, victim.filters[to].size, victim.sound->bytes,
                     victim.filters[from].offset, victim.filters[from].size);
  Cost cost;
  victim.Ask(file, &cost);
  cost.Tell("the filter of other keys");
  CHECK(cost.lost > 10);
}

}  // namespace

int main() {
  EveryFlippedBitOfAFilterIsCountedAndLosesNoKey();
  ZeroedAndCutFiltersAreCountedAndLoseNoKey();
  LevelDbsOwnFieldsNeedParanoidChecks();
  TheSameDamageToLevelDbsOwnFilter();
  TheFilterOfOtherKeysLosesKeys();
  return 0;
}
