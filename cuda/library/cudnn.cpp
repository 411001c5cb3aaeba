// cuDNN's backend interface: everything is a descriptor that is given attributes and finalized. A convolution is a graph of
// one operation; cuDNN proposes engines for it in the order of its estimate, and a plan is made of each when first wanted.
// Source: NVIDIA cuDNN 9 documentation, "Backend API".
#include "cuda/cudnn.h"

#if !defined(MANTISSA_HAS_CUDNN)

bool mantissa::cuda_backend::run_cudnn(ConvPass, const ConvShape&, const View&, const View&, const View&, int) { return false; }

#else

#include <cudnn.h>

#include <list>
#include <map>
#include <vector>

#include "core/accelerator.h"
#include "core/error.h"
#include "cuda/cublaslt.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {
namespace {

// Thrown where cuDNN does not take a problem; the caller then uses something else.
struct Refused { cudnnStatus_t status; };
void require(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused{status};
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) { require(cudnnBackendCreateDescriptor(type, &d_)); }
  Descriptor(Descriptor&& other) noexcept : d_(std::exchange(other.d_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(d_, other.d_);
    return *this;
  }
  ~Descriptor() { if (d_) (void)cudnnBackendDestroyDescriptor(d_); }
  cudnnBackendDescriptor_t get() const { return d_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
    require(cudnnBackendSetAttribute(d_, name, type, count, values));
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& v) { set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(v.size()), v.data()); }
  void set(cudnnBackendAttributeName_t name, std::int64_t v) { set(name, CUDNN_TYPE_INT64, 1, &v); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t v) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &v); }
  void set(cudnnBackendAttributeName_t name, const Descriptor& v) { set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v.d_); }
  void finalize() { require(cudnnBackendFinalize(d_)); }

 private:
  cudnnBackendDescriptor_t d_ = nullptr;
};

cudnnHandle_t handle() {
  static thread_local std::map<int, cudnnHandle_t> handles;  // one per device
  cudnnHandle_t& h = handles[current_device()];
  if (!h) require(cudnnCreate(&h));
  require(cudnnSetStream(h, stream()));
  return h;
}

cudnnDataType_t type_of(Dtype t) { return t == f64 ? CUDNN_DATA_DOUBLE : t == f32 ? CUDNN_DATA_FLOAT : t == f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16; }

enum Operand : std::int64_t { image = 1, filter = 2, result = 3 };  // x, weight and y of the forward pass, as cuDNN is to know them

// A contiguous tensor [outer, channels, pixels...].
Descriptor make_tensor(Operand id, Dtype dtype, std::vector<std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(dtype));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  t.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  t.finalize();
  return t;
}

struct Names {  // of one direction's attributes
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
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

struct Plan {
  Descriptor plan;
  std::int64_t workspace = 0;
};
struct Problem {
  std::vector<Descriptor> keep;     // what the graph refers to
  std::vector<Descriptor> configs;  // engines, the most promising first
  std::map<int, Plan> plans;        // made when first wanted; one without a plan was refused
};

// Whether an engine keeps our promises: sums in f32, the same bits in every run, and TF32 only where it is allowed.
bool is_welcome(const Descriptor& config, bool may_use_tensor_cores) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t e = engine.get();
  std::int64_t count = 0;
  require(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &e));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  require(cudnnBackendGetAttribute(e, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
  for (std::int64_t i = 0; i < count; ++i) {
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return false;
    const bool rounds_inputs = notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (rounds_inputs && !may_use_tensor_cores) return false;
  }
  return true;
}

Problem make_problem(ConvPass pass, const ConvShape& s, Dtype dtype, bool tf32) {
  const Names names = names_of(pass);
  const cudnnDataType_t compute = dtype == f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  Descriptor x = make_tensor(image, dtype, {s.batch, s.in_channels, s.in[0], s.in[1]});
  Descriptor w = make_tensor(filter, dtype, {s.out_channels, s.in_channels / s.groups, s.kernel[0], s.kernel[1]});
  Descriptor y = make_tensor(result, dtype, {s.batch, s.out_channels, s.out[0], s.out[1]});

  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.padding[0], s.padding[1]});
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.padding[0], s.padding[1]});
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {s.dilation[0], s.dilation[1]});
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride[0], s.stride[1]});
  convolution.finalize();

  Descriptor operation(names.operation);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, y);
  operation.set(names.convolution, convolution);
  const double one = 1, zero = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const auto number = compute == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  operation.set(names.alpha, number, 1, compute == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&one) : &one_f32);
  operation.set(names.beta, number, 1, compute == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&zero) : &zero_f32);
  operation.finalize();

  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const cudnnHandle_t h = handle();
  const cudnnBackendDescriptor_t operations[] = {operation.get()};
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, operations);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  graph.finalize();

  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t how = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &how);
  heuristic.finalize();

  Problem p;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int i = 0; i < 2 * most_cudnn_plans; ++i) {
    p.configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(p.configs.back().get());
  }
  std::int64_t found = 0;
  require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<std::int64_t>(handles.size()), &found, handles.data()));
  p.configs.resize(static_cast<std::size_t>(std::min<std::int64_t>(found, static_cast<std::int64_t>(handles.size()))));
  std::erase_if(p.configs, [&](const Descriptor& c) { return !is_welcome(c, dtype != f32 || tf32); });
  for (Descriptor* d : {&x, &w, &y, &convolution, &operation, &graph, &heuristic}) p.keep.push_back(std::move(*d));
  return p;
}

// The plan of the engine at place `index`; without one where the engine refuses.
Plan& find_plan(Problem& p, int index) {
  const auto at = p.plans.find(index);
  if (at != p.plans.end()) return at->second;
  Plan made;
  try {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const cudnnHandle_t h = handle();
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, p.configs[static_cast<std::size_t>(index)]);
    plan.finalize();
    std::int64_t count = 0;
    require(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &made.workspace));
    made.plan = std::move(plan);
  } catch (const Refused&) {
  }
  return p.plans.emplace(index, std::move(made)).first->second;
}

// What a Problem depends on.
struct Key {
  ConvPass pass;
  ConvShape shape;
  Dtype dtype;
  int device;
  bool tf32;
  friend bool operator==(const Key&, const Key&) = default;
};
Problem& find_problem(const Key& key) {
  static thread_local std::list<std::pair<Key, Problem>> problems;  // a network has some tens
  for (auto& [k, p] : problems) {
    if (k == key) return p;
  }
  try {
    problems.emplace_back(key, make_problem(key.pass, key.shape, key.dtype, key.tf32));
  } catch (const Refused&) {
    problems.emplace_back(key, Problem{});
  }
  return problems.back().second;
}

}  // namespace

bool run_cudnn(ConvPass pass, const ConvShape& shape, const View& y, const View& a, const View& b, int index) {
  if (!shape.is_image()) return false;
  Problem& p = find_problem({pass, shape, y.dtype, current_device(), is_tf32_allowed()});
  if (index >= static_cast<int>(p.configs.size())) return false;
  Plan& plan = find_plan(p, index);
  if (!plan.plan.get() || plan.workspace > (std::int64_t{1} << 30)) return false;

  void* x = pass == ConvPass::input_gradient ? y.data : a.data;
  void* w = pass == ConvPass::weight_gradient ? y.data : b.data;
  void* g = pass == ConvPass::forward ? y.data : pass == ConvPass::input_gradient ? a.data : b.data;
  void* pointers[] = {x, w, g};
  const std::int64_t ids[] = {image, filter, result};
  const Tensor workspace = Tensor::allocate({std::max<std::int64_t>(plan.workspace, 1)}, u8, y.device);
  void* scratch = workspace.view().data;
  try {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
    pack.finalize();
    require(cudnnBackendExecute(handle(), plan.plan.get(), pack.get()));
  } catch (const Refused&) {
    return false;
  }
  return true;
}

}  // namespace mantissa::cuda_backend

#endif
