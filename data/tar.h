// Walks through the regular files of a tar archive (POSIX ustar, GNU and pax variants), forwards only.
// Nothing is ever written to the disk, and anything but files and folders is refused: a data set has no
// links or devices. Format: POSIX.1-1988 "ustar" interchange format.
#pragma once

#include <cstdint>
#include <string>

#include "data/byte_stream.h"

namespace mantissa::data {

class TarReader {
 public:
  explicit TarReader(ByteStream& bytes) : bytes_(&bytes) {}

  // Goes to the next regular file, past what was not read of the one before. False at the end, which has
  // then been checked down to the last byte. FormatError for a damaged header, a link or a device.
  bool next();
  const std::string& name() const { return name_; }  // as written in the archive: never use it as a path
  std::int64_t size() const { return size_; }        // no more than the archive can still hold
  // Exactly `n` more bytes of this file; FormatError when it or the archive ends before.
  void read(void* out, std::int64_t n);

 private:
  void skip(std::int64_t n);
  void finish();

  ByteStream* bytes_;
  std::string name_;
  std::int64_t size_ = 0, left_ = 0, padding_ = 0;
};

}  // namespace mantissa::data
