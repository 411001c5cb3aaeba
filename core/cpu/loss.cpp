// Losses and their gradients. Classification losses view x as rows of classes, one per target. The labels are checked
// here, where they are read anyway.
#include "core/cpu/columns.h"
#include "core/cpu/labels.h"
#include "core/cpu/row_walk.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(cross_entropy, const View& loss, const View& largest, const View& log_sum, const View& total,
                const View& x, const View& target, const View& weight, const CrossEntropyOptions& options)
MANTISSA_KERNEL(cross_entropy_backward, const View& dx, const View& g, const View& x, const View& target,
                const View& weight, const View& largest, const View& log_sum, const View& total,
                const CrossEntropyOptions& options)
MANTISSA_KERNEL(nll_loss, const View& loss, const View& total, const View& x, const View& target,
                const View& weight, const NllOptions& options)
MANTISSA_KERNEL(nll_loss_backward, const View& dx, const View& g, const View& target, const View& weight,
                const View& total, const NllOptions& options)
MANTISSA_KERNEL(mse_loss, const View& y, const View& a, const View& b, Reduction reduction)
MANTISSA_KERNEL(fill, const View& y, double value)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

int class_dim(const View& x) { return x.dim() > 1 ? 1 : 0; }

// Calls row(r, buffer) for every target, in parallel; the buffer has `room` elements.
template <class C, class F> void for_targets(std::int64_t rows, std::int64_t classes, std::int64_t room, F&& row) {
  parallel_for(rows, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, classes)),
               [&](std::int64_t first, std::int64_t last) {
                 const Tensor buffer = room > 0 ? Tensor::allocate({room}, dtype_of<C>) : Tensor();
                 for (std::int64_t r = first; r < last; ++r)
                   row(r, room > 0 ? static_cast<C*>(buffer.raw_data()) : nullptr);
               });
}

// Dense rows of another type than C, which are converted one by one: logits are too large for a widened copy of them
// all.
template <class C> bool one_by_one(const View& rows) { return rows.dtype != dtype_of<C> && rows.is_contiguous(); }
template <class C>
const C* row_of(const View& rows, const Dense<C>& dense, std::int64_t r, std::int64_t classes, C* buffer) {
  if (dense.data()) return dense.data() + r * classes;
  load_run(buffer, rows.data, rows.dtype, r * classes, 1, classes);
  return buffer;
}

// Losses per target to the result: unreduced, summed, or divided by the sum of label weights.
template <class C>
void reduce_losses(const View& loss, const View& total, const Tensor& each, const std::int64_t* label, const C* weight,
                   std::int64_t ignore, Reduction reduction) {
  const std::int64_t rows = each.numel();
  const C* losses = static_cast<const C*>(each.raw_data());
  const C sum_of_weights = sum_of_label_weights(label, rows, weight, ignore);
  *total.as<C>() = sum_of_weights;
  if (reduction == Reduction::none) {
    copy(loss, View{each.raw_data(), loss.sizes, contiguous_strides(loss.sizes), dtype_of<C>, cpu});
    return;
  }
  C value = fold_run<Sum>(rows, losses);
  if (reduction == Reduction::mean) value = value / sum_of_weights;
  store_run(loss.data, loss.dtype, 0, 1, &value, 1);
}

// The factor of the gradient of row r's loss.
template <class C> C row_gradient(const C* g, std::int64_t r, C total, Reduction reduction) {
  return reduction == Reduction::none ? g[r] : reduction == Reduction::mean ? g[0] / total : g[0];
}

// f(row, label, place) for every target of x, in any order and in parallel: `place` is the offset of the label's
// element in x. For ignored rows the label is -1.
template <class F> void for_labels(const View& x, const std::int64_t* labels, std::int64_t ignore, const F& f) {
  const int classes = class_dim(x);
  const std::int64_t step = x.strides[classes];
  Dims sizes, strides;  // x without its classes
  for (int d = 0; d < x.dim(); ++d)
    if (d != classes) sizes.push_back(x.sizes[d]), strides.push_back(x.strides[d]);
  const Dims* const lies[] = {&strides};
  const Loop rows = collapse(sizes, lies, 1);
  const std::int64_t inner = rows.strides[0].back();
  parallel_for(numel_of(sizes), grain_size / 4, [&](std::int64_t first, std::int64_t last) {
    std::int64_t r = first;
    for_row_pieces(rows, 1, first, last, [&](const RowWalk& walk, std::int64_t column, std::int64_t count) {
      const std::int64_t at = walk.offset(0) + column * inner;
      for (std::int64_t j = 0; j < count; ++j, ++r) {
        const std::int64_t label = labels[r] == ignore ? -1 : labels[r];
        f(r, label, at + j * inner + (label < 0 ? 0 : label * step));
      }
    });
  });
}

// --- few classes: vectorised across targets ---
// x, or tensors like it, with the classes in the dimension that for_columns needs: channels-last images are rows of
// classes.
struct ClassColumns {
  bool rows;
  int dim;
  explicit ClassColumns(const View& x)
      : rows(moved_to_last(x, class_dim(x)).is_contiguous()), dim(rows ? x.dim() - 1 : class_dim(x)) {}
  View view(const View& v) const { return rows ? moved_to_last(v, class_dim(v)) : v; }
};

// Per target: the loss, the largest logit and the log of the sum of exponentials.
template <class C>
void losses_of_columns(C* each, C* largest, C* log_sum, const View& x, const std::int64_t* labels, const C* weight,
                       std::int64_t ignore, C smoothing) {
  const ClassColumns at(x);
  for_columns<C>(
      [=](const Columns<C>& c, std::int64_t first, C*, const C* in) {
        C *m = largest + first, *ls = log_sum + first, all[most_columns] = {};
        c.template fold<Max>(m, [&](std::int64_t from, C* line) { std::copy_n(in + from, c.columns, line); });
        c.template fold<Sum>(ls, [&](std::int64_t from, C* line) {
          const C* tops = m;
          map_run(
              c.columns, line, [](auto v, auto top) { return exp_inside(v - top); }, in + from, tops);
        });
        for (std::int64_t j = 0; j < c.columns; ++j) ls[j] = std::log(ls[j]);
        if (smoothing > 0) {
          c.template fold<Sum>(all, [&](std::int64_t from, C* line) {
            const C k = weight ? weight[from / c.step] : C(1);
            for (std::int64_t j = 0; j < c.columns; ++j) line[j] = k * ((m[j] - in[from + j]) + ls[j]);
          });
        }
        for (std::int64_t j = 0; j < c.columns; ++j) {
          const std::int64_t label = labels[first + j];
          if (label == ignore) {
            each[first + j] = 0;
            continue;
          }
          const C cost = (m[j] - in[label * c.step + j]) + ls[j];
          each[first + j] = (1 - smoothing) * (weight ? weight[label] : C(1)) * cost;
          if (smoothing > 0) each[first + j] += smoothing / static_cast<C>(c.n) * all[j];
        }
      },
      at.dim, View{}, at.view(x));
}
// dx, given the factor of each target's loss.
template <class C, class Gradient>
void gradients_of_columns(const View& dx, const View& x, const C* largest, const C* log_sum,
                          const std::int64_t* labels, const C* weight, C all_weights, std::int64_t ignore, C smoothing,
                          const Gradient& gradient) {
  const ClassColumns at(x);
  for_columns<C>(
      [&](const Columns<C>& c, std::int64_t first, C* out, const C* in) {
        const C *m = largest + first, *ls = log_sum + first, share = smoothing / static_cast<C>(c.n);
        C on_label[most_columns], on_softmax[most_columns], on_class[most_columns];
        for (std::int64_t j = 0; j < c.columns; ++j) {
          const std::int64_t label = labels[first + j];
          const C g = label == ignore ? C(0) : gradient(first + j);
          on_label[j] = label == ignore ? C(0) : (1 - smoothing) * (weight ? weight[label] : C(1)) * g;
          on_softmax[j] = on_label[j] + share * all_weights * g;
          on_class[j] = share * g;
        }
        const C *by = on_softmax, *less = on_class;
        c.each([&](std::int64_t from) {
          const C k = weight ? weight[from / c.step] : C(1);
          const auto gradient_of = [=](auto v, auto top, auto l, auto b, auto o) {
            return exp_inside((v - top) - l) * b - decltype(v)(k) * o;
          };
          map_run(c.columns, out + from, gradient_of, in + from, m, ls, by, less);
        });
        for (std::int64_t j = 0; j < c.columns; ++j) {
          const std::int64_t label = labels[first + j];
          if (label != ignore) out[label * c.step + j] -= on_label[j];
          else c.each([&](std::int64_t from) { out[from + j] = 0; });
        }
      },
      at.dim, at.view(dx), at.view(x));
}

}  // namespace

// loss = (1 - s) * w[label] * (log_sum_exp - x[label]) + s / classes * sum(w * (log_sum_exp - x)),
// s the label smoothing. Saves each row's maximum and the log of the sum of exp(x - maximum).
void cross_entropy(const View& loss, const View& largest, const View& log_sum, const View& total,
                   const View& x, const View& target,
                   const View& weight, const CrossEntropyOptions& o) {
  visit_compute(x.dtype, [&]<class C> {
    const std::int64_t classes = x.sizes[class_dim(x)], rows = target.numel();
    const Dense<std::int64_t> labels(target);
    check_labels(labels.data(), rows, classes, o.ignore_index);
    const Dense<C> w(weight);
    const Tensor each = Tensor::allocate({rows}, dtype_of<C>);
    const C smoothing = static_cast<C>(o.label_smoothing);
    if (can_fold_columns(x, class_dim(x)) && classes <= most_columns) {
      losses_of_columns(static_cast<C*>(each.raw_data()), largest.as<C>(), log_sum.as<C>(), x, labels.data(), w.data(),
                        o.ignore_index, smoothing);
      return reduce_losses(loss, total, each, labels.data(), w.data(), o.ignore_index, o.reduction);
    }
    const View logits = moved_to_last(x, class_dim(x));
    const bool convert = one_by_one<C>(logits);
    const Dense<C> in(convert ? View{} : logits);
    for_targets<C>(rows, classes, convert ? classes : 0, [&](std::int64_t r, C* buffer) {
      const C* p = row_of(logits, in, r, classes, buffer);
      const std::int64_t label = labels.data()[r];
      const C m = fold_run<Max>(classes, p);
      const C ls = std::log(fold_run<Sum>(classes, [=](auto v) { return exp_inside(v - decltype(v)(m)); }, p));
      largest.as<C>()[r] = m;
      log_sum.as<C>()[r] = ls;
      C value = 0;
      if (label != o.ignore_index) {
        value = (1 - smoothing) * (w.data() ? w.data()[label] : C(1)) * ((m - p[label]) + ls);
        if (smoothing > 0) {
          const auto cost = [=](auto v) { return (decltype(v)(m) - v) + decltype(v)(ls); };
          const C all = w.data() ? fold_run<Sum>(classes, [=](auto v, auto k) { return k * cost(v); }, p, w.data())
                                 : fold_run<Sum>(classes, cost, p);
          value += smoothing / static_cast<C>(classes) * all;
        }
      }
      static_cast<C*>(each.raw_data())[r] = value;
    });
    reduce_losses(loss, total, each, labels.data(), w.data(), o.ignore_index, o.reduction);
  });
}

// dx may be x.
void cross_entropy_backward(const View& dx, const View& g, const View& x, const View& target,
                            const View& weight, const View& largest,
                            const View& log_sum, const View& total, const CrossEntropyOptions& o) {
  visit_compute(x.dtype, [&]<class C> {
    const std::int64_t classes = x.sizes[class_dim(x)], rows = target.numel();
    const Dense<std::int64_t> labels(target);
    const Dense<C> w(weight), grad(g), maxima(largest), log_sums(log_sum), totals(total);
    if (can_fold_columns(x, class_dim(x)) && classes <= most_columns) {
      return gradients_of_columns(
          dx, x, maxima.data(), log_sums.data(), labels.data(), w.data(), sum_of_class_weights(w.data(), classes),
          o.ignore_index, static_cast<C>(o.label_smoothing),
          [&](std::int64_t r) { return row_gradient(grad.data(), r, totals.data()[0], o.reduction); });
    }
    const View logits = moved_to_last(x, class_dim(x)), result = moved_to_last(dx, class_dim(x));
    const bool convert = one_by_one<C>(logits), convert_result = one_by_one<C>(result);
    const Dense<C> in(convert ? View{} : logits);
    View none;
    none.dtype = dtype_of<C>;
    DenseResult<C> out(convert_result ? none : result);
    const C smoothing = static_cast<C>(o.label_smoothing), share = smoothing / static_cast<C>(classes);
    const C all_weights = sum_of_class_weights(w.data(), classes);
    for_targets<C>(rows, classes, convert || convert_result ? classes : 0, [&](std::int64_t r, C* buffer) {
      C* to = convert_result ? buffer : out.data() + r * classes;
      const std::int64_t label = labels.data()[r];
      if (label == o.ignore_index) {
        std::fill_n(to, classes, C(0));
        if (convert_result) store_run(result.data, result.dtype, r * classes, 1, to, classes);
        return;
      }
      const C* p = row_of(logits, in, r, classes, buffer);
      const C m = maxima.data()[r], ls = log_sums.data()[r],
              from_row = row_gradient(grad.data(), r, totals.data()[0], o.reduction);
      const C on_label = (1 - smoothing) * (w.data() ? w.data()[label] : C(1)) * from_row;
      const C on_softmax = on_label + share * all_weights * from_row, on_class = share * from_row;
      const auto part = [=](auto v) { using V = decltype(v); return exp_inside((v - V(m)) - V(ls)) * V(on_softmax); };
      if (smoothing > 0 && w.data())
        map_run(
            classes, to, [=](auto v, auto k) { return part(v) - k * decltype(v)(on_class); }, p, w.data());
      else map_run(classes, to, [=](auto v) { return part(v) - decltype(v)(on_class); }, p);
      to[label] -= on_label;
      if (convert_result) store_run(result.data, result.dtype, r * classes, 1, to, classes);
    });
    out.finish();
  });
}

void nll_loss(const View& loss, const View& total, const View& x, const View& target, const View& weight,
              const NllOptions& o) {
  visit_compute(x.dtype, [&]<class C> {
    const std::int64_t rows = target.numel();
    const Dense<std::int64_t> labels(target);
    check_labels(labels.data(), rows, x.sizes[class_dim(x)], o.ignore_index);
    const Dense<C> w(weight);
    const Tensor each = Tensor::allocate({rows}, dtype_of<C>);
    C* costs = static_cast<C*>(each.raw_data());
    visit_floating(x.dtype, [&]<class T> {
      if constexpr (std::is_same_v<Compute<T>, C>) {
        for_labels(x, labels.data(), o.ignore_index, [&](std::int64_t r, std::int64_t label, std::int64_t place) {
          costs[r] = label < 0 ? C(0) : -(w.data() ? w.data()[label] : C(1)) * static_cast<C>(x.as<const T>()[place]);
        });
      }
    });
    reduce_losses(loss, total, each, labels.data(), w.data(), o.ignore_index, o.reduction);
  });
}

void nll_loss_backward(const View& dx, const View& g, const View& target, const View& weight,
                       const View& total, const NllOptions& o) {
  visit_compute(dx.dtype, [&]<class C> {
    const Dense<std::int64_t> labels(target);
    const Dense<C> w(weight), grad(g), totals(total);
    fill(dx, 0.0);
    visit_floating(dx.dtype, [&]<class T> {
      if constexpr (std::is_same_v<Compute<T>, C>) {
        for_labels(dx, labels.data(), o.ignore_index, [&](std::int64_t r, std::int64_t label, std::int64_t place) {
          if (label < 0) return;
          const C from_row = row_gradient(grad.data(), r, totals.data()[0], o.reduction);
          dx.as<T>()[place] = static_cast<T>(-(w.data() ? w.data()[label] : C(1)) * from_row);
        });
      }
    });
  });
}

// y = (a - b)^2 for operands of one shape, unreduced, summed or averaged.
void mse_loss(const View& y, const View& a, const View& b, Reduction reduction) {
  visit_compute(y.dtype, [&]<class C> {
    const Dense<C> left(a), right(b);
    const std::int64_t n = a.numel();
    const auto cost = [](auto p, auto q) { auto d = p - q; return d * d; };
    if (reduction == Reduction::none) {
      DenseResult<C> out(y);
      parallel_for(n, grain_size, [&](std::int64_t first, std::int64_t last) {
        map_run(last - first, out.data() + first, cost, left.data() + first, right.data() + first);
      });
      out.finish();
      return;
    }
    const std::int64_t blocks = (n + grain_size - 1) / grain_size;
    const Tensor partial = Tensor::allocate({blocks}, dtype_of<C>);
    C* sums = static_cast<C*>(partial.raw_data());
    parallel_for(n, grain_size, [&](std::int64_t first, std::int64_t last) {
      sums[first / grain_size] = fold_run<Sum>(last - first, cost, left.data() + first, right.data() + first);
    });
    C value = fold_run<Sum>(blocks, static_cast<const C*>(sums));
    if (reduction == Reduction::mean) value = value / static_cast<C>(n);
    store_run(y.data, y.dtype, 0, 1, &value, 1);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
