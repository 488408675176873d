// Tests that the command `filterblock` reads SSTs of LevelDB with filters of filterblock.
//
// With a folder as argument, the test also copies the SST to the folder, as a golden file.
#include <fstream>

#include "../../../cxx/command.h"
#include "../../../cxx/sst.h"
#include "support.h"

namespace {

using support::Ours;

constexpr uint64_t kKeys = 1000;

std::string WriteKeys(const check::TempDir& dir, const char* suffix) {
  const std::string path = dir.Path(std::string("keys") + suffix);
  std::ofstream out(path);
  for (uint64_t number = 0; number < kKeys; ++number) {
    out << check::Key(number) << suffix << "\n";
  }
  return path;
}

void TheCommandReadsSstsOfLevelDb(const std::string& golden_dir) {
  const Ours ours("bloom:10", filterblock_hasher_new_xxh3(7));
  const check::TempDir dir;
  support::WriteSst(dir.Path("db"), ours.policy, kKeys);
  const std::string sst = check::OnlyFile(dir.Path("db"), ".ldb");
  if (!golden_dir.empty()) {
    std::filesystem::copy_file(sst, golden_dir + "/leveldb-compact.ldb",
                               std::filesystem::copy_options::overwrite_existing);
  }
  const std::string present = WriteKeys(dir, "");
  const std::string absent = WriteKeys(dir, "x");
  check::Expect("inspect --seed 7 " + sst, 0, {"leveldb-table", FILTERBLOCK_LEVELDB_NAME, "bloom"});
  check::Expect("verify --seed 7 " + sst, 0, {"sound", "1,000 keys, 0 denied by a filter of the table"});
  check::Expect("verify --seed 7 " + sst + " --against " + present, 0, {"1,000 keys looked up, 0 false"});
  const check::Run run = check::Filterblock("query --seed 7 --count " + sst + " --keys " + absent);
  CHECK_WITH(run.printed.compare(0, 6, "maybe\t") == 0, run.printed);
  CHECK_WITH(std::atoi(run.printed.c_str() + 6) < 50, run.printed);

  // The filters do not store the seed. With another seed, all answers are "maybe".
  check::Expect("verify " + sst, 0, {"filters cannot be used", "--seed", "0 denied"});
  check::Expect("query --count " + sst + " --keys " + absent, 0, {"--seed", "maybe\t1000\nabsent\t0"});

  // Flips a bit of a filter, and does not repair the checksum of LevelDB's block.
  sst::File file(sst);
  const sst::Handle filter = sst::LevelDbFilters(file, file.HandleOf(file.Named("filter.")))[3];
  file.bytes[filter.offset] = static_cast<char>(file.bytes[filter.offset] ^ 1);
  file.Save();
  check::Expect("verify --seed 7 " + sst, 1, {"damaged", "filter block"});
  std::puts("interchange: the command reads SSTs of LevelDB: ok");
}

}  // namespace

int main(int argc, char** argv) {
  TheCommandReadsSstsOfLevelDb(argc > 1 ? argv[1] : "");
  return 0;
}
