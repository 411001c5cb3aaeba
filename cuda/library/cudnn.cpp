// Convolutions by cuDNN: a graph of one operation, or of two where a bias is added before the result is rounded, and
// where a weight gradient of halves is not rounded (cuda/library/cudnn_graph.h).
#include "cuda/cudnn.h"

#if !defined(MANTISSA_HAS_CUDNN)

bool mantissa::cuda_backend::has_cudnn() { return false; }
std::string mantissa::cuda_backend::cudnn_version() { return "not in this build"; }
bool mantissa::cuda_backend::run_cudnn(ConvPass, const ConvShape&, Layout, const View&, const View&, const View&,
                                       const View&, int) {
  return false;
}

#else

#include <cstring>
#include <unordered_map>
#include <vector>

#include "cuda/cublaslt.h"
#include "cuda/library/cudnn_graph.h"
#include "cuda/tuner.h"

namespace mantissa::cuda_backend {
namespace {

using namespace cudnn;

// cuDNN's ids for x, weight and y of the forward pass, its bias, and the sums before the second operation.
enum Operand : std::int64_t { image = 1, filter = 2, result = 3, bias_row = 4, unrounded = 5 };

// A dense tensor [outer, channels, height, width], or with a depth before the height. Strides follow the layout even
// where a size is 1 and they have no effect: cuDNN deduces the layout from them.
Descriptor make_tensor(Operand id, Dtype dtype, const std::vector<std::int64_t>& sizes, Layout layout) {
  const bool is_virtual = id == unrounded;
  std::vector<std::int64_t> strides(sizes.size());
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
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(dtype));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  t.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  t.finalize();
  return t;
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

// has_bias: for the forward pass. wide: for the weight gradient of halves, whose result is then f32. The operation
// itself has no engine for that; with another one that only passes the sums on there are engines for channels-last.
Problem make_problem(ConvPass pass, const ConvShape& s, Layout layout, Dtype dtype, bool has_bias, bool wide,
                     bool tf32) {
  const Names names = names_of(pass);
  const cudnnDataType_t compute = dtype == f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  using Sizes = std::vector<std::int64_t>;
  // What goes before, and the sizes of an image or a volume.
  const auto with = [&](Sizes all, std::int64_t depth, const std::int64_t(&plane)[2]) {
    if (!s.is_image()) all.push_back(depth);
    all.insert(all.end(), plane, plane + 2);
    return all;
  };
  const Sizes images = with({s.batch, s.in_channels}, s.depth.in, s.in);
  const Sizes filters = with({s.out_channels, s.in_channels / s.groups}, s.depth.kernel, s.kernel);
  const Sizes sizes = with({s.batch, s.out_channels}, s.depth.out, s.out);
  Descriptor x = make_tensor(image, dtype, images, layout);
  Descriptor w = make_tensor(filter, wide ? f32 : dtype, filters, layout);
  Descriptor y = make_tensor(result, dtype, sizes, layout), row, sum, how, second;
  if (has_bias) row = make_tensor(bias_row, dtype, with({1, s.out_channels}, 1, {1, 1}), layout);
  if (has_bias || wide) sum = make_tensor(unrounded, dtype == f64 ? f64 : f32, wide ? filters : sizes, layout);

  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{s.is_image() ? 2 : 3});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, with({}, s.depth.padding, s.padding));
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, with({}, s.depth.padding, s.padding));
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, with({}, s.depth.dilation, s.dilation));
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, with({}, s.depth.stride, s.stride));
  convolution.finalize();

  Descriptor operation(names.operation);
  operation.set(names.x, x);
  operation.set(names.w, wide ? sum : w);
  operation.set(names.y, has_bias ? sum : y);
  operation.set(names.convolution, convolution);
  const double one = 1, zero = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const auto number = compute == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  operation.set(names.alpha, number, 1, compute == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&one) : &one_f32);
  operation.set(names.beta, number, 1, compute == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&zero) : &zero_f32);
  operation.finalize();

  std::vector<cudnnBackendDescriptor_t> operations{operation.get()};
  if (has_bias || wide) {
    const cudnnPointwiseMode_t mode_of_second = wide ? CUDNN_POINTWISE_IDENTITY : CUDNN_POINTWISE_ADD;
    how = Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode_of_second);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
    how.finalize();
    second = Descriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    second.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    second.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum);
    if (has_bias) second.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, row);
    second.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, wide ? w : y);
    second.finalize();
    operations.push_back(second.get());
  }
  Problem p;
  find_engines(p, operations, dtype != f32 || tf32);
  for (Descriptor* d : {&x, &w, &y, &row, &sum, &convolution, &operation, &how, &second})
    p.keep.push_back(std::move(*d));
  return p;
}

// The parameters of a Problem.
struct Key {
  ConvPass pass;
  ConvShape shape;
  Layout layout;
  Dtype dtype;
  bool has_bias, wide;
  int device;
  bool tf32;
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
Problem* problem_of(const Key& key) {
  static thread_local ThreadState<std::unordered_map<Key, Problem, Key::Hash>> problems;
  return find_problem(*problems, key, [&] {
    return make_problem(key.pass, key.shape, key.layout, key.dtype, key.has_bias, key.wide, key.tf32);
  });
}

}  // namespace

bool has_cudnn() { return cudnnGetVersion() != 0; }  // 0: the shim's, where no test wants it
std::string cudnn_version() {
  const std::size_t v = cudnnGetVersion();  // 91300 gives 9.13.0
  return concat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}
bool run_cudnn(ConvPass pass, const ConvShape& shape, Layout layout, const View& y, const View& a, const View& b,
               const View& bias, int index) {
  Problem* const p = problem_of({pass, shape, layout, a.dtype, static_cast<bool>(bias), y.dtype != a.dtype,
                                 current_device(), is_tf32_allowed()});
  void* x = pass == ConvPass::input_gradient ? y.data : a.data;
  void* w = pass == ConvPass::weight_gradient ? y.data : b.data;
  void* g = pass == ConvPass::forward ? y.data : pass == ConvPass::input_gradient ? a.data : b.data;
  void* const all[] = {x, w, g, bias.data};
  const std::int64_t ids[] = {image, filter, result, bias_row};
  const std::span<void* const> pointers(all, bias ? 4 : 3);
  if (!is_aligned(pointers)) return false;
  return run_plan(p, index, pointers, std::span(ids).first(pointers.size()), y.device);
}

}  // namespace mantissa::cuda_backend

#endif
