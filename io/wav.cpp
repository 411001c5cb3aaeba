#include "io/wav.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/ops.h"
#include "io/file.h"

namespace mantissa::io {
namespace {

static_assert(std::endian::native == std::endian::little, "chunks are little-endian");

constexpr std::uint16_t pcm = 1, ieee_float = 3, extensible = 0xFFFE;
constexpr std::int64_t longest_format = 1 << 16;  // the known formats take 40 bytes
constexpr int most_chunks = 10'000;

template <class T> T number(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

struct Format {
  std::uint16_t kind = 0, channels = 0, bits = 0, frame_bytes = 0;
  std::uint32_t rate = 0;
};

Format read_format(const FileReader& file, std::int64_t at, std::int64_t size) {
  if (size < 16 || size > longest_format) fail_format(file.path(), "its fmt chunk has ", size, " bytes");
  std::vector<char> bytes(static_cast<std::size_t>(size));
  file.read(bytes.data(), size, at);
  Format f;
  f.kind = number<std::uint16_t>(&bytes[0]);
  f.channels = number<std::uint16_t>(&bytes[2]);
  f.rate = number<std::uint32_t>(&bytes[4]);
  f.frame_bytes = number<std::uint16_t>(&bytes[12]);
  f.bits = number<std::uint16_t>(&bytes[14]);
  if (f.kind == extensible) {
    if (size < 40) fail_format(file.path(), "its fmt chunk says extensible and has only ", size, " bytes");
    f.kind = number<std::uint16_t>(&bytes[24]);
  }
  const bool integers = f.kind == pcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32);
  const bool floats = f.kind == ieee_float && (f.bits == 32 || f.bits == 64);
  if (!integers && !floats)
    fail_format(file.path(), "samples of kind ", f.kind, " with ", f.bits,
                " bits are not supported; convert it, as in ffmpeg -i in.wav -c:a pcm_s16le out.wav");
  if (f.channels == 0 || f.rate == 0)
    fail_format(file.path(), "it has ", f.channels, " channels and ", static_cast<std::int64_t>(f.rate),
                " samples a second");
  if (f.frame_bytes != f.channels * (f.bits / 8))
    fail_format(file.path(), "frames of ", f.frame_bytes, " bytes do not hold ", f.channels, " channels of ", f.bits,
                " bits");
  return f;
}

float sample(const Format& f, const char* bytes) {
  if (f.kind == ieee_float) return f.bits == 32 ? number<float>(bytes) : static_cast<float>(number<double>(bytes));
  switch (f.bits) {
    case 8:
      return (static_cast<float>(number<std::uint8_t>(bytes)) - 128) / 128;
    case 16:
      return static_cast<float>(number<std::int16_t>(bytes)) / 32768;
    case 24: {
      const std::uint32_t low = number<std::uint16_t>(bytes);
      const std::int32_t high = number<std::int8_t>(bytes + 2);
      return static_cast<float>(high * 65536 + static_cast<std::int32_t>(low)) / 8388608;
    }
    default:
      return static_cast<float>(static_cast<double>(number<std::int32_t>(bytes)) / 2147483648.0);
  }
}

Tensor read_samples(const FileReader& file, const Format& f, std::int64_t at, std::int64_t size) {
  if (size % f.frame_bytes != 0)
    fail_format(file.path(), "its data of ", size, " bytes end inside a frame of ", f.frame_bytes);
  const std::int64_t count = size / f.frame_bytes, step = f.bits / 8;
  Tensor samples = Tensor::allocate({f.channels, count}, f32);
  float* out = samples.data<float>();
  constexpr std::int64_t block = 1 << 16;  // frames per block
  std::vector<char> bytes(static_cast<std::size_t>(std::min(block, count) * f.frame_bytes));
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t n = std::min(block, count - begin);
    file.read(bytes.data(), n * f.frame_bytes, at + begin * f.frame_bytes);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t c = 0; c < f.channels; ++c)
        out[c * count + begin + i] = sample(f, &bytes[static_cast<std::size_t>(i * f.frame_bytes + c * step)]);
    }
  }
  return samples;
}

template <class T> void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

}  // namespace

Wav load_wav(const std::string& path) {
  const FileReader file(path);
  char head[12] = {};
  if (file.size() >= 12) file.read(head, 12, 0);
  if (std::memcmp(head, "RIFF", 4) != 0 || std::memcmp(head + 8, "WAVE", 4) != 0) {
    const char* what = recognise(file.head());
    fail_format(path, "is not a RIFF WAVE file", what ? ": it looks like " : "", what ? what : "");
  }
  // A program that wrote to a pipe did not know the sizes, and one that was stopped did not fill them in.
  const std::uint32_t whole = number<std::uint32_t>(head + 4);
  const bool open_file = whole == 0 || whole == 0xFFFFFFFF;
  Format format;
  bool has_format = false;
  std::int64_t at = 12;
  for (int chunk = 0; at + 8 <= file.size(); ++chunk) {
    if (chunk == most_chunks) fail_format(path, "it has more than ", most_chunks, " chunks");
    char header[8];
    file.read(header, 8, at);
    const std::int64_t size = number<std::uint32_t>(header + 4), left = file.size() - at - 8;
    const bool data = std::memcmp(header, "data", 4) == 0;
    const bool open = size == 0xFFFFFFFF || (size == 0 && open_file);
    const std::int64_t known = data && open ? left - left % std::max<int>(format.frame_bytes, 1) : size;
    if (known > left)
      fail_format(path, "is cut off: chunk ", quote({header, 4}), " has ", known, " bytes, ", left, " follow");
    if (std::memcmp(header, "fmt ", 4) == 0) {
      format = read_format(file, at + 8, known);
      has_format = true;
    } else if (data) {
      if (!has_format) fail_format(path, "its data come before their format");
      return {read_samples(file, format, at + 8, known), format.rate};
    }
    at += 8 + known + known % 2;
  }
  fail_format(path, "has no ", has_format ? "data" : "format");
}

void save_wav(const std::string& path, const Tensor& given, std::int64_t sample_rate, WavFormat format) {
  check(given.is_floating() && (given.dim() == 1 || given.dim() == 2),
        "save_wav: needs floating samples [channels, T] or [T], got ", given);
  check(sample_rate > 0 && sample_rate <= 0xFFFFFFFF, "save_wav: ", sample_rate, " is no sample rate");
  const Tensor x = (given.dim() == 1 ? given.unsqueeze(0) : given).detach().to(cpu).to(f32).contiguous();
  const std::int64_t channels = x.size(0), count = x.size(1);
  const int bytes = format == WavFormat::pcm16 ? 2 : 4;
  check(channels >= 1 && channels * bytes <= 0xFFFF, "save_wav: ", channels, " channels do not fit into a frame");
  const std::int64_t size = count * channels * bytes;
  check(size <= 0xFFFFFFFF - 64, "save_wav: ", size, " bytes do not fit into a WAVE file");
  const bool floats = format == WavFormat::f32;

  std::string out = "RIFF";
  put(out, static_cast<std::uint32_t>(36 + size + size % 2));
  out += "WAVEfmt ";
  put(out, std::uint32_t{16});
  put(out, floats ? ieee_float : pcm);
  put(out, static_cast<std::uint16_t>(channels));
  put(out, static_cast<std::uint32_t>(sample_rate));
  put(out, static_cast<std::uint32_t>(sample_rate * channels * bytes));
  put(out, static_cast<std::uint16_t>(channels * bytes));
  put(out, static_cast<std::uint16_t>(8 * bytes));
  out += "data";
  put(out, static_cast<std::uint32_t>(size));
  out.reserve(out.size() + static_cast<std::size_t>(size));
  const float* v = x.data<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float s = v[c * count + i];
      if (floats) {
        put(out, s);
        continue;
      }
      check(!std::isnan(s), "save_wav: sample ", i, " of channel ", c, " is NaN");
      put(out, static_cast<std::int16_t>(std::lround(std::clamp(s * 32768, -32768.0f, 32767.0f))));
    }
  }
  AtomicFile file(path);
  file.write(out);
  file.commit();
}

}  // namespace mantissa::io
