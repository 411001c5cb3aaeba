// TensorBoard event files: records with their checksums, containing the messages in call order.
#include "io/summary_writer.h"

#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "catch_compat.h"
#include "core/ops.h"
#include "io/image.h"
#include "temp_dir.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::SummaryWriter;

namespace {

std::uint32_t crc32c(const std::string& s) {  // bit by bit
  std::uint32_t crc = 0xffffffff;
  for (const char c : s) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  return ~crc;
}
std::uint32_t masked(const std::string& s) {
  const std::uint32_t crc = crc32c(s);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}
template <class T> T number_at(const std::string& s, std::size_t at) {
  T value;
  std::memcpy(&value, s.data() + at, sizeof value);
  return value;
}
// The messages of a file, without their leading wall time.
std::vector<std::string> events_of(const std::string& path) {
  const std::string s = get_file(path);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < s.size();) {
    const auto length = static_cast<std::size_t>(number_at<std::uint64_t>(s, at));
    CHECK(number_at<std::uint32_t>(s, at + 8) == masked(s.substr(at, 8)));
    const std::string data = s.substr(at + 12, length);
    CHECK(number_at<std::uint32_t>(s, at + 12 + length) == masked(data));
    CHECK(data[0] == '\x09');
    CHECK(number_at<double>(data, 1) > 1.7e9);
    events.push_back(data.substr(9));
    at += length + 16;
  }
  return events;
}

}  // namespace

TEST_CASE("the checksum of these tests is Castagnoli's") { CHECK(crc32c("123456789") == 0xe3069283); }

TEST_CASE("scalars: version, step, tag and value, each frame in the file when the call returns") {
  const TempDir dir;
  SummaryWriter writer(dir / "runs/first");
  CHECK_THAT(writer.path(), Contains("runs/first/events.out.tfevents."));
  CHECK(events_of(writer.path()) == std::vector<std::string>{"\x1a\x0d" "brain.Event:2"});
  writer.add_scalar("loss", 0.5, 300);
  const auto events = events_of(writer.path());
  REQUIRE(events.size() == 2);
  // step 300; a summary of 13 bytes: a value of 11: the tag of 4, and 0.5 as a float
  const char expected[] = "\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f";
  CHECK(events[1] == std::string(expected, sizeof expected - 1));
  writer.add_scalar("loss", std::numeric_limits<double>::quiet_NaN(), -1);
  CHECK(events_of(writer.path()).size() == 3);
  CHECK_THROWS_WITH(writer.add_scalar("", 1, 1), Contains("the tag is empty"));
  const SummaryWriter second(dir / "runs/first");
  CHECK(second.path() != writer.path());
}

TEST_CASE("histograms count every value once, and name a tag with values that are not finite") {
  const TempDir dir;
  SummaryWriter writer(dir / "runs");
  writer.add_histogram("w", tensor({0.0, 1.0, 1.0, 4.0}), 1, 4);
  const std::string e = events_of(writer.path()).at(1);
  const auto doubles = [](std::initializer_list<double> v) {
    return std::string(reinterpret_cast<const char*>(v.begin()), v.size() * sizeof(double));
  };
  CHECK_THAT(e, Contains("\x09" + doubles({0}) + "\x11" + doubles({4}) + "\x19" + doubles({4}) + "\x21" + doubles({6}) +
                         "\x29" + doubles({18}) + "\x32\x20" + doubles({1, 2, 3, 4}) + "\x3a\x20" +
                         doubles({1, 2, 0, 1})));
  writer.add_histogram("same", full({3}, 2), 1);
  writer.add_histogram("empty", zeros({0}), 1);
  CHECK(events_of(writer.path()).size() == 3);
  CHECK_THROWS_WITH(writer.add_histogram("w", tensor({1.0, HUGE_VAL}), 1), Contains("\"w\" holds NaN or inf"));
}

TEST_CASE("pictures are PNGs, texts are strings of the text plugin") {
  const TempDir dir;
  SummaryWriter writer(dir / "runs");
  const Tensor picture = reshape(arange(60), {3, 4, 5}).to(f32) * (1.0 / 60);
  writer.add_image("grid", picture, 2);
  writer.add_text("notes", "**bold**", 3);
  const auto events = events_of(writer.path());
  CHECK_THAT(events.at(1), Contains("\x08\x04\x10\x05\x18\x03\x22") && Contains(io::encode_png(picture)));
  CHECK_THAT(events.at(2), Contains("notes/text_summary") && Contains("**bold**"));
  CHECK_THROWS_WITH(writer.add_image("x", zeros({7, 4, 5}), 1), Contains("f32[7, 4, 5]"));
}

TEST_CASE("a record that the disk has no room for is taken back, and later ones are found") {
  const TempDir dir;
  SummaryWriter writer(dir / "runs");
  writer.add_scalar("loss", 1, 1);
  const std::string before = get_file(writer.path());
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const auto room = [&](rlim_t bytes) {
    const rlimit some{bytes, limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &some) == 0);
  };
  room(before.size() + 10);  // for a part of the next record
  CHECK_THROWS_WITH(writer.add_scalar("loss", 2, 2), Contains(writer.path()) && Contains(std::strerror(EFBIG)));
  room(10);
  CHECK_THROWS_WITH(SummaryWriter(dir / "others"), Contains(std::strerror(EFBIG)));
  room(limit.rlim_cur);
  ::signal(SIGXFSZ, handler);
  CHECK(get_file(writer.path()) == before);
  CHECK(std::filesystem::is_empty(dir / "others"));
  writer.add_scalar("loss", 3, 3);
  CHECK(events_of(writer.path()).size() == 3);
}

TEST_CASE("a folder that cannot be made is one message") {
  const TempDir dir;
  put_file(dir / "file", "");
  CHECK_THROWS_WITH(SummaryWriter(dir / "file/runs"), Contains("cannot make the folder"));
}
