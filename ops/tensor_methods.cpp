// Tensor methods that forward to operators, and indexing with [].
#include "core/indexing.h"
#include "core/ops.h"

namespace mantissa {

Tensor Tensor::to(Dtype dtype) const { return cast(*this, dtype); }
Tensor Tensor::contiguous() const { return mantissa::contiguous(*this); }
Tensor Tensor::clone() const { return mantissa::clone(*this); }
Tensor Tensor::reshape(const Dims& shape) const { return mantissa::reshape(*this, shape); }
Tensor Tensor::flatten(int start, int end) const { return mantissa::flatten(*this, start, end); }
Tensor Tensor::unflatten(int dim, const Dims& sizes) const { return mantissa::unflatten(*this, dim, sizes); }
Tensor Tensor::transpose(int a, int b) const { return mantissa::transpose(*this, a, b); }
Tensor Tensor::t() const {
  check(dim() == 2, "t: needs a matrix, got ", *this);
  return mantissa::transpose(*this, 0, 1);
}
Tensor Tensor::mT() const { return mantissa::transpose(*this); }
Tensor Tensor::permute(const Dims& order) const { return mantissa::permute(*this, order); }
Tensor Tensor::unsqueeze(int dim) const { return mantissa::unsqueeze(*this, dim); }
Tensor Tensor::squeeze() const { return mantissa::squeeze(*this); }
Tensor Tensor::squeeze(int dim) const { return mantissa::squeeze(*this, dim); }
Tensor Tensor::expand(const Dims& shape) const { return mantissa::expand(*this, shape); }
Tensor Tensor::slice(int dim, std::int64_t begin, std::optional<std::int64_t> end, std::int64_t step) const {
  return mantissa::slice(*this, dim, begin, end, step);
}
Tensor Tensor::select(int dim, std::int64_t index) const { return mantissa::select(*this, dim, index); }
Tensor Tensor::narrow(int dim, std::int64_t start, std::int64_t length) const {
  return mantissa::narrow(*this, dim, start, length);
}
Tensor Tensor::repeat(const Dims& repeats) const { return mantissa::repeat(*this, repeats); }
Tensor Tensor::repeat_interleave(std::int64_t repeats, int dim) const {
  return mantissa::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::flip(const Dims& dims) const { return mantissa::flip(*this, dims); }
Tensor Tensor::roll(const Dims& shifts, const Dims& dims) const { return mantissa::roll(*this, shifts, dims); }
Tensor Tensor::tril(std::int64_t diagonal) const { return mantissa::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return mantissa::triu(*this, diagonal); }
Tensor Tensor::diagonal(std::int64_t offset, int dim1, int dim2) const {
  return mantissa::diagonal(*this, offset, dim1, dim2);
}
Tensor Tensor::index_select(int dim, const Tensor& index) const { return mantissa::index_select(*this, dim, index); }
Tensor Tensor::index_add(int dim, const Tensor& index, const Tensor& source, double alpha) const {
  return mantissa::index_add(*this, dim, index, source, alpha);
}
Tensor Tensor::scatter(int dim, const Tensor& index, const Tensor& source) const {
  return mantissa::scatter(*this, dim, index, source);
}
Tensor Tensor::scatter(int dim, const Tensor& index, double value) const {
  return mantissa::scatter(*this, dim, index, value);
}
Tensor Tensor::scatter_add(int dim, const Tensor& index, const Tensor& source) const {
  return mantissa::scatter_add(*this, dim, index, source);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return mantissa::masked_select(*this, mask); }
Tensor Tensor::nonzero() const { return mantissa::nonzero(*this); }
Tensor Tensor::gather(int dim, const Tensor& index) const { return mantissa::gather(*this, dim, index); }
std::vector<Tensor> Tensor::split(std::int64_t size, int dim) const { return mantissa::split(*this, size, dim); }
std::vector<Tensor> Tensor::chunk(std::int64_t chunks, int dim) const { return mantissa::chunk(*this, chunks, dim); }
std::vector<Tensor> Tensor::unbind(int dim) const { return mantissa::unbind(*this, dim); }
Tensor Tensor::sum(const Dims& dims, bool keepdim) const { return mantissa::sum(*this, dims, keepdim); }
Tensor Tensor::mean(const Dims& dims, bool keepdim) const { return mantissa::mean(*this, dims, keepdim); }
Tensor Tensor::amax(const Dims& dims, bool keepdim) const { return mantissa::amax(*this, dims, keepdim); }
Tensor Tensor::amin(const Dims& dims, bool keepdim) const { return mantissa::amin(*this, dims, keepdim); }
Tensor Tensor::var(const Dims& dims, bool keepdim, int correction) const {
  return mantissa::var(*this, dims, keepdim, correction);
}
Tensor Tensor::std(const Dims& dims, bool keepdim, int correction) const {
  return mantissa::std(*this, dims, keepdim, correction);
}
Tensor Tensor::norm(double p, const Dims& dims, bool keepdim) const { return mantissa::norm(*this, p, dims, keepdim); }
Tensor Tensor::prod(const Dims& dims, bool keepdim) const { return mantissa::prod(*this, dims, keepdim); }
Tensor Tensor::logsumexp(const Dims& dims, bool keepdim) const { return mantissa::logsumexp(*this, dims, keepdim); }
Tensor Tensor::cumprod(int dim) const { return mantissa::cumprod(*this, dim); }
Tensor Tensor::cumsum(int dim) const { return mantissa::cumsum(*this, dim); }
ValuesIndices Tensor::max(int dim, bool keepdim) const { return mantissa::max(*this, dim, keepdim); }
ValuesIndices Tensor::min(int dim, bool keepdim) const { return mantissa::min(*this, dim, keepdim); }
ValuesIndices Tensor::topk(std::int64_t k, int dim) const { return mantissa::topk(*this, k, dim); }
Tensor Tensor::max() const { return mantissa::max(*this); }
Tensor Tensor::min() const { return mantissa::min(*this); }
Tensor Tensor::argmax(int dim, bool keepdim) const { return mantissa::argmax(*this, dim, keepdim); }
Tensor Tensor::argmin(int dim, bool keepdim) const { return mantissa::argmin(*this, dim, keepdim); }
ValuesIndices Tensor::sort(int dim, bool descending) const { return mantissa::sort(*this, dim, descending); }
Tensor Tensor::argsort(int dim, bool descending) const { return mantissa::argsort(*this, dim, descending); }
Tensor Tensor::argmax() const { return mantissa::argmax(*this); }
Tensor Tensor::argmin() const { return mantissa::argmin(*this); }
Tensor Tensor::any(const Dims& dims, bool keepdim) const { return mantissa::any(*this, dims, keepdim); }
Tensor Tensor::all(const Dims& dims, bool keepdim) const { return mantissa::all(*this, dims, keepdim); }
Tensor Tensor::eq(const Tensor& other) const { return mantissa::eq(*this, other); }
Tensor Tensor::softmax(int dim) const { return mantissa::softmax(*this, dim); }
Tensor Tensor::log_softmax(int dim) const { return mantissa::log_softmax(*this, dim); }
Tensor Tensor::matmul(const Tensor& other) const { return mantissa::matmul(*this, other); }
Tensor Tensor::mm(const Tensor& other) const {
  check(dim() == 2 && other.dim() == 2, "mm: needs two matrices, got ", *this, " and ", other,
        "; matmul takes batches");
  return mantissa::matmul(*this, other);
}
Tensor Tensor::bmm(const Tensor& other) const { return mantissa::bmm(*this, other); }
Tensor Tensor::dot(const Tensor& other) const { return mantissa::dot(*this, other); }
Tensor Tensor::masked_fill(const Tensor& mask, double value) const { return mantissa::masked_fill(*this, mask, value); }
Tensor Tensor::exp() const { return mantissa::exp(*this); }
Tensor Tensor::log() const { return mantissa::log(*this); }
Tensor Tensor::log1p() const { return mantissa::log1p(*this); }
Tensor Tensor::sqrt() const { return mantissa::sqrt(*this); }
Tensor Tensor::rsqrt() const { return mantissa::rsqrt(*this); }
Tensor Tensor::abs() const { return mantissa::abs(*this); }
Tensor Tensor::neg() const { return mantissa::neg(*this); }
Tensor Tensor::sign() const { return mantissa::sign(*this); }
Tensor Tensor::floor() const { return mantissa::floor(*this); }
Tensor Tensor::ceil() const { return mantissa::ceil(*this); }
Tensor Tensor::round() const { return mantissa::round(*this); }
Tensor Tensor::isnan() const { return mantissa::isnan(*this); }
Tensor Tensor::pow(double exponent) const { return mantissa::pow(*this, exponent); }
Tensor Tensor::square() const { return mantissa::square(*this); }
Tensor Tensor::sin() const { return mantissa::sin(*this); }
Tensor Tensor::cos() const { return mantissa::cos(*this); }
Tensor Tensor::relu() const { return mantissa::relu(*this); }
Tensor Tensor::sigmoid() const { return mantissa::sigmoid(*this); }
Tensor Tensor::tanh() const { return mantissa::tanh(*this); }
Tensor Tensor::clamp(double low, double high) const { return mantissa::clamp(*this, low, high); }
Tensor Tensor::new_zeros(const Dims& sizes) const { return zeros(sizes, {.dtype = dtype(), .device = device()}); }
Tensor Tensor::new_ones(const Dims& sizes) const { return ones(sizes, {.dtype = dtype(), .device = device()}); }
Tensor Tensor::new_full(const Dims& sizes, double value) const {
  return full(sizes, value, {.dtype = dtype(), .device = device()});
}
Tensor Tensor::new_empty(const Dims& sizes) const { return empty(sizes, {.dtype = dtype(), .device = device()}); }

Tensor Tensor::at(const Tensor& index) const { return mantissa::index(*this, {index}); }
Tensor Tensor::operator[](std::int64_t i) const { return mantissa::select(*this, 0, i); }

Tensor Tensor::operator[](std::initializer_list<AnyIndex> index) const {
  int named = 0, rests = 0;
  for (const AnyIndex& entry : index) {
    if (entry.is_tensor()) return mantissa::index(*this, index);
    const Index& i = entry.plain();
    named += i.kind == Index::integer || i.kind == Index::range;
    rests += i.kind == Index::rest;
  }
  check(rests <= 1, "index: more than one ellipsis");
  check(named <= dim(), "index: ", named, " indices for ", *this);
  Tensor x = *this;
  int at = 0, from = 0;  // dimensions of x and of *this
  for (const AnyIndex& entry : index) {
    const Index& i = entry.plain();
    switch (i.kind) {
      case Index::integer: {
        const std::int64_t n = size(from);
        check(i.begin >= -n && i.begin < n, "index: ", i.begin, " is out of range for dimension ", from, " of ", *this);
        x = x.select(at, i.begin);
        ++from;
        break;
      }
      case Index::range: ++from; x = x.slice(at++, i.begin, i.end, i.step); break;
      case Index::axis: x = x.unsqueeze(at++); break;
      case Index::rest: at += dim() - named; from += dim() - named; break;
    }
  }
  return x;
}

}  // namespace mantissa
