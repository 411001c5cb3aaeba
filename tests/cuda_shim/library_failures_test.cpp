// What happens when cuBLASLt or cuDNN refuse or fail: another way is taken, what was for want of memory is tried again,
// and what has no other way is an error after which the process goes on.
#include <cublasLt.h>
#include <cudnn.h>

#include <thread>

#include "core/accelerator.h"
#include "core/conv.h"
#include "core/ops.h"
#include "cuda/cublaslt.h"
#include "cuda/cudnn.h"
#include "tests/cuda_shim/shim.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// A product of n columns: a test takes a number of its own, as what was refused is remembered for each shape.
struct Product {
  explicit Product(std::int64_t n)
      : a(random_tensor({32, 24}, 1).to(f32).to(cuda)), b(random_tensor({24, n}, 2).to(f32).to(cuda)),
        c(zeros({32, n}).to(cuda)) {
    g.m = 32, g.n = n, g.k = 24, g.in = g.out = f32;
    g.a = a.view().data, g.b = b.view().data, g.c = c.view().data;
    g.lda = 24, g.ldb = g.ldc = n;
  }
  bool run(int plan) const { return cuda_backend::run_cublaslt(g, plan); }
  bool is_right() const {
    return difference(c.to(cpu), matmul(a.to(cpu), b.to(cpu)), tolerance_for(f32, 24, 4)).empty();
  }
  Tensor a, b, c;
  tensor_core::Gemm g;
};

// A convolution of images of n pixels in each direction.
struct Convolution {
  explicit Convolution(std::int64_t n)
      : shape{.batch = 1,
              .in_channels = 2,
              .out_channels = 4,
              .groups = 1,
              .in = {n, n},
              .out = {n, n},
              .kernel = {1, 1},
              .stride = {1, 1},
              .padding = {0, 0},
              .dilation = {1, 1}},
        x(random_tensor({1, 2, n, n}, 1).to(f32).to(cuda)), w(random_tensor({4, 2, 1, 1}, 2).to(f32).to(cuda)),
        y(zeros({1, 4, n, n}).to(cuda)) {}
  bool run(int plan) const {
    return cuda_backend::run_cudnn(ConvPass::forward, shape, Layout::contiguous, y.view(), x.view(), w.view(), {}, {},
                                   plan);
  }
  ConvShape shape;
  Tensor x, w, y;
};

}  // namespace

TEST_CASE("a product whose plan cuBLASLt refuses is computed by another, and the plan is not used again") {
  const Product p(16);
  cuda_shim::fail_next_call("cublasLtMatmul", CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK_FALSE(p.run(0));
  CHECK_FALSE(p.run(0));
  CHECK(p.run(1));
  CHECK(p.is_right());
  const Product other(17);  // by the operator: nobody notices
  cuda_shim::fail_next_call("cublasLtMatmul", CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(difference(matmul(other.a, other.b).to(cpu), matmul(other.a.to(cpu), other.b.to(cpu)),
                   tolerance_for(f32, 24, 4)) == "");
}

TEST_CASE(
    "plans that cuBLASLt could not propose for want of memory are asked for again; what it does not support is not") {
  const Product p(18), q(19);
  cuda_shim::fail_next_call("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_ALLOC_FAILED);
  CHECK_FALSE(p.run(0));
  CHECK(p.run(0));
  CHECK(p.is_right());
  cuda_shim::fail_next_call("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK_FALSE(q.run(0));
  CHECK_FALSE(q.run(0));
}

TEST_CASE("a product that fails in cuBLASLt is an error, and the next one works") {
  const Product p(20);
  cuda_shim::fail_next_call("cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK_THAT(message_of([&] { p.run(0); }), Catch::Matchers::Contains("cuBLASLt refused a product"));
  CHECK(p.run(0));
  CHECK(p.is_right());
}

TEST_CASE(
    "a plan or a graph that cuDNN could not build for want of memory is built later; one that it refuses is not") {
  cuda_shim::set_cudnn(true);
  const Convolution a(3), b(4), c(5);
  cuda_shim::fail_next_call("cudnnBackendFinalize of a plan", CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  CHECK_FALSE(a.run(0));
  CHECK(a.run(0));
  cuda_shim::fail_next_call("cudnnBackendFinalize of a graph", CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  CHECK_FALSE(b.run(0));
  CHECK(b.run(0));
  cuda_shim::fail_next_call("cudnnBackendFinalize of a plan", CUDNN_STATUS_NOT_SUPPORTED);
  CHECK_FALSE(c.run(0));
  CHECK_FALSE(c.run(0));
  CHECK(c.run(2));
  cuda_shim::set_cudnn(false);
}

TEST_CASE("a convolution that fails in cuDNN is computed by our own kernels") {
  cuda_shim::set_cudnn(true);
  const Convolution c(6);
  cuda_shim::fail_next_call("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  CHECK_FALSE(c.run(0));
  CHECK(c.run(0));
  cuda_shim::fail_next_call("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED);
  const Tensor y = conv2d(c.x, c.w);
  CHECK(difference(y.to(cpu), conv2d(c.x.to(cpu), c.w.to(cpu)), tolerance_for(f32, 2, 4)) == "");
  cuda_shim::set_cudnn(false);
}

TEST_CASE("a thread that ends leaves its plans to the next one") {
  const Product p(40), other(41);
  const auto in_a_thread = [](const auto& f) {
    bool result = false;
    std::thread([&] { result = f(); }).join();
    return result;
  };
  CHECK(in_a_thread([&] { return p.run(0); }));
  cuda_shim::fail_next_call("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(in_a_thread([&] { return p.run(1); }));            // does not ask again
  CHECK_FALSE(in_a_thread([&] { return other.run(0); }));  // asks

  const Convolution c(9), larger(10);
  cuda_shim::set_cudnn(true);
  CHECK(in_a_thread([&] { return c.run(0); }));
  cuda_shim::fail_next_call("cudnnBackendFinalize of a graph", CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(in_a_thread([&] { return c.run(0); }));
  CHECK_FALSE(in_a_thread([&] { return larger.run(0); }));
  cuda_shim::set_cudnn(false);
}
