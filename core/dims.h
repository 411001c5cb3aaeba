// Sizes or strides of a tensor: a short inline array, trivially copyable, passed to kernels by value.
// At most eight dimensions, so no heap and no strides in device memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

namespace mantissa {

[[noreturn]] void fail_rank(std::int64_t rank);

class Dims {
 public:
  static constexpr int max_rank = 8;

  Dims() = default;
  // One dimension: sum(x, 1), zeros(5), x.reshape(-1).
  template <class T> requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Dims(T size) : Dims({static_cast<std::int64_t>(size)}) {}
  Dims(std::initializer_list<std::int64_t> v) : Dims(std::span(v.begin(), v.size())) {}
  Dims(const std::vector<std::int64_t>& v) : Dims(std::span<const std::int64_t>(v)) {}
  explicit Dims(std::span<const std::int64_t> v) {
    if (v.size() > max_rank) fail_rank(static_cast<std::int64_t>(v.size()));
    for (std::int64_t x : v) values_[rank_++] = x;
  }
  static Dims filled(int rank, std::int64_t value) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(value);
    return d;
  }

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t& operator[](int i) { return values_[i]; }
  std::int64_t operator[](int i) const { return values_[i]; }
  std::int64_t& back() { return values_[rank_ - 1]; }
  std::int64_t back() const { return values_[rank_ - 1]; }
  std::int64_t* begin() { return values_; }
  std::int64_t* end() { return values_ + rank_; }
  const std::int64_t* begin() const { return values_; }
  const std::int64_t* end() const { return values_ + rank_; }

  void push_back(std::int64_t x) {
    if (rank_ == max_rank) fail_rank(rank_ + 1);
    values_[rank_++] = x;
  }
  void insert(int at, std::int64_t x) {
    push_back(x);
    for (int i = rank_ - 1; i > at; --i) values_[i] = values_[i - 1];
    values_[at] = x;
  }
  void erase(int at) {
    for (int i = at; i + 1 < rank_; ++i) values_[i] = values_[i + 1];
    --rank_;
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) if (a.values_[i] != b.values_[i]) return false;
    return true;
  }

 private:
  std::int64_t values_[max_rank];
  int rank_ = 0;
};

}  // namespace mantissa
