#include "nn/stft.h"

#include <algorithm>

#include "amp/autocast.h"
#include "core/ops.h"
#include "core/ops_fft.h"
#include "ops/function.h"
#include "ops/onnx.h"

namespace mantissa {
namespace {

struct Frame {
  std::int64_t hop, window;
};
// Validation common to both.
Frame frame_of(const char* name, std::int64_t n_fft, std::int64_t hop, std::int64_t length, const Tensor& window) {
  check(n_fft > 0, name, ": n_fft must be positive, got ", n_fft);
  if (hop == 0) hop = n_fft / 4;
  if (length == 0) length = n_fft;
  check(hop > 0, name, ": hop_length must be positive, got ", hop);
  check(length > 0 && length <= n_fft, name, ": win_length ", length, " is not between 1 and n_fft = ", n_fft);
  check(!window.defined() || (window.dim() == 1 && window.size(0) == length), name, ": the window must have shape [",
        length, "], got ", window);
  return {hop, length};
}

// [n_fft]: a shorter window is centred in zeros.
Tensor whole_window(const Tensor& window, std::int64_t length, std::int64_t n_fft, const Tensor& like) {
  Tensor w = window.defined() ? window.to(like.dtype()) : ones({length}, {.dtype = like.dtype()});
  const std::int64_t left = (n_fft - length) / 2;
  if (length < n_fft) w = pad(w, {left, n_fft - length - left});
  return w.to(like.device());
}

// --- overlapping windowed frames, and their overlap-add; each is the other's gradient ---
Tensor windowed_frames(const Tensor& x, const Tensor& window, std::int64_t hop);
Tensor overlap_add(const Tensor& frames, const Tensor& window, std::int64_t hop, std::int64_t samples);

struct WindowedFrames {
  static constexpr auto name = "windowed_frames";
  std::int64_t hop;
  Tensor forward(Saved& saved, const Tensor& x, const Tensor& window) const {
    saved.save({x, window});
    Dims sizes = x.sizes(), strides = x.strides();
    const std::int64_t n = window.size(0), step = strides.back();
    sizes[sizes.rank() - 1] = (sizes.back() - n) / hop + 1;
    strides[strides.rank() - 1] = hop * step;
    sizes.push_back(n);
    strides.push_back(step);
    return x.raw_view(sizes, strides) * window;
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor x = saved[0], window = saved[1];
    Tensor of_window;
    if (window.requires_grad()) of_window = sum_to(g * windowed_frames(x, ones_like(window), hop), window.sizes());
    return {overlap_add(g, window, hop, x.size(-1)), of_window};
  }
};

struct OverlapAdd {
  static constexpr auto name = "overlap_add";
  std::int64_t hop, samples;
  Tensor forward(Saved& saved, const Tensor& frames, const Tensor& window) const {
    saved.save({frames, window});
    const std::int64_t count = frames.size(-2), n = frames.size(-1), pieces = (n + hop - 1) / hop;
    const Tensor all = frames.reshape({-1, count, n});  // a frame is `pieces` pieces of hop samples
    const Tensor sum =
        zeros({all.size(0), count + pieces - 1, hop}, {.dtype = frames.dtype(), .device = frames.device()});
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t length = std::min(hop, n - i * hop);
      const auto piece = [&](const Tensor& t) { return narrow(t, -1, i * hop, length); };
      Tensor to = narrow(narrow(sum, 1, i, count), 2, 0, length);
      to.add_(piece(all) * piece(window));
    }
    Tensor y = flatten(sum, 1);
    y = y.size(1) < samples ? pad(y, {0, samples - y.size(1)}) : narrow(y, 1, 0, samples);
    Dims sizes = frames.sizes();
    sizes.erase(sizes.rank() - 1);
    sizes[sizes.rank() - 1] = samples;
    return y.reshape(sizes);
  }
  std::vector<Tensor> backward(const Saved& saved, const Tensor& g) const {
    const Tensor frames = saved[0], window = saved[1];
    const std::int64_t used = (frames.size(-2) - 1) * hop + frames.size(-1);
    const Tensor from = narrow(g, -1, 0, used);
    Tensor of_window;
    if (window.requires_grad())
      of_window = sum_to(frames * windowed_frames(from, ones_like(window), hop), window.sizes());
    return {windowed_frames(from, window, hop), of_window};
  }
};

// While tracing for ONNX, composed of exportable operators.
Tensor windowed_frames(const Tensor& x, const Tensor& window, std::int64_t hop) {
  if (OnnxCall::is_heard()) return unfold(x, -1, window.size(0), hop) * window;
  return apply_function(WindowedFrames{hop}, x, window);
}
Tensor overlap_add(const Tensor& frames, const Tensor& window, std::int64_t hop, std::int64_t samples) {
  if (!OnnxCall::is_heard()) return apply_function(OverlapAdd{hop, samples}, frames, window);
  const auto n = static_cast<int>(frames.size(-1));
  const Tensor sum = fold(transpose(frames * window, 1, 2), {1, static_cast<int>(samples)}, {1, n},
                          {.stride = {1, static_cast<int>(hop)}});
  return flatten(sum, 1);
}

// x [N, 1, T] padded by `border` samples on both sides. Reflection flips only the border samples: pad() would build an
// index for all samples.
Tensor with_borders(const Tensor& x, std::int64_t border, std::string_view mode) {
  if (mode != "reflect" || border == 0 || OnnxCall::is_heard()) return pad(x, {border, border}, mode);
  const auto turned = [&](std::int64_t first) { return flip(narrow(x, -1, first, border), {-1}); };
  return cat({turned(1), x, turned(x.size(-1) - 1 - border)}, -1);
}

Tensor as_wide(const char* name, const Tensor& x) {
  check(x.is_floating(), name, ": needs a floating tensor, got ", x);
  return x.dtype() == f64 ? x : cast(x, f32);
}

}  // namespace

Tensor stft(const Tensor& given, std::int64_t n_fft, const StftOptions& o) {
  const amp::OutsideAutocast off;
  const Frame frame = frame_of("stft", n_fft, o.hop_length, o.win_length, o.window);
  Tensor x = as_wide("stft", given);
  check(x.dim() >= 1, "stft: x must be [..., T], got ", x);
  Dims sizes = x.sizes();
  if (o.center) {
    check(o.pad_mode != "reflect" || sizes.back() > n_fft / 2, "stft: a signal of ", sizes.back(),
          " samples is too short to be reflected by n_fft / 2 = ", n_fft / 2, " at its ends");
    x = with_borders(x.reshape({-1, 1, sizes.back()}), n_fft / 2, o.pad_mode);
    sizes.back() = x.size(-1);
    x = x.reshape(sizes);
  }
  check(sizes.back() >= n_fft, "stft: ", sizes.back(), " samples are fewer than one frame of n_fft = ", n_fft);
  const Tensor frames = windowed_frames(x, whole_window(o.window, frame.window, n_fft, x), frame.hop);
  const std::string_view norm = o.normalized ? "ortho" : "backward";
  const Tensor y = o.onesided ? fft::rfft(frames, {.norm = norm}) : fft::fft(to_complex(frames), {.norm = norm});
  return transpose(y, -3, -2);
}

Tensor istft(const Tensor& given, std::int64_t n_fft, const IstftOptions& o) {
  const amp::OutsideAutocast off;
  const Frame frame = frame_of("istft", n_fft, o.hop_length, o.win_length, o.window);
  const Tensor x = as_wide("istft", given);
  const std::int64_t frequencies = o.onesided ? n_fft / 2 + 1 : n_fft;
  check(x.dim() >= 3 && x.size(-1) == 2 && x.size(-3) == frequencies, "istft: needs a spectrum [..., ", frequencies,
        ", frames, 2] for n_fft = ", n_fft, o.onesided ? " with onesided" : "", ", got ", x);
  const std::int64_t count = x.size(-2);
  check(count > 0, "istft: the spectrum has no frames");
  const std::string_view norm = o.normalized ? "ortho" : "backward";
  // With two-sided input the second half is redundant, and is not read.
  const Tensor spectra = slice(transpose(x, -3, -2), -2, 0, n_fft / 2 + 1);
  const Tensor frames = fft::irfft(spectra, {.n = n_fft, .norm = norm}).reshape({-1, count, n_fft});
  const Tensor window = whole_window(o.window, frame.window, n_fft, x);
  const std::int64_t samples = n_fft + frame.hop * (count - 1);
  Tensor y = overlap_add(frames, window, frame.hop, samples);
  Tensor cover = overlap_add(expand(window, {1, count, n_fft}), window, frame.hop, samples);
  const std::int64_t begin = o.center ? n_fft / 2 : 0;
  std::int64_t end = o.center ? samples - n_fft / 2 : samples;
  if (o.length) {
    check(*o.length >= 0, "istft: the length must not be negative, got ", *o.length);
    end = begin + *o.length;
  }
  y = slice(y, 1, begin, end);
  cover = slice(cover, 1, begin, end);
  check(cover.numel() > 0, "istft: ", count, " frames leave no sample between the padded ends");
  check(static_cast<bool>(min(abs(cover)) > 1e-11),
        "istft: there are samples that no window covers; use a smaller hop_length, or another window");
  y = y / cover;
  if (o.length && y.size(1) < *o.length) y = pad(y, {0, *o.length - y.size(1)});
  Dims sizes;
  for (int d = 0; d < x.dim() - 3; ++d) sizes.push_back(x.size(d));
  sizes.push_back(y.size(1));
  return y.reshape(sizes);
}

}  // namespace mantissa
