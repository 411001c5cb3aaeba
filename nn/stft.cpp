#include "nn/stft.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <numbers>

#include "amp/autocast.h"
#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "core/recording.h"

namespace mantissa {
namespace {

struct Table {
  std::int64_t n_fft, frequencies;
  bool inverse;
  Dtype dtype;
  Device device;
  friend bool operator==(const Table&, const Table&) = default;
};

// [n_fft, frequencies * 2]: column 2k is cos(2 pi k n / n_fft), column 2k + 1 is -sin. The inverse is its transpose
// with each frequency weighed by the number of times that it stands for, divided by n_fft.
Tensor make_table(const Table& t) {
  const std::int64_t n = t.n_fft, columns = 2 * t.frequencies;
  std::vector<double> cosine(static_cast<std::size_t>(n)), sine(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < n; ++j) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
    cosine[static_cast<std::size_t>(j)] = std::cos(angle);
    sine[static_cast<std::size_t>(j)] = 2 * j == n ? 0 : -std::sin(angle);
  }
  Tensor table = Tensor::allocate({n, columns}, f64);
  double* out = table.data<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < t.frequencies; ++k) {
      const auto j = static_cast<std::size_t>(i * k % n);  // the angle in turns of n, so exact
      out[i * columns + 2 * k] = cosine[j];
      out[i * columns + 2 * k + 1] = sine[j];
    }
  }
  if (t.inverse) {
    const bool onesided = t.frequencies != n;
    Tensor weights = Tensor::allocate({columns, 1}, f64);
    for (std::int64_t k = 0; k < t.frequencies; ++k) {
      const double w = (onesided && k > 0 && 2 * k != n ? 2.0 : 1.0) / static_cast<double>(n);
      weights.data<double>()[2 * k] = weights.data<double>()[2 * k + 1] = w;
    }
    table = table.t() * weights;
  }
  return table.to(t.dtype).contiguous().to(t.device);
}

Tensor table_of(const Table& key) {
  struct Kept {
    std::mutex mutex;
    std::deque<std::pair<Table, Tensor>> tables;  // the last ones used stand in front
  };
  static Kept& kept = *new Kept;  // never destroyed: a GPU's memory is gone before static objects are
  const std::lock_guard lock(kept.mutex);
  const auto at = std::ranges::find(kept.tables, key, &std::pair<Table, Tensor>::first);
  if (at != kept.tables.end()) {
    std::rotate(kept.tables.begin(), at, at + 1);
    return kept.tables.front().second;
  }
  const NoGrad no_grad;
  const Tensor table = make_table(key);
  if (is_recording(key.device)) return table;  // its memory is the captured graph's
  synchronize(key.device);  // whatever stream asks next finds it there
  kept.tables.emplace_front(key, table);
  if (kept.tables.size() > 8) kept.tables.pop_back();
  return table;
}

struct Frame {
  std::int64_t hop, window;
};
// What both have in common, checked.
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

// [n_fft], with zeros around a shorter one; undefined for ones.
Tensor whole_window(const Tensor& window, std::int64_t length, std::int64_t n_fft, const Tensor& like) {
  if (!window.defined() && length == n_fft) return {};
  Tensor w = window.defined() ? window.to(like.dtype()) : ones({length}, {.dtype = like.dtype()});
  const std::int64_t left = (n_fft - length) / 2;
  if (length < n_fft) w = pad(w, {left, n_fft - length - left});
  return w.to(like.device());
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
    const std::int64_t samples = sizes.back();
    x = pad(x.reshape({-1, 1, samples}), {n_fft / 2, n_fft / 2}, o.pad_mode);
    sizes.back() = x.size(-1);
    x = x.reshape(sizes);
  }
  check(sizes.back() >= n_fft, "stft: ", sizes.back(), " samples are fewer than one frame of n_fft = ", n_fft);
  Tensor frames = unfold(x, -1, n_fft, frame.hop);  // [..., frames, n_fft]
  if (const Tensor window = whole_window(o.window, frame.window, n_fft, x); window.defined()) frames = frames * window;
  const std::int64_t frequencies = o.onesided ? n_fft / 2 + 1 : n_fft;
  Tensor y = matmul(frames, table_of({n_fft, frequencies, false, x.dtype(), x.device()}));
  if (o.normalized) y = y * (1 / std::sqrt(static_cast<double>(n_fft)));
  return transpose(unflatten(y, -1, {frequencies, 2}), -3, -2);
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
  Tensor frames =
      matmul(flatten(transpose(x, -3, -2), -2), table_of({n_fft, frequencies, true, x.dtype(), x.device()}));
  frames = frames.reshape({-1, count, n_fft});
  Tensor window = whole_window(o.window, frame.window, n_fft, x);
  if (!window.defined()) window = ones({n_fft}, {.dtype = x.dtype(), .device = x.device()});
  if (o.normalized) frames = frames * std::sqrt(static_cast<double>(n_fft));

  const std::int64_t samples = n_fft + frame.hop * (count - 1);
  const auto overlap_add = [&](const Tensor& y) {  // [N, count, n_fft] -> [N, samples]
    const Tensor sum = fold(transpose(y, 1, 2), {1, static_cast<int>(samples)}, {1, static_cast<int>(n_fft)},
                            {.stride = {1, static_cast<int>(frame.hop)}});
    return flatten(sum, 1);
  };
  Tensor y = overlap_add(frames * window), cover = overlap_add(expand(square(window), {1, count, n_fft}));
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
