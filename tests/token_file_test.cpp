// Token files: the same batches as from tokens in memory, headers, the writer, and invalid files.
#include "data/token_file.h"

#include <filesystem>

#include "catch_compat.h"
#include "core/ops.h"
#include "core/random.h"
#include "temp_dir.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::TokenFile;
using data::TokenWriter;

namespace {

template <class T> void write_numbers(const std::string& path, const std::vector<T>& numbers) {
  put_file(path, {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});
}

}  // namespace

TEST_CASE("A file of tokens gives the batches of the same tokens in memory") {
  manual_seed(test::seed());
  MANTISSA_PRINT_SEED();
  const TempDir dir;
  for (const int bytes : {1, 2, 4}) {
    const std::string path = dir / concat(bytes, ".bin");
    const std::int64_t most = bytes == 1 ? 256 : bytes == 2 ? 65536 : 4000000000;
    const data::Tokens memory{randint(0, most, {1000}), "memory"};
    TokenWriter out(path, {.bytes = bytes});
    out.append(slice(memory.tokens, 0, 0, 300));
    out.append(slice(memory.tokens, 0, 300).reshape({7, 100}));
    CHECK(out.size() == 1000);
    CHECK_FALSE(std::filesystem::exists(path));
    out.commit();

    const TokenFile file(path, {.bytes = bytes});
    CHECK(file.size() == 1000);
    CHECK(same_bits(file.read(0, 1000), memory.tokens));
    CHECK(same_bits(file.read(17, 5), slice(memory.tokens, 0, 17, 22)));
    for (std::uint64_t number = 0; number < 5; ++number) {
      const auto a = file.batch(4, 33, 9, number), b = memory.batch(4, 33, 9, number);
      CHECK(same_bits(a.input, b.input));
      CHECK(same_bits(a.target, b.target));
    }
    CHECK(file.windows_of(33) == memory.windows_of(33));
    const auto a = file.windows(28, 10, 33), b = memory.windows(28, 10, 33);
    CHECK(a.input.sizes() == Dims{2, 33});
    CHECK(same_bits(a.target, b.target));

    const auto parts = data::split(file, 0.25);
    const auto want = data::split(memory, 0.25);
    CHECK(same_bits(parts.train.read(0, parts.train.size()), want.train.tokens));
    CHECK(same_bits(parts.validation.batch(2, 8, 1, 2).input, want.validation.batch(2, 8, 1, 2).input));
  }
}

TEST_CASE("The headers of llm.c are recognised, and must tell the truth") {
  const TempDir dir;
  const std::string path = dir / "train.bin";
  std::vector<std::int32_t> header(256);
  header[0] = 20240801, header[1] = 7, header[2] = 3;
  header.insert(header.end(), {128000, 5, 6});
  write_numbers(path, header);
  CHECK(TokenFile(path).read(0, 3).to_vector<std::int64_t>() == std::vector<std::int64_t>{128000, 5, 6});
  header[0] = 20240520, header[1] = 1, header[2] = 6;  // the same bytes as u16
  write_numbers(path, header);
  CHECK(TokenFile(path).size() == 6);
  for (const std::int32_t lie : {5, 7, -1, INT32_MAX}) {
    header[2] = lie;
    write_numbers(path, header);
    CHECK_THAT(message_of([&] { TokenFile{path}; }), Contains("its header says"));
  }
}

TEST_CASE("What is no file of tokens says why, and windows that do not fit do, too") {
  const TempDir dir;
  const std::string path = dir / "odd.bin";
  CHECK_THAT(message_of([&] { TokenFile{path}; }), Contains("odd.bin"));
  CHECK_THAT(message_of([&] { TokenFile{dir.path()}; }), Contains("not a regular file"));
  write_numbers<std::uint8_t>(path, {1, 2, 3, 4, 5, 6, 7});
  CHECK_THAT(message_of([&] { TokenFile{path}; }), Contains("7 bytes are no whole number of tokens of 2 bytes"));
  CHECK_THAT(message_of([&] { TokenFile(path, {.bytes = 3}); }), Contains("1, 2 or 4 bytes, got 3"));
  const TokenFile file(path, {.bytes = 1});
  CHECK_THAT(message_of([&] { file.read(5, 3); }), Contains("3 tokens from 5 on are not within its 7"));
  CHECK_THAT(message_of([&] { file.batch(1, 7, 0, 0); }), Contains("do not fit into a text of 7"));
  CHECK_THAT(message_of([&] { file.windows(2, 1, 3); }), Contains("window 2 of 2"));
  CHECK_THAT(message_of([&] { file.part(3, 5); }), Contains("a part of 5 tokens from 3 on"));
  std::filesystem::resize_file(path, 4);
  CHECK_THAT(message_of([&] { file.read(2, 4); }), Contains("odd.bin"));
}

TEST_CASE("A writer takes integers that fit, and its file appears when it is committed") {
  const TempDir dir;
  const std::string path = dir / "out.bin";
  {
    TokenWriter out(path);
    out.append(tensor({1, 65535}));
    CHECK_THAT(message_of([&] { out.append(tensor({3, 65536})); }), Contains("token 65536 does not fit into 2 bytes"));
    CHECK_THAT(message_of([&] { out.append(tensor({-1})); }), Contains("token -1"));
    CHECK_THAT(message_of([&] { out.append(tensor({1.5})); }), Contains("expected integers"));
    CHECK(out.size() == 2);
  }
  CHECK_FALSE(std::filesystem::exists(path));
}
