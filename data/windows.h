// Windows into a sequence of tokens: shared by data::Tokens and data::TokenFile.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "data/draws.h"
#include "data/text.h"

namespace mantissa::data {

// `read(begin, out)` writes the tokens from `begin` on, as many as the span holds.
template <class Read> class Windows {
 public:
  Windows(const char* who, std::int64_t size, std::int64_t count, std::int64_t length, Read read)
      : who_(who), size_(size), count_(count), length_(length), read_(std::move(read)) {
    check(count >= 1 && length >= 1, who, ": a batch needs at least one window of one token, got ", count, " of ",
          length);
    check(size > length, who, ": a window of ", length, " tokens and the one after it do not fit into a text of ",
          size);
  }

  TextBatch at_random(std::uint64_t seed, std::uint64_t number) const {
    Draws draws(seed, Purpose::shuffle, number);
    return gather(count_, [&](std::int64_t) { return draws.below(size_ - length_); });
  }
  TextBatch side_by_side(std::int64_t first) const {
    const std::int64_t all = (size_ - 1) / length_;
    check(first >= 0 && first < all, who_, ": window ", first, " of ", all);
    return gather(std::min(count_, all - first), [&](std::int64_t row) { return (first + row) * length_; });
  }

 private:
  template <class Begin> TextBatch gather(std::int64_t rows, Begin begin_of) const {
    TextBatch b{Tensor::allocate({rows, length_}, i64), Tensor::allocate({rows, length_}, i64)};
    std::vector<std::int64_t> window(static_cast<std::size_t>(length_ + 1));
    for (std::int64_t row = 0; row < rows; ++row) {
      read_(begin_of(row), std::span(window));
      std::copy_n(window.data(), length_, b.input.data<std::int64_t>() + row * length_);
      std::copy_n(window.data() + 1, length_, b.target.data<std::int64_t>() + row * length_);
    }
    return b;
  }

  const char* who_;
  std::int64_t size_, count_, length_;
  Read read_;
};

}  // namespace mantissa::data
