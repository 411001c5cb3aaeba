// The IDX format: two zero bytes, an element type, a rank, big-endian sizes, then the elements.
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "data/mnist.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

using io::fail_format;

constexpr std::int64_t largest_file = std::int64_t{1} << 30;
constexpr std::int64_t deflate_limit = 1032;  // no deflate stream grows by more

// The bytes of a file, unpacked on the way when it is gzip: a header that promises terabytes is found
// out before they are allocated.
class Bytes {
 public:
  explicit Bytes(const std::string& path) : path_(path), raw_(io::read_file(path, largest_file)) {
    if (raw_.empty()) fail_format(path, "is empty");
    packed_ = raw_.size() >= 2 && raw_[0] == '\x1f' && raw_[1] == '\x8b';
    stream_.next_in = reinterpret_cast<Bytef*>(raw_.data());
    stream_.avail_in = static_cast<uInt>(raw_.size());
    if (packed_) check(::inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK, "zlib cannot start");
  }
  ~Bytes() {
    if (packed_) ::inflateEnd(&stream_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  // Up to `n` bytes; fewer at the end of the file.
  std::int64_t read(void* out, std::int64_t n) {
    auto* to = static_cast<Bytef*>(out);
    std::int64_t done = 0;
    while (done < n && !ended_) {
      const auto chunk = static_cast<uInt>(std::min<std::int64_t>(n - done, largest_file));
      const uInt got = packed_ ? unpack(to + done, chunk) : copy(to + done, chunk);
      done += got;
    }
    return done;
  }
  // The most bytes that can still come.
  std::int64_t bound() const { return stream_.avail_in * (packed_ ? deflate_limit : 1) + 64; }
  std::string_view head() const { return std::string_view(raw_).substr(0, 64); }
  // FormatError unless everything has been read.
  void expect_end() {
    char extra;
    if (read(&extra, 1) != 0) fail_format(path_, "has extra bytes after the data its header promises");
    if (stream_.avail_in != 0)
      fail_format(path_, "has ", stream_.avail_in, " extra bytes after its gzip data");
  }

 private:
  uInt copy(Bytef* to, uInt n) {
    n = std::min(n, stream_.avail_in);
    std::memcpy(to, stream_.next_in, n);
    stream_.next_in += n;
    stream_.avail_in -= n;
    ended_ = stream_.avail_in == 0;
    return n;
  }
  uInt unpack(Bytef* to, uInt n) {
    stream_.next_out = to;
    stream_.avail_out = n;
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    ended_ = status == Z_STREAM_END;
    if (status == Z_OK && (stream_.avail_in > 0 || stream_.avail_out < n)) return n - stream_.avail_out;
    if (status == Z_STREAM_END) return n - stream_.avail_out;
    if (status == Z_DATA_ERROR)
      fail_format(path_, "has damaged gzip data (", stream_.msg ? stream_.msg : "unknown error", ")");
    fail_format(path_, "is truncated: its gzip data end too early");
  }

  std::string path_, raw_;
  z_stream stream_{};
  bool packed_ = false, ended_ = false;
};

std::uint32_t big_endian(const unsigned char* b) {
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

std::string hex(std::uint32_t v) {
  std::string s = "0x00000000";
  for (int i = 9; i > 1; --i, v >>= 4) s[i] = "0123456789abcdef"[v & 15];
  return s;
}

std::uint32_t read_word(Bytes& bytes, const std::string& path) {
  unsigned char b[4];
  if (bytes.read(b, 4) != 4) fail_format(path, "is too short for an IDX file");
  return big_endian(b);
}

}  // namespace

Tensor read_idx(const std::string& path, int rank) {
  Bytes bytes(path);
  if (const char* foreign = io::recognise(bytes.head()); foreign && bytes.head()[0] != '\x1f')
    fail_format(path, "is not an IDX file; it looks like ", foreign);
  const std::uint32_t magic = read_word(bytes, path), expected = 0x800u + static_cast<std::uint32_t>(rank);
  if (magic != expected)
    fail_format(path, "has magic number ", hex(magic), ", expected ", hex(expected), " (bytes, ", rank,
                rank == 1 ? " dimension: labels)" : " dimensions)");
  Dims sizes;
  for (int d = 0; d < rank; ++d) sizes.push_back(read_word(bytes, path));
  std::int64_t promised = 0;
  try {
    promised = checked_nbytes(sizes, u8);
  } catch (const Error& e) {
    fail_format(path, e.what());
  }
  if (promised > bytes.bound())
    fail_format(path, "is truncated: its header promises ", promised,
                " bytes of data, it cannot hold more than ", bytes.bound());
  const Tensor t = Tensor::allocate(sizes, u8);
  const std::int64_t got = bytes.read(t.raw_data(), promised);
  if (got != promised)
    fail_format(path, "is truncated: it has ", got, " bytes of data, its header promises ", promised);
  bytes.expect_end();
  return t;
}

}  // namespace mantissa::data
