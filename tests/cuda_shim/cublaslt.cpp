// cuBLASLt's functions with the CPU's product: y = epilogue(alpha * op(a) @ op(b) + beta * c) of column-major matrices.
// Refuses what NVIDIA's documentation forbids, and a plan used for anything but what it was proposed for: other sizes,
// strides, dtypes or epilogue, addresses less aligned than was said. Bias in f64 is not supported, so that what stands
// in for it is tested, too. Source of the rules: cuBLAS documentation and cublasLt.h of CUDA 13.0.
#include <cublasLt.h>

#include <cmath>
#include <cstdio>
#include <deque>

#include "core/gemm.h"
#include "tests/cuda_shim/elements.h"
#include "tests/cuda_shim/runtime_parts.h"

using mantissa::Dtype, mantissa::Tensor, mantissa::View, mantissa::visit_floating;

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, leading;
  std::int32_t items = 1;
  std::int64_t step = 0;
  friend bool operator==(const cublasLtMatrixLayoutOpaque_t&, const cublasLtMatrixLayoutOpaque_t&) = default;

  bool is_valid() const { return rows > 0 && columns > 0 && leading >= rows && items > 0 && step >= 0; }
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a_turned = CUBLAS_OP_N, b_turned = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;  // the result's
  std::int64_t aux_leading = 0, aux_step = 0;
  friend bool operator==(const cublasLtMatmulDescOpaque_t&, const cublasLtMatmulDescOpaque_t&) = default;

  struct Addresses {
    void *bias = nullptr, *aux = nullptr;
    friend bool operator==(const Addresses&, const Addresses&) { return true; }  // no plan depends on them
  } at;

  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_gelu() const { return (epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }
  bool has_gelu_gradient() const { return epilogue == CUBLASLT_EPILOGUE_DGELU; }
  bool has_sums() const { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
  bool has_aux() const { return (epilogue & 128) != 0; }
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = ~0u;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c and y
};

namespace {

using namespace cuda_shim;
using Operation = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;
using Wish = cublasLtMatmulPreferenceOpaque_t;

// What a plan was proposed for; its number is what cublasLtMatmulAlgo_t holds.
struct Plan {
  Operation operation;
  Layout a, b, c, y;
  Wish wish;
  std::size_t workspace;
};
constexpr std::size_t some_workspace = 4096;
std::deque<Plan>& plans() {
  static auto& all = *new std::deque<Plan>;  // never destroyed: captured graphs may outlive what is static
  return all;
}

cublasStatus_t refuse(const char* why) {
  std::fprintf(stderr, "cuda_shim: cuBLASLt: %s\n", why);
  return CUBLAS_STATUS_INVALID_VALUE;
}
// Stores an attribute of its exact size.
template <class T> cublasStatus_t store(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof(T)) return refuse("the size of an attribute is not that of its type");
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Dtype dtype_of(cudaDataType_t t) {
  return t == CUDA_R_64F   ? mantissa::f64
         : t == CUDA_R_32F ? mantissa::f32
         : t == CUDA_R_16F ? mantissa::f16
                           : mantissa::bf16;
}
cudaDataType_t bias_type(const Operation& o, const Layout& y) {
  return o.bias_type < 0 ? y.type : static_cast<cudaDataType_t>(o.bias_type);
}

// Why an operation is wrong, or null.
const char* find_error(const Operation& o, const Layout& a, const Layout& b, const Layout& c, const Layout& y) {
  const bool in_f64 = o.compute == CUBLAS_COMPUTE_64F;
  const auto is_turned = [](cublasOperation_t t) { return t == CUBLAS_OP_T; };
  const std::int64_t m = is_turned(o.a_turned) ? a.columns : a.rows, k = is_turned(o.a_turned) ? a.rows : a.columns;
  const std::int64_t k_of_b = is_turned(o.b_turned) ? b.columns : b.rows,
                     n = is_turned(o.b_turned) ? b.rows : b.columns;
  for (const Layout* l : {&a, &b, &c, &y})
    if (!l->is_valid()) return "a matrix whose leading dimension is less than its rows, or an empty one";
  if (k != k_of_b || y.rows != m || y.columns != n) return "sizes do not fit";
  if (c.rows != m || c.columns != n || c.type != y.type) return "c and y differ";
  if (a.items != y.items || b.items != y.items || c.items != y.items) return "batches differ";
  if (y.items > 1 && y.step < y.leading * (y.columns - 1) + y.rows) return "the results of a batch overlap";
  if (o.scale != (in_f64 ? CUDA_R_64F : CUDA_R_32F)) return "the scale's type is not that of sums";
  if (a.type != b.type) return "a and b differ in dtype";
  if (in_f64 != (a.type == CUDA_R_64F)) return "f64 goes with sums in f64";
  if (y.type != a.type && (y.type != CUDA_R_32F || in_f64))
    return "the result is neither of the operands' dtype nor f32";
  if (o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return "TF32 is for f32";
  const bool with_vector = o.has_bias() || o.has_sums();
  if (with_vector && !o.at.bias) return "the epilogue needs a bias";
  if (with_vector && bias_type(o, y) != y.type) return "a bias or its gradient is of the result's dtype";
  if (o.has_aux() && !o.at.aux) return "the epilogue needs gelu's input";
  if (o.has_aux() && (o.aux_leading < m || o.aux_leading % 8 != 0 || o.aux_step % 8 != 0))
    return "rows or matrices of gelu's input are not multiples of 8 apart";
  if (o.has_aux() && y.items > 1 && o.aux_step < o.aux_leading * n) return "gelu's inputs of a batch overlap";
  return nullptr;
}

View view_of(const void* p, const Layout& l, bool turned) {  // its op(), turned: row-major
  View v;
  v.data = const_cast<void*>(p);
  v.dtype = dtype_of(l.type);
  v.sizes = {turned ? l.rows : l.columns, turned ? l.columns : l.rows};
  v.strides = {turned ? 1 : l.leading, turned ? l.leading : 1};
  return v;
}
Tensor in_tf32(const View& v) {  // f32
  Tensor rounded = Tensor::allocate(v.sizes, mantissa::f32, mantissa::cpu);
  float* to = rounded.data<float>();
  for (std::int64_t i = 0; i < v.sizes[0]; ++i)
    for (std::int64_t j = 0; j < v.sizes[1]; ++j)
      *to++ = static_cast<float>(rounded_to_tf32(load_as<float>(v.data, i * v.strides[0] + j * v.strides[1])));
  return rounded;
}
double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

struct Numbers {
  double alpha, beta;
};
struct Pointers {
  const void *a, *b, *c;
  void* y;
};

// One matrix of a batch. T: the result's dtype; sums are not rounded to it before the end.
template <class T> void multiply(const Plan& p, const Operation& o, const Numbers& by, const Pointers& at) {
  const View a = view_of(at.a, p.a, o.a_turned == CUBLAS_OP_T), b = view_of(at.b, p.b, o.b_turned == CUBLAS_OP_T);
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const Dtype sum_dtype = std::is_same_v<T, double> ? mantissa::f64 : mantissa::f32;
  const Tensor product = Tensor::allocate({p.y.columns, p.y.rows}, sum_dtype, mantissa::cpu);
  if (o.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
    mantissa::kernels::gemm(mantissa::cpu, product.view(), in_tf32(b).view(), in_tf32(a).view(), {});
  else
    mantissa::kernels::gemm(mantissa::cpu, product.view(), b, a, {});  // y^T = op(b)^T @ op(a)^T
  for (std::int64_t j = 0; j < p.y.columns; ++j) {
    for (std::int64_t i = 0; i < p.y.rows; ++i) {
      double v = by.alpha * static_cast<double>(product.data<Sum>()[j * p.y.rows + i]);
      if (by.beta != 0) v += by.beta * load_as<T>(at.c, i + j * p.c.leading);
      if (o.has_bias()) v += load_as<T>(o.at.bias, i);
      if (o.has_aux() && o.has_gelu()) store_as<T>(o.at.aux, i + j * o.aux_leading, v);
      if (o.has_gelu()) v = gelu(v);
      if (o.has_gelu_gradient()) v *= gelu_slope(load_as<T>(o.at.aux, i + j * o.aux_leading));
      if ((o.epilogue & CUBLASLT_EPILOGUE_RELU) && v < 0) v = 0;
      store_as<T>(at.y, i + j * p.y.leading, v);
    }
  }
  if (!o.has_sums()) return;
  const bool turned = o.b_turned == CUBLAS_OP_T;
  visit_floating(b.dtype, [&]<class In> {
    for (std::int64_t j = 0; j < p.y.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < (turned ? p.b.columns : p.b.rows); ++k)
        sum += load_as<In>(at.b, turned ? j + k * p.b.leading : k + j * p.b.leading);
      store_as<T>(o.at.bias, j, sum);
    }
  });
}

void multiply_all(const Plan& p, const Operation& operation, const Numbers& by, const Pointers& at) {
  visit_floating(dtype_of(p.y.type), [&]<class T> {
    const auto in_size = static_cast<std::int64_t>(mantissa::size_of(dtype_of(p.a.type)));
    const auto moved = [](const void* from, std::int64_t bytes) { return static_cast<const char*>(from) + bytes; };
    const auto out_size = static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t item = 0; item < p.y.items; ++item) {
      Operation o = operation;  // the same bias for all, as its batch stride is not set
      if (o.at.aux) o.at.aux = static_cast<char*>(o.at.aux) + item * o.aux_step * out_size;
      multiply<T>(p, o, by,
                  {moved(at.a, item * p.a.step * in_size), moved(at.b, item * p.b.step * in_size),
                   moved(at.c, item * p.c.step * out_size), static_cast<char*>(at.y) + item * p.y.step * out_size});
    }
  });
}

bool is_aligned(const void* p, std::uint32_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

}  // namespace

std::size_t cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : s == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
         : s == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                            : "CUBLAS_STATUS_EXECUTION_FAILED";
}
struct cublasLtContext {
  int device;
};
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{cuda_shim::device};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute, cudaDataType_t scale) {
  *d = new Operation{.compute = compute, .scale = scale, .at = {}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return store(d->a_turned, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return store(d->b_turned, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return store(d->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return store(d->at.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return store(d->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return store(d->at.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return store(d->aux_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return store(d->aux_step, value, bytes);
  }
  return refuse("an attribute of a product that the shim does not know");
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *layout = new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  return name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? store(layout->items, value, bytes)
                                                    : store(layout->step, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wish) {
  *wish = new Wish;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    std::size_t bytes) {
  if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return store(wish->workspace, value, bytes);
  if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return store(wish->reductions, value, bytes);
  return store(wish->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  delete wish;
  return CUBLAS_STATUS_SUCCESS;
}

// Two plans, the second with a workspace.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t y, cublasLtMatmulPreference_t wish, int room,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  const std::lock_guard lock(mutex);
  *count = 0;
  if (const int status = planned_status(__func__)) return static_cast<cublasStatus_t>(status);
  if (const char* error = find_error(*d, *a, *b, *c, *y)) return refuse(error);
  if (wish->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return refuse("sums of parts of k would be rounded to 16 bits");
  if (d->has_bias() && d->compute == CUBLAS_COMPUTE_64F) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const std::size_t workspace : {std::size_t{0}, some_workspace}) {
    if (*count == room || workspace > wish->workspace) break;
    plans().push_back({*d, *a, *b, *c, *y, *wish, workspace});
    cublasLtMatmulHeuristicResult_t& found = results[(*count)++];
    found = {};
    found.algo.data[0] = plans().size();
    found.workspaceSize = workspace;
    found.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* y,
                              cublasLtMatrixLayout_t y_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  note_call("cublasLtMatmul");
  if (null_device) return CUBLAS_STATUS_SUCCESS;
  const std::lock_guard lock(mutex);
  if (const int status = planned_status(__func__)) return static_cast<cublasStatus_t>(status);
  if (handle->device != cuda_shim::device || stream_of(stream).device != cuda_shim::device)
    return refuse("the handle or the stream is of another device");
  if (const char* error = find_error(*d, *a_layout, *b_layout, *c_layout, *y_layout)) return refuse(error);
  if (algo->data[0] == 0 || algo->data[0] > plans().size()) return refuse("not a plan");
  const Plan& plan = plans()[algo->data[0] - 1];
  const bool same =
      plan.operation == *d && plan.a == *a_layout && plan.b == *b_layout && plan.c == *c_layout && plan.y == *y_layout;
  if (!same) return refuse("the plan is of another product");
  if (workspace_bytes < plan.workspace || !is_aligned(workspace, 16)) return refuse("the workspace is too small");
  const void* const operands[] = {a, b, c, y};
  for (int i = 0; i < 4; ++i)
    if (!is_aligned(operands[i], plan.wish.alignment[i])) return refuse("an operand is less aligned than was said");
  for (const void* p : {d->has_bias() || d->has_sums() ? d->at.bias : nullptr, d->has_aux() ? d->at.aux : nullptr})
    if (p && !is_aligned(p, plan.wish.alignment[3]))
      return refuse("an operand of the epilogue is less aligned than was said");
  for (const void* p : {a, b, c, static_cast<const void*>(y), static_cast<const void*>(plan.workspace ? workspace : y)})
    if (guarded && !is_device_pointer(p)) return refuse("an operand is not in the device's memory");
  const Numbers by = plan.operation.compute == CUBLAS_COMPUTE_64F
                         ? Numbers{*static_cast<const double*>(alpha), *static_cast<const double*>(beta)}
                         : Numbers{*static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  const cudaError_t e = enqueue(stream, [&plan, o = *d, by, at = Pointers{a, b, c, y}, workspace] {
    if (plan.workspace) std::memset(workspace, 0xff, plan.workspace);  // whatever else was there
    multiply_all(plan, o, by, at);
  });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
