#include "data/containers.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "data/pixel_targets.h"
#include "data/pixels.h"

namespace mantissa::data {
namespace {

using Rows = std::vector<std::int64_t>;

// f(row rows[i] of `whole`, row i of `part`): pointers and bytes.
template <class F> void each_row(const Tensor& whole, const Rows& rows, const Tensor& part, F f) {
  if (part.numel() == 0) return;
  const auto bytes = static_cast<std::size_t>(part.nbytes() / part.size(0));
  auto* to = static_cast<char*>(part.raw_data());
  for (const std::int64_t row : rows) {
    f(static_cast<char*>(whole.raw_data()) + static_cast<std::size_t>(row) * bytes, to, bytes);
    to += bytes;
  }
}
Tensor rows_like(const Tensor& t, std::int64_t count) {
  Dims sizes = t.sizes();
  sizes[0] = count;
  return Tensor::allocate(sizes, t.dtype());
}
Tensor rows_of(const Tensor& whole, const Rows& rows) {
  const Tensor part = rows_like(whole, static_cast<std::int64_t>(rows.size()));
  each_row(whole, rows, part, [](const char* from, char* to, std::size_t bytes) { std::memcpy(to, from, bytes); });
  return part;
}
bool same(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.nbytes())) == 0;
}

// The sub-batches that go through each list of transforms, and the batch merged from them.
class Parts {
 public:
  Parts(Batch& batch, Draws& draws, Targets targets, const char* who)
      : batch_(batch), draws_(draws), who_(who), moving_(targets != Targets::values || has_pixel_targets(batch)) {
    check(batch.image.defined() && batch.image.dim() >= 1 && is_plain(batch.image, who), who,
          ": expected contiguous images [B, ...], got ", batch.image);
  }
  void add(const Rows& rows, const std::vector<const Transforms*>& lists) {
    if (rows.empty()) return;
    const Tensor label = rows_of(batch_.label, rows);
    Batch part{rows_of(batch_.image, rows), rows_of(batch_.label, rows)};
    for (const Transforms* list : lists)
      for (const auto& transform : *list) transform->apply(part, draws_);
    collect(part.image, rows, images_);
    if (moving_) collect(part.label, rows, targets_);
    else check(same(part.label, label), who_,
               ": what is inside must not change the targets; MixUp and CutMix go outside");
  }
  void finish() {
    if (images_.defined()) batch_.image = images_;
    if (targets_.defined()) batch_.label = targets_;
  }

 private:
  void collect(const Tensor& part, const Rows& rows, Tensor& whole) const {
    if (!whole.defined()) whole = rows_like(part, batch_.image.size(0));
    const Tensor expected = rows_like(whole, part.size(0));
    check(part.sizes() == expected.sizes() && part.dtype() == expected.dtype(), who_,
          ": all pictures must come out alike, found ", part, " beside ", expected);
    each_row(whole, rows, part, [](char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
  }

  Batch& batch_;
  Draws& draws_;
  const char* who_;
  bool moving_;  // the targets, too
  Tensor images_, targets_;
};

}  // namespace

RandomApply::RandomApply(Transforms inside, float probability, Targets t)
    : transforms(std::move(inside)), p(probability), targets(t) {
  check(p >= 0 && p <= 1, "random_apply: p must be a probability, got ", p);
}

void RandomApply::apply(Batch& batch, Draws& draws) const {
  Rows chosen, others;
  for (std::int64_t b = 0; b < batch.image.size(0); ++b) (draws.uniform() < p ? chosen : others).push_back(b);
  Parts parts(batch, draws, targets, "random_apply");
  parts.add(chosen, {&transforms});
  parts.add(others, {});
  parts.finish();
}

RandomChoice::RandomChoice(std::vector<Transforms> lists, std::vector<float> w, Targets t)
    : choices(std::move(lists)), weights(std::move(w)), targets(t) {
  if (weights.empty()) weights.assign(choices.size(), 1);
  check(!choices.empty() && weights.size() == choices.size(), "random_choice: ", choices.size(), " choices and ",
        weights.size(), " weights");
  float sum = 0;
  for (const float weight : weights) {
    check(weight >= 0, "random_choice: weights must not be negative, got ", weight);
    sum += weight;
  }
  check(sum > 0, "random_choice: the weights are all 0");
}

void RandomChoice::apply(Batch& batch, Draws& draws) const {
  std::vector<Rows> rows(choices.size());
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
  for (std::int64_t b = 0; b < batch.image.size(0); ++b) {
    float left = draws.uniform() * sum;
    std::size_t choice = 0;
    while (choice + 1 < choices.size() && left >= weights[choice]) left -= weights[choice++];
    rows[choice].push_back(b);
  }
  Parts parts(batch, draws, targets, "random_choice");
  for (std::size_t i = 0; i < choices.size(); ++i) parts.add(rows[i], {&choices[i]});
  parts.finish();
}

void RandomOrder::apply(Batch& batch, Draws& draws) const {
  Parts parts(batch, draws, targets, "random_order");
  for (std::int64_t b = 0; b < batch.image.size(0); ++b) {
    std::vector<const Transforms*> order;
    for (const Transforms& list : lists) order.push_back(&list);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i)))]);
    parts.add({b}, order);
  }
  parts.finish();
}

}  // namespace mantissa::data
