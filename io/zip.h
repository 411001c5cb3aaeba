// Zip archives: the outer form of NumPy's .npz files and of what torch.save writes. Entries are stored or deflated,
// with zip64 where sizes ask for it. Format: PKWARE's APPNOTE 6.3.
//
// Reading trusts nothing: an entry lies between its neighbours and has the size and the checksum that the directory
// says, or it is a FormatError. Nothing is ever written to disk under a name that an archive contains.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace mantissa::io {

struct ZipEntry {
  std::string name;
  std::int64_t packed = 0, size = 0;  // bytes in the file, and unpacked; the same where it is stored
  std::uint32_t checksum = 0;         // CRC-32 of the unpacked bytes
  bool deflated = false;
  std::int64_t begin = 0, end = 0;  // of its local header, and of the room until the next entry
};

class ZipReader {
 public:
  // Reads the directory. At most 1,000,000 entries, of different names, that do not overlap.
  explicit ZipReader(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // as they follow each other in the file
  const ZipEntry* find(std::string_view name) const;                 // null when there is none
  void read(const ZipEntry& entry, void* out) const;                 // entry.size bytes, unpacked
  std::string read(const ZipEntry& entry) const;

 private:
  void read_directory();

  FileReader file_;
  std::vector<ZipEntry> entries_;
  std::vector<const ZipEntry*> by_name_;  // sorted
};

// Writes an archive of stored entries; it appears under its name in commit() (AtomicFile).
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  // An entry of the bytes of `head` and then of `data`. Names must differ.
  void add(const std::string& name, std::string_view head, std::string_view data);
  void commit();

 private:
  AtomicFile file_;
  std::vector<ZipEntry> entries_;
  std::int64_t at_ = 0;
};

}  // namespace mantissa::io
