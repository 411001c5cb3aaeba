// cuBLASLt is column-major. Our row-major c = a @ b is its c^T = b^T @ a^T, whose operands are the same bytes.
#include "cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <unordered_map>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/kernel.h"
#include "core/tf32.h"
#include "cuda/recorded_memory.h"
#include "cuda/runtime.h"
#include "cuda/thread_state.h"
#include "cuda/tuner.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace cuda_backend {
namespace {

using tensor_core::Gemm;

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's recommendation for Hopper

void check_status(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuBLASLt refused ", what, ": ", cublasLtGetStatusString(status));
}

cudaDataType_t type_of(Dtype t) {
  return t == f64 ? CUDA_R_64F : t == f32 ? CUDA_R_32F : t == f16 ? CUDA_R_16F : CUDA_R_16BF;
}

// A product independent of its operands' addresses: descriptors, and the algorithms that the heuristic proposes.
struct Problem {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  std::array<cublasLtMatmulHeuristicResult_t, most_cublaslt_plans> plans{};
  int count = 0;
  bool failed = true;  // not asked for plans yet, or refused for a reason that may pass
};

template <class T> void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, T value) {
  check_status(cublasLtMatmulDescSetAttribute(d, name, &value, sizeof value), "an attribute of a product");
}
cublasLtMatrixLayout_t make_layout(Dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                                   std::int64_t items, std::int64_t step) {
  cublasLtMatrixLayout_t layout;
  check_status(cublasLtMatrixLayoutCreate(&layout, type_of(dtype), static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns), leading),
               "a matrix");
  const auto count = static_cast<std::int32_t>(items);
  check_status(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
               "a batch");
  check_status(
      cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
      "a batch");
  return layout;
}

cublasLtHandle_t handle() {
  static thread_local ThreadState<std::map<int, cublasLtHandle_t>> handles;  // one per device
  cublasLtHandle_t& h = (*handles)[current_device()];
  if (!h) {
    const CaptureRelaxed relaxed;
    check_status(cublasLtCreate(&h), "to start");
  }
  return h;
}

// The parameters of a Problem. The alignment of operands, result and bias is one: the heuristic depends on it, and
// assumes 256 bytes if it is not given.
struct Key {
  std::int64_t m, n, k, items, lda, ldb, ldc, a_step, b_step;
  int device, in, out, transposed, epilogue, accumulate, tf32;
  std::uint32_t a_alignment, b_alignment, c_alignment, bias_alignment, aux_alignment;
  friend bool operator==(const Key&, const Key&) = default;

  struct Hash {
    std::size_t operator()(const Key& k) const {  // the rest seldom differs alone
      const std::int64_t kinds = k.in | k.out << 4 | k.transposed << 8 | k.accumulate << 10 | k.device << 12;
      return HashOfNumbers{}(KeyNumbers<7>{k.m, k.n, k.k, k.items, k.lda, k.ldb, kinds << 16 | k.epilogue});
    }
  };
};

std::uint32_t alignment_of(const void* p) {
  std::uint32_t bytes = 256;
  while (bytes > 1 && reinterpret_cast<std::uintptr_t>(p) % bytes != 0) bytes /= 2;
  return bytes;
}

// gelu's input: written by its epilogue, read by that of its gradient.
void* aux_of(const Gemm& g) { return g.saved ? const_cast<void*>(g.saved) : g.before_activation; }

// For the transposed product, whose operand B is our a: CUBLASLT_EPILOGUE_BGRADB sums that over k.
cublasLtEpilogue_t epilogue_of(const Gemm& g) {
  if (g.a_sums) return CUBLASLT_EPILOGUE_BGRADB;
  if (g.saved) return CUBLASLT_EPILOGUE_DGELU;
  if (g.activation == Activation::gelu_tanh) {
    if (g.before_activation) return g.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return g.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  if (g.activation == Activation::relu) return g.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return g.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

Problem make_problem(const Gemm& g, const Key& key) {
  Problem p;
  const cublasComputeType_t compute = g.in == f64 ? CUBLAS_COMPUTE_64F
                                      : key.tf32  ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
  check_status(cublasLtMatmulDescCreate(&p.operation, compute, g.in == f64 ? CUDA_R_64F : CUDA_R_32F), "a product");
  set(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, g.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, g.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g));
  if (g.bias) {
    set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.in));
    set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  }
  if (g.a_sums) {  // in the result's dtype, according to cublasLt.h
    set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.out));
    set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.a_sums);
  }
  if (aux_of(g)) {  // in the result's dtype, which is the default
    set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_of(g));
    set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.ldc);
    set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, g.m * g.ldc);
  }
  p.a = g.b_transposed ? make_layout(g.in, g.k, g.n, g.ldb, g.items, key.b_step)
                       : make_layout(g.in, g.n, g.k, g.ldb, g.items, key.b_step);
  p.b = g.a_transposed ? make_layout(g.in, g.m, g.k, g.lda, g.items, key.a_step)
                       : make_layout(g.in, g.k, g.m, g.lda, g.items, key.a_step);
  p.c = make_layout(g.out, g.n, g.m, g.ldc, g.items, g.m * g.ldc);
  return p;
}
void find_plans(Problem& p, const Key& key) {
  const CaptureRelaxed relaxed;  // the heuristic may load code, which a capture does not allow
  cublasLtMatmulPreference_t wish;
  check_status(cublasLtMatmulPreferenceCreate(&wish), "a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check_status(cublasLtMatmulPreferenceSetAttribute(wish, name, &value, sizeof value), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
         std::min({key.c_alignment, key.bias_alignment, key.aux_alignment}));
  // Split-K sums are added in f32 or not at all: 16-bit reductions would lose the precision of f32 accumulation.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const cublasStatus_t found = cublasLtMatmulAlgoGetHeuristic(handle(), p.operation, p.a, p.b, p.c, p.c, wish,
                                                              most_cublaslt_plans, p.plans.data(), &p.count);
  cublasLtMatmulPreferenceDestroy(wish);
  if (found != CUBLAS_STATUS_SUCCESS) p.count = 0;
  p.failed =
      found != CUBLAS_STATUS_SUCCESS && found != CUBLAS_STATUS_NOT_SUPPORTED && found != CUBLAS_STATUS_INVALID_VALUE;
}

Problem& find_problem(const Gemm& g, std::int64_t a_step, std::int64_t b_step) {
  static thread_local ThreadState<std::unordered_map<Key, Problem, Key::Hash>> state;
  auto& problems = *state;
  const Key key{g.m,
                g.n,
                g.k,
                g.items,
                g.lda,
                g.ldb,
                g.ldc,
                a_step,
                b_step,
                current_device(),
                static_cast<int>(g.in),
                static_cast<int>(g.out),
                2 * g.a_transposed + g.b_transposed,
                static_cast<int>(epilogue_of(g)),
                g.accumulate,
                g.in == f32 && is_tf32_allowed(),
                alignment_of(g.a),
                alignment_of(g.b),
                alignment_of(g.c),
                std::min(alignment_of(g.bias), alignment_of(g.a_sums)),
                alignment_of(aux_of(g))};
  const auto at = problems.find(key);
  const bool is_new = at == problems.end();
  Problem& p = is_new ? problems.emplace(key, make_problem(g, key)).first->second : at->second;
  if (is_new || (p.failed && !is_capturing())) find_plans(p, key);
  return p;
}

Device this_device() { return {DeviceType::cuda, static_cast<std::int8_t>(current_device())}; }

class Workspace {
 public:
  explicit Workspace(std::size_t bytes) : bytes_(bytes) {
    if (bytes) p_ = allocate(bytes, this_device(), &pool_);
  }
  ~Workspace() { if (p_) deallocate(p_, bytes_, pool_); }
  Workspace(const Workspace&) = delete;
  void* get() const { return p_; }

 private:
  std::size_t bytes_;
  void* pool_ = nullptr;
  void* p_ = nullptr;
};

// c = bias in every row.
void lay_bias(const Gemm& g) {
  View c, bias;
  c.data = g.c;
  c.sizes = bias.sizes = {g.items * g.m, g.n};
  c.strides = {g.ldc, 1};
  bias.data = const_cast<void*>(g.bias);
  bias.strides = {0, 1};
  c.dtype = bias.dtype = g.out;
  c.device = bias.device = this_device();
  kernels::copy(c.device, c, bias);
}

// A batch of matrices with a constant stride.
bool run_strided(const Gemm& g, std::int64_t a_step, std::int64_t b_step, int plan) {
  Problem& p = find_problem(g, a_step, b_step);
  if (p.count == 0 && g.bias && !g.accumulate && g.activation == Activation::none) {
    // Not every version supports a bias in every dtype: then c is filled with the bias and the product accumulated.
    Gemm sum = g;
    sum.bias = nullptr;
    sum.accumulate = true;
    if (plan >= find_problem(sum, a_step, b_step).count) return false;
    lay_bias(g);
    return run_strided(sum, a_step, b_step, plan);
  }
  if (plan >= p.count) return false;
  auto& chosen = p.plans[static_cast<std::size_t>(plan)];
  if (chosen.state != CUBLAS_STATUS_SUCCESS) return false;
  if (g.bias) set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  if (aux_of(g)) set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux_of(g));
  if (g.a_sums) set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.a_sums);
  const Workspace workspace(chosen.workspaceSize);
  note_parameter<Gemm>(g);
  const double one_f64 = 1, beta_f64 = g.accumulate;
  const float one_f32 = 1, beta_f32 = g.accumulate;
  const void* one = g.in == f64 ? static_cast<const void*>(&one_f64) : &one_f32;
  const void* beta = g.in == f64 ? static_cast<const void*>(&beta_f64) : &beta_f32;
  const cublasStatus_t status = [&] {
    const CaptureRelaxed relaxed(records_here());  // it may load code
    return cublasLtMatmul(handle(), p.operation, one, g.b, p.a, g.a, p.b, beta, g.c, p.c, g.c, p.c, &chosen.algo,
                          workspace.get(), chosen.workspaceSize, stream());
  }();
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    // Nothing was launched, so another way can do it; but a library refusing its own proposal is worth a message.
    chosen.state = status;
    std::fprintf(stderr, "mantissa: cuBLASLt refused its own plan %d for %lldx%lldx%lld (%s); another is used\n", plan,
                 static_cast<long long>(g.m), static_cast<long long>(g.n), static_cast<long long>(g.k),
                 cublasLtGetStatusString(status));
    return false;
  }
  if (status != CUBLAS_STATUS_SUCCESS && !is_capturing()) wait_for_stream();  // an earlier kernel's error comes first
  check_status(status, "a product");
  after_library_call("cublasLtMatmul");
  return true;
}

const void* offset(const void* p, std::int64_t elements, Dtype t) {
  return static_cast<const char*>(p) + elements * static_cast<std::int64_t>(size_of(t));
}

}  // namespace


std::string cublaslt_version() {
  const std::size_t v = cublasLtGetVersion();  // 130002 is 13.0.2
  return concat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}

bool run_cublaslt(const Gemm& g, int plan) {
  if (g.a_sums && (g.bias || g.activation != Activation::none || g.items != 1 || g.in == f64)) return false;
  if (g.k == 0 || g.activation == Activation::gelu || (g.bias && g.in != g.out)) return false;
  // cublasLt.h: the leading dimension of gelu's saved input must be divisible by 8. It is accessed in vectors of 16
  // bytes, also by the gradient.
  const bool aligned = g.ldc % 8 == 0 && alignment_of(aux_of(g)) >= 16;
  if (aux_of(g) && (g.activation != Activation::gelu_tanh || !aligned || g.batch.rank > 1)) return false;
  if (g.batch.rank <= 1) return run_strided(g, g.batch.rank ? g.batch.a[0] : 0, g.batch.rank ? g.batch.b[0] : 0, plan);
  // Only the last batch dimension has a single stride: the others are a loop.
  const tensor_core::Batch& batch = g.batch;
  const int last = batch.rank - 1;
  Gemm part = g;
  part.items = batch.sizes[last];
  part.batch = {};
  for (std::int64_t done = 0; done < g.items; done += part.items) {
    std::int64_t a = 0, b = 0;
    batch.offsets(done, &a, &b);
    part.a = offset(g.a, a, g.in);
    part.b = offset(g.b, b, g.in);
    part.c = const_cast<void*>(offset(g.c, done * g.m * g.ldc, g.out));
    if (!run_strided(part, batch.a[last], batch.b[last], plan)) {
      check(done == 0 || !g.accumulate,
            "internal error: cuBLASLt took a part of a batch that is added to c, and refused another");
      return false;
    }
  }
  return true;
}

}  // namespace cuda_backend
}  // namespace mantissa
