#include "nn/audio.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>

#include "amp/autocast.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "core/random.h"
#include "nn/stft.h"

namespace mantissa::nn {
namespace {

double to_mel(double f, MelFormula formula) {
  if (formula == MelFormula::htk) return 2595 * std::log10(1 + f / 700);
  return f < 1000 ? f * 3 / 200 : 15 + 27 * std::log(f / 1000) / std::log(6.4);
}
double to_hz(double mel, MelFormula formula) {
  if (formula == MelFormula::htk) return 700 * (std::pow(10, mel / 2595) - 1);
  return mel < 15 ? mel * 200 / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

// [n_mels, n_mfcc]: the DCT-II matrix.
Tensor cosine_transform(std::int64_t n_mfcc, std::int64_t n_mels, bool ortho) {
  Tensor t = Tensor::allocate({n_mels, n_mfcc}, f32);
  const auto n = static_cast<double>(n_mels);
  for (std::int64_t i = 0; i < n_mels; ++i) {
    for (std::int64_t k = 0; k < n_mfcc; ++k) {
      const double scale = !ortho ? 2 : k == 0 ? std::sqrt(1 / n) : std::sqrt(2 / n);
      const double angle = std::numbers::pi / n * (static_cast<double>(i) + 0.5) * static_cast<double>(k);
      t.data<float>()[i * n_mfcc + k] = static_cast<float>(scale * std::cos(angle));
    }
  }
  return t;
}

MelScaleOptions scale_of(const MelSpectrogramOptions& o) {
  return {.n_mels = o.n_mels,
          .sample_rate = o.sample_rate,
          .f_min = o.f_min,
          .f_max = o.f_max,
          .n_stft = o.n_fft / 2 + 1,
          .slaney_norm = o.slaney_norm,
          .formula = o.formula};
}

Tensor mask_stripe(const char* name, const Tensor& x, std::int64_t mask_param, const MaskingOptions& o, int axis) {
  check(mask_param >= 0, name, ": mask_param must not be negative, got ", mask_param);
  check(o.p >= 0 && o.p <= 1, name, ": p must be between 0 and 1, got ", o.p);
  check(x.dim() >= (o.iid ? 3 : 2), name, ": needs [", o.iid ? "N, ..., " : "..., ", "F, T], got ", x);
  const std::int64_t size = x.size(axis);
  const std::int64_t widest = std::min(mask_param, static_cast<std::int64_t>(static_cast<double>(size) * o.p));
  if (widest == 0) return x;
  Dims each = Dims::filled(x.dim(), 1), along = each;
  if (o.iid) for (int d = 0; d + 2 < x.dim(); ++d) each[d] = x.size(d);
  along[axis < 0 ? x.dim() + axis : axis] = size;
  const TensorOptions on{.dtype = f32, .device = x.device()};
  const Tensor width = rand(each, on) * static_cast<double>(widest);
  const Tensor begin = floor(rand(each, on) * (static_cast<double>(size) - width)), end = begin + floor(width);
  const Tensor position = arange(0, static_cast<double>(size), 1, on).reshape(along);
  const Tensor masked = logical_and(position >= begin, position < end);
  return masked_fill(x, masked, o.value);
}

}  // namespace

Spectrogram::Spectrogram(const SpectrogramOptions& o, const Tensor& given) : options(o) {
  if (options.win_length == 0) options.win_length = options.n_fft;
  if (options.hop_length == 0) options.hop_length = options.win_length / 2;
  check(!given.defined() || (given.dim() == 1 && given.size(0) == options.win_length),
        "Spectrogram: the window must have shape [", options.win_length, "], got ", given);
  window = given.defined() ? given : hann_window(options.win_length);
}

Tensor Spectrogram::operator()(const Tensor& x) const {
  const SpectrogramOptions& o = options;
  const Tensor padded = o.pad == 0 ? x : mantissa::pad(x, {o.pad, o.pad});
  Tensor s = stft(padded, o.n_fft,
                  {.hop_length = o.hop_length,
                   .win_length = o.win_length,
                   .window = window,
                   .center = o.center,
                   .pad_mode = o.pad_mode,
                   .onesided = o.onesided});
  if (o.normalized) s = s / sqrt(sum(square(window)));
  if (!o.power) return s;
  const Tensor power = sum(square(s), -1);
  if (*o.power == 2) return power;
  return *o.power == 1 ? norm(s, 2, -1) : pow(power, *o.power / 2);
}

Tensor mel_filters(const MelScaleOptions& o) {
  const double nyquist = std::floor(o.sample_rate / 2);  // as torchaudio rounds it
  const double top = o.f_max > 0 ? o.f_max : nyquist;
  check(o.n_mels > 0 && o.n_stft > 1, "mel_filters: n_mels and n_stft must be positive, got ", o.n_mels, " and ",
        o.n_stft);
  check(o.f_min >= 0 && o.f_min < top, "mel_filters: f_min ", o.f_min, " is not below f_max ", top);
  const double low = to_mel(o.f_min, o.formula), high = to_mel(top, o.formula);
  std::vector<double> corners;
  for (std::int64_t i = 0; i < o.n_mels + 2; ++i)
    corners.push_back(
        to_hz(low + (high - low) * static_cast<double>(i) / static_cast<double>(o.n_mels + 1), o.formula));
  Tensor filters = zeros({o.n_stft, o.n_mels});
  std::int64_t empty = 0;
  for (std::int64_t m = 0; m < o.n_mels; ++m) {
    const auto at = static_cast<std::size_t>(m);
    const double left = corners[at], middle = corners[at + 1], right = corners[at + 2];
    const double height = o.slaney_norm ? 2 / (right - left) : 1;
    bool found = false;
    for (std::int64_t k = 0; k < o.n_stft; ++k) {
      const double f = nyquist * static_cast<double>(k) / static_cast<double>(o.n_stft - 1);
      const double value = std::max(0.0, std::min((f - left) / (middle - left), (right - f) / (right - middle)));
      filters.data<float>()[k * o.n_mels + m] = static_cast<float>(height * value);
      found = found || value > 0;
    }
    empty += !found;
  }
  if (empty > 0) {
    std::fprintf(stderr, "mantissa: %s\n",
                 concat("mel_filters: ", empty, " of ", o.n_mels, " filters lie between two of the ", o.n_stft,
                        " frequencies, and give only zeros; use fewer filters or a larger n_fft").c_str());
  }
  return filters;
}

Tensor MelScale::operator()(const Tensor& spectrum) const {
  check(spectrum.dim() >= 2 && spectrum.size(-2) == fb.size(0), "MelScale: needs [..., ", fb.size(0), ", frames], got ",
        spectrum, "; n_stft is n_fft / 2 + 1");
  const amp::OutsideAutocast off;  // powers exceed the range of f16
  const Tensor x = spectrum.dtype() == f64 ? spectrum : cast(spectrum, f32);
  return transpose(matmul(transpose(x, -2, -1), fb.to(x.dtype())), -2, -1);
}

MelSpectrogram::MelSpectrogram(const MelSpectrogramOptions& o)
    : spectrogram({.n_fft = o.n_fft,
                   .win_length = o.win_length,
                   .hop_length = o.hop_length,
                   .pad = o.pad,
                   .power = o.power,
                   .normalized = o.normalized,
                   .center = o.center,
                   .pad_mode = o.pad_mode}),
      mel_scale(scale_of(o)) {}

Tensor AmplitudeToDB::operator()(const Tensor& x) const {
  const amp::OutsideAutocast off;
  const Tensor wide = x.dtype() == f64 ? x : cast(x, f32);
  Tensor y = (magnitudes ? 20.0 : 10.0) * log10(clamp_min(wide, 1e-10));
  if (!top_db) return y;
  check(*top_db >= 0, "AmplitudeToDB: top_db must not be negative, got ", *top_db);
  if (y.dim() <= 3) return maximum(y, amax(y) - *top_db);
  return maximum(y, amax(y, {-3, -2, -1}, true) - *top_db);
}

MFCC::MFCC(const MfccOptions& o)
    : dct_mat(cosine_transform(o.n_mfcc, o.mel.n_mels, o.ortho)), mel(o.mel), log_mels(o.log_mels) {
  check(o.n_mfcc <= o.mel.n_mels, "MFCC: ", o.n_mfcc, " coefficients cannot come from ", o.mel.n_mels, " mels");
}

Tensor MFCC::operator()(const Tensor& x) const {
  const Tensor m = mel(x);
  const Tensor logs = log_mels ? log(m + 1e-6) : AmplitudeToDB{.top_db = 80}(m);
  const amp::OutsideAutocast off;
  return transpose(matmul(transpose(logs, -2, -1), dct_mat.to(logs.dtype())), -2, -1);
}

Tensor FrequencyMasking::operator()(const Tensor& x) const {
  return mode.training ? mask_stripe("FrequencyMasking", x, mask_param, options, -2) : x;
}
Tensor TimeMasking::operator()(const Tensor& x) const {
  return mode.training ? mask_stripe("TimeMasking", x, mask_param, options, -1) : x;
}

Tensor resample(const Tensor& x, std::int64_t from, std::int64_t to, const ResampleOptions& o) {
  check(from > 0 && to > 0, "resample: rates must be positive, got ", from, " and ", to);
  check(o.lowpass_width > 0, "resample: lowpass_width must be positive, got ", o.lowpass_width);
  check(o.rolloff > 0 && o.rolloff <= 1, "resample: rolloff must be above 0 and at most 1, got ", o.rolloff);
  check(x.dim() >= 1 && x.is_floating(), "resample: needs a floating [..., T], got ", x);
  if (from == to) return x;
  const std::int64_t divisor = std::gcd(from, to), in = from / divisor, out = to / divisor;
  // Output phase i (of `out`) is a weighted sum of the inputs around it: a convolution with `out` channels and stride
  // `in`.
  const double cutoff = static_cast<double>(std::min(in, out)) * o.rolloff, zeros = o.lowpass_width;
  const auto reach = static_cast<std::int64_t>(std::ceil(zeros * static_cast<double>(in) / cutoff));
  const std::int64_t taps = 2 * reach + in;
  Tensor kernel = Tensor::allocate({out, 1, taps}, f64);
  for (std::int64_t phase = 0; phase < out; ++phase) {
    for (std::int64_t k = 0; k < taps; ++k) {
      const double t = static_cast<double>(k - reach) / static_cast<double>(in) -
                       static_cast<double>(phase) / static_cast<double>(out);
      const double at = std::clamp(t * cutoff, -zeros, zeros), angle = at * std::numbers::pi;
      const double hann = std::cos(angle / zeros / 2);
      kernel.data<double>()[phase * taps + k] =
          (angle == 0 ? 1 : std::sin(angle) / angle) * hann * hann * cutoff / static_cast<double>(in);
    }
  }
  const std::int64_t length = x.size(-1), result = (out * length + in - 1) / in;
  Tensor y = mantissa::pad(x.reshape({-1, 1, length}), {reach, reach + in});
  y = conv1d(y, kernel.to(x.dtype()).to(x.device()), {}, {.stride = static_cast<int>(in)});
  y = slice(flatten(transpose(y, 1, 2), 1), 1, 0, result);
  Dims sizes = x.sizes();
  sizes.back() = result;
  return y.reshape(sizes);
}

}  // namespace mantissa::nn
