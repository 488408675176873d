// Provides the benchmark programs with arguments, keys, measurements and rows. integrations/bench
// runs the programs and reads the rows. integrations/bench/src/row.rs describes the fields of a
// row.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace bench {

struct Arguments {
  uint64_t keys = 1'000'000;
  int rounds = 5;
  // Measure only filters whose names contain this text.
  std::string only;

  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string flag = argv[i];
      const char* value = i + 1 < argc ? argv[i + 1] : "";
      if (flag == "--keys") {
        keys = std::strtoull(value, nullptr, 10);
      } else if (flag == "--rounds") {
        rounds = std::atoi(value);
      } else if (flag == "--only") {
        only = value;
      } else {
        keys = 0;
      }
    }
    if (keys < 1000 || rounds < 1) {
      std::fprintf(stderr,
                   "usage: %s [--keys N] [--rounds N] [--only FILTER]; at least 1000 keys and 1 round\n",
                   argv[0]);
      std::exit(2);
    }
  }
};

// Returns the key of a number: 16 hexadecimal digits, spread evenly over the key range. Two numbers
// never share a key. The mix is the finalizer of SplitMix64 (Steele, Lea, Flood, 2014), as in
// integrations/bench.
inline std::string Key(uint64_t number) {
  uint64_t mixed = number * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(mixed));
  return text;
}

// Returns the present key number `i`. Present keys have even numbers, and absent keys have odd
// numbers. Consecutive keys spread over the whole key range.
inline std::string PresentKey(uint64_t i) { return Key(2 * i); }

inline std::vector<std::string> AbsentKeys(uint64_t keys) {
  std::vector<std::string> absent;
  for (uint64_t i = 0; i < std::min<uint64_t>(100'000, keys); ++i) {
    absent.push_back(Key(2 * i + 1));
  }
  return absent;
}

inline std::string Value() { return std::string(100, '\7'); }

inline double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(now).count();
}

// Returns the processor time of this thread in nanoseconds. It includes reads from the page cache.
// It excludes the time of other processes.
inline double ProcessorTime() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Measures gets in rounds: the mean processor time, and the 99th percentile of the wall time of
// gets that are timed one by one.
class Times {
 public:
  // Measures one round in two passes over the keys. The first pass measures all calls of `get`
  // together, and the second pass measures each call alone.
  template <typename Get>
  void Measure(const std::vector<std::string>& keys, const Get& get) {
    const double start = ProcessorTime();
    for (const std::string& key : keys) {
      get(key);
    }
    means_.push_back((ProcessorTime() - start) / static_cast<double>(keys.size()));
    std::vector<double> single;
    single.reserve(keys.size());
    for (const std::string& key : keys) {
      const double before = Now();
      get(key);
      single.push_back(Now() - before);
    }
    std::sort(single.begin(), single.end());
    p99s_.push_back(single[single.size() * 99 / 100]);
  }

  // Return the medians over the rounds.
  double Mean() const { return Median(means_); }
  double P99() const { return Median(p99s_); }

 private:
  static double Median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  std::vector<double> means_;
  std::vector<double> p99s_;
};

struct Row {
  const char* engine = "";
  std::string version;
  std::string layout;
  std::string filter;
  uint64_t keys = 0;
  uint64_t filter_bytes = 0;
  double false_positive_rate = 0;
  double miss_mean_ns = 0;
  double miss_p99_ns = 0;
  double reads_per_miss = 0;
  double build_ns_per_key = 0;
  double compact_ms = -1;  // not measured
  uint64_t false_negatives = 0;

  void Print() const {
    const std::string compact = compact_ms < 0 ? "null" : std::to_string(compact_ms);
    std::printf(
        "{\"engine\":\"%s\",\"version\":\"%s\",\"layout\":\"%s\",\"filter\":\"%s\",\"keys\":%llu,"
        "\"filter_bytes\":%llu,\"bits_per_key\":%.4f,\"false_positive_rate\":%.6f,"
        "\"miss_mean_ns\":%.1f,\"miss_p99_ns\":%.1f,\"reads_per_miss\":%.6f,"
        "\"build_ns_per_key\":%.1f,\"compact_ms\":%s,\"false_negatives\":%llu}\n",
        engine, version.c_str(), layout.c_str(), filter.c_str(), static_cast<unsigned long long>(keys),
        static_cast<unsigned long long>(filter_bytes),
        static_cast<double>(filter_bytes) * 8 / static_cast<double>(keys), false_positive_rate,
        miss_mean_ns, miss_p99_ns, reads_per_miss, build_ns_per_key, compact.c_str(),
        static_cast<unsigned long long>(false_negatives));
    std::fflush(stdout);
  }
};

// Loads every database in `runs` overlapping runs, measures it, compacts it and measures it again. In
// each round, every database is measured once.
template <typename Databases>
void Run(const Databases& databases, const Arguments& arguments, int runs,
         const std::vector<std::string>& absent) {
  for (int run = 0; run < runs; ++run) {
    for (const auto& database : databases) {
      database->Load(arguments.keys, run);
    }
  }
  for (const int left : {runs, 1}) {
    for (int round = 0; round < arguments.rounds; ++round) {
      for (const auto& database : databases) {
        database->Measure(absent);
      }
    }
    for (const auto& database : databases) {
      database->Report(left == 1 ? "1 run" : std::to_string(left) + " runs", left, arguments.keys, absent);
      database->Compact();
    }
  }
}

}  // namespace bench
