// Front ends for speech and sound, as layers with the names, defaults and file names of torchaudio.transforms:
// Spectrogram, MelScale, MelSpectrogram, MFCC, AmplitudeToDB, FrequencyMasking and TimeMasking (SpecAugment), and
// resample. Made of operators (nn/stft.h), so gradients reach the signal. Sound files: io/wav.h.
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
  std::int64_t pad = 0;             // zeros on both sides, before everything else
  std::optional<double> power = 2;  // of the magnitude; absent: the complex spectrum [..., 2]
  bool normalized = false;          // divide by the root of the sum of the window's squares
  bool center = true;
  std::string_view pad_mode = "reflect";
  bool onesided = true;
};
class Spectrogram {
 public:
  // A Hann window, if none is given.
  explicit Spectrogram(const SpectrogramOptions& o = {}, const Tensor& window = {});
  Tensor operator()(const Tensor& x) const;  // [..., T] -> [..., frequencies, frames]

  Buffer window;  // [win_length]
  SpectrogramOptions options;
  MANTISSA_FIELDS(window)
  Spectrogram clone() const { return Spectrogram(options, nn::clone(window)); }
};

// The formula between Hz and mel: HTK's 2595 log10(1 + f / 700), or Slaney's, linear up to 1000 Hz.
enum class MelFormula { htk, slaney };
struct MelScaleOptions {
  std::int64_t n_mels = 128;
  double sample_rate = 16000, f_min = 0;
  double f_max = 0;           // 0: sample_rate / 2
  std::int64_t n_stft = 201;  // frequencies of the spectrum: n_fft / 2 + 1
  bool slaney_norm = false;   // triangles of equal area instead of equal height
  MelFormula formula = MelFormula::htk;
};
// Overlapping triangles, equally wide in mel: f32 [n_stft, n_mels] (torchaudio.functional.melscale_fbanks). Error when
// one of them lies between two frequencies and is 0 everywhere.
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
  std::int64_t n_fft = 400, win_length = 0, hop_length = 0;  // as of Spectrogram
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

// 10 log10(x) of powers, 20 log10(x) of magnitudes, at least 1e-10; with top_db no further below the largest value (of
// each [channels, ...] of a batch [N, C, F, T]; of all for up to three dimensions) than that.
struct AmplitudeToDB {
  bool magnitudes = false;  // stype="magnitude"
  std::optional<double> top_db = {};
  Tensor operator()(const Tensor& x) const;
};

struct MfccOptions {
  std::int64_t n_mfcc = 40;
  bool ortho = true;      // rows of the cosine transform of length 1
  bool log_mels = false;  // logarithms instead of decibels within 80 dB
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

// SpecAugment (Park et al., 2019), in training: a stripe of up to mask_param frequencies or frames, of a random width
// at a random place, becomes `value`; with iid another one for each example of x [N, ..., F, T], else the same for all.
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

// The signal x [..., T] with `to` instead of `from` samples a second: [..., ceil(T * to / from)]. By the sum of sinc
// functions over lowpass_width zero crossings, under a Hann window, as torchaudio.functional.resample.
struct ResampleOptions {
  int lowpass_width = 6;
  double rolloff = 0.99;  // where the low-pass filter cuts off, as a part of the lower half rate
};
Tensor resample(const Tensor& x, std::int64_t from, std::int64_t to, const ResampleOptions& = {});

}  // namespace mantissa::nn
