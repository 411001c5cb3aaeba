// NumPy files: those that NumPy wrote (tests/golden/files.py) are read, ours round-trip bitwise, and the list of bad
// files (N1 to N12) is rejected with one message that names the file.
#include "io/npy.h"

#include <cstring>
#include <map>
#include <random>

#include "bad_file.h"
#include "catch_compat.h"
#include "core/ops.h"
#include "io/zip.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::load_npy;
using io::load_npz;

namespace {

const std::string golden = MANTISSA_SOURCE_DIR "/tests/golden/files/";

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string s = "\x93NUMPY";
  s += version;
  s += '\0';
  const auto n = static_cast<std::uint32_t>(header.size());
  s.append(reinterpret_cast<const char*>(&n), version == 1 ? 2 : 4);
  return s + header + data;
}
std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}
Tensor accepts(const std::string& bytes) {
  const TempDir dir;
  put_file(dir / "good.npy", bytes);
  return load_npy(dir / "good.npy");
}
void refuses(const std::string& bytes, const std::string& fragment) {
  refuses_bytes([](const std::string& path) { return load_npy(path); }, bytes, fragment);
}

}  // namespace

TEST_CASE("npy: what NumPy wrote is read: every dtype, byte orders, Fortran's order, scalars, empty arrays") {
  const NamedTensors list = load_npz(golden + "arrays.npz");
  const std::map<std::string, Tensor> t(list.begin(), list.end());
  const std::map<std::string, Dtype> expected{{"f4", f32}, {"f8", f64}, {"f2", f16}, {"i8", i64},      {"i4", i32},
                                              {"i2", i32}, {"i1", i32}, {"u8", i64}, {"u4", i64},      {"u2", i32},
                                              {"u1", u8},  {"big_f4", f32}, {"big_i2", i32}};
  for (const auto& [name, dtype] : expected) {
    INFO(name);
    CHECK(t.at(name).dtype() == dtype);
    CHECK(t.at(name).sizes() == Dims{2, 3});
    CHECK(t.at(name).to_vector<int>() == std::vector<int>{0, 1, 2, 3, 4, 5});
  }
  CHECK(t.at("bool").dtype() == boolean);
  CHECK(t.at("bool").to_vector<int>() == std::vector<int>{0, 1, 1, 1, 1, 1});
  CHECK(t.at("fortran").is_contiguous());
  CHECK(equal(t.at("fortran"), reshape(arange(24), {2, 3, 4}).to(f32)));
  CHECK(t.at("scalar").dim() == 0);
  CHECK(t.at("scalar").item() == 7);
  CHECK(t.at("empty").sizes() == Dims{0, 3});
  CHECK(list[0].first == "f4");
  const NamedTensors packed = load_npz(golden + "packed.npz");
  REQUIRE(packed.size() == 2);
  CHECK(equal(packed[0].second, ones({100, 100})));
  CHECK(packed[1].first == "a/b");
  CHECK(equal(load_npy(golden + "array.npy"), reshape(arange(6), {2, 3}).to(f32)));
}

TEST_CASE("npy: what is written comes back bit for bit, and one array is the bytes of NumPy's") {
  const TempDir dir;
  NamedTensors named;
  for (const Dtype d : {f32, f64, f16, i64, i32, u8}) named.emplace_back(name_of(d), arange(12).reshape({3, 4}).to(d));
  named.emplace_back("bool", arange(2).to(boolean));
  named.emplace_back("scalar", scalar(2.5));
  named.emplace_back("turned", arange(12).reshape({3, 4}).t());
  named.emplace_back("empty", zeros({0, 2}));
  io::save_npz(dir / "a.npz", named);
  const NamedTensors back = load_npz(dir / "a.npz");
  REQUIRE(back.size() == named.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    INFO(named[i].first);
    CHECK(back[i].first == named[i].first);
    CHECK(back[i].second.dtype() == named[i].second.dtype());
    CHECK(equal(back[i].second, named[i].second));
  }
  io::save_npy(dir / "array.npy", arange(6).reshape({2, 3}).to(f32));
  CHECK(get_file(dir / "array.npy") == get_file(golden + "array.npy"));
  CHECK_THROWS_WITH(io::save_npy(dir / "b.npy", ones({2}, {.dtype = bf16})), Contains("NumPy has no bf16"));
  CHECK_THROWS_WITH(io::save_npz(dir / "b.npz", {{"x", ones(2)}, {"x", ones(2)}}), Contains("given twice"));
  CHECK(dir.files() == 2);
}

TEST_CASE("npy: headers that are not NumPy's are refused") {
  refuses("", "is too short");
  refuses("\x93NUMPX" + std::string(20, ' '), "does not begin as");
  refuses("<!DOCTYPE html>", "HTML page");
  refuses(npy(header("<f4", "(1,)"), "abcd", 9), "is of version 9");
  refuses("\x93NUMPY\2" + std::string(1, '\0') + "\xff\xff\xff\xff" + std::string(20, ' '),
          "header of 4294967295 bytes");
  refuses(npy("{'descr': '<f4', 'fortran_order': False, }", "abcd"), "lacks descr, fortran_order or shape");
  refuses(npy(header("|O", "(1,)"), "abcd"), "array of Python objects, which are never read");
  refuses(npy(header("<f3", "(1,)"), "abc"), "has the dtype \"<f3\", which is not read");
  refuses(npy(header("<c8", "(1,)"), "abcdefgh"), "which is not read");
  refuses(npy(header("<f4", "(-1,)"), ""), "is not understood");
  refuses(npy(header("<f4", "(1099511627776, 1099511627776)"), ""), "is impossible");
  refuses(npy(header("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), "abcd"), "more than 8 dimensions");
  refuses(npy("{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}", "abcd"), "is not understood");
  refuses(npy(header("<f4", "(1,)", "(__import__('os'),)"), "abcd"), "is not understood");
  refuses(npy(header("<f4", "(2,)"), "abcdefg"), "has 7 bytes of data, its shape [2] asks for 8");
  refuses(npy(header("<f4", "(1,)"), "abcdefg"), "has 7 bytes of data");
  refuses(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "abcd"), "does not belong");
  refuses(npy(header("<f4", "(1,)") + "x", "abcd"), "is not understood");
  refuses(npy(header("|b1", "(1,)"), "\2"), "expected 0 or 1");
  refuses(npy(header("<u8", "(1,)"), std::string(8, '\xff')), "does not fit i64");
  CHECK_THROWS_WITH(load_npy(golden + "objects.npy"), Contains("array of Python objects"));
  CHECK_THROWS_WITH(load_npy(golden + "structured.npy"), Contains("is a structured array"));
}

TEST_CASE("npy: headers of older writers are read") {
  CHECK(
      accepts(npy("{\"shape\": (2L,), \"fortran_order\": False, \"descr\": \"<i4\"}", std::string(8, '\0'))).numel() ==
      2);
  CHECK(accepts(npy(header("<f4", "()"), "abcd")).dim() == 0);
  CHECK(accepts(npy(header("=f4", "(1)"), "abcd", 2)).numel() == 1);
  CHECK(accepts(npy(header("<f4", "(0, 5)"), "", 3)).sizes() == Dims{0, 5});
}

TEST_CASE("npz: an archive of other things is refused") {
  const TempDir dir;
  {
    io::ZipWriter zip(dir / "a.npz");
    zip.add("../../x", "hello", "");
    zip.commit();
  }
  CHECK_THROWS_WITH(load_npz(dir / "a.npz"), Contains("entry \"../../x\" is not one of np.savez"));
  CHECK_THROWS_WITH(load_npz(golden + "array.npy"), Contains("is no zip archive"));
}

TEST_CASE("npy: mutated files are read or refused, and nothing else") {
  const unsigned seed = 20261122;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string good = npy(header("<f4", "(2, 3)"), std::string(24, 'x'));
  const TempDir dir;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (int n = 0; n < 1 + i % 3; ++n) bytes[random() % bytes.size()] = static_cast<char>(random());
    put_file(dir / "m.npy", bytes);
    try {
      load_npy(dir / "m.npy");
    } catch (const FormatError&) {
    }
  }
}
