// The short-time Fourier transform and its inverse, with the results of torch.stft and torch.istft. Spectra are real
// tensors here: real and imaginary parts are the last dimension, as in torch.view_as_real.
//
//   Tensor s = stft(x, 400, {.hop_length = 160, .window = hann_window(400)});   // [N, T] -> [N, 201, frames, 2]
//   Tensor power = s.square().sum(-1);
//   Tensor y = istft(s, 400, {.hop_length = 160, .window = hann_window(400), .length = x.size(-1)});
//
// Built from operators, so differentiable on every device; each frame is an fft::rfft (core/ops_fft.h). f32 or f64; f16
// and bf16 are computed and returned in f32, also under autocast. Spectrogram layers, mel scale and more: nn/audio.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor.h"

namespace mantissa {

struct StftOptions {
  std::int64_t hop_length = 0;  // samples between frames; 0: n_fft / 4
  std::int64_t win_length = 0;  // window length, centred in each frame; 0: n_fft
  Tensor window = {};           // [win_length]; undefined: ones
  bool center = true;           // frame t is centred at sample t * hop_length: x is padded by n_fft / 2 on both sides
  std::string_view pad_mode = "reflect";  // with center; as in pad()
  bool normalized = false;                // divide by sqrt(n_fft)
  bool onesided = true;                   // frequencies 0 ... n_fft / 2 instead of all n_fft
};
// x [..., T] -> [..., frequencies, frames, 2].
Tensor stft(const Tensor& x, std::int64_t n_fft, const StftOptions& = {});

struct IstftOptions {  // the first six must be those passed to stft
  std::int64_t hop_length = 0;
  std::int64_t win_length = 0;
  Tensor window = {};
  bool center = true;
  bool normalized = false;
  bool onesided = true;
  std::optional<std::int64_t> length = {};  // of the result: truncated, or padded with zeros
};
// [..., frequencies, frames, 2] -> [..., T], the least-squares inverse. Error where the windows leave a sample
// uncovered. Without onesided, frequencies beyond n_fft / 2 are ignored. Without `length`, samples at the end that did
// not fill a hop are missing.
Tensor istft(const Tensor& spectrum, std::int64_t n_fft, const IstftOptions& = {});

}  // namespace mantissa
