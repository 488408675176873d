// Provides the tests in C++ with checks, keys and folders.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

// Prints the condition and ends the process with status 1 if the condition does not hold.
#define CHECK(condition) \
  ((condition) ? (void)0 : ::check::Fail(__FILE__, __LINE__, #condition, std::string()))
#define CHECK_WITH(condition, message) \
  ((condition) ? (void)0 : ::check::Fail(__FILE__, __LINE__, #condition, (message)))

namespace check {

[[noreturn]] inline void Fail(const char* file, int line, const char* text, const std::string& why) {
  std::fprintf(stderr, "%s:%d: failed: %s %s\n", file, line, text, why.c_str());
  std::exit(1);
}

inline void CheckSame(uint64_t found, uint64_t expected, const char* file, int line,
                      const char* text) {
  if (found != expected) {
    Fail(file, line, text,
         "found " + std::to_string(found) + ", expected " + std::to_string(expected));
  }
}
#define CHECK_SAME(found, expected) ::check::CheckSame((found), (expected), __FILE__, __LINE__, #found)

// A temporary folder. The destructor removes it.
class TempDir {
 public:
  TempDir() {
    std::string name = std::filesystem::temp_directory_path() / "filterblock-XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string Path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Returns the only file with this extension in a folder. Fails if there is not exactly one.
inline std::string OnlyFile(const std::string& dir, const std::string& extension) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == extension) {
      found.push_back(entry.path().string());
    }
  }
  CHECK_SAME(found.size(), 1);
  return found.front();
}

// The numbers of gets by result.
struct Gets {
  uint64_t found = 0;
  uint64_t lost = 0;
  uint64_t failed = 0;
};

inline std::string Key(uint64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "key-%08llu", static_cast<unsigned long long>(number));
  return text;
}

inline std::string Value(uint64_t number) { return "value-" + std::to_string(number) + std::string(40, '.'); }

}  // namespace check
