// oneDNN 2.6 behind core/onednn.h.
// Invariant: every call into the library happens under OneThread.
#include "core/onednn.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "core/cpu/isa.h"
#include "core/tensor.h"

namespace mantissa::onednn {
namespace {

// oneDNN asks OpenMP for the number of threads; under this guard the answer is one.
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

// Only possible before the library's first use; afterwards it refuses.
void lower_isa() {
  const char* wish = std::getenv("MANTISSA_ISA");
  if (!wish || std::getenv("ONEDNN_MAX_CPU_ISA") || std::getenv("DNNL_MAX_CPU_ISA")) return;
  if (std::string_view(wish) == "avx512") dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);  // not AMX
  if (std::string_view(wish) == "avx2") dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
  if (std::string_view(wish) == "baseline") dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
}
dnnl::engine& engine() {
  static dnnl::engine e = [] {
    lower_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}
dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  return s;
}

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Sizes = dnnl::memory::dims;

void check_library(dnnl_status_t status, const char* what) {
  check(status == dnnl_success, "oneDNN: ", what, " failed with status ", static_cast<int>(status));
}
dnnl::memory::data_type type_of(Dtype dtype) {
  return dtype == bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}
dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // the library's own is not thread-safe
  return attr;
}

// A primitive with its arguments: the library's argument objects are created once for every thread that runs it at the
// same time, and get new pointers in every run.
class Held {
 public:
  static constexpr std::size_t most = 5;
  struct Argument {
    int id;
    Desc desc;
  };

  Held(dnnl::primitive primitive, std::vector<Argument> arguments)
      : primitive_(std::move(primitive)),
        arguments_(std::move(arguments)) {}
  ~Held() {
    for (Set& s : free_) {
      for (std::size_t i = 0; i < arguments_.size(); ++i) dnnl_memory_destroy(s[i].memory);
    }
  }
  Held(const Held&) = delete;

  // One pointer per argument.
  void run(std::initializer_list<const void*> pointers) const {
    Set set = take();
    std::size_t i = 0;
    for (const void* p : pointers) {
      if (i == arguments_.size()) break;
      check_library(dnnl_memory_set_data_handle(set[i++].memory, const_cast<void*>(p)), "setting an argument");
    }
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), set.data());
    give(set);
    check_library(status, "a primitive");
  }

 private:
  using Set = std::array<dnnl_exec_arg_t, most>;

  Set take() const {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const Set set = free_.back();
        free_.pop_back();
        return set;
      }
    }
    Set set{};
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      set[i].arg = arguments_[i].id;
      check_library(dnnl_memory_create(&set[i].memory, &arguments_[i].desc.data, engine().get(), DNNL_MEMORY_NONE),
                    "making an argument");
    }
    return set;
  }
  void give(const Set& set) const {
    const std::lock_guard lock(mutex_);
    free_.push_back(set);
  }

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  mutable std::mutex mutex_;
  mutable std::vector<Set> free_;
};

// Memory for one run, cut into parts aligned to cache lines.
class Scratch {
 public:
  std::size_t add(std::size_t bytes) {  // returns the part's offset
    const std::size_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  Tensor allocate() const { return bytes_ ? Tensor::allocate({static_cast<std::int64_t>(bytes_)}, u8) : Tensor(); }

 private:
  std::size_t bytes_ = 0;
};
char* part(const Tensor& memory, std::size_t at) {
  return memory.defined() ? static_cast<char*>(memory.raw_data()) + at : nullptr;
}

// Copies between our layout and the primitive's; does nothing if they are equal.
class Reorder {
 public:
  Reorder(const Desc& from, const Desc& to, Scratch& scratch) {
    if (from == to) return;
    const dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, user_scratchpad());
    const Desc library = pd.scratchpad_desc();
    at_ = scratch.add(library.get_size());
    held_.emplace(dnnl::reorder(pd), std::vector<Held::Argument>{
                                         {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, library}});
  }
  bool needed() const { return held_.has_value(); }
  void run(const void* from, void* to, const Tensor& memory) const { held_->run({from, to, part(memory, at_)}); }

 private:
  std::optional<Held> held_;
  std::size_t at_ = 0;
};

// The shape in the library's terms.
struct Problem {
  dnnl::memory::data_type type;
  Sizes x, weight, y, stride, dilation, before, after;

  Problem(const ConvShape& s, Dtype dtype)
      : type(type_of(dtype)),
        x{s.batch, s.in_channels},
        weight{s.out_channels, s.in_channels / s.groups},
        y{s.batch, s.out_channels} {
    if (s.groups > 1) weight = {s.groups, s.out_channels / s.groups, s.in_channels / s.groups};
    const auto& z = s.depth;
    if (!s.is_image()) add_dimension(z.in, z.out, z.kernel, z.stride, z.padding, z.dilation);
    for (int d = 0; d < 2; ++d) add_dimension(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
  }
  void add_dimension(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t step, std::int64_t padding,
                     std::int64_t spread) {
    x.push_back(in);
    weight.push_back(kernel);
    y.push_back(out);
    stride.push_back(step);
    dilation.push_back(spread - 1);
    before.push_back(padding);
    after.push_back((out - 1) * step + (kernel - 1) * spread + 1 - in - padding);
  }
  Desc any(const Sizes& sizes) const { return {sizes, type, Tag::any}; }
  static Desc images(const Sizes& sizes, ConvKernel kernel, dnnl::memory::data_type t) {
    return {sizes, t, kernel == ConvKernel::channels_last ? Tag::acdb : Tag::any};
  }
  static Desc plain_images(const Sizes& sizes, bool last, dnnl::memory::data_type t) {
    return {sizes, t, last ? Tag::acdb : sizes.size() == 4 ? Tag::abcd : Tag::abcde};
  }
  Desc plain_weight(dnnl::memory::data_type t) const {
    return {weight, t, weight.size() == 4 ? Tag::abcd : weight.size() == 5 ? Tag::abcde : Tag::abcdef};
  }
};

class LibraryConvolution final : public Convolution {
 public:
  explicit LibraryConvolution(const ConvolutionKey& key) : pass_(key.pass) {
    const Problem p(key.shape, key.dtype);
    const auto algorithm = key.kernel == ConvKernel::winograd ? dnnl::algorithm::convolution_winograd
                                                              : dnnl::algorithm::convolution_direct;
    const auto x_type = key.wide ? dnnl::memory::data_type::f32 : p.type;
    const Desc x = p.images(p.x, key.kernel, p.type), y = p.images(p.y, key.kernel, p.type), weight = p.any(p.weight);
    const auto kind = dnnl::prop_kind::forward_training;
    const Desc bias(Sizes{p.y[1]}, p.type, Tag::a);
    using Forward = dnnl::convolution_forward;
    const Forward::desc plain(kind, algorithm, x, weight, y, p.stride, p.dilation, p.before, p.after);
    const Desc our_x = p.plain_images(p.x, key.pass == ConvPass::input_gradient ? key.y_last : key.a_last, x_type);
    const bool y_last = key.pass == ConvPass::forward          ? key.y_last
                        : key.pass == ConvPass::input_gradient ? key.a_last
                                                               : key.b_last;
    const Desc our_y = p.plain_images(p.y, y_last, p.type);
    if (key.pass == ConvPass::forward) {
      const Forward::desc with(kind, algorithm, x, weight, bias, y, p.stride, p.dilation, p.before, p.after);
      const Forward::primitive_desc pd(key.bias ? with : plain, user_scratchpad(), engine());
      std::vector<Held::Argument> arguments{
          {DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}};
      take(pd, dnnl::convolution_forward(pd), std::move(arguments), our_x, p.plain_weight(p.type), our_y);
      return;
    }
    const Forward::primitive_desc hint(plain, user_scratchpad(), engine());
    if (key.pass == ConvPass::input_gradient) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {algorithm, p.images(p.x, key.kernel, x_type), weight, y, p.stride, p.dilation, p.before, p.after},
          user_scratchpad(), engine(), hint);
      std::vector<Held::Argument> arguments{{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                            {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}};
      take(pd, dnnl::convolution_backward_data(pd), std::move(arguments), our_y, p.plain_weight(p.type), our_x);
    } else {
      const Desc wide(p.weight, dnnl::memory::data_type::f32, Tag::any);
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {algorithm, x, wide, y, p.stride, p.dilation, p.before, p.after}, user_scratchpad(), engine(), hint);
      std::vector<Held::Argument> arguments{{DNNL_ARG_SRC, pd.src_desc()},
                                            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                            {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}};
      take(pd, dnnl::convolution_backward_weights(pd), std::move(arguments), our_x, our_y,
           p.plain_weight(dnnl::memory::data_type::f32));
    }
  }

  std::string name() const override { return name_; }
  std::size_t packed_bytes() const override { return packed_.get_size(); }
  bool packs_like(const Convolution& other) const override {
    return static_cast<const LibraryConvolution&>(other).packed_ == packed_;
  }
  std::int64_t pack_pieces() const override { return std::max<std::int64_t>(std::ssize(pieces_), 1); }
  void pack(const void* weight, void* packed, std::int64_t piece) const override {
    const OneThread guard;
    if (!pieces_.empty()) pieces_[static_cast<std::size_t>(piece)]->run(weight, packed, scratch_.allocate());
    else if (!b_->needed()) std::memcpy(packed, weight, packed_bytes());
    else b_->run(weight, packed, scratch_.allocate());
  }

  void run(const void* a, const void* b, const void* bias, void* y) const override {
    const OneThread guard;
    const Tensor memory = scratch_.allocate();
    const void *left = a, *right = b;
    void* out = y;
    if (a_->needed()) {
      left = part(memory, a_at_);
      a_->run(a, part(memory, a_at_), memory);
    }
    if (pass_ == ConvPass::weight_gradient && b_->needed()) {
      right = part(memory, b_at_);
      b_->run(b, part(memory, b_at_), memory);
    }
    if (y_->needed()) out = part(memory, y_at_);
    held_->run({left, right, out, part(memory, library_at_), bias});
    if (y_->needed()) y_->run(out, y, memory);
  }

 private:
  // `arguments` are the descriptors of a, b and the result as the primitive wants them; the others are ours.
  template <class PrimitiveDesc>
  void take(const PrimitiveDesc& pd, dnnl::primitive primitive, std::vector<Held::Argument> arguments, const Desc& a,
            const Desc& b, const Desc& y) {
    name_ = pd.impl_info_str();
    a_.emplace(a, arguments[0].desc, scratch_);
    b_.emplace(b, arguments[1].desc, scratch_);
    y_.emplace(arguments[2].desc, y, scratch_);
    if (a_->needed()) a_at_ = scratch_.add(arguments[0].desc.get_size());
    if (b_->needed() && pass_ == ConvPass::weight_gradient) b_at_ = scratch_.add(arguments[1].desc.get_size());
    if (y_->needed()) y_at_ = scratch_.add(arguments[2].desc.get_size());
    packed_ = arguments[1].desc;
    if (pass_ != ConvPass::weight_gradient && b_->needed()) cut_packing(b);
    library_at_ = scratch_.add(pd.scratchpad_desc().get_size());
    arguments.push_back({DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()});
    if constexpr (requires { pd.bias_desc(); }) {
      if (pass_ == ConvPass::forward && pd.bias_desc().get_size()) arguments.push_back({DNNL_ARG_BIAS, pd.bias_desc()});
    }
    held_.emplace(std::move(primitive), std::move(arguments));
  }

  // A large weight is packed in pieces of its first dimension, that of output channels (or groups).
  void cut_packing(const Desc& plain) {
    constexpr std::int64_t pieces = 4, block = 64, large = 128 << 10;  // elements
    const Sizes sizes = plain.dims();
    std::int64_t elements = 1;
    for (std::int64_t n : sizes) elements *= n;
    if (elements < large || sizes[0] % (pieces * block) != 0) return;
    Sizes part = sizes, offset(sizes.size(), 0);
    part[0] /= pieces;
    try {
      for (std::int64_t i = 0; i < pieces; ++i, offset[0] += part[0]) {
        const Desc from = plain.submemory_desc(part, offset), to = packed_.submemory_desc(part, offset);
        pieces_.push_back(std::make_unique<Reorder>(from, to, scratch_));
      }
    } catch (const dnnl::error&) {  // not possible in this layout
      pieces_.clear();
    }
  }

  ConvPass pass_;
  std::string name_;
  std::vector<std::unique_ptr<Reorder>> pieces_;
  Desc packed_;  // descriptor of the packed weight
  std::optional<Held> held_;
  std::optional<Reorder> a_, b_, y_;
  Scratch scratch_;
  std::size_t a_at_ = 0, b_at_ = 0, y_at_ = 0, library_at_ = 0;
};

class LibraryProduct final : public Product {
 public:
  explicit LibraryProduct(const ProductKey& k) {
    const Desc a(Sizes{k.m, k.k}, type_of(k.dtype), Sizes{1, k.a_row}), b(Sizes{k.k, k.n}, type_of(k.dtype), Tag::ab);
    const Desc c(Sizes{k.m, k.n}, dnnl::memory::data_type::f32, Tag::ab);
    dnnl::primitive_attr attr = user_scratchpad();
    if (k.accumulate) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attr.set_post_ops(add);
    }
    const dnnl::matmul::primitive_desc pd({a, b, c}, attr, engine());
    scratch_.add(pd.scratchpad_desc().get_size());
    held_.emplace(
        dnnl::matmul(pd),
        std::vector<Held::Argument>{
            {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
  }
  void run(const void* a, const void* b, float* c) const override {
    const OneThread guard;
    const Tensor memory = scratch_.allocate();
    held_->run({a, b, c, part(memory, 0)});
  }

 private:
  std::optional<Held> held_;
  Scratch scratch_;
};

std::size_t hash(std::initializer_list<std::int64_t> values) {
  std::size_t h = 0;
  for (std::int64_t v : values) h = h * 0x9e3779b97f4a7c15u + static_cast<std::size_t>(v);
  return h;
}
struct Hash {
  std::size_t operator()(const ConvolutionKey& k) const {
    const ConvShape& s = k.shape;
    return hash({static_cast<std::int64_t>(k.pass), static_cast<std::int64_t>(k.kernel),
                 static_cast<std::int64_t>(k.dtype), k.bias + 2 * k.a_last + 4 * k.b_last + 8 * k.y_last, s.batch,
                 s.in_channels, s.out_channels, s.groups, s.in[0], s.in[1], s.kernel[0], s.kernel[1], s.stride[0],
                 s.padding[0], s.dilation[0], s.depth.in, s.depth.kernel});
  }
  std::size_t operator()(const ProductKey& k) const {
    return hash({static_cast<std::int64_t>(k.dtype), k.m, k.n, k.k, k.a_row, k.accumulate});
  }
};

// A cache of objects created once per key, bounded for programs with ever new shapes.
template <class Key, class Value> class Cache {
 public:
  template <class Make> std::shared_ptr<const Value> find(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    if (known_.size() >= most) known_.clear();
    const OneThread guard;
    return known_[key] = make();
  }

 private:
  static constexpr std::size_t most = 512;
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const Value>, Hash> known_;
};

// Reference implementations: many times slower than the rest.
bool is_slow(const std::string& name) { return name.find("ref") != std::string::npos; }

}  // namespace

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

bool has_bf16() {
#if defined(__x86_64__)
  static const bool has = [] {
    engine();
    return __builtin_cpu_supports("avx512bf16") &&
           (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
  }();
  return has && cpu_backend::isa() == cpu_backend::Isa::avx512;
#else
  return false;
#endif
}

std::shared_ptr<const Convolution> convolution(const ConvolutionKey& key, bool any_speed) {
  engine();  // the engine must outlive the cache
  static Cache<ConvolutionKey, LibraryConvolution> cache;
  const auto found = cache.find(key, [&]() -> std::shared_ptr<const LibraryConvolution> {
    try {
      return std::make_shared<const LibraryConvolution>(key);
    } catch (const dnnl::error&) {  // not supported on this processor
      return nullptr;
    }
  });
  if (!found || (!any_speed && is_slow(found->name()))) return nullptr;
  return found;
}

std::shared_ptr<const Product> product(const ProductKey& key) {
  engine();
  static Cache<ProductKey, LibraryProduct> cache;
  return cache.find(key, [&] {
    try {
      return std::make_shared<const LibraryProduct>(key);
    } catch (const dnnl::error& e) { fail("oneDNN: ", e.what()); }
  });
}

void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t a_row, const float* b, std::int64_t b_row, float beta, float* c, std::int64_t c_row) {
  engine();
  const OneThread guard;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, a_row, b, b_row, beta, c, c_row);
  check(status == dnnl_success, "oneDNN: sgemm of ", m, " x ", n, " x ", k, " failed with status ",
        static_cast<int>(status));
}

}  // namespace mantissa::onednn
