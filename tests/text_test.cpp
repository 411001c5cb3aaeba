// Text as tokens: numbering, windows, the split, the search order of files, and files that are not text.
#include "data/text.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "catch_compat.h"
#include "temp_dir.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Text;

TEST_CASE("Bytes are numbered in ascending order and come back") {
  const Text text = data::text_from(std::string("b\xff\0a b", 6), "here");
  CHECK(text.alphabet == std::string("\0 ab\xff", 5));
  CHECK(text.decode(text.tokens) == std::string("b\xff\0a b", 6));
  CHECK(text.encode("ba").to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 2});
  CHECK_THAT(message_of([&] { text.encode("bx"); }), Contains("no character \"x\""));
  CHECK_THAT(message_of([&] { text.decode(tensor({7})); }), Contains("token 7"));
  CHECK_THAT(message_of([&] { data::text_from("", ""); }), Contains("empty"));
}

TEST_CASE("A batch depends on seed and number alone, its target is one ahead, and it reaches every place") {
  const Text text = data::text_from("abcdefgh", "here");
  std::vector<bool> begins(5);
  for (std::uint64_t number = 0; number < 100; ++number) {
    const auto [input, target] = text.batch(4, 3, 7, number);
    REQUIRE(input.sizes() == Dims{4, 3});
    CHECK(same_bits(input + tensor({1}), target));  // the letters of this text are consecutive numbers
    CHECK(same_bits(input, text.batch(4, 3, 7, number).input));
    for (const std::int64_t begin : slice(input, 1, 0, 1).to_vector<std::int64_t>())
      begins.at(static_cast<std::size_t>(begin)) = true;
  }
  CHECK(std::count(begins.begin(), begins.end(), true) == 5);
  CHECK_FALSE(same_bits(text.batch(4, 3, 7, 0).input, text.batch(4, 3, 7, 1).input));
  CHECK_FALSE(same_bits(text.batch(4, 3, 7, 0).input, text.batch(4, 3, 8, 0).input));
  CHECK_THAT(message_of([&] { text.batch(1, 8, 0, 0); }), Contains("do not fit into a text of 8"));
}

TEST_CASE("Windows lie side by side and end with the text") {
  const Text text = data::text_from("abcdefgh", "here");
  REQUIRE(text.windows_of(3) == 2);
  const auto [input, target] = text.windows(0, 10, 3);
  CHECK(text.decode(input) == "abcdef");
  CHECK(text.decode(target) == "bcdefg");
  CHECK(text.decode(text.windows(1, 1, 3).input) == "def");
  CHECK_THAT(message_of([&] { text.windows(2, 1, 3); }), Contains("window 2 of 2"));
}

TEST_CASE("The end of the text is for validation") {
  const auto [train, validation] = data::split(data::text_from("abcdefghij", "here"), 0.3);
  CHECK(train.decode(train.tokens) == "abcdefg");
  CHECK(validation.decode(validation.tokens) == "hij");
  CHECK(validation.decode(validation.windows(0, 1, 2).target) == "ij");
  CHECK_THAT(message_of([&] { data::split(train, 1); }), Contains("between 0 and 1"));
  CHECK_THAT(message_of([&] { data::split(data::text_from("a", ""), 0.1); }), Contains("too short"));
}

TEST_CASE("Text is read from a file, a folder or a folder of folders, and drawn when there is none") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "tinyshakespeare");
  put_file(dir / "tinyshakespeare/input.txt", "to be");
  put_file(dir / "book.txt", "or not");
  for (const std::string& where : {dir / "", dir / "tinyshakespeare"}) {
    const Text text = data::load_text("tinyshakespeare", where);
    CHECK(text.decode(text.tokens) == "to be");
    CHECK_THAT(text.source, Contains("5 characters from"));
  }
  CHECK(data::load_text("tinyshakespeare", dir / "book.txt").size() == 6);
  put_file(dir / "empty.txt", "");
  std::filesystem::create_directories(dir / "nothing");
  CHECK_THAT(message_of([&] { data::load_text("tinyshakespeare", dir / "empty.txt"); }), Contains("holds no text"));
  CHECK_THAT(message_of([&] { data::load_text("tinyshakespeare", dir / "nothing"); }), Contains("has no input.txt"));
  CHECK_THAT(message_of([&] { data::load_text("tinyshakespeare", dir / "no such"); }), Contains("no such"));
  CHECK_THAT(message_of([&] { data::load_text("hamlet"); }), Contains("unknown text"));
  const Text drawn = data::load_text("synthetic");
  CHECK(drawn.size() == 200000);
  CHECK_THAT(drawn.source, Contains("drawn by a program"));
  CHECK(data::synthetic_text(1000, 1) != data::synthetic_text(1000, 2));
}
