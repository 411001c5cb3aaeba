// File input and output. Reading is defensive: only regular files; a read returns every byte requested or throws.
// Writing is all or nothing: the old file stays until the new one is complete and on disk. Next: io/safetensors.h,
// io/checkpoint.h.
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

// A string from a file made safe for messages: quoted, truncated, control characters and invalid UTF-8 escaped.
std::string quote(std::string_view text);

// Describes what a file with these first bytes is if it is not the expected format ("an HTML page, ..."), or null. For
// broken downloads, which are common.
const char* recognise(std::string_view first_bytes);

// A regular file opened for reading. Opening a folder, a pipe or a device is an Error, and never blocks.
class FileReader {
 public:
  explicit FileReader(const std::string& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }  // bytes, at the time of opening
  // Exactly `nbytes` from `offset`; FormatError if the file ends before (it may have shrunk).
  void read(void* out, std::int64_t nbytes, std::int64_t offset) const;
  // Up to `nbytes` from the start, for recognise().
  std::string head(std::int64_t nbytes = 64) const;

 private:
  std::string path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

// The whole file; FormatError if it is longer than `max_bytes`.
std::string read_file(const std::string& path, std::int64_t max_bytes);

// A file that appears under its name only in commit(): written to a temporary file in the same folder, then fsync,
// rename, fsync of the folder. Any failure before that leaves the old file untouched and removes the temporary. A
// replaced file keeps its permissions, a symbolic link keeps pointing to its (new) target, and temporaries left by
// killed writers are removed. Errors contain the path and the system's reason. Not thread-safe.
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
  void abandon();  // keeps errno
  void create_temporary();
  void remove_stale() const;
  void sync_folder() const;

  std::string path_, folder_, prefix_, temporary_;  // prefix_: common prefix of this file's temporaries
  int fd_ = -1;
};

// For tests: called before each step of a write. Returns the errno to fail with, or 0 to continue; for a write it may
// lower *nbytes to make it short. Null disables it.
enum class FileStep { create, write, sync, rename, sync_folder };
using FaultHook = int (*)(FileStep step, std::size_t* nbytes);
void set_fault_hook(FaultHook hook);

}  // namespace mantissa::io
