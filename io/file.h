// Files in and out. Reading trusts nothing: only regular files, every byte asked for or an error.
// Writing is all or nothing: the old file stays until the new one is complete and on the disk.
// Next: io/safetensors.h, io/checkpoint.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace mantissa::io {

// Throws FormatError("<path>: <reason>").
template <class... Parts>
[[noreturn, gnu::cold]] void fail_format(const std::string& path, const Parts&... parts) {
  throw FormatError(concat(path, ": ", parts...));
}

// A string from a file as it may appear in a message: quoted, cut when long, controls and what is no UTF-8 escaped.
std::string quote(std::string_view text);

// What a file with these first bytes is when it is not what was expected ("an HTML page, ..."), or
// null. Broken downloads are common enough to be named.
const char* recognise(std::string_view first_bytes);

// A regular file opened for reading. Opening a folder, a pipe or a device is an Error, and never blocks.
class FileReader {
 public:
  explicit FileReader(const std::string& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }  // bytes, when it was opened
  // Exactly `nbytes` from `offset`; FormatError when the file ends before (it may have shrunk).
  void read(void* out, std::int64_t nbytes, std::int64_t offset) const;
  // Up to `nbytes` from the start, for recognise().
  std::string head(std::int64_t nbytes = 64) const;

 private:
  std::string path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

// The whole file; FormatError when it is longer than `max_bytes`.
std::string read_file(const std::string& path, std::int64_t max_bytes);

// A file that appears under its name only in commit(): written under a temporary name in the same
// folder, fsync, rename, fsync of the folder. Whatever fails before leaves the old file untouched and
// removes the temporary. A file that is replaced keeps its permissions, a symbolic link keeps pointing
// to its (new) target, and temporaries of writers that were killed are cleared away.
// Errors carry the path and the system's reason. Not for concurrent use of one object.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t nbytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail_errno(const char* doing) const;
  void create_temporary();
  void remove_stale() const;
  void sync_folder() const;

  std::string path_, folder_, prefix_, temporary_;  // prefix_: what temporaries of this file start with
  int fd_ = -1;
};

// For tests: called before each step of a write. Returns the errno to fail with, or 0 to go on; for
// a write it may lower *nbytes to make it short. Null switches it off.
enum class FileStep { create, write, sync, rename, sync_folder };
using FaultHook = int (*)(FileStep step, std::size_t* nbytes);
void set_fault_hook(FaultHook hook);

}  // namespace mantissa::io
