// PyTorch's autocast lists for CUDA and for the CPU, by the names of its functions; aten-internal spellings
// (_convolution, upsample_bilinear2d, ...) appear under the function a user calls. Functions without an entry that
// PyTorch composes of listed operators follow, with the resulting policy. tests/torch_lists_test.cpp compares both with
// PyTorch's results.
#include <algorithm>
#include <initializer_list>

#include "amp/policies.h"

namespace mantissa::amp {
namespace {

using Names = std::initializer_list<const char*>;

void add(std::vector<Policies::Entry>& list, CastPolicy policy, Names names) {
  for (const char* name : names) put(list, name, policy);
}

}  // namespace

std::vector<Policies::Entry> torch_cuda_list() {
  std::vector<Policies::Entry> list;
  add(list, CastPolicy::lower,
      {"conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "prelu",
       "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv", "vecdot", "linear", "addbmm", "baddbmm", "bmm",
       "chain_matmul", "multi_dot", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
       "scaled_dot_product_attention"});
  add(list, CastPolicy::f32,
      {"acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt",
       "sinh", "tan", "pow", "softplus", "layer_norm", "group_norm", "rms_norm", "cosine_similarity", "dist", "pdist",
       "cdist", "renorm", "logsumexp", "poisson_nll_loss", "cosine_embedding_loss", "nll_loss",
       "hinge_embedding_loss", "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss",
       "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss",
       "binary_cross_entropy_with_logits", "interpolate"});
  add(list, CastPolicy::f32_default,
      {"prod", "softmax", "log_softmax", "cumprod", "cumsum", "vector_norm", "matrix_norm", "sum", "norm"});
  add(list, CastPolicy::promote,
      {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sample", "index_put", "tensordot",
       "scatter_add"});
  add(list, CastPolicy::banned, {"binary_cross_entropy"});
  // No entries, but promoted; inner is composed of tensordot.
  add(list, CastPolicy::promote, {"cat", "stack", "inner"});
  // Made of log_softmax and nll_loss, of pow, of norm, of log, of softmax.
  add(list, CastPolicy::f32,
      {"cross_entropy", "cross_entropy_soft", "square", "local_response_norm", "pairwise_distance", "normalize",
       "gaussian_nll_loss", "gumbel_softmax"});
  return list;
}

std::vector<Policies::Entry> torch_cpu_list() {
  std::vector<Policies::Entry> list;
  add(list, CastPolicy::lower,
      {"conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "bmm",
       "mm", "vecdot", "baddbmm", "addmm", "addbmm", "linear", "matmul", "prelu", "scaled_dot_product_attention"});
  add(list, CastPolicy::f32,
      {"avg_pool3d", "max_pool3d", "max_unpool2d", "max_unpool3d", "adaptive_avg_pool3d", "adaptive_max_pool3d",
       "fractional_max_pool2d", "fractional_max_pool3d", "reflection_pad", "replication_pad", "grid_sample", "polar",
       "prod", "quantile", "nanquantile", "stft", "cdist", "trace", "view_as_complex", "binary_cross_entropy",
       "mse_loss", "cosine_embedding_loss", "nll_loss", "hinge_embedding_loss", "poisson_nll_loss", "smooth_l1_loss",
       "cross_entropy", "cross_entropy_soft", "l1_loss", "huber_loss", "margin_ranking_loss", "soft_margin_loss",
       "triplet_margin_loss", "multi_margin_loss", "ctc_loss", "kl_div", "multilabel_margin_loss",
       "binary_cross_entropy_with_logits", "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "irfft", "rfft2",
       "irfft2", "rfftn", "irfftn", "hfft", "ihfft", "cholesky", "cholesky_inverse", "cholesky_solve", "inverse",
       "lu_solve", "orgqr", "ormqr", "pinverse", "geqrf", "qr", "svd", "triangular_solve", "cond", "matrix_rank",
       "solve", "cholesky_ex", "svdvals", "eig", "eigh", "eigvals", "eigvalsh", "inv", "inv_ex",
       "householder_product", "tensorinv", "tensorsolve", "lstsq", "fake_quantize_per_tensor_affine"});
  add(list, CastPolicy::promote, {"stack", "cat", "index_copy"});
  // Made of bmm, of mm; of avg_pool3d.
  add(list, CastPolicy::lower, {"einsum", "tensordot", "inner"});
  add(list, CastPolicy::f32, {"local_response_norm"});
  return list;
}

}  // namespace mantissa::amp
