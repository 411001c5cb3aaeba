// Cross-entropy over a chunk of logits, which are overwritten by their gradient: the kernels of linear_cross_entropy
// besides its products. A row stays in cache during its three passes: for the maximum, for the exponentials, which
// replace the logits, and for the gradient.
#include "core/cpu/labels.h"
#include "core/linear_cross_entropy_kernels.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

void linear_cross_entropy_factors(const View& factors, const View& target, const View& weight, std::int64_t classes,
                                  bool narrow, const CrossEntropyOptions& o) {
  visit_compute(factors.dtype, [&]<class C> {
    const auto* label = target.as<const std::int64_t>();
    const C* w = weight.as<const C>();
    const std::int64_t rows = target.numel();
    check_labels(label, rows, classes, o.ignore_index);
    const C total = sum_of_label_weights(label, rows, w, o.ignore_index);
    const C divisor = o.reduction == Reduction::mean ? total : C(1), inverse = divisor == 0 ? C(0) : 1 / divisor;
    C* to = factors.as<C>();
    to[0] = total, to[1] = sum_of_class_weights(w, classes), to[2] = inverse, to[3] = 1;
    if (!narrow) return;
    const C largest = w ? fold_run<Max>(classes, [](auto v) { return abs(v); }, w) : C(1);
    to[2] = largest > 0 ? std::exp2(C(14) - std::ceil(std::log2(largest))) : C(1);
    to[3] = inverse / to[2];
  });
}

void linear_cross_entropy_rows(const View& losses, const View& logits, const View& target, const View& weight,
                               const View& factors, bool gradient, const CrossEntropyOptions& o) {
  visit_compute(factors.dtype, [&]<class C> {
    const std::int64_t rows = target.numel(), classes = logits.size(1);
    const C* w = weight.as<const C>();
    const C smoothing = static_cast<C>(o.label_smoothing), share = smoothing / static_cast<C>(classes);
    const C all_weights = factors.as<const C>()[1], unit = factors.as<const C>()[2];
    const bool convert = logits.dtype != dtype_of<C>;

    const auto run_row = [&](std::int64_t r, C* p) {
      const std::int64_t label = target.as<const std::int64_t>()[r];
      C& loss = losses.as<C>()[r];
      if (label == o.ignore_index) {
        loss = 0;
        if (gradient) std::fill_n(p, classes, C(0));
        return;
      }
      if (convert) load_run(p, logits.data, logits.dtype, r * classes, 1, classes);
      const C on_label = (1 - smoothing) * (w ? w[label] : C(1)), chosen = p[label];
      const C m = fold_run<Max>(classes, p);
      const auto cost = [=](auto v) { return decltype(v)(m) - v; };
      C costs = 0;  // cost of label smoothing, without the logarithm
      if (smoothing > 0) {
        costs = w ? fold_run<Sum>(classes, [=](auto v, auto k) { return k * cost(v); }, p, w)
                  : fold_run<Sum>(classes, cost, p);
      }
      const auto power = [=](auto v) { return exp(v - decltype(v)(m)); };
      C sum = 0;
      if (gradient) {
        Cascade<C, Sum> tiles;
        for (std::int64_t j = 0; j < classes; j += fold_tile) {
          const std::int64_t n = std::min(fold_tile, classes - j);
          map_run(n, p + j, power, p + j);
          tiles.add(fold_run<Sum>(n, static_cast<const C*>(p + j)));
        }
        sum = tiles.total();
      } else {
        sum = fold_run<Sum>(classes, power, p);
      }
      const C log_sum = std::log(sum);
      loss = on_label * ((m - chosen) + log_sum);
      if (smoothing > 0) loss += share * (costs + all_weights * log_sum);
      if (!gradient) return;
      const C on_power = (on_label + share * all_weights) * unit / sum, on_class = share * unit;
      if (smoothing > 0 && w) {
        const auto less = [=](auto v, auto k) { using V = decltype(v); return v * V(on_power) - k * V(on_class); };
        map_run(classes, p, less, p, w);
      } else {
        map_run(classes, p, [=](auto v) { using V = decltype(v); return v * V(on_power) - V(on_class); }, p);
      }
      p[label] -= on_label * unit;
    };

    parallel_for(rows, std::max<std::int64_t>(1, grain_size / classes), [&](std::int64_t first, std::int64_t last) {
      const Tensor buffer = convert ? Tensor::allocate({classes}, dtype_of<C>) : Tensor();
      for (std::int64_t r = first; r < last; ++r) {
        C* p = convert ? static_cast<C*>(buffer.raw_data()) : logits.as<C>() + r * classes;
        run_row(r, p);
        if (convert && gradient) store_run(logits.data, logits.dtype, r * classes, 1, p, classes);
      }
    });
  });
}

void linear_cross_entropy_loss(const View& loss, const View& losses, const View& factors, Reduction reduction) {
  visit_compute(losses.dtype, [&]<class C> {
    C value = fold_run<Sum>(losses.numel(), losses.as<const C>());
    if (reduction == Reduction::mean) value = value / factors.as<const C>()[0];
    store_run(loss.data, loss.dtype, 0, 1, &value, 1);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
