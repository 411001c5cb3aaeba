// Sequential bytes of a file, decompressed on the fly if it is gzip. Files are untrusted: allocations never rely on a
// header's claim. bound() limits how much can follow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct z_stream_s;  // zlib's

namespace mantissa::data {

class ByteStream {
 public:
  explicit ByteStream(const std::string& path);  // FormatError if the file is empty or over 1 GiB
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Up to `n` bytes; fewer at the end of the file. FormatError for damaged or truncated gzip data.
  std::int64_t read(void* out, std::int64_t n);
  // Upper bound on the bytes that can still follow.
  std::int64_t bound() const;
  // FormatError unless everything has been read.
  void expect_end();

  const std::string& path() const { return path_; }
  std::string_view head() const { return std::string_view(raw_).substr(0, 64); }  // still compressed

 private:
  std::int64_t copy(unsigned char* to, std::int64_t n);
  std::int64_t unpack(unsigned char* to, std::int64_t n);

  std::string path_, raw_;
  std::unique_ptr<z_stream_s> stream_;
  bool packed_ = false, ended_ = false;
};

}  // namespace mantissa::data
