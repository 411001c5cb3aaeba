// What the shim's cuBLASLt and cuDNN refuse: a mistake in each thing that they are told.
#include <cublasLt.h>

#include <functional>
#include <vector>

#include "core/accelerator.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/tf32.h"
#include "cuda/library/cudnn_graph.h"
#include "tests/cuda_shim/shim.h"
#include "tests/testing.h"

using namespace mantissa;

namespace {

template <class T> cublasStatus_t set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, T value) {
  return cublasLtMatmulDescSetAttribute(d, name, &value, sizeof value);
}

// c = a @ b of column-major f16 matrices [64, 32] and [32, 16]; a test changes one thing.
struct Product {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulPreference_t wish = nullptr;
  cublasLtMatmulHeuristicResult_t plans[2];
  int count = 0;
  Tensor memory = zeros({3, 4096}, {.dtype = f16}).to(cuda);
  std::size_t workspace_bytes = 1 << 16;
  Tensor workspace = zeros({1 << 16}, {.dtype = u8}).to(cuda);

  Product() {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_16F, 64, 32, 64);
    cublasLtMatrixLayoutCreate(&b, CUDA_R_16F, 32, 16, 32);
    cublasLtMatrixLayoutCreate(&c, CUDA_R_16F, 64, 16, 64);
    cublasLtMatmulPreferenceCreate(&wish);
    const std::uint32_t exact = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &exact, sizeof exact);
    cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                         sizeof workspace_bytes);
  }
  ~Product() {
    cublasLtMatmulPreferenceDestroy(wish);
    for (const auto layout : {a, b, c}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(operation);
    cublasLtDestroy(handle);
  }
  Product(const Product&) = delete;
  static void remake(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
                     std::int64_t leading) {
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading);
  }
  void* matrix(std::int64_t i) const { return memory.select(0, i).view().data; }
  cublasStatus_t ask() { return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, c, wish, 2, plans, &count); }
  cublasStatus_t run(int plan = 0, const void* left = nullptr) const {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle, operation, &one, left ? left : matrix(0), a, matrix(1), b, &zero, matrix(2), c,
                          matrix(2), c, &plans[plan].algo, workspace.view().data, workspace_bytes, nullptr);
  }
};

}  // namespace

TEST_CASE("the shim's cuBLASLt refuses what does not fit together") {
  {
    Product p;
    REQUIRE(p.ask() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(p.count == 2);
    CHECK(p.run(0) == CUBLAS_STATUS_SUCCESS);
    CHECK(p.run(1) == CUBLAS_STATUS_SUCCESS);
    CHECK(p.run(0, static_cast<const char*>(p.matrix(0)) + 2) == CUBLAS_STATUS_INVALID_VALUE);  // not aligned
#if !defined(__SANITIZE_ADDRESS__)  // there device memory is the host's
    const std::vector<char> of_the_host(8192);
    CHECK(p.run(0, reinterpret_cast<const void*>((reinterpret_cast<std::uintptr_t>(of_the_host.data()) + 255) / 256 *
                                                 256)) == CUBLAS_STATUS_INVALID_VALUE);
#endif
    p.workspace_bytes = 16;
    CHECK(p.run(1) == CUBLAS_STATUS_INVALID_VALUE);
    p.plans[0].algo = {};
    CHECK(p.run(0) == CUBLAS_STATUS_INVALID_VALUE);
  }
  {
    Product p;  // a plan for another product
    REQUIRE(p.ask() == CUBLAS_STATUS_SUCCESS);
    p.remake(p.c, CUDA_R_16F, 64, 16, 128);
    CHECK(p.run() == CUBLAS_STATUS_INVALID_VALUE);
  }
  const std::uint32_t any = ~0u;
  const std::int32_t two = 2;
  const std::function<void(Product&)> mistakes[] = {
      [](Product& p) { set(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T); },
      [](Product& p) { p.remake(p.b, CUDA_R_16F, 31, 16, 31); },
      [](Product& p) { p.remake(p.b, CUDA_R_16F, 32, 16, 31); },
      [](Product& p) { p.remake(p.b, CUDA_R_16BF, 32, 16, 32); },
      [](Product& p) { p.remake(p.c, CUDA_R_16BF, 64, 16, 64); },
      [&](Product& p) { cublasLtMatrixLayoutSetAttribute(p.c, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two); },
      [](Product& p) { set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS); },
      [](Product& p) { set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU); },
      [](Product& p) {
        set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX);
        set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.matrix(1));
        set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{68});
      },
      [](Product& p) {
        set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.matrix(1));
        set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
      },
      [&](Product& p) {
        cublasLtMatmulPreferenceSetAttribute(p.wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &any, sizeof any);
      },
  };
  for (const auto& make : mistakes) {
    INFO("mistake " << &make - mistakes);
    Product p;
    make(p);
    CHECK(p.ask() == CUBLAS_STATUS_INVALID_VALUE);
  }
  Product p;
  CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 64) == CUBLAS_STATUS_INVALID_VALUE);  // an int
}

namespace {

using namespace cuda_backend::cudnn;

Descriptor tensor_of(std::int64_t id, const std::vector<std::int64_t>& sizes) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  t.set(CUDNN_ATTR_TENSOR_STRIDES, {sizes[1], 1});
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  return t;
}

// y = x + b of [2, 3]; a test changes one thing.
struct Sum {
  Descriptor x = tensor_of(1, {2, 3}), b = tensor_of(2, {2, 3}), y = tensor_of(3, {2, 3}), how, operation;
  cuda_backend::cudnn::Problem problem;

  Sum() : how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    const cudnnPointwiseMode_t plus = CUDNN_POINTWISE_ADD;
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &plus);
  }
  void finalize_tensors() {
    for (Descriptor* d : {&x, &b, &y, &how}) d->finalize();
  }
  void build() {
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    operation.finalize();
    const cudnnBackendDescriptor_t operations[] = {operation.get()};
    find_engines(problem, operations, true);
  }
  bool run(std::span<const std::int64_t> ids, std::int64_t skew = 0) {
    const Tensor memory = ones({64}).to(cuda);
    auto* const at = static_cast<char*>(memory.view().data);
    void* const pointers[] = {at, at + 64 + skew, at + 128};
    return run_plan(&problem, 0, std::span(pointers).first(ids.size()), ids, cuda);
  }
};
cudnnStatus_t status_of(const std::function<void()>& f) {
  try {
    f();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refused& r) { return r.status; }
}

}  // namespace

TEST_CASE("f32 products on a GPU round their operands to TF32 only where it is allowed") {
  manual_seed(3);
  const Tensor a = randn({48, 96}), b = randn({96, 40}), on_a = a.to(cuda), on_b = b.to(cuda);
  const Tensor exact = matmul(cast(a, f64), cast(b, f64));
  const auto error = [&](Dtype dtype) {
    const Tensor y = matmul(cast(on_a, dtype), cast(on_b, dtype));
    return max(abs(cast(y.to(cpu), f64) - exact)).item();
  };
  CHECK(!is_tf32_allowed());
  const double in_f32 = error(f32), in_f64 = error(f64);
  allow_tf32();
  const double in_tf32 = error(f32);
  CHECK(error(f64) == in_f64);
  CHECK(equal(matmul(a, b), matmul(a.clone(), b)));
  allow_tf32(false);
  CHECK(error(f32) == in_f32);
  // Each of 96 products of numbers up to 4 has a relative error of 2^-11 from either operand.
  CHECK((in_f32 < 1e-4 && in_tf32 > 1e-3 && in_tf32 < 96 * 16 * 0x1p-10));
}

TEST_CASE("the shim's cuDNN refuses what does not fit together") {
  cuda_shim::set_cudnn(true);
  const std::int64_t ids[] = {1, 2, 3};
  {
    Sum s;
    s.finalize_tensors();
    s.build();
    CHECK(s.run(ids));
    CHECK_FALSE(s.run(std::span(ids).first(2)));
    CHECK_FALSE(s.run(ids, 4));
    CHECK(status_of([&] { s.x.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{7}); }) == CUDNN_STATUS_BAD_PARAM);
    s.x = Descriptor();  // destroyed while a plan needs it
    CHECK_FALSE(s.run(ids));
  }
  CHECK(status_of([] { Sum().build(); }) == CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  const std::function<void(Sum&)> mistakes[] = {
      [](Sum& s) {
        s.b = tensor_of(2, {2, 2});
      },
      [](Sum& s) {
        s.b = tensor_of(1, {2, 1});
      },
      [](Sum& s) {
        s.y = tensor_of(1, {2, 3});
      },  // y = y + b
      [](Sum& s) {
        const bool yes = true;
        s.b.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);  // nothing computes it
      },
      [](Sum& s) {
        s.how = Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), s.y = Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
      },
  };
  for (const auto& make : mistakes) {
    INFO("mistake " << &make - mistakes);
    Sum s;
    make(s);
    s.finalize_tensors();
    CHECK(status_of([&] { s.build(); }) / 1000 == 2);
  }
  cuda_shim::set_cudnn(false);
}
