#include "io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "io/zip_format.h"

namespace mantissa::io {
namespace {

constexpr std::int64_t most_entries = 1'000'000, most_directory_bytes = 256 << 20, longest_comment = 65535;
constexpr std::int64_t best_ratio = 1032;  // maximum expansion factor of deflate

// Reads consecutive little-endian numbers, without bounds checks.
class Fields {
 public:
  Fields(const FileReader& file, std::string_view bytes) : file_(file), bytes_(bytes) {}
  template <class T> T take() {
    T value;
    std::memcpy(&value, take_text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take_text(std::size_t n) {
    if (n > bytes_.size()) fail_format(file_.path(), "its zip directory is cut short");
    const std::string_view text = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return text;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  const FileReader& file_;
  std::string_view bytes_;
};

struct Directory {
  std::int64_t begin, bytes, entries;
};

std::string text_at(const FileReader& file, std::int64_t offset, std::int64_t nbytes) {
  std::string text(static_cast<std::size_t>(nbytes), '\0');
  file.read(text.data(), nbytes, offset);
  return text;
}

// Converts a 64-bit field to std::int64_t, checking its limit.
std::int64_t bounded(const FileReader& file, std::uint64_t n, std::int64_t most, const char* what) {
  if (n > static_cast<std::uint64_t>(most))
    fail_format(file.path(), what, " of its zip directory is ", n, ", at most ", most);
  return static_cast<std::int64_t>(n);
}

Directory find_directory(const FileReader& file) {
  const std::int64_t tail = std::min(file.size(), end_bytes + longest_comment);
  const std::string text = text_at(file, file.size() - tail, tail);
  std::int64_t at = tail - end_bytes;
  const auto is_end = [&](std::int64_t i) {  // its comment must extend to the end of the file
    std::uint32_t mark;
    std::uint16_t comment;
    std::memcpy(&mark, text.data() + i, sizeof mark);
    std::memcpy(&comment, text.data() + i + end_bytes - 2, sizeof comment);
    return mark == end_mark && i + end_bytes + comment == tail;
  };
  while (at >= 0 && !is_end(at)) --at;
  if (at < 0) {
    const char* foreign = recognise(file.head());
    fail_format(file.path(), "is no zip archive, or a truncated one",
                foreign ? concat("; it looks like ", foreign) : "");
  }
  const std::int64_t end = file.size() - tail + at;
  Fields f(file, std::string_view(text).substr(static_cast<std::size_t>(at) + 4));
  const auto disk = f.take<std::uint16_t>(), first_disk = f.take<std::uint16_t>();
  f.take<std::uint16_t>();
  const auto entries = f.take<std::uint16_t>();
  const auto bytes = f.take<std::uint32_t>(), begin = f.take<std::uint32_t>();
  Directory d{begin, bytes, entries};
  if (bytes == in_zip64 || begin == in_zip64 || entries == 0xffff || disk == 0xffff) {
    if (end < locator64_bytes) fail_format(file.path(), "its zip64 directory is missing");
    const std::string locator = text_at(file, end - locator64_bytes, locator64_bytes);
    Fields l(file, locator);
    if (l.take<std::uint32_t>() != locator64_mark) fail_format(file.path(), "its zip64 directory is missing");
    l.take<std::uint32_t>();
    const std::int64_t place = bounded(file, l.take<std::uint64_t>(), end, "the place");
    const std::string record = text_at(file, place, end64_bytes);
    Fields r(file, record);
    if (r.take<std::uint32_t>() != end64_mark) fail_format(file.path(), "its zip64 directory is missing");
    r.take_text(8 + 2 + 2 + 4 + 4 + 8);
    d.entries = bounded(file, r.take<std::uint64_t>(), most_entries, "the number of entries");
    d.bytes = bounded(file, r.take<std::uint64_t>(), file.size(), "the size");
    d.begin = bounded(file, r.take<std::uint64_t>(), file.size(), "the place");
  } else if (disk != 0 || first_disk != 0) {
    fail_format(file.path(), "is part of a zip archive of several files");
  }
  if (d.bytes > most_directory_bytes || d.begin > end || d.bytes > end - d.begin)
    fail_format(file.path(), "its zip directory lies at ", d.begin, " with ", d.bytes, " bytes, in a file of ",
                file.size());
  return d;
}

// Reads those of these numbers that did not fit into 32 bits, in this order.
void take_zip64(const FileReader& file, std::string_view extra, std::initializer_list<std::int64_t*> numbers) {
  if (std::ranges::none_of(numbers, [](const std::int64_t* n) { return *n == in_zip64; })) return;
  Fields all(file, extra);
  while (!all.empty()) {
    const auto id = all.take<std::uint16_t>();
    Fields field(file, all.take_text(all.take<std::uint16_t>()));
    if (id != zip64_field) continue;
    for (std::int64_t* n : numbers) {
      if (*n != in_zip64) continue;
      *n = bounded(file, field.take<std::uint64_t>(), std::numeric_limits<std::int64_t>::max() / 2, "a number");
    }
    return;
  }
}

ZipEntry take_entry(const FileReader& file, Fields& f) {
  if (f.take<std::uint32_t>() != central_mark) fail_format(file.path(), "its zip directory is damaged");
  ZipEntry e;
  f.take_text(4);
  const auto flags = f.take<std::uint16_t>(), method = f.take<std::uint16_t>();
  f.take_text(4);
  e.checksum = f.take<std::uint32_t>();
  e.packed = f.take<std::uint32_t>();
  e.size = f.take<std::uint32_t>();
  const auto name = f.take<std::uint16_t>(), extra = f.take<std::uint16_t>(), comment = f.take<std::uint16_t>();
  f.take_text(8);
  e.begin = f.take<std::uint32_t>();
  e.name = f.take_text(name);
  take_zip64(file, f.take_text(extra), {&e.size, &e.packed, &e.begin});
  f.take_text(comment);
  e.deflated = method == deflate;
  if (flags & 1) fail_format(file.path(), "entry ", quote(e.name), " is encrypted");
  if (method != stored && method != deflate)
    fail_format(file.path(), "entry ", quote(e.name), " is packed by method ", method,
                "; only stored and deflated entries are read");
  const bool possible = e.deflated ? e.size / best_ratio <= e.packed : e.size == e.packed;
  if (!possible || e.packed > file.size())
    fail_format(file.path(), "entry ", quote(e.name), " says that ", e.packed, " bytes hold ", e.size);
  return e;
}

// Inflates raw deflate data; false if they are damaged or have another size.
bool inflate_all(const FileReader& file, std::int64_t offset, const ZipEntry& e, unsigned char* out) {
  z_stream z{};
  check(::inflateInit2(&z, -MAX_WBITS) == Z_OK, "zlib cannot start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ending(&z, &::inflateEnd);
  std::string packed(static_cast<std::size_t>(std::min<std::int64_t>(e.packed, 1 << 20)), '\0');
  std::int64_t read = 0, made = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (z.avail_in == 0 && read < e.packed) {
      const std::int64_t n = std::min<std::int64_t>(static_cast<std::int64_t>(packed.size()), e.packed - read);
      file.read(packed.data(), n, offset + read);
      read += n;
      z.next_in = reinterpret_cast<unsigned char*>(packed.data());
      z.avail_in = static_cast<unsigned>(n);
    }
    unsigned char beyond;  // receives data beyond the stated size
    const std::int64_t room = std::min<std::int64_t>(e.size - made, 1 << 30);
    z.next_out = room > 0 ? out + made : &beyond;
    z.avail_out = room > 0 ? static_cast<unsigned>(room) : 1;
    const unsigned before = z.avail_out;
    status = ::inflate(&z, Z_NO_FLUSH);
    made += before - z.avail_out;
    if (made > e.size) return false;
    if (status == Z_OK && before == z.avail_out && z.avail_in == 0 && read == e.packed) return false;
  }
  return status == Z_STREAM_END && made == e.size && read == e.packed && z.avail_in == 0;
}

std::string_view name_of_entry(const ZipEntry* e) { return e->name; }

}  // namespace

ZipReader::ZipReader(const std::string& path) : file_(path) { read_directory(); }

void ZipReader::read_directory() {
  if (file_.size() < end_bytes) fail_format(path(), "is too short for a zip archive: ", file_.size(), " bytes");
  const Directory d = find_directory(file_);
  const std::string text = text_at(file_, d.begin, d.bytes);
  if (d.entries > d.bytes / central_bytes) fail_format(path(), "its zip directory is cut short");
  Fields f(file_, text);
  for (std::int64_t i = 0; i < d.entries; ++i) entries_.push_back(take_entry(file_, f));
  has_checksums_ = std::ranges::any_of(entries_, [](const ZipEntry& e) { return e.checksum != 0; });
  if (!f.empty()) fail_format(path(), "its zip directory has more than the ", d.entries, " entries it promises");
  std::ranges::sort(entries_, {}, &ZipEntry::begin);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    ZipEntry& e = entries_[i];
    e.end = i + 1 < entries_.size() ? entries_[i + 1].begin : d.begin;
    const std::int64_t least = local_bytes + static_cast<std::int64_t>(e.name.size()) + e.packed;
    if (e.begin > e.end || least > e.end - e.begin)
      fail_format(path(), "entry ", quote(e.name), " overlaps what follows it");
  }
  for (const ZipEntry& e : entries_) by_name_.push_back(&e);
  std::ranges::sort(by_name_, {}, name_of_entry);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of_entry);
  if (twice != by_name_.end()) fail_format(path(), "has two entries of the name ", quote((*twice)->name));
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(by_name_, name, {}, name_of_entry);
  return at != by_name_.end() && (*at)->name == name ? *at : nullptr;
}

void ZipReader::read(const ZipEntry& e, void* out) const {
  const std::string header = text_at(file_, e.begin, local_bytes);
  Fields f(file_, header);
  const bool marked = f.take<std::uint32_t>() == local_mark;
  f.take_text(4);
  const auto method = f.take<std::uint16_t>();
  f.take_text(16);
  const auto name = f.take<std::uint16_t>(), extra = f.take<std::uint16_t>();
  const std::int64_t data = e.begin + local_bytes + name + extra;
  if (!marked || method != (e.deflated ? deflate : stored) || data > e.end || e.packed > e.end - data ||
      text_at(file_, e.begin + local_bytes, name) != e.name)
    fail_format(path(), "entry ", quote(e.name), " is not what the zip directory says");
  auto* bytes = static_cast<unsigned char*>(out);
  if (!e.deflated) file_.read(bytes, e.size, data);
  else if (!inflate_all(file_, data, e, bytes)) fail_format(path(), "entry ", quote(e.name), " is damaged");
  if (!has_checksums_) return;  // as PyTorch writes them after set_crc32_options(False)
  const auto checksum = static_cast<std::uint32_t>(::crc32_z(0, bytes, static_cast<std::size_t>(e.size)));
  if (checksum != e.checksum) fail_format(path(), "entry ", quote(e.name), " is damaged: its checksum is wrong");
}

std::string ZipReader::read(const ZipEntry& entry) const {
  std::string out(static_cast<std::size_t>(entry.size), '\0');
  read(entry, out.data());
  return out;
}

}  // namespace mantissa::io
