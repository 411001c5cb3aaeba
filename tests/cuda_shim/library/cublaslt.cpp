// The CPU's product in place of cuBLASLt: what cuda/gemm.cpp calls under the shim.
#include "cuda/cublaslt.h"

#include <vector>

#include "core/gemm.h"
#include "cuda/runtime.h"
#include "tests/cuda_shim/shim.h"

namespace mantissa {
namespace {

using tensor_core::Gemm;

View matrices(const void* p, Dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t leading,
              bool transposed) {
  View v;
  v.data = const_cast<void*>(p);
  v.dtype = dtype;
  v.sizes = {rows, columns};
  v.strides = {transposed ? 1 : leading, transposed ? leading : 1};
  return v;
}

// One matrix of a batch. The result is made in a buffer, because c may have to be added to and may have other rows.
void multiply(const Gemm& g, const void* a, const void* b, char* c) {
  const Tensor product = Tensor::allocate({g.m, g.n}, g.in, cpu);
  View bias;
  if (g.bias) bias = matrices(g.bias, g.in, 1, g.n, g.n, false), bias.sizes = {g.n}, bias.strides = {1};
  kernels::gemm(cpu, product.view(), matrices(a, g.in, g.m, g.k, g.lda, g.a_transposed),
                matrices(b, g.in, g.k, g.n, g.ldb, g.b_transposed), bias);
  visit_floating(g.in, [&]<class In> {
    visit_floating(g.out, [&]<class Out> {
      const In* from = product.data<In>();
      for (std::int64_t i = 0; i < g.m; ++i) {
        Out* row = reinterpret_cast<Out*>(c) + i * g.ldc;
        for (std::int64_t j = 0; j < g.n; ++j) {
          double v = static_cast<double>(static_cast<Compute<In>>(from[i * g.n + j]));
          if (g.accumulate) v += static_cast<double>(static_cast<Compute<Out>>(row[j]));
          if (g.activation == Activation::relu && v < 0) v = 0;
          row[j] = static_cast<Out>(static_cast<Compute<Out>>(v));
        }
      }
    });
  });
}

void multiply_all(const Gemm& g) {
  const cuda_shim::DeviceAccess access;
  const auto size_in = static_cast<std::int64_t>(size_of(g.in)), size_out = static_cast<std::int64_t>(size_of(g.out));
  for (std::int64_t item = 0; item < g.items; ++item) {
    std::int64_t a = 0, b = 0;
    g.batch.offsets(item, &a, &b);
    multiply(g, static_cast<const char*>(g.a) + a * size_in, static_cast<const char*>(g.b) + b * size_in,
             static_cast<char*>(g.c) + item * g.m * g.ldc * size_out);
  }
}

bool tf32 = false;

}  // namespace

namespace cuda_backend {

bool run_cublaslt(const Gemm& g, int plan) {
  const bool known = g.activation == Activation::none || g.activation == Activation::relu;
  if (plan > 0 || g.k == 0 || g.a_sums || g.before_activation || !known) return false;
  cuda_shim::note_call("cublasLtMatmul");
  if (cuda_shim::null_device) return true;
  return cuda_shim::enqueue(stream(), [g] { multiply_all(g); }) == cudaSuccess;
}
void allow_tf32(bool allowed) { tf32 = allowed; }
bool is_tf32_allowed() { return tf32; }
std::string cublaslt_version() { return "none: the CPU shim"; }

}  // namespace cuda_backend

}  // namespace mantissa
