// Image files: round trips, JPEG of every kind, and rejection of hostile files.
#include "io/image.h"

#include <turbojpeg.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "catch_compat.h"
#include "core/operators.h"
#include "io/file.h"
#include "temp_dir.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using io::Channels;

namespace {

// Smooth, so that JPEG compresses it with little error.
Tensor picture(std::int64_t channels, std::int64_t h, std::int64_t w) {
  const Tensor t = Tensor::allocate({channels, h, w}, u8);
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < h; ++y)
      for (std::int64_t x = 0; x < w; ++x)
        t.data<std::uint8_t>()[(c * h + y) * w + x] = static_cast<std::uint8_t>(40 * c + 3 * y + 5 * x);
  return t;
}

std::string jpeg(const Tensor& image, int subsampling, int format) {
  const auto channels = static_cast<std::size_t>(image.size(0)),
             plane = static_cast<std::size_t>(image.size(1) * image.size(2));
  std::vector<unsigned char> pixels(channels * plane);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < plane; ++i) pixels[i * channels + c] = image.data<std::uint8_t>()[c * plane + i];
  tjhandle h = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  REQUIRE(tjCompress2(h, pixels.data(), static_cast<int>(image.size(2)), 0, static_cast<int>(image.size(1)), format,
                      &out, &size, subsampling, 98, 0) == 0);
  std::string bytes(reinterpret_cast<char*>(out), size);
  tjFree(out);
  tjDestroy(h);
  return bytes;
}

int largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  int largest = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    largest = std::max(largest, std::abs(a.data<std::uint8_t>()[i] - b.data<std::uint8_t>()[i]));
  return largest;
}

}  // namespace

TEST_CASE("image: a PNG comes back bit by bit, with one to four channels") {
  const TempDir dir;
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = picture(channels, 7, 5);
    io::write_png(dir / "a.png", image);
    CHECK(largest_difference(io::read_image(dir / "a.png", Channels::as_stored), image) == 0);
    const Tensor rgb = io::read_image(dir / "a.png");
    CHECK(rgb.sizes() == Dims{3, 7, 5});
    if (channels >= 3) CHECK(largest_difference(rgb, image.slice(0, 0, 3).contiguous()) == 0);
    CHECK(io::read_image(dir / "a.png", Channels::gray).sizes() == Dims{1, 7, 5});
  }
  const Tensor image = picture(3, 4, 4),
               gray = (io::write_png(dir / "b.png", image), io::read_image(dir / "b.png", Channels::gray));
  const std::vector<double> c = image.to_vector<double>(), g = gray.to_vector<double>();
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(std::abs(g[i] - (0.299 * c[i] + 0.587 * c[16 + i] + 0.114 * c[32 + i])) <= 0.51);
}

TEST_CASE("image: floating values are cut to [0, 1] and rounded") {
  const TempDir dir;
  io::write_png(dir / "a.png", from_data<float>({-1, 0, 0.5f, 1, 7, NAN}, {2, 3}));
  CHECK(io::read_image(dir / "a.png", Channels::as_stored).to_vector<int>() ==
        std::vector<int>{0, 0, 128, 255, 255, 0});
  CHECK_THROWS_WITH(io::write_png(dir / "a.png", zeros({5, 2, 2})), Contains("1 to 4 channels, got f32[5, 2, 2]"));
  CHECK_THROWS_WITH(io::write_png(dir / "no/a.png", zeros({2, 2})), Contains("no/a.png"));
}

TEST_CASE("image: gray, coloured and CMYK JPEG") {
  const Tensor gray = picture(1, 17, 23), rgb = picture(3, 17, 23);
  CHECK(largest_difference(io::decode_image(jpeg(gray, TJSAMP_GRAY, TJPF_GRAY), "g", Channels::as_stored), gray) < 8);
  const Tensor three = io::decode_image(jpeg(gray, TJSAMP_GRAY, TJPF_GRAY), "g");
  CHECK(three.sizes() == Dims{3, 17, 23});
  CHECK(largest_difference(io::decode_image(jpeg(rgb, TJSAMP_444, TJPF_RGB), "c"), rgb) < 8);
  CHECK(io::decode_image(jpeg(rgb, TJSAMP_420, TJPF_RGB), "c", Channels::gray).sizes() == Dims{1, 17, 23});
  Tensor cmyk = full({4, 16, 16}, 200, {.dtype = u8});  // inverted: 200 * 200 / 255
  CHECK(largest_difference(io::decode_image(jpeg(cmyk, TJSAMP_444, TJPF_CMYK), "k"),
                           full({3, 16, 16}, 157, {.dtype = u8})) < 4);
}

TEST_CASE("image: a JPEG that was written comes back nearly, the nearer the better its quality") {
  const TempDir dir;
  for (const std::int64_t channels : {1, 3}) {
    const Tensor image = picture(channels, 13, 20);
    const Channels as = channels == 1 ? Channels::gray : Channels::rgb;
    io::write_jpeg(dir / "a.jpg", image, 95);
    CHECK(largest_difference(io::read_image(dir / "a.jpg", as), image) <= 12);
    CHECK(io::encode_jpeg(image, 95).size() > io::encode_jpeg(image).size());
    CHECK(io::encode_jpeg(image).size() > io::encode_jpeg(image, 10).size());
    CHECK(io::encode_jpeg(image.to(f32) / 255) == io::encode_jpeg(image));
  }
  CHECK(io::encode_jpeg(picture(1, 8, 9)[0]) == io::encode_jpeg(picture(1, 8, 9)));
  CHECK_THROWS_WITH(io::encode_jpeg(picture(3, 8, 8), 0), Contains("quality must be from 1 to 100, got 0"));
  CHECK_THROWS_WITH(io::encode_jpeg(picture(2, 8, 8)), Contains("needs 1 or 3 channels"));
  CHECK_THROWS_WITH(io::encode_jpeg(picture(4, 8, 8)), Contains("with 1 to 3 channels, got u8[4, 8, 8]"));
  CHECK_THROWS_WITH(io::encode_jpeg(zeros({70000, 2})), Contains("too large"));
  CHECK_THROWS_WITH(io::encode_jpeg(Tensor()), Contains("got undefined"));
}

TEST_CASE("image: a PNG's values are those stored, whatever its gamma") {
  const Tensor image = picture(3, 5, 7);
  std::string png = io::encode_png(image);
  const std::size_t name = png.find("sRGB");  // overrides gAMA
  if (name != std::string::npos) png.erase(name - 4, 13);
  constexpr std::size_t after_header = 8 + 25;
  std::string chunk("gAMA\0\0\xd9\x03", 8);  // 0.55555
  const auto sum = static_cast<std::uint32_t>(::crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), 8));
  chunk.insert(0, std::string("\0\0\0\4", 4));
  for (int shift = 24; shift >= 0; shift -= 8) chunk += static_cast<char>(sum >> shift & 255);
  png.insert(after_header, chunk);
  CHECK(same_bits(io::decode_image(png, "gamma.png"), image));
}

TEST_CASE("image: superfluous bytes in a JPEG do no harm, but its end must be there") {
  std::string file = io::encode_jpeg(picture(3, 32, 48));
  const Tensor image = io::decode_image(file, "good.jpg");
  file.insert(file.size() - 2, std::string("\x12\x34\x56", 3));
  CHECK(same_bits(io::decode_image(file, "extra.jpg"), image));
  file.resize(file.size() - 2);
  CHECK_THROWS_WITH(io::decode_image(file, "cut.jpg"), Contains("damaged"));
}

TEST_CASE("image: cut, foreign and lying files are refused") {
  const TempDir dir;
  io::write_png(dir / "a.png", picture(3, 40, 40));
  const std::string png = get_file(dir / "a.png"), jpg = jpeg(picture(3, 40, 40), TJSAMP_420, TJPF_RGB);
  // 12: IEND
  for (std::size_t n = 0; n + 12 < png.size(); n += 3)
    CHECK_THROWS_AS(io::decode_image(png.substr(0, n), "p"), FormatError);
  for (std::size_t n = 0; n + 2 < jpg.size(); n += 3)
    CHECK_THROWS_AS(io::decode_image(jpg.substr(0, n), "j"), FormatError);
  CHECK_THROWS_WITH(io::decode_image("<!DOCTYPE html>", "page.png"),
                    Contains("page.png: is neither a PNG nor a JPEG; it looks like an HTML page"));
  std::string bomb = png;  // 2^31 - 1 pixels wide
  bomb.replace(16, 4, "\x7f\xff\xff\xff");
  CHECK_THROWS_AS(io::decode_image(bomb, "b"), FormatError);
  std::string wide = jpg;  // 65280 x 65280
  const std::size_t frame = wide.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  wide.replace(frame + 5, 4, std::string("\xff\x00\xff\x00", 4));
  CHECK_THROWS_WITH(io::decode_image(wide, "w"), Contains("65280 x 65280 pixels; at most"));
  wide.replace(frame + 5, 4, std::string("\x27\x10\x27\x10", 4));
  CHECK_THROWS_WITH(io::decode_image(wide, "w"), Contains("cannot hold 10000 x 10000"));
}

TEST_CASE("image: four thousand mutations give a picture or an error") {
  const TempDir dir;
  io::write_png(dir / "a.png", picture(3, 20, 20));
  INFO("MANTISSA_TEST_SEED=" << test::seed());
  std::mt19937_64 random(test::seed());
  const std::string originals[] = {get_file(dir / "a.png"), jpeg(picture(3, 20, 20), TJSAMP_420, TJPF_RGB),
                                   jpeg(picture(4, 20, 20), TJSAMP_444, TJPF_CMYK)};
  int refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string bytes = originals[trial % 3];
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      const Tensor image = io::decode_image(bytes, "m");
      REQUIRE((image.size(0) == 3 && image.numel() < 100'000'000));
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("image: a grid places pictures row by row, as torchvision's make_grid") {
  const TempDir dir;
  const Tensor images = full({5, 1, 2, 3}, 0.0);
  for (std::int64_t i = 0; i < 5; ++i) std::fill_n(images.data<float>() + i * 6, 6, static_cast<float>(i + 1) / 10);
  const Tensor grid = io::make_grid(images, {.columns = 3, .padding = 1, .pad_value = 1});
  CHECK(grid.sizes() == Dims{1, 7, 13});
  const std::vector<float> v = grid.to_vector<float>();
  CHECK((v[0] == 1.0f && v[13 + 1] == 0.1f && v[13 + 5] == 0.2f && v[4 * 13 + 1] == 0.4f && v[4 * 13 + 9] == 1.0f));
  const Tensor scaled = io::make_grid(images, {.normalize = true});
  CHECK((scaled.max().item() == 1.0f && scaled.min().item() == 0.0f));
  io::save_image_grid(dir / "grid.png", images);
  CHECK(io::read_image(dir / "grid.png").sizes() == Dims{3, 6, 27});
  CHECK_THROWS_WITH(io::make_grid(zeros({2, 2})), Contains("expected u8 or floating images [N, C, H, W]"));
}
