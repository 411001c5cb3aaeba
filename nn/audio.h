// Audio front ends as layers, with the names, defaults and state_dict names of torchaudio.transforms: Spectrogram,
// MelScale, MelSpectrogram, MFCC, AmplitudeToDB, FrequencyMasking and TimeMasking (SpecAugment), and resample. Built
// from operators (nn/stft.h), so gradients reach the signal. Sound files: io/wav.h.
//
//   nn::MelSpectrogram mel{{.sample_rate = 16000, .n_fft = 400, .hop_length = 160, .n_mels = 80}};
//   Tensor features = log(mel(wave) + 1e-6);   // [N, T] -> [N, 80, frames]
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/tensor.h"
#include "nn/fields.h"

namespace mantissa::nn {

struct SpectrogramOptions {
  std::int64_t n_fft = 400;
  std::int64_t win_length = 0;      // 0: n_fft
  std::int64_t hop_length = 0;      // 0: win_length / 2
  std::int64_t pad = 0;             // zero padding on both sides, before everything else
  std::optional<double> power = 2;  // exponent of the magnitude; absent: the complex spectrum [..., 2]
  bool normalized = false;          // divide by the square root of the window's sum of squares
  bool center = true;
  std::string_view pad_mode = "reflect";
  bool onesided = true;
};
class Spectrogram {
 public:
  // `window` defaults to a Hann window.
  explicit Spectrogram(const SpectrogramOptions& o = {}, const Tensor& window = {});
  Tensor operator()(const Tensor& x) const;  // [..., T] -> [..., frequencies, frames]

  Buffer window;  // [win_length]
  SpectrogramOptions options;
  MANTISSA_FIELDS(window)
  Spectrogram clone() const { return Spectrogram(options, nn::clone(window)); }
};

// Hz-to-mel formula: HTK's 2595 log10(1 + f / 700), or Slaney's, linear up to 1000 Hz.
enum class MelFormula { htk, slaney };
struct MelScaleOptions {
  std::int64_t n_mels = 128;
  double sample_rate = 16000, f_min = 0;
  double f_max = 0;           // 0: sample_rate / 2, rounded down
  std::int64_t n_stft = 201;  // frequency bins of the spectrum: n_fft / 2 + 1
  bool slaney_norm = false;   // triangles of unit area instead of unit height
  MelFormula formula = MelFormula::htk;
};
// Triangular mel filters: f32 [n_stft, n_mels] (torchaudio.functional.melscale_fbanks). A filter that falls between two
// frequency bins is zero everywhere, as some of the defaults' are; a warning on stderr says so.
Tensor mel_filters(const MelScaleOptions& o);
class MelScale {
 public:
  explicit MelScale(const MelScaleOptions& o = {}) : fb(mel_filters(o)) {}
  Tensor operator()(const Tensor& spectrum) const;  // [..., n_stft, frames] -> [..., n_mels, frames]

  Buffer fb;
  MANTISSA_FIELDS(fb)
  MelScale clone() const { return MelScale(nn::clone(fb)); }

 private:
  explicit MelScale(Buffer filters) : fb(std::move(filters)) {}
};

struct MelSpectrogramOptions {
  double sample_rate = 16000;
  std::int64_t n_fft = 400, win_length = 0, hop_length = 0;  // as in SpectrogramOptions
  double f_min = 0, f_max = 0;
  std::int64_t pad = 0, n_mels = 128;
  double power = 2;
  bool normalized = false, center = true;
  std::string_view pad_mode = "reflect";
  bool slaney_norm = false;
  MelFormula formula = MelFormula::htk;
};
struct MelSpectrogram {
  explicit MelSpectrogram(const MelSpectrogramOptions& o = {});
  Tensor operator()(const Tensor& x) const { return mel_scale(spectrogram(x)); }  // [..., T] -> [..., n_mels, frames]

  Spectrogram spectrogram;
  MelScale mel_scale;
  MANTISSA_FIELDS(spectrogram, mel_scale)
  MelSpectrogram clone() const { return {spectrogram.clone(), mel_scale.clone()}; }

 private:
  MelSpectrogram(Spectrogram s, MelScale m) : spectrogram(std::move(s)), mel_scale(std::move(m)) {}
};

// Decibels: 10 log10(x) of powers, 20 log10(x) of magnitudes, with x clamped to >= 1e-10. With top_db the result is
// clamped to >= maximum - top_db; the maximum is per example for x [N, C, F, T], over all of x up to 3 dimensions.
struct AmplitudeToDB {
  bool magnitudes = false;  // stype="magnitude"
  std::optional<double> top_db = {};
  Tensor operator()(const Tensor& x) const;
};

struct MfccOptions {
  std::int64_t n_mfcc = 40;
  bool ortho = true;      // orthonormal cosine transform
  bool log_mels = false;  // take log(mel) instead of decibels clamped to 80 dB below the maximum
  MelSpectrogramOptions mel = {};
};
// Mel-frequency cepstral coefficients: [..., T] -> [..., n_mfcc, frames].
class MFCC {
 public:
  explicit MFCC(const MfccOptions& o = {});
  Tensor operator()(const Tensor& x) const;

  Buffer dct_mat;  // [n_mels, n_mfcc]
  MelSpectrogram mel;
  bool log_mels = false;
  void fields(Fields& visitor) {
    visitor.visit("dct_mat", dct_mat);
    visitor.visit("MelSpectrogram", mel);
  }
  MFCC clone() const { return MFCC(nn::clone(dct_mat), mel.clone(), log_mels); }

 private:
  MFCC(Buffer dct, MelSpectrogram m, bool logs) : dct_mat(std::move(dct)), mel(std::move(m)), log_mels(logs) {}
};

// SpecAugment (Park et al., 2019), in training only: sets a band of random width, up to mask_param frequencies or
// frames, at a random position to `value`. With iid each example and channel of x [N, C, F, T] gets its own band.
struct MaskingOptions {
  bool iid = false;
  double p = 1;  // at most this part of the frames is masked
  double value = 0;
};
struct FrequencyMasking {
  std::int64_t mask_param = 0;
  MaskingOptions options = {};
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const;  // [..., F, T]
};
struct TimeMasking {
  std::int64_t mask_param = 0;
  MaskingOptions options = {};
  Mode mode = {};
  MANTISSA_FIELDS(mode)
  Tensor operator()(const Tensor& x) const;  // [..., F, T]
};

// Resamples x [..., T] from `from` to `to` samples per second: [..., ceil(T * to / from)]. Hann-windowed sinc
// interpolation over lowpass_width zero crossings, as torchaudio.functional.resample.
struct ResampleOptions {
  int lowpass_width = 6;
  double rolloff = 0.99;  // cutoff of the low-pass filter, as a fraction of the lower Nyquist frequency
};
Tensor resample(const Tensor& x, std::int64_t from, std::int64_t to, const ResampleOptions& = {});

}  // namespace mantissa::nn
