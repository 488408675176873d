// Tests that no get or scan of a real database loses a key: with deletes and overwritten keys,
// before and after compaction and reopening. Also tests changes of policy and seed, invalid specs,
// and policies that outlive their handle.
#include <map>

#include "support.h"

namespace {

using support::Bloom;
using support::Db;
using support::Ours;

constexpr uint64_t kKeys = 20000;

using Model = std::map<std::string, std::string>;

void Write(Db* db, Model* model, uint64_t seed) {
  for (uint64_t i = 0; i < kKeys; ++i) {
    const std::string key = check::Key((i * 7919 + seed) % kKeys * 2);  // odd numbers are absent
    const std::string value = check::Value(i + seed);
    db->Put(key, value);
    (*model)[key] = value;
    if (i % 4 == 0 && i > 0) {
      const std::string gone = check::Key(((i - 1) * 7919 + seed) % kKeys * 2);
      db->Delete(gone);
      model->erase(gone);
    }
  }
  db->Put("", "the empty key");
  (*model)[""] = "the empty key";
  const std::string big(100'000, 'k');
  db->Put(big, big);
  (*model)[big] = big;
}

void Check(Db* db, const Model& model) {
  std::string value;
  for (uint64_t number = 0; number < 2 * kKeys + 100; ++number) {
    const std::string key = check::Key(number);
    const auto expected = model.find(key);
    CHECK_WITH(db->Get(key, &value) == (expected != model.end()), key);
    CHECK(expected == model.end() || value == expected->second);
  }
  for (const auto& [key, expected] : model) {
    CHECK_WITH(db->Get(key, &value) && value == expected, key.substr(0, 20));
  }
  leveldb_iterator_t* scan = db->NewIterator();
  auto next = model.begin();
  for (leveldb_iter_seek_to_first(scan); leveldb_iter_valid(scan); leveldb_iter_next(scan), ++next) {
    size_t len = 0;
    const char* key = leveldb_iter_key(scan, &len);
    CHECK(next != model.end() && std::string(key, len) == next->first);
  }
  CHECK(next == model.end());
  leveldb_iter_destroy(scan);
}

void EveryKeyIsFound() {
  filterblock_error error;
  const std::string secret(16, 's');
  for (const char* spec : {"bloom:10", "bloom:fpr=0.001", "blocked-bloom:10", "always-maybe"}) {
    for (const bool has_secret : {false, true}) {
      filterblock_hasher* hasher =
          has_secret ? filterblock_hasher_new_sip13(7, secret.data(), secret.size(), &error) : nullptr;
      const Ours ours(spec, hasher);
      const check::TempDir dir;
      Model model;
      for (int round = 0; round < 2; ++round) {
        Db db(dir.Path("db"), ours.policy);
        Check(&db, model);
        Write(&db, &model, static_cast<uint64_t>(round));
        Check(&db, model);
        db.Compact();
        Check(&db, model);
      }
      Db db(dir.Path("db"), ours.policy);
      Check(&db, model);
      const filterblock_leveldb_counts counts = ours.Counts();
      CHECK(counts.filters_built > 500);
      CHECK_SAME(counts.filters_failed + counts.unfiltered_queries, 0);
    }
  }
  std::puts("gets: every key is found: ok");
}

// LevelDB uses only filters with the name of its policy.
void PoliciesChangeWithoutALoss() {
  const Ours ours("bloom:10");
  const Bloom bloom;
  const check::TempDir dir;
  Model model;
  uint64_t seed = 0;
  for (leveldb_filterpolicy_t* policy :
       {bloom.policy, ours.policy, static_cast<leveldb_filterpolicy_t*>(nullptr), ours.policy, bloom.policy}) {
    Db db(dir.Path("db"), policy);
    Check(&db, model);
    Write(&db, &model, ++seed);
    Check(&db, model);
  }
  Db db(dir.Path("db"), ours.policy);
  Check(&db, model);
  db.Compact();
  Check(&db, model);
  // LevelDB passed no filter with another name to our policy.
  CHECK_SAME(ours.Counts().unfiltered_queries, 0);
  std::puts("gets: policies change without a loss: ok");
}

// Filters of another seed answer "maybe" until a compaction rewrites them.
void SeedsChangeWithoutALoss() {
  const Ours first("bloom:10");
  const Ours second("bloom:10", filterblock_hasher_new_xxh3(1));
  const check::TempDir dir;
  support::WriteSst(dir.Path("db"), first.policy, kKeys);
  Db db(dir.Path("db"), second.policy);
  CHECK_SAME(db.GetAll(0, kKeys).found, kKeys);
  CHECK_SAME(second.Counts().unfiltered_queries, kKeys);
  std::puts("gets: seeds change without a loss: ok");
}

void InvalidSpecsAreErrors() {
  for (const char* spec : {"", "blom:10", "bloom:0", "bumped-ribbon:8", "ribbon:8"}) {
    filterblock_error error;
    CHECK_WITH(filterblock_leveldb_new(spec, nullptr, &error) == nullptr, spec);
    CHECK_WITH(error.code == FILTERBLOCK_CODE_INVALID && error.message[0] != '\0', spec);
    CHECK(filterblock_leveldb_new(spec, nullptr, nullptr) == nullptr);
  }
  CHECK(filterblock_leveldb_new(nullptr, nullptr, nullptr) == nullptr);
  CHECK(filterblock_leveldb_policy(nullptr) == nullptr);
  CHECK_SAME(filterblock_leveldb_read_counts(nullptr).filters_built, 0);
  filterblock_leveldb_free(nullptr);
}

void APolicyOutlivesItsHandle() {
  filterblock_leveldb* handle = filterblock_leveldb_new("bloom:10", nullptr, nullptr);
  leveldb_filterpolicy_t* policy = filterblock_leveldb_policy(handle);
  leveldb_filterpolicy_t* another = filterblock_leveldb_policy(handle);
  leveldb_filterpolicy_destroy(another);
  filterblock_leveldb_free(handle);
  const check::TempDir dir;
  support::WriteSst(dir.Path("db"), policy, 1000);
  CHECK_SAME(Db(dir.Path("db"), policy).GetAll(0, 1000).found, 1000);
  leveldb_filterpolicy_destroy(policy);
}

}  // namespace

int main() {
  EveryKeyIsFound();
  PoliciesChangeWithoutALoss();
  SeedsChangeWithoutALoss();
  InvalidSpecsAreErrors();
  APolicyOutlivesItsHandle();
  return 0;
}
