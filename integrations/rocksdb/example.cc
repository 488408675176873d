// Uses a RocksDB database with filters of filterblock. Copy from here. README.md has the compiler
// command.
#include <cstdio>
#include <memory>
#include <string>

#include "filterblock_rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/table.h"

int main(int argc, char** argv) {
  filterblock_rocksdb::Options filters;
  filters.upper = "blocked-bloom:10";         // level 0: small, short-lived SSTs that are asked first
  filters.lower = "bumped-ribbon:fpr=0.01";   // the rest: fewer bytes
  rocksdb::BlockBasedTableOptions table;
  std::shared_ptr<filterblock_rocksdb::Counters> counters;
  rocksdb::Status status =
      filterblock_rocksdb::NewFilterPolicy(filters, &table.filter_policy, &counters);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

  rocksdb::DB* opened = nullptr;
  status = rocksdb::DB::Open(options, argc > 1 ? argv[1] : "example.rocksdb", &opened);
  const std::unique_ptr<rocksdb::DB> db(opened);
  for (int i = 0; status.ok() && i < 100000; ++i) {
    status = db->Put({}, "key-" + std::to_string(i), "value");
  }
  if (status.ok()) {
    status = db->Flush({});
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::string value;
  std::printf("key-42: %s\n", db->Get({}, "key-42", &value).ToString().c_str());
  std::printf("key-42x: %s\n", db->Get({}, "key-42x", &value).ToString().c_str());
  std::printf("%llu filters built, %llu damaged; %llu queries without a usable filter\n",
              static_cast<unsigned long long>(counters->filters_built),
              static_cast<unsigned long long>(counters->filters_damaged),
              static_cast<unsigned long long>(counters->unfiltered_queries));
  return 0;
}
