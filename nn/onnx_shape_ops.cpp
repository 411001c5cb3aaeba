// ONNX's operators on shapes, indices and dtypes, and those that create tensors (nn/onnx_program.h). Shapes, and
// everything computed from them, are i64 on the host: nothing waits for a device.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "nn/onnx_program.h"

namespace mantissa::nn::onnx {
namespace {

Tensor on_host(const Integers& v) { return from_data(v, {static_cast<std::int64_t>(v.size())}); }

Run shape(Node& n) {
  const std::int64_t start = n.i("start", 0), end = n.i("end", INT64_MAX);
  return [=](const Inputs& x) -> Tensors {
    const Dims& sizes = x.all[0].sizes();
    const std::int64_t rank = sizes.rank();
    const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    Integers v;
    for (std::int64_t i = place(start); i < place(end); ++i) v.push_back(sizes[static_cast<int>(i)]);
    return {on_host(v)};
  };
}
Run reshape_of(Node& n) {
  const bool zeros_mean_zero = n.i("allowzero", 0) != 0;
  return [=](const Inputs& x) -> Tensors {
    const Tensor t = x[0];
    Integers sizes = x.integers(1);
    for (std::size_t i = 0; i < sizes.size() && !zeros_mean_zero; ++i) {
      check(sizes[i] != 0 || static_cast<int>(i) < t.dim(), "size 0 keeps a size of ", t, ", which has no dimension ",
            i);
      if (sizes[i] == 0) sizes[i] = t.size(static_cast<std::int64_t>(i));
    }
    return {reshape(t, sizes)};
  };
}
Run flatten_of(Node& n) {
  const std::int64_t given = n.i("axis", 1);
  return [=](const Inputs& x) -> Tensors {
    const Dims& sizes = x[0].sizes();
    const std::int64_t axis = given < 0 ? given + sizes.rank() : given;
    check(axis >= 0 && axis <= sizes.rank(), "axis ", given, " is out of range for ", x[0]);
    std::int64_t rows = 1, columns = 1;
    for (int i = 0; i < sizes.rank(); ++i) (i < axis ? rows : columns) *= sizes[i];
    return {reshape(x[0], {rows, columns})};
  };
}
Run squeeze_of(Node& n) {
  const Setting axes = n.setting("axes", 1);
  return [=](const Inputs& x) -> Tensors {
    const Tensor t = x[0];
    const auto dims = axes(x);
    if (!dims) return {squeeze(t)};
    Integers wrapped;
    for (const std::int64_t d : *dims) wrapped.push_back(wrap_dim(d, t.dim()));
    std::ranges::sort(wrapped, std::greater<>());
    Tensor y = t;
    for (const std::int64_t d : wrapped) {
      check(t.size(d) == 1, "dimension ", d, " of ", t, " is not 1");
      y = squeeze(y, static_cast<int>(d));
    }
    return {y};
  };
}
Run unsqueeze_of(Node& n) {
  const Setting axes = n.setting("axes", 1);
  return [=](const Inputs& x) -> Tensors {
    Tensor y = x[0];
    Integers dims = axes(x).value_or(Integers{});
    const std::int64_t rank = y.dim() + static_cast<std::int64_t>(dims.size());
    for (std::int64_t& d : dims) d = wrap_dim(d, static_cast<int>(std::min<std::int64_t>(rank, Dims::max_rank + 1)));
    std::ranges::sort(dims);
    for (const std::int64_t d : dims) y = unsqueeze(y, static_cast<int>(d));
    return {y};
  };
}
Run transpose_of(Node& n) {
  const auto order = n.integers("perm");
  return [=](const Inputs& x) -> Tensors {
    Integers p(static_cast<std::size_t>(x[0].dim()));
    std::iota(p.rbegin(), p.rend(), 0);
    return {permute(x[0], order.value_or(p))};
  };
}
Run concat(Node& n) {
  const int axis = n.axis("axis");
  return [=](const Inputs& x) -> Tensors { return {cat(x.list(), axis)}; };
}
Run split_of(Node& n) {
  const int axis = n.axis("axis", 0);
  const Setting sizes = n.setting("split", 1);
  const std::int64_t parts = n.i("num_outputs", n.outputs());
  if (parts != n.outputs()) n.refuse("has ", n.outputs(), " results, num_outputs is ", parts);
  return [=](const Inputs& x) -> Tensors {
    const std::int64_t size = x[0].size(axis);
    auto s = sizes(x);
    if (!s) {  // the last one may be smaller
      const std::int64_t most = (size + parts - 1) / parts;
      s.emplace();
      for (std::int64_t i = 0; i < parts; ++i) s->push_back(std::clamp<std::int64_t>(size - i * most, 0, most));
    }
    Tensors y;
    std::int64_t at = 0;
    for (const std::int64_t length : *s) {
      y.push_back(narrow(x[0], axis, at, length));
      at += length;
    }
    check(at == size, "the parts have ", at, " of ", size, " elements");
    return y;
  };
}
Run slice_of(Node& n) {
  const Setting starts = n.setting("starts", 1), ends = n.setting("ends", 2), axes = n.setting("axes", 3),
                steps = n.setting("steps", 4);
  return [=](const Inputs& x) -> Tensors {
    const auto from = starts(x), to = ends(x), dims = axes(x), by = steps(x);
    check(from && to, "starts or ends are absent");
    const std::size_t count = from->size();
    check(to->size() == count && (!dims || dims->size() == count) && (!by || by->size() == count),
          "starts, ends, axes and steps have not the same length");
    Tensor y = x[0];
    for (std::size_t i = 0; i < count; ++i) {
      const int d = wrap_dim(dims ? (*dims)[i] : static_cast<std::int64_t>(i), y.dim());
      const std::int64_t size = y.size(d), step = by ? (*by)[i] : 1;
      check(step != 0 && step != INT64_MIN, "a step is ", step);
      const auto place = [&](std::int64_t at, std::int64_t least, std::int64_t most) {
        return std::clamp(at < 0 ? at + size : at, least, most);
      };
      if (step > 0) {
        y = slice(y, d, place((*from)[i], 0, size), place((*to)[i], 0, size), step);
      } else {
        const std::int64_t first = place((*from)[i], -1, size - 1), end = place((*to)[i], -1, size - 1);
        y = slice(flip(y, {d}), d, size - 1 - first, std::max(size - 1 - end, size - 1 - first), -step);
      }
    }
    return {y};
  };
}
// The shape that x and `wanted` broadcast to.
Tensor expanded(const Tensor& x, const Integers& wanted) {
  Dims sizes(wanted);
  while (sizes.rank() < x.dim()) sizes.insert(0, 1);
  for (int i = 1; i <= x.dim(); ++i) {
    std::int64_t& size = sizes[sizes.rank() - i];
    if (size == 1) size = x.size(-i);
  }
  return expand(x, sizes);
}
Run tile_of(Node&) {
  return [](const Inputs& x) -> Tensors { return {tile(x[0], x.integers(1))}; };
}
Run cast_of(Node& n) {
  const auto to = n.dtype("to");
  n.ignore("saturate");  // only affects 8-bit floats, which are rejected
  n.ignore("round_mode");
  if (!to) n.refuse("the attribute to is missing");
  return [=](const Inputs& x) -> Tensors { return {cast(x[0], *to)}; };
}
Run cast_like(Node& n) {
  n.ignore("saturate");
  n.ignore("round_mode");
  return [](const Inputs& x) -> Tensors { return {cast(x[0], x.all[1].dtype())}; };
}

// --- indices ---
Run gather_of(Node& n) {
  const int given = n.axis("axis", 0);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    const int axis = wrap_dim(given, x.dim());
    const Tensor index = from_start(in[1], x.size(axis));
    if (index.dim() == 0 && index.device().is_cpu()) return {select(x, axis, index.item<std::int64_t>())};
    if (axis == 0 && x.dim() == 2 && x.is_floating()) return {embedding(x, index)};
    Dims sizes;
    for (int d = 0; d < x.dim(); ++d) {
      if (d != axis) sizes.push_back(x.size(d));
      else
        for (const std::int64_t s : index.sizes()) sizes.push_back(s);
    }
    return {reshape(index_select(x, axis, reshape(index, {index.numel()})), sizes)};
  };
}
Run gather_elements(Node& n) {
  const int axis = n.axis("axis", 0);
  return [=](const Inputs& x) -> Tensors { return {gather(x[0], axis, from_start(x[1], x[0].size(axis)))}; };
}
// Splits the last dimension of indices into a list of index tensors, preceded by `batches` batch indices.
Tensors index_list(const Tensor& x, const Tensor& indices, int batches) {
  check(indices.dim() >= 1 && batches >= 0 && batches < indices.dim() && batches < x.dim(), "the indices are ",
        indices);
  Tensors list;
  for (int b = 0; b < batches; ++b) {
    Dims sizes = Dims::filled(indices.dim() - 1, 1);
    sizes[b] = x.size(b);
    list.push_back(reshape(arange(x.size(b), {.device = x.device()}), sizes));
  }
  for (const Tensor& i : unbind(cast(indices, i64), -1)) list.push_back(i);
  check(static_cast<int>(list.size()) <= x.dim(), "the indices ", indices, " have too many numbers for ", x);
  return list;
}
Run gather_nd(Node& n) {
  const int batches = n.axis("batch_dims", 0);
  return [=](const Inputs& x) -> Tensors { return {index(x[0], index_list(x[0], x[1], batches))}; };
}
const char* reduction(const std::string& name) {
  return name == "add" ? "sum" : name == "mul" ? "prod" : name == "max" ? "amax" : name == "min" ? "amin" : nullptr;
}
Run scatter_elements(Node& n) {
  const int axis = n.axis("axis", 0);
  const std::string how = n.s("reduction", "none");
  if (how != "none" && !reduction(how)) n.refuse("the reduction ", how);
  return [=](const Inputs& x) -> Tensors {
    const Tensor index = from_start(x[1], x[0].size(axis));
    if (how == "none") return {scatter(x[0], axis, index, x[2])};
    return {scatter_reduce(x[0], axis, index, x[2], reduction(how))};
  };
}
Run scatter_nd(Node& n) {
  const std::string how = n.s("reduction", "none");
  if (how != "none" && !reduction(how)) n.refuse("the reduction ", how);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0], indices = in[1], updates = in[2];
    const Tensors list = index_list(x, indices, 0);
    if (how == "none" || how == "add") return {index_put(x, list, updates, how == "add")};
    // number of rows of x, and linear row indices
    std::int64_t rows = 1;
    Tensor at = zeros(list[0].sizes(), {.dtype = i64, .device = x.device()});
    for (std::size_t d = 0; d < list.size(); ++d) {
      const std::int64_t size = x.size(static_cast<std::int64_t>(d));
      at = at * size + from_start(list[d], size);
      rows *= size;
    }
    const std::int64_t length = rows == 0 ? 0 : x.numel() / rows;
    const Tensor places = expand(reshape(at, {-1, 1}), {at.numel(), length});
    const Tensor y =
        scatter_reduce(reshape(x, {rows, length}), 0, places, reshape(updates, {at.numel(), length}), reduction(how));
    return {reshape(y, x.sizes())};
  };
}
Run one_hot_of(Node& n) {
  const std::int64_t axis = n.i("axis", -1);
  return [=](const Inputs& x) -> Tensors {
    const auto depth = x.integer(1);
    const Tensor values = x[2];
    Tensor classes = arange(depth).to(x.device);
    const int d = wrap_dim(axis, x[0].dim() + 1);
    for (int i = d; i < x[0].dim(); ++i) classes = unsqueeze(classes, -1);
    const Tensor hot = eq(unsqueeze(from_start(x[0], depth), d), classes);
    return {where(hot, select(values, 0, 1), select(values, 0, 0))};
  };
}
Run top_k(Node& n) {
  const int axis = n.axis("axis", -1);
  const bool largest = n.i("largest", 1) != 0;
  const std::int64_t fixed = n.i("k", -1);
  n.ignore("sorted");  // always sorted
  return [=](const Inputs& x) -> Tensors {
    const auto [values, indices] =
        topk(x[0], fixed >= 0 ? fixed : x.integer(1), axis, largest);
    return {values, indices};
  };
}
Run unique_of(Node& n) {
  if (n.has("axis")) n.refuse("along an axis");
  if (n.i("sorted", 1) == 0) n.refuse("unsorted");
  return [](const Inputs& in) -> Tensors {
    const UniqueResult u = unique(in[0]);
    const Tensor inverse = reshape(u.inverse, {-1}), places = arange(inverse.numel()).to(in.device);
    const Tensor first =
        scatter_reduce(full_like(u.counts, static_cast<double>(inverse.numel())), 0, inverse, places, "amin");
    return {u.values, first, inverse, u.counts};
  };
}
Run compress(Node& n) {
  const bool flat = !n.has("axis");
  const int axis = flat ? 0 : n.axis("axis");
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = flat ? reshape(in[0], {-1}) : in[0];
    return {index_select(x, axis, reshape(nonzero(in[1]), {-1}))};
  };
}
Run reverse_sequence(Node& n) {
  const int time = n.axis("time_axis", 0), batch = n.axis("batch_axis", 1);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    const auto along = [&](const Tensor& v, int axis) {
      Dims sizes = Dims::filled(x.dim(), 1);
      sizes[wrap_dim(axis, x.dim())] = v.numel();
      return reshape(v, sizes);
    };
    const Tensor t = along(arange(x.size(time), {.device = x.device()}), time), length = along(cast(in[1], i64), batch);
    return {take_along_dim(x, where(t < length, length - 1 - t, t), time)};
  };
}
Run trilu(Node& n) {
  const bool upper = n.i("upper", 1) != 0;
  return [=](const Inputs& x) -> Tensors {
    const std::int64_t k = x.has(1) ? x.integer(1) : 0;
    return {upper ? triu(x[0], k) : tril(x[0], k)};
  };
}

// --- tensor creation ---
Run constant_of_shape(Node& n) {
  const Tensor value = reshape(n.tensor("value").value_or(zeros({1})), {});
  return [=](const Inputs& x) -> Tensors { return {expand(value, x.integers(0))}; };
}
Run range(Node&) {
  return [](const Inputs& x) -> Tensors {
    return {arange(x.number(0), x.number(1), x.number(2), {.dtype = x.all[0].dtype()})};
  };
}
Run eye_like(Node& n) {
  const auto dtype = n.dtype("dtype");
  const std::int64_t k = n.i("k", 0);
  return [=](const Inputs& in) -> Tensors {
    const Tensor x = in[0];
    check(x.dim() == 2, "needs a matrix, got ", x);
    const Tensor rows = arange(x.size(0), {.device = x.device()}), columns = arange(x.size(1), {.device = x.device()});
    return {cast(eq(unsqueeze(rows, 1) + k, columns), dtype.value_or(x.dtype()))};
  };
}
// Window function a - b cos(2 pi i / n) + c cos(4 pi i / n).
template <int a, int b, int c> Run window(Node& n) {
  const auto dtype = n.i("output_datatype", 1);
  const bool periodic = n.i("periodic", 1) != 0;
  const Dtype* type = io::find_onnx_dtype(dtype);
  if (!type || !is_floating(*type)) n.refuse("of the type number ", dtype);
  return [=, type = *type](const Inputs& x) -> Tensors {
    const double size = x.number(0);
    const Tensor at = arange(0, size, 1, {.dtype = f64}) * (2 * std::numbers::pi / (periodic ? size : size - 1));
    return {cast(a * 1e-8 - b * 1e-8 * cos(at) + c * 1e-8 * cos(at * 2.0), type)};
  };
}
// Uses the generator of core/random.h: the attribute `seed` is ignored.
template <class F> Run random_of(Node& n, F draw, bool as_input) {
  const auto dtype = n.dtype("dtype");
  const auto sizes = as_input ? std::optional<Integers>() : n.integers("shape");
  if (!as_input && !sizes) n.refuse("the attribute shape is missing");
  n.ignore("seed");
  return [=](const Inputs& x) -> Tensors {
    const TensorOptions o{.dtype = dtype.value_or(as_input ? x[0].dtype() : f32), .device = x.device};
    return {draw(as_input ? x[0].sizes() : Dims(*sizes), o)};
  };
}
template <bool like_input> Run random_normal(Node& n) {
  const double mean = n.f("mean", 0), scale = n.f("scale", 1);
  return random_of(
      n, [=](const Dims& s, TensorOptions o) { return normal(mean, scale, s, o); }, like_input);
}
template <bool like_input> Run random_uniform(Node& n) {
  const double low = n.f("low", 0), high = n.f("high", 1);
  return random_of(
      n, [=](const Dims& s, TensorOptions o) { return rand_like(empty(s, o)) * (high - low) + low; }, like_input);
}
Run bernoulli_of(Node& n) {
  const auto dtype = n.dtype("dtype");
  n.ignore("seed");
  return [=](const Inputs& x) -> Tensors { return {cast(bernoulli(x[0]), dtype.value_or(x[0].dtype()))}; };
}

constexpr Operator operators[] = {
    {"Bernoulli", 1, 1, bernoulli_of},
    {"BlackmanWindow", 1, 1, window<42000000, 50000000, 8000000>},
    {"Cast", 1, 1, cast_of},
    {"CastLike", 2, 2, cast_like},
    {"Compress", 2, 2, compress},
    {"Concat", 1, any_number, concat},
    {"ConstantOfShape", 1, 1, constant_of_shape},
    {"Expand", 2, 2,
     [](Node&) -> Run { return [](const Inputs& x) -> Tensors { return {expanded(x[0], x.integers(1))}; }; }},
    {"EyeLike", 1, 1, eye_like},
    {"Flatten", 1, 1, flatten_of},
    {"Gather", 2, 2, gather_of},
    {"GatherElements", 2, 2, gather_elements},
    {"GatherND", 2, 2, gather_nd},
    {"HammingWindow", 1, 1, window<54347826, 45652174, 0>},
    {"HannWindow", 1, 1, window<50000000, 50000000, 0>},
    {"Identity", 1, 1, [](Node&) -> Run { return [](const Inputs& x) -> Tensors { return {x.all[0]}; }; }},
    {"NonZero", 1, 1,
     [](Node&) -> Run { return [](const Inputs& x) -> Tensors { return {transpose(nonzero(x[0]))}; }; }},
    {"OneHot", 3, 3, one_hot_of},
    {"RandomNormal", 0, 0, random_normal<false>},
    {"RandomNormalLike", 1, 1, random_normal<true>},
    {"RandomUniform", 0, 0, random_uniform<false>},
    {"RandomUniformLike", 1, 1, random_uniform<true>},
    {"Range", 3, 3, range},
    {"Reshape", 2, 2, reshape_of},
    {"ReverseSequence", 2, 2, reverse_sequence},
    {"Scatter", 3, 3, scatter_elements},
    {"ScatterElements", 3, 3, scatter_elements},
    {"ScatterND", 3, 3, scatter_nd},
    {"Shape", 1, 1, shape},
    {"Size", 1, 1,
     [](Node&) -> Run {
       return [](const Inputs& x) -> Tensors { return {reshape(on_host({x.all[0].numel()}), {})}; };
     }},
    {"Slice", 1, 5, slice_of},
    {"Split", 1, 2, split_of, any_number},
    {"Squeeze", 1, 2, squeeze_of},
    {"Tile", 2, 2, tile_of},
    {"TopK", 1, 2, top_k, 2},
    {"Transpose", 1, 1, transpose_of},
    {"Trilu", 1, 2, trilu},
    {"Unique", 1, 1, unique_of, 4},
    {"Unsqueeze", 1, 2, unsqueeze_of},
    {"Where", 3, 3, [](Node&) -> Run { return [](const Inputs& x) -> Tensors { return {where(x[0], x[1], x[2])}; }; }},
};

}  // namespace

std::span<const Operator> shape_operators() { return operators; }

}  // namespace mantissa::nn::onnx
