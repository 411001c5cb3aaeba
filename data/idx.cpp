// The IDX format: two zero bytes, an element type, a rank, big-endian sizes, then the elements.
#include "data/byte_stream.h"
#include "data/mnist.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

using io::fail_format;

std::uint32_t big_endian(const unsigned char* b) {
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

std::string hex(std::uint32_t v) {
  std::string s = "0x00000000";
  for (int i = 9; i > 1; --i, v >>= 4) s[i] = "0123456789abcdef"[v & 15];
  return s;
}

std::uint32_t read_word(ByteStream& bytes, const std::string& path) {
  unsigned char b[4];
  if (bytes.read(b, 4) != 4) fail_format(path, "is too short for an IDX file");
  return big_endian(b);
}

}  // namespace

Tensor read_idx(const std::string& path, int rank) {
  ByteStream bytes(path);
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
