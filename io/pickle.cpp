#include "io/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "io/file.h"

namespace mantissa::io {
namespace {

constexpr std::size_t most_bytes = 64 << 20;
constexpr int most_operations = 1'000'000, most_marks = 1000;
constexpr std::size_t most_items = 8'000'000;  // over all values: parts may be shared, and copied often

enum Code : unsigned char {
  mark = '(', stop = '.', pop = '0', pop_mark = '1', none = 'N', bin_int = 'J', bin_int1 = 'K', bin_int2 = 'M',
  bin_float = 'G', bin_unicode = 'X', short_bin_string = 'U', bin_string = 'T', empty_list = ']', append = 'a',
  appends = 'e', list = 'l', empty_tuple = ')', tuple = 't', empty_dict = '}', dict = 'd', set_item = 's',
  set_items = 'u', global = 'c', reduce = 'R', build = 'b', bin_persistent = 'Q', bin_get = 'h',
  long_bin_get = 'j', bin_put = 'q', long_bin_put = 'r', bin_bytes = 'B', short_bin_bytes = 'C',
  protocol = 0x80, new_object = 0x81, tuple1 = 0x85, tuple2 = 0x86, tuple3 = 0x87, new_true = 0x88, new_false = 0x89,
  long1 = 0x8a, long4 = 0x8b, short_bin_unicode = 0x8c, bin_unicode8 = 0x8d, stack_global = 0x93, memoize = 0x94,
  frame = 0x95
};

}  // namespace

class PickleMachine {
 public:
  PickleMachine(Pickle& into, std::string_view bytes, const std::string& path, std::span<const std::string_view> names)
      : into_(into), bytes_(bytes), path_(path), names_(names) {}

  void run() {
    for (int n = 0; n < most_operations; ++n) {
      const auto code = take<unsigned char>();
      if (code == stop) {
        into_.root_ = pop_value();
        return;
      }
      step(code);
    }
    wrong("does more than a million operations");
  }

 private:
  template <class... Parts> [[noreturn]] void wrong(const Parts&... parts) const {
    fail_format(path_, "its pickle ", parts..., " (byte ", at_, ")");
  }
  std::string_view take_text(std::uint64_t n) {
    if (n > bytes_.size() - at_) wrong("is cut short");
    const std::string_view text = bytes_.substr(at_, n);
    at_ += n;
    return text;
  }
  template <class T> T take() {
    T value;
    std::memcpy(&value, take_text(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view take_line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) wrong("is cut short");
    const std::string_view line = take_text(end - at_);
    ++at_;
    return line;
  }

  PickleValue& push(PickleValue::Kind kind) {
    PickleValue& v = into_.values_.emplace_back();
    v.kind = kind;
    stack_.push_back(&v);
    return v;
  }
  void push_integer(std::int64_t n) { push(PickleValue::integer).number = n; }
  void push_text(std::string_view text) { push(PickleValue::text).letters = text; }
  PickleValue* pop_value() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
      wrong("takes more than it has put there");
    PickleValue* v = stack_.back();
    stack_.pop_back();
    return v;
  }
  PickleValue* top(PickleValue::Kind kind, const char* what) {
    PickleValue* v = pop_value();
    stack_.push_back(v);
    if (v->kind != kind) wrong("puts ", what, " into what is none");
    return v;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) wrong("takes more than it has put there");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  void push_tuple(int n) {
    std::vector<const PickleValue*> items(static_cast<std::size_t>(n));
    for (int i = n - 1; i >= 0; --i) items[static_cast<std::size_t>(i)] = pop_value();
    push(PickleValue::sequence).items = std::move(items);
  }
  // Python integers have any length, little-endian two's complement. Above eight bytes they are kept as text: a 64-bit
  // seed, a generator's state.
  void push_long(std::uint64_t n) {
    constexpr std::uint64_t most = 32;
    if (n > most) wrong("has an integer of ", n, " bytes, at most ", most, " are read");
    const std::string_view digits = take_text(n);
    if (n > 8) {
      push(PickleValue::text).letters = into_.joined_.emplace_back(decimal(digits));
      return;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < digits.size(); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    const int unused = 64 - 8 * static_cast<int>(n);
    push_integer(n == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
  }
  // Little-endian two's complement as decimal digits.
  static std::string decimal(std::string_view bytes) {
    const bool negative = static_cast<signed char>(bytes.back()) < 0;
    std::vector<unsigned> magnitude;
    unsigned carry = negative;
    for (const char c : bytes) {
      const unsigned byte = static_cast<unsigned char>(c), next = (negative ? 255 - byte : byte) + carry;
      magnitude.push_back(next & 255);
      carry = next >> 8;
    }
    std::string digits;
    while (!magnitude.empty()) {
      unsigned rest = 0;
      for (std::size_t i = magnitude.size(); i-- > 0; rest %= 10) {
        rest = rest * 256 + magnitude[i];
        magnitude[i] = rest / 10;
      }
      digits += static_cast<char>('0' + rest);
      while (!magnitude.empty() && magnitude.back() == 0) magnitude.pop_back();
    }
    if (negative) digits += '-';
    return {digits.rbegin(), digits.rend()};
  }
  void push_name(std::string_view module, std::string_view name) {
    std::string& joined = into_.joined_.emplace_back(concat(std::string(module), ".", std::string(name)));
    if (std::ranges::find(names_, std::string_view(joined)) == names_.end())
      wrong("contains the code object ", quote(joined), ", which is refused: only containers, numbers, text and plain "
            "tensors are read. Save those alone in Python, as torch.save(model.state_dict(), path)");
    push(PickleValue::name).letters = joined;
  }
  void add(PickleValue& to, std::span<const PickleValue* const> items) {
    items_ += items.size();
    if (items_ > most_items) wrong("makes more than ", most_items, " elements");
    to.items.insert(to.items.end(), items.begin(), items.end());
  }
  void add_pairs(PickleValue& to, std::span<const PickleValue* const> items) {
    if (items.size() % 2 != 0) wrong("puts a key without a value into a dictionary");
    add(to, items);
  }
  void reduce_call() {
    const PickleValue* arguments = pop_value();
    const PickleValue* callee = pop_value();
    if (callee->kind != PickleValue::name || arguments->kind != PickleValue::sequence)
      wrong("calls what is no function");
    if (callee->letters == "collections.OrderedDict") {  // empty, or from a list of pairs
      PickleValue& made = push(PickleValue::mapping);
      if (arguments->items.empty()) return;
      for (const PickleValue* pair : arguments->items[0]->items) {
        if (pair->items.size() != 2) wrong("makes an OrderedDict of what are no pairs");
        add_pairs(made, pair->items);
      }
      return;
    }
    PickleValue& made = push(PickleValue::call);
    made.items.push_back(callee);
    add(made, arguments->items);
  }
  void remember(std::uint64_t number) {
    if (number > most_operations) wrong("remembers under the number ", number);
    PickleValue* v = pop_value();
    stack_.push_back(v);
    memo_[number] = v;
  }
  void recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) wrong("asks for number ", number, ", which it has not remembered");
    stack_.push_back(found->second);
  }

  void step(unsigned char code) {
    switch (code) {
      case protocol:
        if (const int version = take<unsigned char>(); version > 5) wrong("is of protocol ", version);
        return;
      case frame: take<std::uint64_t>(); return;
      case mark:
        if (marks_.size() == most_marks) wrong("is nested too deeply");
        return marks_.push_back(stack_.size());
      case pop: pop_value(); return;
      case pop_mark: pop_to_mark(); return;

      case none: push(PickleValue::none); return;
      case new_true: push(PickleValue::boolean).number = 1; return;
      case new_false: push(PickleValue::boolean); return;
      case bin_int: return push_integer(take<std::int32_t>());
      case bin_int1: return push_integer(take<std::uint8_t>());
      case bin_int2: return push_integer(take<std::uint16_t>());
      case long1: return push_long(take<std::uint8_t>());
      case long4: return push_long(take<std::uint32_t>());
      case bin_float:  // big-endian
        push(PickleValue::real).fraction = std::bit_cast<double>(__builtin_bswap64(take<std::uint64_t>()));
        return;
      case bin_unicode:
      case bin_string:
      case bin_bytes: return push_text(take_text(take<std::uint32_t>()));
      case short_bin_unicode:
      case short_bin_string:
      case short_bin_bytes: return push_text(take_text(take<std::uint8_t>()));
      case bin_unicode8: return push_text(take_text(take<std::uint64_t>()));

      case empty_list:
      case empty_tuple: push(PickleValue::sequence); return;
      case empty_dict: push(PickleValue::mapping); return;
      case tuple1: return push_tuple(1);
      case tuple2: return push_tuple(2);
      case tuple3: return push_tuple(3);
      case list:
      case tuple: {
        std::vector<const PickleValue*> items = pop_to_mark();
        push(PickleValue::sequence).items = std::move(items);
        return;
      }
      case dict: {
        const std::vector<const PickleValue*> items = pop_to_mark();
        return add_pairs(push(PickleValue::mapping), items);
      }
      case append: {
        const PickleValue* v = pop_value();
        return top(PickleValue::sequence, "an element")->items.push_back(v);
      }
      case appends: {
        const std::vector<const PickleValue*> items = pop_to_mark();
        return add(*top(PickleValue::sequence, "elements"), items);
      }
      case set_item: {
        const PickleValue *value = pop_value(), *key = pop_value();
        return add_pairs(*top(PickleValue::mapping, "an entry"), std::vector{key, value});
      }
      case set_items: {
        const std::vector<const PickleValue*> items = pop_to_mark();
        return add_pairs(*top(PickleValue::mapping, "entries"), items);
      }

      case global: {
        const std::string_view module = take_line();
        return push_name(module, take_line());
      }
      case stack_global: {
        const PickleValue *name = pop_value(), *module = pop_value();
        if (name->kind != PickleValue::text || module->kind != PickleValue::text) wrong("names what is no text");
        return push_name(module->letters, name->letters);
      }
      case reduce: return reduce_call();
      case build:  // attributes of an OrderedDict, such as a state dict's versions: ignored
        pop_value();
        top(PickleValue::mapping, "attributes");
        return;
      case bin_persistent: {
        const PickleValue* id = pop_value();
        push(PickleValue::persistent).items.push_back(id);
        return;
      }
      case memoize: return remember(memo_.size());
      case bin_put: return remember(take<std::uint8_t>());
      case long_bin_put: return remember(take<std::uint32_t>());
      case bin_get: return recall(take<std::uint8_t>());
      case long_bin_get: return recall(take<std::uint32_t>());
      default: wrong("has an operation that plain data do not need, code ", static_cast<int>(code));
    }
  }

  Pickle& into_;
  std::string_view bytes_;
  std::size_t at_ = 0;
  const std::string& path_;
  std::span<const std::string_view> names_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // stack heights at the marks
  std::size_t items_ = 0;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(std::string_view bytes, const std::string& path, std::span<const std::string_view> names) {
  if (bytes.size() > most_bytes) fail_format(path, "its pickle has ", bytes.size(), " bytes, at most ", most_bytes);
  PickleMachine(*this, bytes, path, names).run();
}

}  // namespace mantissa::io
