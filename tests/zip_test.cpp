// Zip archives: archives of ZipWriter are read back, and the list of bad archives (Z1 to Z9) is rejected with one
// message.
#include "io/zip.h"

#include <zlib.h>

#include <cstring>
#include <random>

#include "bad_file.h"
#include "catch_compat.h"
#include "temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::ZipReader;
using io::ZipWriter;

namespace {

template <class T> void put(std::string& s, T value) { s.append(reinterpret_cast<const char*>(&value), sizeof value); }

// An archive of one entry, with any inconsistency in it.
struct Archive {
  std::string name = "x", local_name = name, data = "hello", packed = data;
  std::uint16_t method = 0, flags = 0;
  std::uint32_t size = 5, checksum = static_cast<std::uint32_t>(
                              ::crc32(0, reinterpret_cast<const unsigned char*>("hello"), 5));
  std::uint32_t begin = 0, directory = 0;  // 0: as it is
  std::uint16_t entries = 1;
  std::string comment, extra;

  std::string local() const {
    std::string s;
    put<std::uint32_t>(s, 0x04034b50);
    s.append(4, '\0');
    put(s, method);
    s.append(4, '\0');
    put(s, checksum);
    put(s, static_cast<std::uint32_t>(packed.size()));
    put(s, size);
    put(s, static_cast<std::uint16_t>(local_name.size()));
    put<std::uint16_t>(s, 0);
    return s + local_name + packed;
  }
  std::string central() const {
    std::string s;
    put<std::uint32_t>(s, 0x02014b50);
    s.append(4, '\0');
    put(s, flags);
    put(s, method);
    s.append(4, '\0');
    put(s, checksum);
    put(s, static_cast<std::uint32_t>(packed.size()));
    put(s, size);
    put(s, static_cast<std::uint16_t>(name.size()));
    put(s, static_cast<std::uint16_t>(extra.size()));
    s.append(10, '\0');
    put(s, begin);
    return s + name + extra;
  }
  std::string bytes(int copies = 1) const {
    std::string s = local();
    const auto at = static_cast<std::uint32_t>(s.size());
    for (int i = 0; i < copies; ++i) s += central();
    const auto length = static_cast<std::uint32_t>(s.size()) - at;
    put<std::uint32_t>(s, 0x06054b50);
    put<std::uint32_t>(s, 0);
    put(s, entries);
    put(s, entries);
    put(s, length);
    put(s, directory ? directory : at);
    put(s, static_cast<std::uint16_t>(comment.size()));
    return s + comment;
  }
};

std::string read_all(const std::string& path) {
  const ZipReader zip(path);
  std::string all;
  for (const io::ZipEntry& e : zip.entries()) all += zip.read(e);
  return all;
}
void refuses(const std::string& bytes, const std::string& fragment) {
  refuses_bytes([](const std::string& path) { return read_all(path); }, bytes, fragment);
}
std::string accepts(const std::string& bytes) {
  const TempDir dir;
  put_file(dir / "good.zip", bytes);
  return read_all(dir / "good.zip");
}
std::string deflated(const std::string& data) {
  z_stream z{};
  REQUIRE(::deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(::deflateBound(&z, data.size()), '\0');
  z.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<unsigned>(data.size());
  z.next_out = reinterpret_cast<unsigned char*>(out.data());
  z.avail_out = static_cast<unsigned>(out.size());
  REQUIRE(::deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  ::deflateEnd(&z);
  return out;
}
Archive packed(const std::string& data) {
  Archive a;
  a.data = data;
  a.packed = deflated(data);
  a.method = 8;
  a.size = static_cast<std::uint32_t>(data.size());
  a.checksum = static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const unsigned char*>(data.data()), static_cast<unsigned>(data.size())));
  return a;
}

}  // namespace

TEST_CASE("zip: what is written is read back, in its order and by its names") {
  const TempDir dir;
  ZipWriter writer(dir / "a.zip");
  writer.add("b/first", "he", "llo");
  writer.add("a", "", "");
  writer.add("\xc3\xbc", std::string(100'000, 'x'), "y");
  CHECK(dir.files() == 1);  // the temporary one
  writer.commit();
  const ZipReader zip(dir / "a.zip");
  REQUIRE(zip.entries().size() == 3);
  CHECK(zip.entries()[0].name == "b/first");
  CHECK(zip.read(*zip.find("b/first")) == "hello");
  CHECK(zip.read(*zip.find("a")) == "");
  CHECK(zip.read(*zip.find("\xc3\xbc")) == std::string(100'000, 'x') + "y");
  CHECK(zip.find("c") == nullptr);
}

TEST_CASE("zip: an archive without entries, one with a comment, and deflated entries are read") {
  const TempDir dir;
  ZipWriter(dir / "empty.zip").commit();
  CHECK(ZipReader(dir / "empty.zip").entries().empty());
  Archive a;
  CHECK(accepts(a.bytes()) == "hello");
  a.comment = std::string("PK\5\6") + std::string(40, 'c');  // looks like an end, and is none
  CHECK(accepts(a.bytes()) == "hello");
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += static_cast<char>('a' + i % 1000 * i % 17);
  CHECK(accepts(packed(text).bytes()) == text);
  CHECK(accepts(packed("").bytes()) == "");
  CHECK(accepts(packed(std::string(3 << 20, 'z')).bytes()).size() == 3 << 20);
}

TEST_CASE("zip: what is no archive, or lies about its directory, is refused") {
  refuses("", "too short");
  refuses(std::string(100, 'x'), "is no zip archive");
  refuses("<!DOCTYPE html><html>" + std::string(50, ' '), "HTML page");
  Archive a;
  const std::string good = a.bytes();
  for (std::size_t n = 0; n < good.size(); ++n) refuses(good.substr(0, n), n < 22 ? "too short" : "is no zip archive");
  a.directory = 0x7fffffff;
  refuses(a.bytes(), "its zip directory lies at");
  a = {};
  a.entries = 2;
  refuses(a.bytes(), "zip directory is");
  a.entries = 0;
  refuses(a.bytes(), "more than the 0 entries");
  a = {};
  a.entries = 0xffff;  // says that there is a zip64 directory
  refuses(a.bytes(), "zip64 directory is missing");
}

TEST_CASE("zip: entries that overlap, are there twice, or are not where the directory says are refused") {
  Archive a;
  a.entries = 2;
  refuses(a.bytes(2), "overlaps what follows");
  a = {};
  a.begin = 3;
  refuses(a.bytes(), "overlaps");
  a = {};
  a.local_name = "y";
  refuses(a.bytes(), "is not what the zip directory says");
  a = {};
  a.size = 6;
  refuses(a.bytes(), "says that 5 bytes hold 6");
  a = {};
  a.begin = 0xffffffff;
  put<std::uint16_t>(a.extra, 1);
  put<std::uint16_t>(a.extra, 8);
  put<std::uint64_t>(a.extra, std::uint64_t{1} << 63);  // a zip64 size
  refuses(a.bytes(), "a number of its zip directory is");
  a.extra = std::string("\1\0\10\0", 4);
  refuses(a.bytes(), "cut short");
}

TEST_CASE("zip: an archive without any checksums is read, as PyTorch writes one with set_crc32_options(False)") {
  Archive a;
  a.checksum = 0;
  CHECK(accepts(a.bytes()) == "hello");
}

TEST_CASE("zip: wrong checksums, damaged and endless data, encryption and other methods are refused") {
  Archive a;
  a.checksum ^= 1;
  refuses(a.bytes(), "its checksum is wrong");
  a = {};
  a.flags = 1;
  refuses(a.bytes(), "is encrypted");
  a = {};
  a.method = 14;
  refuses(a.bytes(), "is packed by method 14");
  a = packed("hello hello hello");
  a.packed.resize(a.packed.size() - 2);
  refuses(a.bytes(), "is damaged");
  a = packed(std::string(100'000, 'x'));
  a.size = 1000;  // unpacks to more than it promises
  refuses(a.bytes(), "is damaged");
  a.size = 100'001;
  refuses(a.bytes(), "is damaged");
  a.size = 0x7fffffff;  // more than deflate can pack into so few bytes
  refuses(a.bytes(), "says that");
  a = packed("hello");
  a.packed += "rest";
  refuses(a.bytes(), "is damaged");
}

TEST_CASE("zip: mutated archives are read or refused, and nothing else") {
  const unsigned seed = 20261122;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string plain = Archive().bytes(), small = packed(std::string(200, 'q')).bytes();
  const TempDir dir;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = i % 2 ? plain : small;
    for (int n = 0; n < 1 + i % 3; ++n) bytes[random() % bytes.size()] = static_cast<char>(random());
    put_file(dir / "m.zip", bytes);
    try {
      read_all(dir / "m.zip");
    } catch (const FormatError&) {
    }
  }
}
