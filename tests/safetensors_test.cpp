// safetensors: round trips, every entry of the list of bad files by its name (S1 to S30), mutations. The property
// behind them all: a file gives a complete set of tensors or one FormatError that names it.
#include "io/safetensors.h"

#include <sys/stat.h>

#include <cstring>
#include <random>

#include "bad_file.h"
#include "catch_compat.h"
#include "io/safetensors_header.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::load_safetensors;
using io::save_safetensors;

namespace {

std::string length_bytes(std::uint64_t n) { return {reinterpret_cast<const char*>(&n), 8}; }
std::string file_of(const std::string& header, const std::string& data = "") {
  return length_bytes(header.size()) + header + data;
}
std::string tensor_entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}

void refuses(const std::string& bytes, const std::string& fragment) {
  refuses_bytes([](const std::string& path) { return load_safetensors(path); }, bytes, fragment);
}
io::Safetensors accepts(const std::string& bytes) {
  const TempDir dir;
  put_file(dir / "good.safetensors", bytes);
  return load_safetensors(dir / "good.safetensors");
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.nbytes())) == 0;
}

Tensor filled(const Dims& sizes, Dtype dtype, int salt) {
  const Tensor t = Tensor::allocate(sizes, dtype);
  auto* bytes = static_cast<unsigned char*>(t.raw_data());
  for (std::int64_t i = 0; i < t.nbytes(); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == boolean ? (i + salt) % 2 : i * 37 + salt);
  return t;
}

NamedTensors every_dtype() {
  NamedTensors named;
  int salt = 0;
  for (const Dtype t : {f64, f32, f16, bf16, i64, i32, u8, boolean})
    named.emplace_back(std::string("layer.") + name_of(t), filled({2, 3}, t, ++salt));
  return named;
}

}  // namespace

TEST_CASE("safetensors: every dtype, scalars and empty tensors come back bit for bit") {
  const TempDir dir;
  NamedTensors named = every_dtype();
  named.emplace_back("scalar", filled({}, f32, 1));
  named.emplace_back("empty", filled({0, 3}, f64, 1));
  named.emplace_back("eight dimensions", filled({1, 2, 1, 2, 1, 2, 1, 2}, u8, 1));
  named.emplace_back("\xC3\xBC \"quoted\" \\ \n", filled({1}, u8, 2));
  const io::Metadata metadata{{"who", "me"}, {"json", "{\"a\": [1]}"}, {"", ""}};
  save_safetensors(dir / "a", named, metadata);
  const io::Safetensors loaded = load_safetensors(dir / "a");
  CHECK(loaded.metadata == metadata);
  CHECK(loaded.notices.empty());
  REQUIRE(loaded.tensors.size() == named.size());
  for (const auto& [name, t] : loaded.tensors) {
    INFO(name);
    bool found = false;
    for (const auto& [n, original] : named) if (n == name) found = same(t, original);
    CHECK(found);
    CHECK(same(loaded[name], io::tensor_named(named, name)));
  }
  CHECK_THROWS_WITH(loaded["scalr"], Catch::Matchers::Contains("there is no tensor \"scalr\"") &&
                                         Catch::Matchers::Contains("did you mean \"scalar\"?"));
}

TEST_CASE("safetensors: files come out as the reference writes them, byte for byte") {
  const TempDir dir;
  const auto ones = [](Dtype dtype) {
    const Tensor t = Tensor::allocate({1}, dtype);
    std::memset(t.raw_data(), 1, size_of(dtype));
    return t;
  };
  NamedTensors named;
  for (const Dtype t : {boolean, u8, f16, bf16, i32, f32, f64, i64}) named.emplace_back(name_of(t), ones(t));
  named.emplace_back("a", ones(f32));
  save_safetensors(dir / "f", named);
  std::string order;
  for (const auto& [name, t] : load_safetensors(dir / "f").tensors) order += name + " ";
  CHECK(order == "i64 f64 a f32 i32 bf16 f16 u8 bool ");

  save_safetensors(dir / "f", {{"b", ones(u8)}, {"a", ones(u8)}}, {{"k", "v"}});
  std::string header = "{\"__metadata__\":{\"k\":\"v\"}," + tensor_entry("a", "U8", "[1]", "[0,1]") + "," +
                       tensor_entry("b", "U8", "[1]", "[1,2]") + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  CHECK(get_file(dir / "f") == file_of(header, "\1\1"));
}

TEST_CASE("safetensors: views are written as their elements") {
  const TempDir dir;
  const Tensor base = filled({4, 6}, i32, 3);
  const Tensor columns = base.as_strided({4, 2}, {6, 3}, 1);
  save_safetensors(dir / "a", {{"v", columns}});
  const Tensor back = load_safetensors(dir / "a").tensors[0].second;
  REQUIRE(back.sizes() == Dims{4, 2});
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 2; ++c)
      CHECK(back.data<std::int32_t>()[r * 2 + c] == base.data<std::int32_t>()[r * 6 + 1 + c * 3]);
}

TEST_CASE("safetensors: the writer refuses what no reader could take, and leaves the file alone") {
  const TempDir dir;
  const Tensor t = filled({2}, f32, 0);
  save_safetensors(dir / "a", {{"x", t}});
  const std::string before = get_file(dir / "a");
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{"x", t}, {"x", t}}), Contains("given twice"));
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{"x", t}}, {{"k", "1"}, {"k", "2"}}),
                    Contains("given twice"));
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{"", t}}), Contains("cannot be saved under the name"));
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{"__metadata__", t}}),
                    Contains("cannot be saved under the name"));
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{"x", Tensor()}}), Contains("undefined"));
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{"\xFF", t}}), Contains("not valid UTF-8"));
  CHECK_THROWS_WITH(save_safetensors(dir / "a", {{std::string(70000, 'n'), t}}), Contains("too long"));
  CHECK(get_file(dir / "a") == before);
  CHECK(dir.files() == 1);
}

TEST_CASE("safetensors: narrow integers widen, F8 comes as bytes with a notice") {
  const io::Safetensors s = accepts(file_of(
      "{" + tensor_entry("a", "I8", "[2]", "[0,2]") + "," + tensor_entry("b", "U16", "[1]", "[2,4]") + "," +
          tensor_entry("c", "U32", "[1]", "[4,8]") + "," + tensor_entry("d", "F8_E4M3", "[2]", "[8,10]") +
          "," + tensor_entry("e", "I16", "[1]", "[10,12]") + "," +
          tensor_entry("f", "U64", "[1]", "[12,20]") + "}",
      std::string("\xFF\x02\xFF\xFF\xFF\xFF\xFF\xFF\x38\x40\xFE\xFF\x05\0\0\0\0\0\0\0", 20)));
  CHECK(s.tensors[0].second.to_vector<int>() == std::vector<int>{-1, 2});
  CHECK(s.tensors[1].second.to_vector<int>() == std::vector<int>{65535});
  CHECK(s.tensors[2].second.data<std::int64_t>()[0] == 4294967295);
  CHECK(s.tensors[3].second.dtype() == u8);
  CHECK(s.tensors[4].second.to_vector<int>() == std::vector<int>{-2});
  CHECK(s.tensors[5].second.data<std::int64_t>()[0] == 5);
  REQUIRE(s.notices.size() == 1);
  CHECK(s.notices[0] == "d: F8_E4M3 loaded as raw u8 bytes");
  refuses(file_of("{" + tensor_entry("f", "U64", "[1]", "[0,8]") + "}", std::string(8, '\xFF')),
          "does not fit i64");
}

TEST_CASE("S1: files of 0 to 7 bytes") {
  for (std::size_t n = 0; n < 8; ++n) refuses(std::string(n, '\x02'), "too short");
}
TEST_CASE("S2: header length 0") { refuses(length_bytes(0) + "{}", "header length is 0"); }
TEST_CASE("S3: header length 2^64-1") {
  refuses(length_bytes(~std::uint64_t{0}) + "{}", "header length is 18446744073709551615");
}
TEST_CASE("S4: header one byte longer than the file") {
  refuses(length_bytes(3) + "{}", "header length is 3");
}
TEST_CASE("S5: a header over the cap in a sparse file") {
  const TempDir dir;
  put_file(dir / "sparse", length_bytes(100'000'001) + "{");
  std::filesystem::resize_file(dir / "sparse", 200'000'000);
  CHECK_THROWS_WITH(load_safetensors(dir / "sparse"), Contains("at most 10000000 are allowed"));
}
TEST_CASE("S6: header does not start with {") {
  refuses(file_of("[]"), "does not start with '{'");
  refuses(file_of(" {}"), "does not start with '{'");
}
TEST_CASE("S7: header is not UTF-8") { refuses(file_of("{\"\xFF\":1}"), "not valid UTF-8"); }
TEST_CASE("S8: garbage after the header's JSON") {
  refuses(file_of("{}x"), "not valid JSON");
  refuses(file_of("{}{}"), "not valid JSON");
  refuses(file_of(std::string("{}\0x", 4)), "not valid JSON");
}
TEST_CASE("S9: nested a hundred thousand times") {
  refuses(file_of("{\"a\":" + std::string(100'000, '[')), "expected an object, found an array");
  std::string objects = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) objects += "{\"dtype\":";
  refuses(file_of(objects), "expected a string for dtype, found an object");
}
TEST_CASE("S10: duplicate keys") {
  const std::string a = tensor_entry("a", "U8", "[1]", "[0,1]");
  refuses(file_of("{" + a + "," + tensor_entry("a", "U8", "[1]", "[1,2]") + "}", "xx"),
          "duplicate name \"a\"");
  refuses(file_of("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x"),
          "duplicate name \"dtype\"");
  refuses(file_of("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), "duplicate name \"k\"");
  refuses(file_of("{\"__metadata__\":{},\"__metadata__\":{}}"), "duplicate name");
}
TEST_CASE("S11: unknown dtype") {
  for (const char* dtype : {"F4", "C64", "f32", "", "F32 "})
    refuses(file_of("{" + tensor_entry("a", dtype, "[1]", "[0,1]") + "}", "x"), "is not supported");
}
TEST_CASE("S12: dtype is not a string, and other fields of the wrong type") {
  const auto with = [](const std::string& fields) { return file_of("{\"a\":{" + fields + "}}", "x"); };
  refuses(with("\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]"),
          "expected a string for dtype, found a number");
  refuses(with("\"dtype\":null,\"shape\":[1],\"data_offsets\":[0,1]"), "found null");
  refuses(with("\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]"), "expected whole numbers for shape");
  refuses(with("\"dtype\":\"U8\",\"shape\":[true],\"data_offsets\":[0,1]"), "found true or false");
  refuses(with("\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]"), "found a string");
  refuses(with("\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]"), "found an array");
  refuses(with("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}"), "found an object");
  refuses(with("\"dtype\":\"U8\",\"shape\":[1]"), "has no data_offsets");
  refuses(with("\"shape\":[1],\"data_offsets\":[0,1]"), "has no dtype");
  refuses(with("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), "has no shape");
  refuses(with("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1"), "unknown field \"more\"");
  refuses(file_of("{\"a\":1}"), "expected an object, found a number");
}
TEST_CASE("S13: offsets reversed") {
  refuses(file_of("{" + tensor_entry("a", "U8", "[1]", "[1,0]") + "}", "x"), "end before they begin");
}
TEST_CASE("S14: a gap in the data") {
  refuses(file_of("{" + tensor_entry("a", "U8", "[1]", "[1,2]") + "}", "xx"), "have a gap");
}
TEST_CASE("S15: overlapping tensors") {
  refuses(file_of("{" + tensor_entry("a", "U8", "[2]", "[0,2]") + "," +
                      tensor_entry("b", "U8", "[2]", "[1,3]") + "}",
                  "xxx"),
          "overlap");
  refuses(file_of("{" + tensor_entry("a", "U8", "[2]", "[0,2]") + "," +
                      tensor_entry("b", "U8", "[2]", "[0,2]") + "}",
                  "xx"),
          "overlap");
}
TEST_CASE("S16: the last tensor does not end where the file does") {
  refuses(file_of("{" + tensor_entry("a", "U8", "[2]", "[0,2]") + "}", "x"), "truncated");
  refuses(file_of("{" + tensor_entry("a", "U8", "[2]", "[0,2]") + "}", "xxx"), "followed by something else");
}
TEST_CASE("S17: negative, huge and fractional offsets") {
  for (const char* offset : {"-1", "1e30", "3.5", "99999999999999999999999", "9223372036854775808"}) {
    INFO(offset);
    refuses(file_of("{" + tensor_entry("a", "U8", "[1]", std::string("[0,") + offset + "]") + "}", "x"),
            "tensor \"a\"");
  }
}
TEST_CASE("S18: one or three offsets") {
  refuses(file_of("{" + tensor_entry("a", "U8", "[1]", "[0,1,1]") + "}", "x"), "more than 2 numbers");
  refuses(file_of("{" + tensor_entry("a", "U8", "[1]", "[0]") + "}", "x"), "has 1 numbers, expected 2");
  refuses(file_of("{" + tensor_entry("a", "U8", "[1]", "[]") + "}", "x"), "has 0 numbers, expected 2");
}
TEST_CASE("S19: a product of sizes that overflows") {
  refuses(file_of("{" + tensor_entry("a", "F32", "[4294967296,4294967296,16]", "[0,0]") + "}"),
          "more elements than");
  refuses(file_of("{" + tensor_entry("a", "F32", "[4611686018427387904,4]", "[0,4]") + "}", "xxxx"),
          "more elements than");
  refuses(file_of("{" + tensor_entry("a", "F32", "[4611686018427387904]", "[0,0]") + "}"), "128 TiB");
}
TEST_CASE("S20: a size of 2^63") {
  refuses(file_of("{" + tensor_entry("a", "F32", "[9223372036854775808]", "[0,0]") + "}"), "too large");
}
TEST_CASE("S21: a negative size") {
  refuses(file_of("{" + tensor_entry("a", "F32", "[-1]", "[0,4]") + "}", "xxxx"), "negative number -1");
}
TEST_CASE("S22: ten thousand dimensions") {
  std::string shape = "[1";
  for (int i = 1; i < 10'000; ++i) shape += ",1";
  refuses(file_of("{" + tensor_entry("a", "U8", shape + "]", "[0,1]") + "}", "x"), "more than 8 dimensions");
}
TEST_CASE("S23: the size does not match the shape") {
  refuses(file_of("{" + tensor_entry("a", "F32", "[2]", "[0,4]") + "}", "xxxx"),
          "needs 8 bytes, data_offsets give 4");
}
TEST_CASE("S24: an empty tensor") {
  const io::Safetensors s = accepts(file_of("{" + tensor_entry("a", "F32", "[0,3]", "[0,0]") + "}"));
  CHECK(s.tensors.at(0).second.sizes() == Dims{0, 3});
}
TEST_CASE("S25: a scalar") {
  const io::Safetensors s =
      accepts(file_of("{" + tensor_entry("a", "F32", "[]", "[0,4]") + "}", std::string(4, '\0')));
  CHECK(s.tensors.at(0).second.dim() == 0);
}
TEST_CASE("S26: no tensors at all") { CHECK(accepts(file_of("{}")).tensors.empty()); }
TEST_CASE("S27: metadata that is not text") {
  refuses(file_of("{\"__metadata__\":{\"k\":1}}"), "expected a string, found a number");
  refuses(file_of("{\"__metadata__\":{\"k\":{}}}"), "expected a string, found an object");
  refuses(file_of("{\"__metadata__\":[]}"), "expected an object, found an array");
}
TEST_CASE("S28: strange names are kept, huge ones refused") {
  const io::Safetensors s =
      accepts(file_of("{" + tensor_entry("../../etc/\\u0000x", "U8", "[1]", "[0,1]") + "}", "x"));
  CHECK(s.tensors.at(0).first == std::string("../../etc/\0x", 12));
  refuses(file_of("{" + tensor_entry(std::string(4'000'000, 'n'), "U8", "[1]", "[0,1]") + "}", "x"),
          "4000000 bytes");
  refuses(file_of("{" + tensor_entry("\\u001b[2J", "U8", "[2]", "[0,1]") + "}", "x"), "\\x1b[2J");
}
TEST_CASE("S29: a file that shrinks while it is read") {
  const TempDir dir;
  save_safetensors(dir / "a", every_dtype());
  // The reader has queried the size already; a later truncation shows as a short pread.
  const io::Safetensors whole = load_safetensors(dir / "a");
  CHECK(whole.tensors.size() == 8);
  std::filesystem::resize_file(dir / "a", std::filesystem::file_size(dir / "a") - 1);
  CHECK_THROWS_AS(load_safetensors(dir / "a"), FormatError);
}
TEST_CASE("S30: folders, pipes, devices and missing files") {
  const TempDir dir;
  CHECK_THROWS_WITH(load_safetensors(dir.path()), Contains("not a regular file"));
  CHECK_THROWS_WITH(load_safetensors("/dev/zero"), Contains("not a regular file"));
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(load_safetensors(dir / "pipe"), Contains("not a regular file"));
  CHECK_THROWS_WITH(load_safetensors(dir / "none"), Contains("No such file"));
  CHECK_THROWS_WITH(save_safetensors(dir / "pipe", {}), Contains("not a regular file"));
}

TEST_CASE("safetensors: a BOOL byte other than 0 and 1 is refused") {
  refuses(file_of("{" + tensor_entry("a", "BOOL", "[2]", "[0,2]") + "}", std::string("\x01\x02", 2)),
          "expected 0 or 1");
}

TEST_CASE("safetensors: other kinds of files are recognised") {
  refuses("<!DOCTYPE html><html><body>404</body></html>", "an HTML page");
  refuses("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a git-lfs pointer");
  refuses("PK\x03\x04 and the rest of it", "a zip archive");
}

TEST_CASE("safetensors: a file cut at any byte is refused") {
  const TempDir dir;
  save_safetensors(dir / "whole", every_dtype(), {{"k", "v"}});
  const std::string bytes = get_file(dir / "whole");
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    put_file(dir / "cut", bytes.substr(0, n));
    INFO("cut at " << n << " of " << bytes.size());
    REQUIRE_THROWS_AS(load_safetensors(dir / "cut"), FormatError);
  }
}

// Random damage: a file is refused with a FormatError, or read completely and consistently.
TEST_CASE("safetensors: five thousand mutations neither crash nor half-load") {
  const TempDir dir;
  save_safetensors(dir / "whole", every_dtype(), {{"k", "v"}});
  const std::string original = get_file(dir / "whole");
  const std::uint64_t seed = test::seed();
  INFO("MANTISSA_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::string interesting = "{}[]\",:0123456789-eE.\\utrue null";
  int refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string bytes = original;
    const std::uint64_t edits = 1 + random() % 3;
    for (std::uint64_t k = 0; k < edits; ++k) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = interesting[random() % interesting.size()]; break;
        case 2: bytes.erase(at, random() % 9); break;
        case 3: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40)); break;
        default: bytes.resize(at + 1);
      }
    }
    if (random() % 2 && bytes.size() > 8) {  // keep the length consistent, to reach the code behind it
      const std::size_t end = bytes.rfind("]}}");
      const std::uint64_t length = end == std::string::npos || end < 8 ? bytes.size() - 8 : end + 3 - 8;
      std::memcpy(bytes.data(), &length, 8);
    }
    put_file(dir / "m", bytes);
    try {
      const io::Safetensors s = load_safetensors(dir / "m");
      std::int64_t total = 0;
      for (const auto& [name, t] : s.tensors)
        total += t.defined() && t.is_contiguous() ? t.nbytes() : -1'000'000;
      REQUIRE(total >= 0);
      REQUIRE(total <= 8 * static_cast<std::int64_t>(bytes.size()));
    } catch (const FormatError&) {
      ++refused;
    }
  }
  CHECK(refused > 2500);
}
