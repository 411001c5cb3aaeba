// Graphs of cuDNN's backend API, executed one operation at a time as its documentation defines them. A value is a list
// of doubles in the order of a tensor's indices, whatever its strides. Source: NVIDIA cuDNN 9 documentation, "Backend
// API" and "Operations".
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/dtype.h"
#include "tests/cuda_shim/cudnn_parts.h"
#include "tests/cuda_shim/elements.h"

namespace cuda_shim::cudnn {
namespace {

using Sizes = std::vector<std::int64_t>;
using Value = std::vector<double>;

std::int64_t count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}
// Calls f with every index of a tensor, in order.
template <class F> void for_each_index(const Sizes& sizes, F&& f) {
  Sizes index(sizes.size(), 0);
  for (std::int64_t i = 0, n = count(sizes); i < n; ++i) {
    f(index, static_cast<std::size_t>(i));
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}
std::int64_t dot(const Sizes& index, const Sizes& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}
// Position of an index of a tensor of sizes `of` in one of sizes `in`: along a dimension that has fewer there, several
// neighbours share one (all of them where it has 1; of heads, a group).
std::size_t place_in(const Sizes& in, const Sizes& index, const Sizes& of) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < in.size(); ++d) at = at * in[d] + index[d] * in[d] / of[d];
  return static_cast<std::size_t>(at);
}

// Calls f.operator()<T>() with the C++ type of a data type.
template <class F> auto visit(cudnnDataType_t type, F&& f) {
  using namespace mantissa;
  switch (type) {
    case CUDNN_DATA_DOUBLE: return visit_floating(f64, f);
    case CUDNN_DATA_HALF: return visit_floating(f16, f);
    case CUDNN_DATA_BFLOAT16: return visit_floating(bf16, f);
    default: return visit_floating(f32, f);
  }
}
double rounded(double v, cudnnDataType_t type) {
  if (type == CUDNN_DATA_INT32 || type == CUDNN_DATA_BOOLEAN) return v;
  return visit(type, [&]<class T> {
    T held;
    store_as<T>(&held, 0, v);
    return load_as<T>(&held, 0);
  });
}

Value read(const Tensor& t, const Place& place) {
  if (t.is_number) return {place.number};
  Value v(static_cast<std::size_t>(count(t.sizes)));
  visit(t.type, [&]<class T> {
    for_each_index(t.sizes,
                   [&](const Sizes& index, std::size_t i) { v[i] = load_as<T>(place.at, dot(index, t.strides)); });
  });
  return v;
}
void write(const Tensor& t, const Place& place, const Value& v) {
  visit(t.type, [&]<class T> {
    for_each_index(t.sizes,
                   [&](const Sizes& index, std::size_t i) { store_as<T>(place.at, dot(index, t.strides), v[i]); });
  });
}

// --- the operations ---
double apply(cudnnPointwiseMode_t mode, double x, double b, double t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_IDENTITY: return x;
    case CUDNN_POINTWISE_CMP_GE: return x >= b;
    case CUDNN_POINTWISE_CMP_LT: return x < b;
    case CUDNN_POINTWISE_CMP_LE: return x <= b;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: refuse(CUDNN_STATUS_NOT_SUPPORTED, "a pointwise mode that the shim does not know");
  }
}
Value pointwise(const Operation& o, const std::vector<Value>& in) {
  const Descriptor& how = o.what->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = how.one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
  Value y(static_cast<std::size_t>(count(o.output.sizes)));
  const std::int64_t axis = mode == CUDNN_POINTWISE_GEN_INDEX ? how.numbers(CUDNN_ATTR_POINTWISE_AXIS).at(0) : 0;
  for_each_index(o.output.sizes, [&](const Sizes& index, std::size_t i) {
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
      y[i] = static_cast<double>(index[static_cast<std::size_t>(axis)]);
      return;
    }
    double v[3] = {};
    for (std::size_t k = 0; k < in.size(); ++k) v[k] = in[k][place_in(o.inputs[k].sizes, index, o.output.sizes)];
    y[i] = apply(mode, v[0], v[1], v[2]);
  });
  return y;
}

Value reduce(const Operation& o, const Value& x) {
  const bool adds = o.what->part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                        .one<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR,
                                                    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE) == CUDNN_REDUCE_TENSOR_ADD;
  Value y(static_cast<std::size_t>(count(o.output.sizes)), adds ? 0 : -std::numeric_limits<double>::infinity());
  for_each_index(o.inputs[0].sizes, [&](const Sizes& index, std::size_t i) {
    double& to = y[place_in(o.output.sizes, index, o.inputs[0].sizes)];
    to = adds ? to + x[i] : std::max(to, x[i]);
  });
  return y;
}

// The same memory with other sizes and strides.
Value reshape(const Operation& o, const Value& x) {
  std::map<std::int64_t, double> memory;
  for_each_index(o.inputs[0].sizes,
                 [&](const Sizes& index, std::size_t i) { memory[dot(index, o.inputs[0].strides)] = x[i]; });
  Value y(static_cast<std::size_t>(count(o.output.sizes)));
  for_each_index(o.output.sizes, [&](const Sizes& index, std::size_t i) {
    const auto at = memory.find(dot(index, o.output.strides));
    if (at == memory.end()) refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a reshape that leaves its tensor");
    y[i] = at->second;
  });
  return y;
}

Value multiply(const Operation& o, const std::vector<Value>& in) {
  const Sizes &a = o.inputs[0].sizes, &b = o.inputs[1].sizes, &c = o.output.sizes;
  const std::size_t last = c.size() - 1;
  const std::int64_t inner = a[last];
  Value y(static_cast<std::size_t>(count(c)));
  for_each_index(c, [&](const Sizes& index, std::size_t i) {
    Sizes left = index, right = index, left_of = c, right_of = c;
    left_of[last] = right_of[last - 1] = inner;
    double sum = 0;
    for (std::int64_t k = 0; k < inner; ++k) {
      left[last] = right[last - 1] = k;
      sum += in[0][place_in(a, left, left_of)] * in[1][place_in(b, right, right_of)];
    }
    y[i] = sum;
  });
  return y;
}

// One of the three products of a convolution: which of image, filter and result is computed from the other two.
Value convolve(const Operation& o, std::vector<Value> in, bool tf32) {
  const auto type = o.what->type;
  const bool forward = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool of_image = type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const Descriptor& how = o.what->part(forward    ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
                                       : of_image ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                                                  : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  // Images are volumes of depth 1.
  const auto of_space = [&](cudnnBackendAttributeName_t name, std::int64_t depth) {
    Sizes n = how.numbers(name);
    if (n.size() == 2) n.insert(n.begin(), depth);
    return n;
  };
  const auto of_volume = [](Sizes n) {
    if (n.size() == 4) n.insert(n.begin() + 2, 1);
    return n;
  };
  const Sizes padding = of_space(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
  const Sizes stride = of_space(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1);
  const Sizes dilation = of_space(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1);
  if (tf32 && o.inputs[0].type == CUDNN_DATA_FLOAT)
    for (Value& v : in) std::ranges::transform(v, v.begin(), rounded_to_tf32);
  Value out(static_cast<std::size_t>(count(o.output.sizes)));
  const Sizes x = of_volume(of_image ? o.output.sizes : o.inputs[0].sizes);
  const Sizes w = of_volume(forward ? o.inputs[1].sizes : of_image ? o.inputs[0].sizes : o.output.sizes);
  const Sizes y = of_volume(forward ? o.output.sizes : o.inputs[1].sizes);
  const std::int64_t groups = x[1] / w[1], in_group = y[1] / groups;
  // i: item, channel and place of y, then channel and place of w.
  for_each_index({y[0], y[1], y[2], y[3], y[4], w[1], w[2], w[3], w[4]}, [&](const Sizes& i, std::size_t) {
    Sizes at{i[0], i[1] / in_group * w[1] + i[5], 0, 0, 0};
    for (std::size_t d = 0; d < 3; ++d) {
      at[d + 2] = i[d + 2] * stride[d] - padding[d] + i[d + 6] * dilation[d];
      if (at[d + 2] < 0 || at[d + 2] >= x[d + 2]) return;
    }
    const std::size_t in_x = place_in(x, at, x);
    const std::size_t in_w = place_in(w, {i[1], i[5], i[6], i[7], i[8]}, w);
    const std::size_t in_y = place_in(y, {i[0], i[1], i[2], i[3], i[4]}, y);
    if (forward) out[in_y] += in[0][in_x] * in[1][in_w];
    else if (of_image) out[in_x] += in[0][in_w] * in[1][in_y];
    else out[in_w] += in[0][in_x] * in[1][in_y];
  });
  return out;
}

Value compute(const Operation& o, std::vector<Value> in, bool tf32) {
  switch (o.what->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise(o, in);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduce(o, in[0]);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return reshape(o, in[0]);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return multiply(o, in);
    default: return convolve(o, std::move(in), tf32);
  }
}

// --- reading ---
Tensor read_tensor(const Descriptor& d) {
  if (d.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) refuse(CUDNN_STATUS_BAD_PARAM, "an operand is not a tensor");
  const auto flag = [&](cudnnBackendAttributeName_t name) {
    return d.has(name) && d.one<char>(name, CUDNN_TYPE_BOOLEAN) != 0;
  };
  Tensor t{d.numbers(CUDNN_ATTR_TENSOR_UNIQUE_ID).at(0),
           d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE),
           d.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS),
           d.numbers(CUDNN_ATTR_TENSOR_STRIDES),
           d.numbers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT).at(0),
           flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
           flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
  if (t.sizes.size() != t.strides.size() || std::ranges::any_of(t.sizes, [](std::int64_t n) { return n < 1; }))
    refuse(CUDNN_STATUS_BAD_PARAM, "sizes and strides of a tensor do not fit");
  return t;
}

Operation read_operation(const Descriptor& d) {
  const auto list = [&](std::initializer_list<cudnnBackendAttributeName_t> names, cudnnBackendAttributeName_t output) {
    Operation o{&d, {}, read_tensor(d.part(output))};
    for (const auto name : names)
      if (d.has(name)) o.inputs.push_back(read_tensor(d.part(name)));
    return o;
  };
  const auto scaled = [&](cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta, Operation o) {
    const bool wide = d.attributes.at(alpha).type == CUDNN_TYPE_DOUBLE;
    const auto number = [&](cudnnBackendAttributeName_t name) {
      return wide ? d.one<double>(name, CUDNN_TYPE_DOUBLE) : static_cast<double>(d.one<float>(name, CUDNN_TYPE_FLOAT));
    };
    if (number(alpha) != 1 || number(beta) != 0)
      refuse(CUDNN_STATUS_NOT_SUPPORTED, "the shim's convolutions are neither scaled nor added");
    return o;
  };
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return list({CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                   CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
                  CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return list({CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return list({CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return list({CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
                  CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return scaled(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                    list({CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return scaled(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                    list({CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX));
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return scaled(
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          list({CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
    default: refuse(CUDNN_STATUS_NOT_SUPPORTED, "an operation that the shim does not know");
  }
}

// Sizes that no operation can have.
void check_sizes(const Operation& o) {
  const auto wrong = [] {
    refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "sizes of an operation's tensors do not fit");
  };
  const Sizes& y = o.output.sizes;
  for (const Tensor& t : o.inputs)
    if (t.sizes.size() != y.size()) wrong();
  switch (o.what->type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      for (const Tensor& t : o.inputs)
        for (std::size_t d = 0; d < y.size(); ++d)
          if (t.sizes[d] != y[d] && t.sizes[d] != 1) wrong();
      return;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      for (std::size_t d = 0; d < y.size(); ++d)
        if (o.inputs[0].sizes[d] % y[d] != 0) wrong();
      return;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      const Sizes &a = o.inputs[0].sizes, &b = o.inputs[1].sizes;
      const std::size_t last = y.size() - 1;
      if (a[last] != b[last - 1] || a[last - 1] != y[last - 1] || b[last] != y[last]) wrong();
      for (std::size_t d = 0; d + 1 < last; ++d)
        if (y[d] % a[d] != 0 || y[d] % b[d] != 0) wrong();
      return;
    }
    default: return;
  }
}

// As cudnn_engines_test has found: convolutions of halves have results of their dtype, or f32 ones that another
// operation takes over; a weight gradient has those for channels-last only, without groups, and for multiples of 4
// channels. Comparisons, of which we make relu, follow convolutions for channels-last only.
void check_support(const Operation& o) {
  const Tensor &x = o.inputs[0], &y = o.output;
  const bool of_filter = o.what->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  const bool convolves = of_filter || o.what->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
                         o.what->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  if (of_filter && y.is_virtual) {
    const bool fits = x.strides[1] == 1 && x.sizes[1] == y.sizes[1] && y.sizes[0] % 4 == 0 && y.sizes[1] % 4 == 0;
    if (!fits) refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine for this weight gradient in f32");
  }
  if (convolves && !y.is_virtual && y.type != x.type)
    refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine for a result of another dtype");
  if (o.what->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return;
  const auto mode = o.what->part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                        .one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE);
  if ((mode == CUDNN_POINTWISE_CMP_LT || mode == CUDNN_POINTWISE_CMP_LE) && y.strides[1] != 1)
    refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine for a comparison after this convolution");
}

}  // namespace

Graph read_graph(const Descriptor& graph) {
  Graph left;
  std::map<std::int64_t, Tensor> tensors;
  const auto know = [&](const Tensor& t) {
    if (tensors.emplace(t.id, t).first->second != t)
      refuse(CUDNN_STATUS_BAD_PARAM, "two tensors have the id " + std::to_string(t.id));
  };
  for (const Descriptor* d : graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    left.push_back(read_operation(*d));
    check_sizes(left.back());
    check_support(left.back());
    for (const Tensor& t : left.back().inputs) know(t);
    know(left.back().output);
  }
  Graph ordered;
  while (!left.empty()) {
    const auto is_made_later = [&](const Tensor& t) {
      return std::ranges::any_of(left, [&](const Operation& o) { return o.output.id == t.id; });
    };
    const auto next =
        std::ranges::find_if(left, [&](const Operation& o) { return std::ranges::none_of(o.inputs, is_made_later); });
    if (next == left.end()) refuse(CUDNN_STATUS_BAD_PARAM, "the graph has a cycle");
    for (const Tensor& t : next->inputs) {
      const bool made = std::ranges::any_of(ordered, [&](const Operation& o) { return o.output.id == t.id; });
      if (t.is_virtual && !made) refuse(CUDNN_STATUS_BAD_PARAM, "nothing computes tensor " + std::to_string(t.id));
    }
    ordered.push_back(*next);
    left.erase(next);
  }
  return ordered;
}

void execute(const Graph& graph, const std::map<std::int64_t, Place>& places, bool tf32) {
  std::map<std::int64_t, Value> values;
  for (const Operation& o : graph) {
    std::vector<Value> in;
    for (const Tensor& t : o.inputs) {
      if (!values.contains(t.id)) values[t.id] = read(t, places.at(t.id));
      in.push_back(values[t.id]);
    }
    Value y = compute(o, std::move(in), tf32);
    for (double& v : y) v = rounded(v, o.output.type);
    if (!o.output.is_virtual) write(o.output, places.at(o.output.id), y);
    values[o.output.id] = std::move(y);
  }
}

void spoil(const Graph& graph, const std::map<std::int64_t, Place>& places) {
  for (const Operation& o : graph) {
    const Value nothing(static_cast<std::size_t>(count(o.output.sizes)), std::numeric_limits<double>::quiet_NaN());
    if (!o.output.is_virtual) write(o.output, places.at(o.output.id), nothing);
  }
}

}  // namespace cuda_shim::cudnn
