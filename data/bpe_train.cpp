// Learns a vocabulary's merges: repeatedly turns the most frequent pair into a token. The text is stored as its
// distinct pieces with their counts; a merge updates the pieces that contain its pair.
#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "data/bpe.h"
#include "data/bpe_bytes.h"
#include "data/bpe_hash.h"
#include "data/bpe_split.h"

namespace mantissa::data {
namespace {

using Token = std::int32_t;
using Pair = std::uint64_t;  // left, right: 32 bits each
Pair pair_of(Token left, Token right) { return static_cast<Pair>(left) << 32 | static_cast<std::uint32_t>(right); }

struct Word {
  std::vector<Token> tokens;
  std::int64_t count = 0;
};

std::vector<Word> words_of(std::string_view text) {
  std::unordered_map<std::string_view, std::size_t, SeededHash> places;
  std::vector<Word> words;  // in text order, so that results do not depend on hash order
  std::array<Token, 256> token{};
  for (Token i = 0; i < 256; ++i) token[bytes_in_order()[static_cast<std::size_t>(i)]] = i;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = piece_end(text, at);
    const std::string_view piece = text.substr(at, end - at);
    at = end;
    const auto [place, is_new] = places.emplace(piece, words.size());
    if (is_new) {
      Word& word = words.emplace_back();
      for (const char c : piece) word.tokens.push_back(token[static_cast<std::uint8_t>(c)]);
    }
    ++words[place->second].count;
  }
  return words;
}

// Heap order: the most frequent pair on top; ties by the smallest ids.
struct Candidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
};

class Trainer {
 public:
  explicit Trainer(std::string_view text) : words_(words_of(text)) {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      const Word& word = words_[w];
      for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i)
        change(pair_of(word.tokens[i], word.tokens[i + 1]), word.count, w);
    }
    push_changed();
  }

  // The next pair to merge; nullopt if none occurs twice.
  std::optional<Pair> next() {
    while (!heap_.empty()) {
      Candidate top = heap_.top();
      heap_.pop();
      const std::int64_t count = pairs_[top.pair].count;
      if (count != top.count) {  // outdated: its count has dropped
        if (count > 0) heap_.push({count, top.pair});
      } else {
        return count >= 2 ? std::optional(top.pair) : std::nullopt;
      }
    }
    return {};
  }

  // Returns whether the pair was merged for the first time: it reappears if one of its tokens has another derivation.
  bool merge(Pair pair, Token merged) {
    const auto left = static_cast<Token>(pair >> 32), right = static_cast<Token>(pair & 0xffffffffu);
    const std::vector<std::size_t> places = std::move(pairs_[pair].words);
    for (const std::size_t w : places) {
      std::vector<Token>& t = words_[w].tokens;
      const std::int64_t n = words_[w].count;
      std::size_t to = 0;
      for (std::size_t i = 0; i < t.size(); ++i, ++to) {
        if (i + 1 == t.size() || t[i] != left || t[i + 1] != right) {
          t[to] = t[i];
          continue;
        }
        if (to > 0) {
          change(pair_of(t[to - 1], left), -n, w);
          change(pair_of(t[to - 1], merged), n, w);
        }
        if (i + 2 < t.size()) {
          change(pair_of(right, t[i + 2]), -n, w);
          change(pair_of(merged, t[i + 2]), n, w);
        }
        t[to] = merged;
        ++i;
      }
      t.resize(to);
    }
    Occurrences& o = pairs_[pair];
    o.count = 0;
    push_changed();
    return !std::exchange(o.learned, true);
  }

 private:
  struct Occurrences {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // that contain the pair, or did
    bool learned = false;
  };
  void change(Pair pair, std::int64_t by, std::size_t word) {
    Occurrences& o = pairs_[pair];
    o.count += by;
    if (by < 0) return;
    if (o.words.empty() || o.words.back() != word) o.words.push_back(word);
    changed_.push_back(pair);
  }
  void push_changed() {
    std::ranges::sort(changed_);
    changed_.erase(std::ranges::unique(changed_).begin(), changed_.end());
    for (const Pair pair : changed_)
      if (const std::int64_t count = pairs_[pair].count; count > 0) heap_.push({count, pair});
    changed_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences, SeededHash> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<Pair> changed_;  // whose counts have grown
};

}  // namespace

Bpe train_bpe(std::string_view text, std::int64_t size, const std::vector<std::string>& specials) {
  const auto least = static_cast<std::int64_t>(256 + specials.size());
  check(size >= least, "train_bpe: a vocabulary has at least ", least, " tokens, 256 bytes and the special ones, not ",
        size);
  std::vector<std::string> tokens;
  for (const std::uint8_t byte : bytes_in_order()) tokens.emplace_back(1, static_cast<char>(byte));
  Bpe::Merges merges;
  std::unordered_map<std::string, Token, SeededHash> numbers;
  Trainer trainer(text);
  while (static_cast<std::int64_t>(tokens.size() + specials.size()) < size) {
    const std::optional<Pair> pair = trainer.next();
    if (!pair) break;
    const std::string left = tokens[*pair >> 32], right = tokens[*pair & 0xffffffffu];
    // "a" + "bc" may already exist as "ab" + "c".
    const auto [place, is_new] = numbers.emplace(left + right, static_cast<Token>(tokens.size()));
    if (is_new) tokens.push_back(left + right);
    if (trainer.merge(*pair, place->second)) merges.emplace_back(left, right);
  }
  std::vector<AddedToken> added;
  for (const std::string& s : specials) {
    added.push_back({s, static_cast<std::int64_t>(tokens.size())});
    tokens.push_back(s);
  }
  return Bpe(std::move(tokens), std::move(merges), std::move(added));
}

}  // namespace mantissa::data
