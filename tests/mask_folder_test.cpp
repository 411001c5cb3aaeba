// Masks in PNG files of every kind, and folders of images and their masks.
#include "data/mask_folder.h"

#include <zlib.h>

#include <filesystem>

#include "core/operators.h"
#include "core/ops.h"
#include "data/pipeline.h"
#include "temp_dir.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

std::string big_endian(std::uint32_t v) {
  std::string s;
  for (int shift = 24; shift >= 0; shift -= 8) s += static_cast<char>(v >> shift & 255);
  return s;
}
std::string chunk(const std::string& name, const std::string& content) {
  const std::string body = name + content;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + body + big_endian(static_cast<std::uint32_t>(crc));
}
// A PNG of these numbers, u8 [H, W], with `bits` bits each: gray levels, or indices of a palette of arbitrary colors.
std::string png(const Tensor& mask, int bits, bool palette, const std::string& more = "") {
  const std::int64_t h = mask.size(0), w = mask.size(1);
  std::string rows;
  for (std::int64_t y = 0; y < h; ++y) {
    rows += '\0';  // filter: none
    std::string row(static_cast<std::size_t>((w * bits + 7) / 8), '\0');
    for (std::int64_t x = 0; x < w; ++x) {
      const int v = mask.data<std::uint8_t>()[y * w + x], at = static_cast<int>(x * bits);
      row[static_cast<std::size_t>(at / 8)] |= static_cast<char>(v << (8 - bits - at % 8));
    }
    rows += row;
  }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  std::string colors;
  for (int i = 0; i < 1 << bits; ++i) colors += {static_cast<char>(i * 37), static_cast<char>(255 - i), '\x50'};
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(static_cast<std::uint32_t>(w)) + big_endian(static_cast<std::uint32_t>(h)) +
                           std::string{static_cast<char>(bits), static_cast<char>(palette ? 3 : 0), 0, 0, 0}) +
         (palette ? chunk("PLTE", colors) : "") + more + chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace

TEST_CASE("a mask's classes are indices of its palette, or gray levels from 0, for any number of bits") {
  manual_seed(test::seed());
  for (const int bits : {1, 2, 4, 8}) {
    const Tensor mask = randint(1 << bits, {7, 13}).to(u8);
    for (const bool palette : {false, true}) {
      INFO(bits << " bits, palette " << palette << ", seed " << test::seed());
      CHECK(equal(io::decode_mask(png(mask, bits, palette), "m.png"), mask));
      // Neither gamma nor a transparent color changes classes.
      CHECK(equal(io::decode_mask(png(mask, bits, palette, chunk("gAMA", big_endian(100000))), "m.png"), mask));
      const std::string clear = palette ? std::string("\x80\x10", 2) : std::string("\0\1", 2);
      CHECK(equal(io::decode_mask(png(mask, bits, palette, chunk("tRNS", clear)), "m.png"), mask));
    }
  }
  const Tensor mask = randint(256, {5, 4}).to(u8);
  CHECK(equal(io::decode_mask(io::encode_png(mask), "m.png"), mask));
  CHECK(equal(io::decode_mask(io::encode_png(stack({mask, mask}, 0)), "m.png"), mask));  // gray and alpha
  CHECK_THROWS_WITH(io::decode_mask(io::encode_png(rand({3, 4, 5})), "m.png"), Contains("m.png: has colors"));
  CHECK_THROWS_WITH(io::decode_mask(io::encode_jpeg(rand({3, 4, 5})), "m.jpg"), Contains("is not a PNG"));
  CHECK_THROWS_WITH(io::decode_mask("", "m.png"), Contains("is not a PNG"));
  std::string wide = png(mask, 8, false);
  wide = wide.substr(0, 8) + chunk("IHDR", wide.substr(16, 8) + std::string("\x10\0\0\0\0", 5)) + wide.substr(33);
  CHECK_THROWS_WITH(io::decode_mask(wide, "m.png"), Contains("16 bits"));
}

TEST_CASE("damaged masks are masks or errors") {
  manual_seed(test::seed());
  for (const bool palette : {false, true}) {
    const Tensor mask = randint(16, {20, 30}).to(u8);
    const std::string whole = png(mask, 4, palette);
    std::size_t complete = 0;  // of its pixels; what is cut after them does no harm
    for (std::size_t n = 0; n < whole.size(); ++n) {
      try {
        const Tensor read = io::decode_mask(whole.substr(0, n), "m.png");
        CHECK(equal(read, mask));
        ++complete;
      } catch (const FormatError&) {
      }
    }
    CHECK(complete < 20);
    for (int i = 0; i < 1000; ++i) {
      std::string bytes = whole;
      const Tensor draw = randint(1 << 30, {4});
      for (int k = 0; k < 2; ++k)
        bytes[static_cast<std::size_t>(draw.data<std::int64_t>()[2 * k]) % bytes.size()] =
            static_cast<char>(draw.data<std::int64_t>()[2 * k + 1]);
      try {
        io::decode_mask(bytes, "m.png");
      } catch (const FormatError&) {
      }
    }
  }
}

TEST_CASE("mask folder: images and masks of the same name, cut alike") {
  manual_seed(test::seed());
  const TempDir dir;
  std::filesystem::create_directories(dir / "photos/deep");
  std::filesystem::create_directories(dir / "masks/deep");
  const auto put = [&](const std::string& name, std::int64_t h, std::int64_t w) {  // a picture of blocks, 60 * class
    const Tensor classes = interpolate(randint(4, {1, 1, 5, 4}).to(f32), {.size = {h, w}, .mode = "nearest"})[0];
    io::write_png(dir / ("photos/" + name + ".png"), repeat(classes * 60, {3, 1, 1}).to(u8));
    put_file(dir / ("masks/" + name + ".png"), png(classes[0].to(u8).contiguous(), 2, true));
  };
  put("b", 40, 60);
  put("a", 70, 50);
  put("deep/c", 64, 64);
  io::write_png(dir / "photos/without.png", zeros({3, 9, 9}));
  std::filesystem::create_directories(dir / "elsewhere");  // links have the names that count
  for (const char* folder : {"photos", "masks"}) {
    const std::string from = dir / concat(folder, "/deep/c.png"), to = dir / concat("elsewhere/", folder, ".png");
    std::filesystem::rename(from, to);
    std::filesystem::create_symlink(to, from);
  }
  for (const bool random : {false, true}) {
    data::ImageFolderOptions options{.size = 32};
    if (random) options.random_crop = data::ResizedCropOptions{.scale = {0.3f, 1}};
    const data::SourcePtr set = data::mask_folder(dir / "photos", dir / "masks", options);
    CHECK(set->size() == 3);
    CHECK(set->info().source.find("3 pictures and masks in ") == 0);
    std::int64_t pure = 0;
    for (auto [image, mask] : data::Pipeline(set).raw().shuffle(test::seed()).random_flip().batch(2).epochs(4)) {
      CHECK(mask.dtype() == i64);
      REQUIRE(mask.sizes() == Dims{image.size(0), 32, 32});
      const Tensor level = image.select(1, 0).to(f32) / 60;
      // Where the picture has four equal neighbours it is not mixed, and there it is that of its mask.
      const Tensor v = slice(slice(level, 1, 1, -1), 2, 1, -1), m = slice(slice(mask, 1, 1, -1), 2, 1, -1);
      const auto beside = [&](int dim, std::int64_t by) {
        return slice(slice(level, 1, dim == 1 ? 1 + by : 1, dim == 1 ? 31 + by : 31), 2, dim == 2 ? 1 + by : 1,
                     dim == 2 ? 31 + by : 31);
      };
      const Tensor calm = (beside(1, 1) == v) & (beside(1, -1) == v) & (beside(2, 1) == v) & (beside(2, -1) == v);
      CHECK(equal(masked_select(v, calm), masked_select(m, calm).to(f32)));
      pure += sum(calm).item<std::int64_t>();
    }
    CHECK(pure > 4 * 3 * 32 * 32 / 4);
  }
  CHECK_THROWS_WITH(data::mask_folder(dir / "photos", dir / "nowhere"), Contains("there is no folder"));
  CHECK_THROWS_WITH(data::mask_folder(dir / "masks", dir / "photos"), Contains("without.png has no image without"));
  put_file(dir / "masks/a.png", png(zeros({50, 70}, {.dtype = u8}), 8, false));
  data::Loader loader = data::Pipeline(data::mask_folder(dir / "photos", dir / "masks")).batch(3).loader();
  data::Batch batch;
  CHECK_THROWS_WITH(loader.next(batch), Contains("has 50 x 70 pixels, but its mask") && Contains("70 x 50"));
}
