#include "data/token_file.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "data/windows.h"

namespace mantissa::data {
namespace {

static_assert(std::endian::native == std::endian::little);  // the files' byte order

int checked_bytes(const char* who, const TokenFileOptions& o) {
  check(o.bytes == 1 || o.bytes == 2 || o.bytes == 4, who, ": tokens of 1, 2 or 4 bytes, got ", o.bytes);
  return o.bytes;
}

struct Header { std::int32_t magic, version, tokens; };
constexpr std::int64_t header_bytes = 256 * sizeof(std::int32_t);
constexpr struct Kind { std::int32_t magic, version; int bytes; } kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

// Calls f with a value of the unsigned type with that many bytes.
template <class F> void visit_bytes(int bytes, F&& f) {
  if (bytes == 1) f(std::uint8_t{});
  else if (bytes == 2) f(std::uint16_t{});
  else f(std::uint32_t{});
}

}  // namespace

TokenFile::TokenFile(const std::string& path, const TokenFileOptions& options)
    : file_(std::make_shared<io::FileReader>(path)), bytes_(checked_bytes("TokenFile", options)) {
  const std::int64_t whole = file_->size();
  if (whole >= header_bytes) {
    Header h{};
    file_->read(&h, sizeof h, 0);
    for (const Kind& kind : kinds) {
      if (h.magic != kind.magic || h.version != kind.version) continue;
      bytes_ = kind.bytes;
      begin_ = header_bytes;
      size_ = h.tokens;
      if (size_ < 0 || size_ * bytes_ != whole - begin_)
        io::fail_format(path, "its header says ", h.tokens, " tokens of ", bytes_, " bytes, but ", whole - begin_,
                        " bytes follow it");
      return;
    }
  }
  if (whole % bytes_ != 0)
    io::fail_format(path, "its ", whole, " bytes are no whole number of tokens of ", bytes_, " bytes each");
  size_ = whole / bytes_;
}

void TokenFile::read_into(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  visit_bytes(bytes_, [&]<class T>(T) {
    std::vector<T> raw(out.size());
    file_->read(raw.data(), count * bytes_, begin_ + first * bytes_);
    std::copy(raw.begin(), raw.end(), out.begin());
  });
}
Tensor TokenFile::read(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count >= 0 && first <= size_ && count <= size_ - first, "TokenFile: ", count, " tokens from ",
        first, " on are not within its ", size_);
  Tensor t = Tensor::allocate({count}, i64);
  read_into(first, {t.data<std::int64_t>(), static_cast<std::size_t>(count)});
  return t;
}

TextBatch TokenFile::batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const {
  const auto read = [this](std::int64_t begin, std::span<std::int64_t> out) { read_into(begin, out); };
  return Windows("TokenFile", size_, count, length, read).at_random(seed, number);
}
TextBatch TokenFile::windows(std::int64_t first, std::int64_t count, std::int64_t length) const {
  const auto read = [this](std::int64_t begin, std::span<std::int64_t> out) { read_into(begin, out); };
  return Windows("TokenFile", size_, count, length, read).side_by_side(first);
}
std::int64_t TokenFile::windows_of(std::int64_t length) const {
  check(length >= 1, "TokenFile: a window has at least one token, got ", length);
  return size_ > 0 ? (size_ - 1) / length : 0;
}

TokenFile TokenFile::part(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count >= 0 && first <= size_ && count <= size_ - first, "TokenFile: a part of ", count,
        " tokens from ", first, " on is not within its ", size_);
  TokenFile p = *this;
  p.begin_ += first * bytes_;
  p.size_ = count;
  return p;
}

TokenFileSplit split(const TokenFile& tokens, double validation) {
  const std::int64_t cut = first_of_validation(tokens.size(), validation);
  return {tokens.part(0, cut), tokens.part(cut, tokens.size() - cut)};
}

TokenWriter::TokenWriter(const std::string& path, const TokenFileOptions& options)
    : file_(path), bytes_(checked_bytes("TokenWriter", options)) {}

void TokenWriter::append(const Tensor& tokens) {
  check(tokens.defined() && !is_floating(tokens.dtype()) && tokens.dtype() != boolean,
        "TokenWriter: expected integers, got ", tokens);
  const std::vector<std::int64_t> values = tokens.to(cpu).to_vector<std::int64_t>();
  const std::int64_t end = std::int64_t{1} << (8 * bytes_);
  for (const std::int64_t v : values)
    check(v >= 0 && v < end, "TokenWriter: token ", v, " does not fit into ", bytes_, " bytes; pass {.bytes = 4}");
  visit_bytes(bytes_, [&]<class T>(T) {
    const std::vector<T> raw(values.begin(), values.end());
    file_.write(raw.data(), raw.size() * sizeof(T));
  });
  size_ += static_cast<std::int64_t>(values.size());
}
void TokenWriter::commit() { file_.commit(); }

}  // namespace mantissa::data
