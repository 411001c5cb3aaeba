// Iterates over the regular files of a tar archive (POSIX ustar, GNU and pax variants), forwards only. Nothing is ever
// written to disk, and anything but files and folders is rejected: a dataset has no links or devices. Format:
// POSIX.1-1988 "ustar" interchange format.
#pragma once

#include <cstdint>
#include <string>

#include "data/byte_stream.h"

namespace mantissa::data {

class TarReader {
 public:
  explicit TarReader(ByteStream& bytes) : bytes_(&bytes) {}

  // Advances to the next regular file, skipping unread bytes. False at the end, after checking the archive to its last
  // byte. FormatError for a damaged header, a link or a device.
  bool next();
  const std::string& name() const { return name_; }  // as written in the archive: never use it as a path
  std::int64_t size() const { return size_; }        // at most what the archive can still contain
  // Reads exactly `n` more bytes of this file; FormatError if it or the archive ends before.
  void read(void* out, std::int64_t n);

 private:
  void skip(std::int64_t n);
  void finish();

  ByteStream* bytes_;
  std::string name_;
  std::int64_t size_ = 0, left_ = 0, padding_ = 0;
};

}  // namespace mantissa::data
