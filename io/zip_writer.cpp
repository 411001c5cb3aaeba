#include <zlib.h>

#include "io/zip.h"
#include "io/zip_format.h"

namespace mantissa::io {
namespace {

template <class T> void put(std::string& s, T value) { s.append(reinterpret_cast<const char*>(&value), sizeof value); }

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view head, std::string_view data) {
  const auto checksum_of = [](std::uint32_t before, std::string_view s) {
    return static_cast<std::uint32_t>(::crc32_z(before, reinterpret_cast<const unsigned char*>(s.data()), s.size()));
  };
  ZipEntry e{.name = name, .checksum = checksum_of(checksum_of(0, head), data), .begin = at_};
  e.packed = e.size = static_cast<std::int64_t>(head.size() + data.size());
  const bool large = e.size >= in_zip64;
  std::string s;
  put(s, local_mark);
  put<std::uint16_t>(s, large ? 45 : 20);  // required version of the format, times ten
  put<std::uint16_t>(s, 0x800);            // names are UTF-8
  put<std::uint16_t>(s, stored);
  put<std::uint32_t>(s, 0x00210000);  // 1 January 1980: makes archives reproducible
  put(s, e.checksum);
  for (int twice = 0; twice < 2; ++twice) put(s, large ? in_zip64 : static_cast<std::uint32_t>(e.size));
  put(s, static_cast<std::uint16_t>(name.size()));
  put<std::uint16_t>(s, large ? 20 : 0);
  s += name;
  if (large) {
    put(s, zip64_field);
    put<std::uint16_t>(s, 16);
    for (int twice = 0; twice < 2; ++twice) put(s, e.size);
  }
  file_.write(s);
  file_.write(head);
  file_.write(data);
  at_ += static_cast<std::int64_t>(s.size()) + e.size;
  entries_.push_back(std::move(e));
}

void ZipWriter::commit() {
  std::string s;
  for (const ZipEntry& e : entries_) {
    std::string extra;
    if (e.size >= in_zip64) put(extra, e.size), put(extra, e.packed);
    if (e.begin >= in_zip64) put(extra, e.begin);
    put(s, central_mark);
    put<std::uint16_t>(s, 45);
    put<std::uint16_t>(s, extra.empty() ? 20 : 45);
    put<std::uint16_t>(s, 0x800);
    put<std::uint16_t>(s, stored);
    put<std::uint32_t>(s, 0x00210000);
    put(s, e.checksum);
    for (int twice = 0; twice < 2; ++twice) put(s, e.size >= in_zip64 ? in_zip64 : static_cast<std::uint32_t>(e.size));
    put(s, static_cast<std::uint16_t>(e.name.size()));
    put(s, static_cast<std::uint16_t>(extra.empty() ? 0 : extra.size() + 4));
    s.append(10, '\0');  // no comment, disk 0, no attributes
    put(s, e.begin >= in_zip64 ? in_zip64 : static_cast<std::uint32_t>(e.begin));
    s += e.name;
    if (!extra.empty()) {
      put(s, zip64_field);
      put(s, static_cast<std::uint16_t>(extra.size()));
      s += extra;
    }
  }
  const auto directory = static_cast<std::int64_t>(s.size()), entries = static_cast<std::int64_t>(entries_.size());
  const bool large = entries >= 0xffff || at_ + directory >= in_zip64;
  if (large) {
    put(s, end64_mark);
    put<std::int64_t>(s, end64_bytes - 12);  // remaining size of the record
    put<std::uint32_t>(s, 45 << 16 | 45);
    s.append(8, '\0');
    put(s, entries), put(s, entries), put(s, directory), put(s, at_);
    put(s, locator64_mark);
    put<std::uint32_t>(s, 0);
    put(s, at_ + directory);
    put<std::uint32_t>(s, 1);
  }
  put(s, end_mark);
  put<std::uint32_t>(s, 0);
  for (int twice = 0; twice < 2; ++twice) put(s, static_cast<std::uint16_t>(large ? 0xffff : entries));
  put(s, large ? in_zip64 : static_cast<std::uint32_t>(directory));
  put(s, large ? in_zip64 : static_cast<std::uint32_t>(at_));
  put<std::uint16_t>(s, 0);
  file_.write(s);
  file_.commit();
}

}  // namespace mantissa::io
