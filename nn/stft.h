// The short-time Fourier transform of signals and its inverse, with the numbers of torch.stft and torch.istft. There
// are no complex tensors here: real and imaginary parts are the last dimension, as torch.view_as_real has them.
//
//   Tensor s = stft(x, 400, {.hop_length = 160, .window = hann_window(400)});   // [N, T] -> [N, 201, frames, 2]
//   Tensor power = s.square().sum(-1);
//   Tensor y = istft(s, 400, {.hop_length = 160, .window = hann_window(400), .length = x.size(-1)});
//
// Made of operators, so differentiable on every device; each frame goes through fft::rfft (core/ops_fft.h). f32 or f64;
// f16 and bf16 are computed and returned in f32, also under autocast. Spectrograms as layers, mel scale and more:
// nn/audio.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor.h"

namespace mantissa {

struct StftOptions {
  std::int64_t hop_length = 0;  // from frame to frame; 0: n_fft / 4
  std::int64_t win_length = 0;  // of the window, in the middle of each frame; 0: n_fft
  Tensor window = {};           // [win_length]; undefined: ones
  bool center = true;           // frame t is around sample t * hop_length: x is padded by n_fft / 2 on both sides
  std::string_view pad_mode = "reflect";  // with center; as in pad()
  bool normalized = false;                // divide by sqrt(n_fft)
  bool onesided = true;                   // frequencies 0 ... n_fft / 2 instead of all n_fft
};
// x [..., T] -> [..., frequencies, frames, 2].
Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& = {});

struct IstftOptions {  // the first six as they were for stft
  std::int64_t hop_length = 0;
  std::int64_t win_length = 0;
  Tensor window = {};
  bool center = true;
  bool normalized = false;
  bool onesided = true;
  std::optional<std::int64_t> length = {};  // of the result: cut off, or filled up with zeros
};
// [..., frequencies, frames, 2] -> [..., T], the signal whose frames are closest to the given ones. Error where the
// windows leave a sample uncovered. Without onesided, frequencies beyond n_fft / 2 count nothing. Without `length` a
// last part that filled no hop is missing.
Tensor istft(const Tensor& spectrum, std::int64_t n_fft, const IstftOptions& = {});

}  // namespace mantissa
