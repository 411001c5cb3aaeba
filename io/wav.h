// Sound files: RIFF WAVE (.wav), the format of most speech datasets. Reads integers of 8, 16, 24 and 32 bits and floats
// of 32 and 64 bits; writes 16 bits or f32. Compressed formats (A-law, MP3, ...) are rejected with their number.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace mantissa::io {

// As torchaudio.load: auto [samples, sample_rate] = io::load_wav(path);
struct Wav {
  Tensor samples;  // f32 [channels, T]; integers are scaled to [-1, 1)
  std::int64_t sample_rate = 0;
};
// Throws FormatError with path and reason for a truncated, foreign or inconsistent file.
Wav load_wav(const std::string& path);

enum class WavFormat { pcm16, f32 };
// samples floating [channels, T] or [T], on any device; for pcm16 rounded to 16 bits, and clamped to [-1, 1). The file
// appears when complete (io/file.h).
void save_wav(const std::string& path, const Tensor& samples, std::int64_t sample_rate,
              WavFormat format = WavFormat::pcm16);

}  // namespace mantissa::io
