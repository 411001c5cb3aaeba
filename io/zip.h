// Zip archives: the container format of NumPy's .npz files and of torch.save. Entries are stored or deflated, with
// zip64 where sizes require it. Format: PKWARE's APPNOTE 6.3.
//
// Reading is defensive: entries must not overlap and must have the size and the checksum of the directory, else a
// FormatError. Nothing is ever written to disk under a name from an archive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace mantissa::io {

struct ZipEntry {
  std::string name;
  std::int64_t packed = 0, size = 0;  // compressed and uncompressed bytes; equal if stored
  std::uint32_t checksum = 0;         // CRC-32 of the uncompressed bytes; 0 in all entries: none was computed
  bool deflated = false;
  std::int64_t begin = 0, end = 0;  // begin of its local header, end of its space in the file
};

class ZipReader {
 public:
  // Reads the directory. At most 1,000,000 entries, with unique names, not overlapping.
  explicit ZipReader(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // in file order
  const ZipEntry* find(std::string_view name) const;                 // null if there is none
  void read(const ZipEntry& entry, void* out) const;                 // writes entry.size uncompressed bytes
  std::string read(const ZipEntry& entry) const;

 private:
  void read_directory();

  FileReader file_;
  bool has_checksums_ = false;
  std::vector<ZipEntry> entries_;
  std::vector<const ZipEntry*> by_name_;  // sorted
};

// Writes an archive of stored entries; the file appears under its name in commit() (AtomicFile).
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  // Adds an entry with the bytes of `head` followed by `data`. Names must be unique.
  void add(const std::string& name, std::string_view head, std::string_view data);
  void commit();

 private:
  AtomicFile file_;
  std::vector<ZipEntry> entries_;
  std::int64_t at_ = 0;
};

}  // namespace mantissa::io
