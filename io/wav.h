// Sound files: RIFF WAVE (.wav), the format of most sets of speech. Integers of 8, 16, 24 and 32 bits and floats of 32
// and 64 bits come in; 16 bits or f32 go out. Compressed kinds (A-law, MP3, ...) are refused with their number.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace mantissa::io {

// As torchaudio.load gives it: auto [samples, sample_rate] = io::load_wav(path);
struct Wav {
  Tensor samples;  // f32 [channels, T]; integers are divided by their largest magnitude: [-1, 1)
  std::int64_t sample_rate = 0;
};
// Throws FormatError with path and reason for a file that is cut off, foreign or inconsistent.
Wav load_wav(const std::string& path);

enum class WavFormat { pcm16, f32 };
// samples floating [channels, T] or [T], on any device; for pcm16 rounded to the nearest of 65536 levels, and cut off
// beyond [-1, 1). The file appears when it is complete (io/file.h).
void save_wav(const std::string& path, const Tensor& samples, std::int64_t sample_rate,
              WavFormat format = WavFormat::pcm16);

}  // namespace mantissa::io
