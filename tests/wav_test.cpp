// WAV files: round trips, every sample format decodes correctly, and damaged files are errors.
#include <cmath>
#include <filesystem>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>

#include "core/ops.h"
#include "core/random.h"
#include "io/wav.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("mantissa_wav_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};
template <class T> std::string bytes_of(T value) { return {reinterpret_cast<const char*>(&value), sizeof(T)}; }
std::string chunk(const std::string& name, const std::string& data) {
  return name + bytes_of(static_cast<std::uint32_t>(data.size())) + data + std::string(data.size() % 2, '\0');
}
std::string format(int kind, int channels, int rate, int bits) {
  const auto frame = static_cast<std::uint16_t>(channels * bits / 8);
  return bytes_of(static_cast<std::uint16_t>(kind)) + bytes_of(static_cast<std::uint16_t>(channels)) +
         bytes_of(static_cast<std::uint32_t>(rate)) + bytes_of(static_cast<std::uint32_t>(rate * frame)) +
         bytes_of(frame) + bytes_of(static_cast<std::uint16_t>(bits));
}
std::string riff(const std::string& chunks) {
  return "RIFF" + bytes_of(static_cast<std::uint32_t>(4 + chunks.size())) + "WAVE" + chunks;
}
void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

TEST_CASE("what save_wav writes load_wav reads", "[wav]") {
  const Folder folder;
  const Tensor x = rand({2, 70001}) * 2 - 1;
  io::save_wav(folder / "a.wav", x, 16000, io::WavFormat::f32);
  const auto [samples, rate] = io::load_wav(folder / "a.wav");
  CHECK(rate == 16000);
  CHECK(same_bits(samples, x));
  io::save_wav(folder / "b.wav", x[0].to(f64), 8000);
  const io::Wav b = io::load_wav(folder / "b.wav");
  CHECK(b.samples.sizes() == Dims{1, 70001});
  CHECK(amax(abs(b.samples[0] - x[0])).item() <= 0.5 / 32768 + 1e-9);
  io::save_wav(folder / "c.wav", tensor({2., -2., 1., 0.5}), 8000);  // beyond [-1, 1)
  CHECK(same_bits(io::load_wav(folder / "c.wav").samples, tensor({{32767. / 32768, -1., 32767. / 32768, 0.5}})));
  CHECK_THROWS_WITH(io::save_wav(folder / "d.wav", tensor({std::nan("")}), 8000),
                    Contains("sample 0 of channel 0 is NaN"));
  CHECK_THROWS_WITH(io::save_wav(folder / "d.wav", tensor({1, 2}), 8000), Contains("needs floating samples"));
  CHECK(!std::filesystem::exists(folder / "d.wav"));
}

TEST_CASE("every kind of sample has its value, whatever chunks stand before", "[wav]") {
  const Folder folder;
  const std::string path = folder / "x.wav";
  const auto load = [&](const std::string& chunks) {
    write(path, riff(chunks));
    return io::load_wav(path).samples;
  };
  const Tensor expected = tensor({{-1., 0.5}, {0., -0.25}});  // two channels, frames (-1, 0), (0.5, -0.25)
  CHECK(same_bits(load(chunk("LIST", "odd") + chunk("fmt ", format(1, 2, 8000, 8)) +
                       chunk("data", std::string("\0\x80\xC0\x60", 4))),
                  expected));
  CHECK(same_bits(load(chunk("fmt ", format(1, 2, 8000, 16)) +
                       chunk("data", bytes_of<std::int16_t>(-32768) + bytes_of<std::int16_t>(0) +
                                         bytes_of<std::int16_t>(16384) + bytes_of<std::int16_t>(-8192))),
                  expected));
  CHECK(same_bits(
      load(chunk("fmt ", format(1, 2, 8000, 24)) + chunk("data", std::string("\0\0\x80\0\0\0\0\0\x40\0\0\xE0", 12))),
      expected));
  CHECK(same_bits(load(chunk("fmt ", format(1, 2, 8000, 32)) +
                       chunk("data", bytes_of<std::int32_t>(-2147483647 - 1) + bytes_of<std::int32_t>(0) +
                                         bytes_of<std::int32_t>(1 << 30) + bytes_of<std::int32_t>(-(1 << 29)))),
                  expected));
  CHECK(same_bits(load(chunk("fmt ", format(3, 2, 8000, 64)) +
                       chunk("data", bytes_of(-1.0) + bytes_of(0.0) + bytes_of(0.5) + bytes_of(-0.25))),
                  expected));
  const std::string extensible = format(0xFFFE, 2, 8000, 32) + bytes_of<std::uint16_t>(22) + std::string(6, '\0') +
                                 bytes_of<std::uint16_t>(3) + std::string(14, '\0');
  const std::string floats = bytes_of(-1.0f) + bytes_of(0.0f) + bytes_of(0.5f) + bytes_of(-0.25f);
  CHECK(same_bits(load(chunk("fmt ", extensible) + chunk("data", floats)), expected));
  // from a writer into a pipe, which did not know the size
  CHECK(same_bits(load(chunk("fmt ", extensible) + "data" + std::string(4, '\xFF') + floats), expected));
  // from one that was stopped before it filled in the sizes; an empty chunk of a finished file is empty
  const std::string nothing(4, '\0');
  write(path, "RIFF" + nothing + "WAVE" + chunk("fmt ", extensible) + "data" + nothing + floats);
  CHECK(same_bits(io::load_wav(path).samples, expected));
  CHECK(load(chunk("fmt ", extensible) + chunk("data", "") + chunk("LIST", "more")).sizes() == Dims{2, 0});
}

TEST_CASE("foreign, inconsistent and cut files are named as such", "[wav]") {
  const Folder folder;
  const std::string path = folder / "x.wav";
  const auto expect = [&](const std::string& text, const char* message) {
    write(path, text);
    CHECK_THROWS_WITH(io::load_wav(path), Contains(message) && Contains("x.wav"));
    CHECK_THROWS_AS(io::load_wav(path), FormatError);
  };
  const std::string fmt = chunk("fmt ", format(1, 1, 8000, 16)), data = chunk("data", "abcd");
  expect("", "not a RIFF WAVE file");
  expect("<!DOCTYPE html><html>", "not a RIFF WAVE file");
  expect(riff(""), "has no format");
  expect(riff(fmt), "has no data");
  expect(riff(data + fmt), "come before their format");
  expect(riff(fmt + "data" + bytes_of<std::uint32_t>(1000) + "abcd"), "is cut off");
  expect(riff(fmt + chunk("data", "abc")), "end inside a frame");
  expect(riff(chunk("fmt ", format(6, 1, 8000, 8)) + data), "kind 6 with 8 bits are not supported");
  expect(riff(chunk("fmt ", format(1, 0, 8000, 16)) + data), "0 channels");
  expect(riff(chunk("fmt ", "short") + data), "fmt chunk has 5 bytes");
  std::string odd = format(1, 2, 8000, 16);
  odd[12] = 3;
  expect(riff(chunk("fmt ", odd) + data), "do not hold");
}

TEST_CASE("no mutation of a file does more than throw", "[wav]") {
  const Folder folder;
  const std::string path = folder / "x.wav";
  const std::string good =
      riff(chunk("LIST", "abc") + chunk("fmt ", format(1, 2, 8000, 16)) + chunk("data", std::string(64, 'x')));
  const std::uint32_t seed = 5;
  CAPTURE(seed);
  std::mt19937 random(seed);
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string bad = good;
    for (std::uint32_t k = 0, n = 1 + random() % 3; k < n; ++k)
      bad[random() % bad.size()] = static_cast<char>(random() % 3 ? random() : 0xFF);
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    write(path, bad);
    try {
      read += io::load_wav(path).samples.numel() <= 64;
    } catch (const FormatError&) {}
  }
  CHECK(read > 150);  // most samples may have any value
}
