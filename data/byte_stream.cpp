// A thin layer over zlib: decompresses a file in memory into the caller's buffers.
#include "data/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "io/file.h"

namespace mantissa::data {
namespace {

using io::fail_format;

constexpr std::int64_t largest_file = std::int64_t{1} << 30;
constexpr std::int64_t deflate_limit = 1032;  // maximum expansion factor of deflate

}  // namespace

ByteStream::ByteStream(const std::string& path)
    : path_(path), raw_(io::read_file(path, largest_file)), stream_(std::make_unique<z_stream_s>()) {
  if (raw_.empty()) fail_format(path, "is empty");
  packed_ = raw_.size() >= 2 && raw_[0] == '\x1f' && raw_[1] == '\x8b';
  stream_->next_in = reinterpret_cast<Bytef*>(raw_.data());
  stream_->avail_in = static_cast<uInt>(raw_.size());
  if (packed_) check(::inflateInit2(stream_.get(), 16 + MAX_WBITS) == Z_OK, "zlib cannot start");
}

ByteStream::~ByteStream() {
  if (packed_) ::inflateEnd(stream_.get());
}

std::int64_t ByteStream::read(void* out, std::int64_t n) {
  auto* to = static_cast<Bytef*>(out);
  std::int64_t done = 0;
  while (done < n && !ended_) {
    const std::int64_t chunk = std::min(n - done, largest_file);
    done += packed_ ? unpack(to + done, chunk) : copy(to + done, chunk);
  }
  return done;
}

std::int64_t ByteStream::bound() const { return stream_->avail_in * (packed_ ? deflate_limit : 1) + 64; }

void ByteStream::expect_end() {
  char extra;
  if (read(&extra, 1) != 0) fail_format(path_, "has extra bytes after the data its header promises");
  if (stream_->avail_in != 0)
    fail_format(path_, "has ", stream_->avail_in, " extra bytes after its gzip data");
}

std::int64_t ByteStream::copy(unsigned char* to, std::int64_t n) {
  const auto count = std::min(static_cast<uInt>(n), stream_->avail_in);
  std::memcpy(to, stream_->next_in, count);
  stream_->next_in += count;
  stream_->avail_in -= count;
  ended_ = stream_->avail_in == 0;
  return count;
}

std::int64_t ByteStream::unpack(unsigned char* to, std::int64_t n) {
  stream_->next_out = to;
  stream_->avail_out = static_cast<uInt>(n);
  const int status = ::inflate(stream_.get(), Z_NO_FLUSH);
  ended_ = status == Z_STREAM_END;
  const std::int64_t got = n - stream_->avail_out;
  if (status == Z_STREAM_END || (status == Z_OK && (stream_->avail_in > 0 || got > 0))) return got;
  if (status == Z_DATA_ERROR)
    fail_format(path_, "has damaged gzip data (", stream_->msg ? stream_->msg : "unknown error", ")");
  fail_format(path_, "is truncated: its gzip data end too early");
}

}  // namespace mantissa::data
