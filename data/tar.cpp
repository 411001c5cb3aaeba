// Blocks of 512 bytes: a header with sizes in octal text and a checksum, then the file, padded to a block.
#include "data/tar.h"

#include <algorithm>
#include <string_view>

#include "io/file.h"

namespace mantissa::data {
namespace {

using io::fail_format;

constexpr std::int64_t block = 512;

struct Header {
  char bytes[block];
  std::string_view field(int at, int length) const {
    const std::string_view text(bytes + at, static_cast<std::size_t>(length));
    return text.substr(0, std::min(text.find('\0'), text.size()));
  }
  std::string name() const {
    const std::string_view prefix = field(257, 5) == "ustar" ? field(345, 155) : "";
    return prefix.empty() ? std::string(field(0, 100)) : concat(std::string(prefix), "/", std::string(field(0, 100)));
  }
  char type() const { return bytes[156]; }
  bool is_zero() const { return std::all_of(bytes, bytes + block, [](char c) { return c == 0; }); }
  std::int64_t sum() const {  // of all bytes, with those of the checksum counted as spaces
    std::int64_t s = 0;
    for (int i = 0; i < block; ++i) s += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(bytes[i]);
    return s;
  }
};

// An octal number surrounded by spaces, or -1.
std::int64_t octal(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || text.size() > 12) return -1;
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '7') return -1;
    value = value * 8 + (c - '0');
  }
  return value;
}

}  // namespace

bool TarReader::next() {
  while (true) {
    skip(left_ + padding_);
    left_ = padding_ = 0;
    Header h;
    const std::int64_t got = bytes_->read(h.bytes, block);
    if (got == 0) return false;  // some writers omit the closing blocks
    if (got < block) fail_format(bytes_->path(), "is truncated inside a tar header");
    if (h.is_zero()) {
      finish();
      return false;
    }
    if (octal(h.field(148, 8)) != h.sum())
      fail_format(bytes_->path(), "is not a tar archive, or a header of it is damaged");
    name_ = h.name();
    size_ = octal(h.field(124, 12));
    if (size_ < 0 || size_ > bytes_->bound())
      fail_format(bytes_->path(), "is truncated or damaged: the size of ", io::quote(name_), " is not possible");
    left_ = size_;
    padding_ = (block - size_ % block) % block;
    switch (h.type()) {
      case '0': case '\0': return true;
      case '5': case 'x': case 'g': continue;  // folders and extended headers: skipped
      case '1': case '2': fail_format(bytes_->path(), "holds a link, ", io::quote(name_), ": refused");
      default:
        fail_format(bytes_->path(), "holds ", io::quote(name_), ", which is neither a file nor a folder: refused");
    }
  }
}

void TarReader::read(void* out, std::int64_t n) {
  if (n > left_) fail_format(bytes_->path(), io::quote(name_), " ends ", n - left_, " bytes too early");
  if (bytes_->read(out, n) != n) fail_format(bytes_->path(), "is truncated inside ", io::quote(name_));
  left_ -= n;
}

void TarReader::skip(std::int64_t n) {
  char buffer[16384];
  while (n > 0) {
    const std::int64_t chunk = std::min<std::int64_t>(n, sizeof buffer);
    if (bytes_->read(buffer, chunk) != chunk) fail_format(bytes_->path(), "is truncated inside ", io::quote(name_));
    n -= chunk;
  }
}

void TarReader::finish() {  // only zeros may follow; reading them makes zlib verify its checksum
  char buffer[16384];
  while (const std::int64_t got = bytes_->read(buffer, sizeof buffer))
    for (std::int64_t i = 0; i < got; ++i)
      if (buffer[i] != 0) fail_format(bytes_->path(), "has data after the end of the tar archive");
  bytes_->expect_end();
}

}  // namespace mantissa::data
