// oneDNN 2.6 behind core/onednn.h.
// Invariant: every call into the library happens under OneThread.
#include "core/onednn.h"

#include <omp.h>

#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "core/tensor.h"

namespace mantissa::onednn {
namespace {

// oneDNN asks OpenMP how many threads it may use; under this guard the answer is one.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;

 private:
  int before_;
};

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}
dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

Desc f32_desc(const dnnl::memory::dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }
dnnl::memory memory_at(const Desc& desc, const void* p) { return {desc, engine(), const_cast<void*>(p)}; }
Tensor scratch(std::size_t bytes) { return Tensor::allocate({static_cast<std::int64_t>(bytes)}, u8); }

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // the library's own is not thread-safe
  return attr;
}

// Copies between our contiguous layout and the one a primitive wants; nothing when they are equal.
class Reorder {
 public:
  Reorder(const Desc& from, const Desc& to) : from_(from), to_(to) {
    if (from == to) return;
    const dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, user_scratchpad());
    scratchpad_ = pd.scratchpad_desc();
    reorder_.emplace(pd);
  }
  bool needed() const { return reorder_.has_value(); }
  const Desc& from() const { return from_; }
  const Desc& to() const { return to_; }
  void run(const void* from, void* to) const {
    const Tensor temporary = scratch(scratchpad_.get_size());
    reorder_->execute(stream(), {{DNNL_ARG_FROM, memory_at(from_, from)},
                                 {DNNL_ARG_TO, memory_at(to_, to)},
                                 {DNNL_ARG_SCRATCHPAD, memory_at(scratchpad_, temporary.raw_data())}});
  }

 private:
  Desc from_, to_, scratchpad_;
  std::optional<dnnl::reorder> reorder_;
};

// A shape in the library's terms; layouts left to the library.
struct Problem {
  dnnl::memory::dims x, weight, y, stride, dilation, before, after;

  explicit Problem(const ConvShape& s)
      : x{s.batch, s.in_channels}, weight{s.out_channels, s.in_channels / s.groups}, y{s.batch, s.out_channels} {
    if (s.groups > 1) weight = {s.groups, s.out_channels / s.groups, s.in_channels / s.groups};
    const auto& z = s.depth;
    if (!s.is_image()) add_dimension(z.in, z.out, z.kernel, z.stride, z.padding, z.dilation);
    for (int d = 0; d < 2; ++d) add_dimension(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
  }
  void add_dimension(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t step, std::int64_t padding, std::int64_t spread) {
    x.push_back(in);
    weight.push_back(kernel);
    y.push_back(out);
    stride.push_back(step);
    dilation.push_back(spread - 1);
    before.push_back(padding);
    after.push_back((out - 1) * step + (kernel - 1) * spread + 1 - in - padding);
  }
  static Desc any(const dnnl::memory::dims& dims) { return f32_desc(dims, Tag::any); }
  static Desc plain(const dnnl::memory::dims& dims) {
    return f32_desc(dims, dims.size() == 4 ? Tag::abcd : dims.size() == 5 ? Tag::abcde : Tag::abcdef);
  }
};

// Winograd's F(4x4, 3x3) needs a quarter of the multiplications. It wins where there are enough
// channels and tiles of 4 x 4 pixels, and loses where transforming the weight is most of the work.
bool suits_winograd(const ConvShape& s) {
  bool plain = s.is_image() && s.groups == 1 && s.in_channels >= 16 && s.out_channels >= 16 && s.in_channels * s.out_channels <= 128 * 128;
  for (int d = 0; d < 2; ++d) plain = plain && s.kernel[d] == 3 && s.stride[d] == 1 && s.dilation[d] == 1 && s.out[d] >= 8;
  return plain;
}

dnnl::convolution_forward::primitive_desc forward_desc(dnnl::algorithm algorithm, const Problem& p, bool bias) {
  const auto kind = dnnl::prop_kind::forward_training;
  if (bias) {
    const Desc b = f32_desc({p.y[1]}, Tag::a);
    return {{kind, algorithm, Problem::any(p.x), Problem::any(p.weight), b, Problem::any(p.y), p.stride, p.dilation, p.before, p.after},
            user_scratchpad(), engine()};
  }
  return {{kind, algorithm, Problem::any(p.x), Problem::any(p.weight), Problem::any(p.y), p.stride, p.dilation, p.before, p.after},
          user_scratchpad(), engine()};
}

class ConvolutionPrimitive final : public Convolution {
 public:
  ConvolutionPrimitive(dnnl::algorithm algorithm, ConvPass pass, const ConvShape& shape, bool bias) {
    const Problem p(shape);
    if (pass == ConvPass::forward) {
      const auto pd = forward_desc(algorithm, p, bias);
      take(pd, dnnl::convolution_forward(pd), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, Problem::plain(p.x),
           pd.src_desc(), Problem::plain(p.weight), pd.weights_desc(), Problem::plain(p.y), pd.dst_desc());
      if (bias) bias_ = pd.bias_desc();
      return;
    }
    const auto hint = forward_desc(algorithm, p, false);
    if (pass == ConvPass::input_gradient) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {algorithm, Problem::any(p.x), Problem::any(p.weight), Problem::any(p.y), p.stride, p.dilation, p.before, p.after},
          user_scratchpad(), engine(), hint);
      take(pd, dnnl::convolution_backward_data(pd), {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, Problem::plain(p.y),
           pd.diff_dst_desc(), Problem::plain(p.weight), pd.weights_desc(), Problem::plain(p.x), pd.diff_src_desc());
    } else {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {algorithm, Problem::any(p.x), Problem::any(p.weight), Problem::any(p.y), p.stride, p.dilation, p.before, p.after},
          user_scratchpad(), engine(), hint);
      take(pd, dnnl::convolution_backward_weights(pd), {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, Problem::plain(p.x),
           pd.src_desc(), Problem::plain(p.y), pd.diff_dst_desc(), Problem::plain(p.weight), pd.diff_weights_desc());
    }
  }

  std::size_t packed_bytes() const override { return b_->to().get_size(); }
  void pack(const float* b, void* packed) const override {
    const OneThread guard;
    if (b_->needed()) b_->run(b, packed);
    else std::memcpy(packed, b, packed_bytes());
  }

  void run(const float* a, const void* packed, const float* bias, float* y) const override {
    const OneThread guard;
    Tensor a_packed, y_packed;
    const void* left = a;
    void* out = y;
    if (a_->needed()) {
      a_packed = scratch(a_->to().get_size());
      a_->run(a, a_packed.raw_data());
      left = a_packed.raw_data();
    }
    if (y_->needed()) {
      y_packed = scratch(y_->from().get_size());
      out = y_packed.raw_data();
    }
    const Tensor temporary = scratch(scratchpad_.get_size());
    std::unordered_map<int, dnnl::memory> args{{args_[0], memory_at(a_->to(), left)},
                                               {args_[1], memory_at(b_->to(), packed)},
                                               {args_[2], memory_at(y_->from(), out)},
                                               {DNNL_ARG_SCRATCHPAD, memory_at(scratchpad_, temporary.raw_data())}};
    if (bias) args.emplace(DNNL_ARG_BIAS, memory_at(bias_, bias));
    primitive_.execute(stream(), args);
    if (y_->needed()) y_->run(out, y);
  }

 private:
  template <class PrimitiveDesc>
  void take(const PrimitiveDesc& pd, dnnl::primitive primitive, std::array<int, 3> args, const Desc& a, const Desc& a_wanted,
            const Desc& b, const Desc& b_wanted, const Desc& y, const Desc& y_wanted) {
    primitive_ = std::move(primitive);
    args_ = args;
    scratchpad_ = pd.scratchpad_desc();
    a_.emplace(a, a_wanted);
    b_.emplace(b, b_wanted);
    y_.emplace(y_wanted, y);
  }

  dnnl::primitive primitive_;
  std::array<int, 3> args_{};
  Desc bias_, scratchpad_;
  std::optional<Reorder> a_, b_, y_;
};

std::shared_ptr<const Convolution> make_convolution(ConvPass pass, const ConvShape& shape, bool bias) {
  if (suits_winograd(shape)) {
    try {
      return std::make_shared<const ConvolutionPrimitive>(dnnl::algorithm::convolution_winograd, pass, shape, bias);
    } catch (const dnnl::error&) {  // not on this processor
    }
  }
  return std::make_shared<const ConvolutionPrimitive>(dnnl::algorithm::convolution_direct, pass, shape, bias);
}

struct Key {
  ConvPass pass;
  bool bias;
  ConvShape shape;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    const ConvShape& s = k.shape;
    std::size_t h = static_cast<std::size_t>(k.pass) * 2 + k.bias;
    for (std::int64_t v : {s.batch, s.in_channels, s.out_channels, s.groups, s.in[0], s.in[1], s.kernel[0], s.kernel[1],
                           s.stride[0], s.padding[0], s.dilation[0], s.depth.in, s.depth.kernel}) {
      h = h * 0x9e3779b97f4a7c15u + static_cast<std::size_t>(v);
    }
    return h;
  }
};

}  // namespace

std::shared_ptr<const Convolution> convolution(ConvPass pass, const ConvShape& shape, bool bias) {
  static std::mutex mutex;
  static std::unordered_map<Key, std::shared_ptr<const Convolution>, KeyHash> cache;
  constexpr std::size_t most = 512;  // a program with ever new shapes must not grow for ever
  const std::lock_guard lock(mutex);
  const Key key{pass, bias, shape};
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  if (cache.size() >= most) cache.clear();
  const OneThread guard;
  try {
    return cache[key] = make_convolution(pass, shape, bias);
  } catch (const dnnl::error& e) {
    fail("oneDNN: ", e.what());
  }
}

void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row) {
  const OneThread guard;
  const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, a_row, b,
                                          b_row, beta, c, c_row);
  check(status == dnnl_success, "oneDNN: sgemm of ", m, " x ", n, " x ", k, " failed with status ", static_cast<int>(status));
}

}  // namespace mantissa::onednn
