#include "data/bpe.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "core/ops.h"
#include "data/bpe_split.h"
#include "data/bpe_tables.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

constexpr std::int32_t none = -1;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

// Merges the bytes of pieces, one after the other. A list of tokens, and a heap of the merges that are possible now,
// the one that was learned first on top, of several places the first: n bytes take n log n.
class Merger {
 public:
  explicit Merger(const BpeTables& tables) : t_(tables) {}

  void merge(std::string_view piece, std::vector<std::int32_t>& out) {
    list_.clear();
    heap_.clear();
    const auto n = static_cast<std::int32_t>(piece.size());
    for (std::int32_t i = 0; i < n; ++i) {
      const std::int32_t token = t_.of_byte[static_cast<std::uint8_t>(piece[static_cast<std::size_t>(i)])];
      check(token != none, "the vocabulary has no token for the byte ",
            static_cast<int>(static_cast<std::uint8_t>(piece[static_cast<std::size_t>(i)])));
      list_.push_back({token, i - 1, i + 1 < n ? i + 1 : none, no_rank});
    }
    for (std::int32_t i = 0; i + 1 < n; ++i) look_at(i);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater());
      const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
      const auto at = static_cast<std::int32_t>(heap_.back() & 0xffffffffu);
      heap_.pop_back();
      Item& item = list_[static_cast<std::size_t>(at)];
      if (item.rank != rank) continue;  // one of both has been merged since
      Item& right = list_[static_cast<std::size_t>(item.next)];
      item.token = t_.merged[rank];
      item.next = right.next;
      right.rank = no_rank;
      if (item.next != none) list_[static_cast<std::size_t>(item.next)].previous = at;
      look_at(at);
      if (item.previous != none) look_at(item.previous);
    }
    for (std::int32_t i = 0; i != none && n > 0; i = list_[static_cast<std::size_t>(i)].next)
      out.push_back(list_[static_cast<std::size_t>(i)].token);
  }

 private:
  static constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();
  struct Item {
    std::int32_t token, previous, next;
    std::uint32_t rank;  // of the merge with the next
  };
  void look_at(std::int32_t i) {
    Item& item = list_[static_cast<std::size_t>(i)];
    item.rank = no_rank;
    if (item.next == none) return;
    const auto found = t_.ranks.find(pair_key(item.token, list_[static_cast<std::size_t>(item.next)].token));
    if (found == t_.ranks.end()) return;
    item.rank = found->second;
    heap_.push_back(static_cast<std::uint64_t>(item.rank) << 32 | static_cast<std::uint32_t>(i));
    std::push_heap(heap_.begin(), heap_.end(), std::greater());
  }

  const BpeTables& t_;
  std::vector<Item> list_;
  std::vector<std::uint64_t> heap_;  // rank, place
};

// The longest of `added`, which are in the order of their texts, that `text` begins with.
const AddedToken* added_at(const std::vector<AddedToken>& added, std::string_view text) {
  const AddedToken* longest = nullptr;
  auto first = added.begin(), last = added.end();  // those that begin with as many bytes of `text`
  for (std::size_t bytes = 0;; ++bytes) {
    if (first != last && first->text.size() == bytes) longest = &*first;
    while (first != last && first->text.size() == bytes) ++first;
    if (first == last || bytes == text.size()) return longest;
    const auto next = [bytes](const AddedToken& a) { return static_cast<std::uint8_t>(a.text[bytes]); };
    const auto byte = static_cast<std::uint8_t>(text[bytes]);
    if (next(*first) == byte && next(last[-1]) == byte) continue;  // all of them, as is usual
    const auto going_on = std::ranges::equal_range(first, last, byte, {}, next);
    first = going_on.begin(), last = going_on.end();
  }
}

// Encodes one text.
class Encoder {
 public:
  Encoder(const BpeTables& tables, Specials specials) : t_(tables), specials_(specials), merger_(tables) {}

  // Added tokens are looked for in two rounds, those that are normalized in the second.
  void encode(std::string_view text, int round = 0) {
    if (round == 2) return encode_pieces(text);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto& added = t_.added_by_byte[static_cast<std::size_t>(round)][static_cast<std::uint8_t>(text[at])];
      if (added.empty()) continue;
      const AddedToken* found = added_at(added, text.substr(at));
      if (!found || (found->special && specials_ == Specials::as_text)) continue;
      encode(text.substr(begin, at - begin), round + 1);
      out.push_back(static_cast<std::int32_t>(found->id));
      at += found->text.size() - 1;
      begin = at + 1;
    }
    encode(text.substr(begin), round + 1);
  }

  std::vector<std::int32_t> out;

 private:
  void encode_pieces(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = piece_end(text, at, t_.options.pieces);
      const std::string_view piece = text.substr(at, end - at);
      at = end;
      // Most words are one token.
      if (const auto found = t_.whole.find(piece); found != t_.whole.end()) out.push_back(found->second);
      else merger_.merge(piece, out);
    }
  }

  const BpeTables& t_;
  const Specials specials_;
  Merger merger_;
};

std::vector<std::int32_t> encoded(const BpeTables& tables, std::string_view text, Specials specials) {
  check(text.size() < (std::size_t{1} << 31), "Bpe: a text of ", text.size(), " bytes is too long; the most is 2 GiB");
  Encoder encoder(tables, specials);
  encoder.encode(text);
  return std::move(encoder.out);
}

// --- making the tables ---

std::int32_t number_of(const BpeNumbers& numbers, const std::string& bytes, std::size_t merge) {
  const auto found = numbers.find(bytes);
  check(found != numbers.end(), "merge ", merge, ": there is no token ", io::quote(bytes));
  return found->second;
}

// Gives added tokens that are no tokens yet the numbers after them; `is_added` marks all.
void place_added(BpeTables& t, std::vector<bool>& is_added) {
  std::ranges::sort(t.added, {}, &AddedToken::id);
  for (const AddedToken& a : t.added) {
    const auto size = static_cast<std::int64_t>(t.tokens.size());
    check(!a.text.empty(), "an added token is empty");
    check(a.id >= 0 && a.id <= size, "there are ", size, " tokens, and the next one has the number ", a.id);
    if (a.id == size) t.tokens.push_back(a.text), is_added.push_back(false);
    check(!is_added[static_cast<std::size_t>(a.id)], "two added tokens have the number ", a.id);
    t.tokens[static_cast<std::size_t>(a.id)] = a.text;
    is_added[static_cast<std::size_t>(a.id)] = true;
  }
}

void sort_added(BpeTables& t) {
  for (const AddedToken& a : t.added)
    t.added_by_byte[a.normalized ? 1 : 0][static_cast<std::uint8_t>(a.text[0])].push_back(a);
  for (auto& round : t.added_by_byte)
    for (auto& list : round) std::ranges::stable_sort(list, {}, &AddedToken::text);
}

}  // namespace

Bpe::Bpe(std::vector<std::string> tokens, Merges merges, std::vector<AddedToken> added, BpeOptions options) {
  const auto t = std::make_shared<BpeTables>();
  t->tokens = std::move(tokens);
  t->merges = std::move(merges);
  t->added = std::move(added);
  t->options = options;
  BpeNumbers numbers;  // of what was there before tokens were added, whose text may be that of another
  std::vector<bool> is_added(t->tokens.size());
  const std::size_t before = t->tokens.size();
  place_added(*t, is_added);
  for (std::size_t i = 0; i < before; ++i) {
    check(!t->tokens[i].empty(), "token ", i, " is empty");
    const auto number = static_cast<std::int32_t>(i);
    check(numbers.emplace(t->tokens[i], number).second || is_added[i], "two tokens are ", io::quote(t->tokens[i]));
  }
  t->of_byte.fill(none);
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    if (const auto found = numbers.find({&byte, 1}); found != numbers.end())
      t->of_byte[static_cast<std::size_t>(b)] = found->second;
  }
  for (std::size_t rank = 0; rank < t->merges.size(); ++rank) {
    const auto& [left, right] = t->merges[rank];
    check(!left.empty() && !right.empty(), "merge ", rank, " has an empty part");
    t->merged.push_back(number_of(numbers, left + right, rank));
    const std::uint64_t key = pair_key(number_of(numbers, left, rank), number_of(numbers, right, rank));
    check(t->ranks.emplace(key, static_cast<std::uint32_t>(rank)).second, "merge ", rank, " of ", io::quote(left),
          " and ", io::quote(right), " is there twice");
  }
  // Tokens that merging gives. (A vocabulary may have others, which no text ever becomes, unless merges are ignored.)
  Merger merger(*t);
  std::vector<std::int32_t> parts;
  for (const auto& [bytes, number] : numbers) {
    const auto known = [&](char c) { return t->of_byte[static_cast<std::uint8_t>(c)] != none; };
    if (!std::ranges::all_of(bytes, known)) continue;
    parts.clear();
    merger.merge(bytes, parts);
    if (parts.size() == 1 || options.ignore_merges) t->whole.emplace(bytes, number);
  }
  sort_added(*t);
  t->numbers = std::move(numbers);
  for (const AddedToken& a : t->added)  // by their text, too
    t->numbers.emplace(t->tokens[static_cast<std::size_t>(a.id)], static_cast<std::int32_t>(a.id));
  tables_ = t;
}

Tensor Bpe::encode(std::string_view text, Specials specials) const {
  const std::vector<std::int32_t> ids = encoded(*tables_, text, specials);
  Tensor t = Tensor::allocate({static_cast<std::int64_t>(ids.size())}, i64);
  std::copy(ids.begin(), ids.end(), t.data<std::int64_t>());
  return t;
}

Tokens Bpe::encode(const RawText& text, Specials specials) const {
  const std::vector<std::int32_t> ids = encoded(*tables_, text.bytes, specials);
  return {from_data(ids, {static_cast<std::int64_t>(ids.size())}),
          concat(text.source, ", ", ids.size(), " tokens of a vocabulary of ", size())};
}

std::string Bpe::decode(const Tensor& tokens) const {
  std::string text;
  for (const std::int64_t token : tokens.to(cpu).to_vector<std::int64_t>()) text += bytes(token);
  return text;
}

std::int64_t Bpe::size() const { return static_cast<std::int64_t>(tables_->tokens.size()); }

std::string_view Bpe::bytes(std::int64_t token) const {
  check(token >= 0 && token < size(), "Bpe: token ", token, " is not below the ", size(), " of the vocabulary");
  return tables_->tokens[static_cast<std::size_t>(token)];
}

std::optional<std::int64_t> Bpe::find(std::string_view bytes) const {
  const auto found = tables_->numbers.find(bytes);
  return found == tables_->numbers.end() ? std::nullopt : std::optional<std::int64_t>(found->second);
}

}  // namespace mantissa::data
