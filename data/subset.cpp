#include "data/subset.h"

#include <algorithm>
#include <cmath>

#include "data/draws.h"

namespace mantissa::data {
namespace {

// Reads sample `index` from another source and forwards its properties.
class Forwarding : public Source {
 public:
  explicit Forwarding(SourcePtr like) : like_(std::move(like)) {}
  Dims image_sizes() const override { return like_->image_sizes(); }
  Dtype image_dtype() const override { return like_->image_dtype(); }
  Info info() const override { return like_->info(); }
  Dims target_sizes() const override { return like_->target_sizes(); }
  Dtype target_dtype() const override { return like_->target_dtype(); }
  std::int64_t read(std::int64_t index, void* image) const override {
    const auto [source, at] = find(index);
    return source->read(at, image);
  }
  void read_pair(std::int64_t index, void* image, void* target) const override {
    const auto [source, at] = find(index);
    source->read_pair(at, image, target);
  }
  void read_drawn(std::int64_t index, void* image, void* target, Draws& draws) const override {
    const auto [source, at] = find(index);
    source->read_drawn(at, image, target, draws);
  }

 protected:
  struct Place {
    const Source* source;
    std::int64_t index;
  };
  virtual Place find(std::int64_t index) const = 0;
  SourcePtr like_;
};

class Subset final : public Forwarding {
 public:
  Subset(SourcePtr source, std::vector<std::int64_t> indices)
      : Forwarding(std::move(source)), indices_(std::move(indices)) {
    for (const std::int64_t i : indices_)
      check(i >= 0 && i < like_->size(), "subset: index ", i, " is not in a set of ", like_->size(), " samples");
    if (const DatasetPart all = like_->in_memory(); all.set) {
      set_ = all.set;
      for (const std::int64_t i : indices_)
        places_.push_back(all.places ? (*all.places)[static_cast<std::size_t>(i)] : i);
    }
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  DatasetPart in_memory() const override { return {set_, &places_}; }

 private:
  Place find(std::int64_t index) const override {
    check(index >= 0 && index < size(), "the index is not in a subset of ", size(), " samples");
    return {like_.get(), indices_[static_cast<std::size_t>(index)]};
  }
  std::vector<std::int64_t> indices_;
  const Dataset* set_ = nullptr;
  std::vector<std::int64_t> places_;  // indices_ in *set_
};

class Concat final : public Forwarding {
 public:
  explicit Concat(std::vector<SourcePtr> sources) : Forwarding(sources.front()), sources_(std::move(sources)) {
    for (const SourcePtr& s : sources_) {
      check(s->image_sizes() == image_sizes() && s->image_dtype() == image_dtype(), "concat: images ", s->image_sizes(),
            " of ", name_of(s->image_dtype()), " beside ", image_sizes(), " of ", name_of(image_dtype()));
      check(s->target_sizes() == target_sizes() && s->target_dtype() == target_dtype(),
            "concat: the sets have targets of different kinds");
      ends_.push_back(size() + s->size());
    }
  }
  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }

 private:
  Place find(std::int64_t index) const override {
    check(index >= 0 && index < size(), "the index is not in a set of ", size(), " samples");
    const auto which = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return {sources_[which].get(), which == 0 ? index : index - ends_[which - 1]};
  }
  std::vector<SourcePtr> sources_;
  std::vector<std::int64_t> ends_;
};

std::vector<std::int64_t> part_sizes(std::int64_t size, const std::vector<double>& parts) {
  double sum = 0;
  for (const double p : parts) {
    check(p >= 0, "random_split: a part must not be negative, got ", p);
    sum += p;
  }
  const bool fractions = std::abs(sum - 1) < 1e-9;
  std::vector<std::int64_t> sizes;
  std::int64_t left = size;
  for (const double p : parts) {
    check(fractions || p == std::floor(p), "random_split: parts are fractions that add up to 1 or whole numbers, got ",
          p, " with sum ", sum);
    sizes.push_back(static_cast<std::int64_t>(fractions ? std::floor(p * static_cast<double>(size)) : p));
    left -= sizes.back();
  }
  check(fractions || left == 0, "random_split: the parts add up to ", size - left, ", the set has ", size, " samples");
  for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) ++sizes[i];
  return sizes;
}

}  // namespace

SourcePtr subset(SourcePtr source, std::vector<std::int64_t> indices) {
  check(source != nullptr, "subset: there is no set");
  return std::make_shared<Subset>(std::move(source), std::move(indices));
}

SourcePtr concat(std::vector<SourcePtr> sources) {
  check(!sources.empty() && std::find(sources.begin(), sources.end(), nullptr) == sources.end(),
        "concat: needs at least one set");
  return std::make_shared<Concat>(std::move(sources));
}

std::vector<SourcePtr> random_split(SourcePtr source, const std::vector<double>& parts,
                                    std::optional<std::uint64_t> seed) {
  check(source != nullptr && !parts.empty(), "random_split: needs a set and at least one part");
  const std::vector<std::int64_t> order = permutation(source->size(), seed ? *seed : drawn_seed(), 0);
  std::vector<SourcePtr> result;
  auto at = order.begin();
  for (const std::int64_t n : part_sizes(source->size(), parts)) {
    result.push_back(subset(source, {at, at + n}));
    at += n;
  }
  return result;
}

}  // namespace mantissa::data
