// Finds the filter blocks in SSTs of LevelDB, and of RocksDB with format_version 3 and 5, so that
// tests can damage them.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

namespace sst {

struct Handle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// An entry of a block: its key, and the position of its value in the file.
struct Entry {
  std::string key;
  size_t value_offset = 0;
  size_t value_size = 0;
};

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {
    std::ifstream in(path_, std::ios::binary);
    CHECK(in.good());
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    CHECK(bytes.size() > 64);
  }

  void Save() const {
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    CHECK(out.good());
  }

  // Returns the entries of the metaindex.
  std::vector<Entry> Metaindex() const {
    const bool is_leveldb = Fixed64(bytes.size() - 8) == 0xdb4775248b80fb57;
    // The handle of the metaindex is the first field of LevelDB's footer of 48 bytes. RocksDB's
    // footer has 53 bytes, and one byte for the type of checksum comes first.
    size_t at = bytes.size() - (is_leveldb ? 48 : 52);
    return Entries(ReadHandle(&at));
  }

  // Returns the entry of the metaindex whose key begins with `prefix`, or an entry with an empty
  // key.
  Entry Named(const std::string& prefix) const {
    for (const Entry& entry : Metaindex()) {
      if (entry.key.compare(0, prefix.size(), prefix) == 0) {
        return entry;
      }
    }
    return {};
  }

  Handle HandleOf(const Entry& entry) const {
    size_t at = entry.value_offset;
    return ReadHandle(&at);
  }

  // Changes the size in a handle. Pads the varint with zero bits to its old length.
  void SetSize(const Entry& entry, uint64_t size) {
    size_t at = entry.value_offset;
    Varint(&at);
    const size_t end = entry.value_offset + entry.value_size;
    while (at < end) {
      bytes[at] = static_cast<char>((size & 0x7f) | (at + 1 < end ? 0x80 : 0));
      size >>= 7;
      ++at;
    }
    CHECK(size == 0);
  }

  // Returns the entries of an uncompressed block. Its entries must store the lengths of their
  // values.
  std::vector<Entry> Entries(Handle block) const {
    std::vector<Entry> entries;
    const size_t end = block.offset + block.size;
    size_t at = block.offset;
    const size_t restarts = Fixed32(end - 4);
    const size_t limit = end - 4 - 4 * restarts;
    std::string key;
    while (at < limit) {
      const uint64_t shared = Varint(&at);
      const uint64_t unshared = Varint(&at);
      const uint64_t value_size = Varint(&at);
      key.resize(shared);
      key.append(bytes, at, unshared);
      at += unshared;
      entries.push_back({key, at, value_size});
      at += value_size;
    }
    CHECK(at == limit);
    return entries;
  }

  uint32_t Fixed32(size_t at) const { return static_cast<uint32_t>(Fixed(at, 4)); }

  std::string bytes;

 private:
  uint64_t Fixed(size_t at, size_t len) const {
    CHECK(at + len <= bytes.size());
    uint64_t value = 0;
    for (size_t i = len; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    return value;
  }
  uint64_t Fixed64(size_t at) const { return Fixed(at, 8); }

  uint64_t Varint(size_t* at) const {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      CHECK(*at < bytes.size() && shift < 64);
      const auto byte = static_cast<unsigned char>(bytes[(*at)++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
  }

  Handle ReadHandle(size_t* at) const {
    Handle handle;
    handle.offset = Varint(at);
    handle.size = Varint(at);
    CHECK(handle.offset + handle.size <= bytes.size());
    return handle;
  }

  std::string path_;
};

// Returns the offset and the length of each filter in LevelDB's filter block, without empty
// filters.
inline std::vector<Handle> LevelDbFilters(const File& file, Handle block) {
  const size_t tail = block.offset + block.size - 5;
  const size_t array = file.Fixed32(tail);
  std::vector<Handle> filters;
  for (size_t at = block.offset + array; at < tail; at += 4) {
    const uint64_t start = file.Fixed32(at);
    const uint64_t limit = file.Fixed32(at + 4);
    if (limit > start) {
      filters.push_back({block.offset + start, limit - start});
    }
  }
  return filters;
}

}  // namespace sst
