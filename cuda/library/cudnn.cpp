// Convolutions by cuDNN: a graph of one operation, or of several where a bias or relu comes before the result is
// rounded, and where a weight gradient of halves is not rounded (cuda/library/cudnn_graph_builder.h).
#include "cuda/cudnn.h"

#if !defined(MANTISSA_HAS_CUDNN)

bool mantissa::cuda_backend::has_cudnn() { return false; }
std::string mantissa::cuda_backend::cudnn_version() { return "not in this build"; }
bool mantissa::cuda_backend::run_cudnn(ConvPass, const ConvShape&, Layout, const View&, const View&, const View&,
                                       const View&, const ConvRelu&, int) {
  return false;
}

#else

#include <cstring>
#include <unordered_map>
#include <vector>

#include "core/tf32.h"
#include "cuda/library/cudnn_graph_builder.h"
#include "cuda/tuner.h"

namespace mantissa::cuda_backend {
namespace {

using namespace cudnn;

// cuDNN's ids for x, weight and y of the forward pass, its bias, what a relu made, and the number 0; then those of
// intermediate tensors.
enum Operand : std::int64_t { image = 1, filter = 2, result = 3, bias_row = 4, made = 5, zero = 6, first_between = 7 };

// Of a dense tensor [outer, channels, height, width], or with a depth before the height. They follow the layout even
// where a size is 1 and they have no effect: cuDNN deduces the layout from them.
OperationGraph::Sizes strides_of(const OperationGraph::Sizes& sizes, Layout layout) {
  OperationGraph::Sizes strides(sizes.size());
  std::int64_t step = 1;
  const auto next = [&](std::size_t d) {
    strides[d] = step;
    step *= sizes[d];
  };
  const bool last = layout == Layout::channels_last;
  if (last) next(1);
  for (std::size_t d = sizes.size() - 1; d > 1; --d) next(d);
  if (!last) next(1);
  next(0);
  return strides;
}

struct Names {  // attribute names of one pass
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};
Names names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

// The parameters of a Problem.
struct Key {
  ConvPass pass;
  ConvShape shape;
  Layout layout;
  Dtype dtype;
  bool has_bias = false;  // forward
  bool relu = false;      // ConvRelu: after the forward pass, or its derivative after an input gradient
  // A weight gradient of halves in f32. The operation itself has no engine for that; with another one that only passes
  // the sums on there are engines for channels-last.
  bool wide = false;
  int device = 0;
  bool tf32 = false;
  friend bool operator==(const Key&, const Key&) = default;

  struct Hash {
    std::size_t operator()(const Key& k) const {
      KeyNumbers<sizeof(ConvShape) / sizeof(std::int64_t) + 1> numbers;
      // the rest seldom differs alone
      numbers[0] = static_cast<std::int64_t>(k.pass) << 8 | static_cast<std::int64_t>(k.dtype);
      std::memcpy(&numbers[1], &k.shape, sizeof(ConvShape));
      return HashOfNumbers{}(numbers);
    }
  };
};

Problem make_problem(const Key& key) {
  using Node = OperationGraph::Node;
  using Sizes = OperationGraph::Sizes;
  const ConvShape& s = key.shape;
  const bool is_f64 = key.dtype == f64;
  const cudnnDataType_t stored = type_of(key.dtype), sums = is_f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  // What goes before, and the sizes of an image or a volume.
  const auto with = [&](Sizes all, std::int64_t depth, const std::int64_t(&plane)[2]) {
    if (!s.is_image()) all.push_back(depth);
    all.insert(all.end(), plane, plane + 2);
    return all;
  };
  const Sizes images = with({s.batch, s.in_channels}, s.depth.in, s.in);
  const Sizes filters = with({s.out_channels, s.in_channels / s.groups}, s.depth.kernel, s.kernel);
  const Sizes results = with({s.batch, s.out_channels}, s.depth.out, s.out);

  OperationGraph g;
  const auto in_memory = [&](Operand id, cudnnDataType_t type, const Sizes& sizes) {
    return g.tensor(id, type, sizes, strides_of(sizes, key.layout), true);
  };
  Node x = in_memory(image, stored, images), w = in_memory(filter, key.wide ? sums : stored, filters);
  Node y = in_memory(result, stored, results);
  // The convolution writes one of the three, or an intermediate tensor that further operations lead there.
  Node& written = key.pass == ConvPass::forward ? y : key.pass == ConvPass::input_gradient ? x : w;
  const Sizes& written_sizes =
      key.pass == ConvPass::forward ? results : key.pass == ConvPass::input_gradient ? images : filters;
  const Node end = written;
  std::int64_t next = first_between;
  const auto between = [&](cudnnDataType_t type) {
    return g.tensor(next++, type, written_sizes, strides_of(written_sizes, key.layout), false);
  };
  if (key.has_bias || key.relu || key.wide) written = between(sums);
  Node value = written;

  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{s.is_image() ? 2 : 3});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sums);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, with({}, s.depth.padding, s.padding));
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, with({}, s.depth.padding, s.padding));
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, with({}, s.depth.dilation, s.dilation));
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, with({}, s.depth.stride, s.stride));
  convolution.finalize();
  const Names names = names_of(key.pass);
  Descriptor operation(names.operation);
  OperationGraph::link(operation, names.x, x);
  OperationGraph::link(operation, names.w, w);
  OperationGraph::link(operation, names.y, y);
  OperationGraph::link(operation, names.convolution, g.keep(std::move(convolution)));
  const double one = 1, none = 0;
  const float one_f32 = 1, none_f32 = 0;
  const auto number = is_f64 ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  operation.set(names.alpha, number, 1, is_f64 ? static_cast<const void*>(&one) : &one_f32);
  operation.set(names.beta, number, 1, is_f64 ? static_cast<const void*>(&none) : &none_f32);
  g.add(std::move(operation));

  if (key.has_bias) {
    const Node row = in_memory(bias_row, stored, with({1, s.out_channels}, 1, {1, 1}));
    value = g.pointwise(CUDNN_POINTWISE_ADD, key.relu ? between(sums) : end, value, row);
  }
  if (key.relu) {  // by comparisons, which are false for NaN, so that it passes: cuDNN does not say what its relu does
    const Node limit = g.number(zero, written_sizes.size()), hides = between(CUDNN_DATA_BOOLEAN);
    if (key.pass == ConvPass::forward) g.pointwise(CUDNN_POINTWISE_CMP_LT, hides, value, limit);
    else g.pointwise(CUDNN_POINTWISE_CMP_LE, hides, in_memory(made, stored, written_sizes), limit);
    g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, end, limit, value, hides);
  }
  if (key.wide) g.pointwise(CUDNN_POINTWISE_IDENTITY, end, value);
  return problem_for(std::move(g), key.dtype != f32 || key.tf32);
}

Problem* problem_of(const Key& key) {
  static thread_local ThreadState<std::unordered_map<Key, Problem, Key::Hash>> problems;
  return find_problem(*problems, key, [&] { return make_problem(key); });
}

}  // namespace

bool has_cudnn() { return cudnnGetVersion() != 0; }  // 0: the shim's, where no test wants it
std::string cudnn_version() {
  const std::size_t v = cudnnGetVersion();  // 91300 gives 9.13.0
  return concat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}
bool run_cudnn(ConvPass pass, const ConvShape& shape, Layout layout, const View& y, const View& a, const View& b,
               const View& bias, const ConvRelu& relu, int index) {
  Problem* const p = problem_of({.pass = pass, .shape = shape, .layout = layout, .dtype = a.dtype,
                                 .has_bias = static_cast<bool>(bias), .relu = relu.any(), .wide = y.dtype != a.dtype,
                                 .device = current_device(), .tf32 = is_tf32_allowed()});
  std::vector<void*> pointers{pass == ConvPass::input_gradient ? y.data : a.data,
                              pass == ConvPass::weight_gradient ? y.data : b.data,
                              pass == ConvPass::forward ? y.data : pass == ConvPass::input_gradient ? a.data : b.data};
  std::vector<std::int64_t> ids{image, filter, result};
  const auto add = [&](std::int64_t id, void* pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  if (bias) add(bias_row, bias.data);
  if (relu.made) add(made, relu.made->data);
  if (!is_aligned(pointers)) return false;
  float limit = 0;
  if (relu.any()) add(zero, &limit);
  return run_plan(p, index, pointers, ids, y.device);
}

}  // namespace mantissa::cuda_backend

#endif
