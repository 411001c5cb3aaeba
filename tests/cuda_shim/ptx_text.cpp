// Reads PTX: where a file's functions and tables are, and of a function its registers, its memory and its instructions.
#include <charconv>
#include <cctype>
#include <optional>

#include "tests/cuda_shim/ptx_parts.h"

namespace cuda_shim::ptx {
namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

// Words (with their dots and double colons), numbers, strings, and everything else as single characters.
class Tokens {
 public:
  Tokens(std::string_view text, std::size_t at) : text_(text), at_(at) { advance(); }
  std::string_view peek() const { return token_; }
  std::size_t begin() const { return begin_; }  // of that token
  bool over() const { return token_.empty(); }
  std::string_view take() {
    const std::string_view t = token_;
    advance();
    return t;
  }
  bool skip(std::string_view t) {
    if (token_ != t) return false;
    advance();
    return true;
  }
  void expect(std::string_view t) {
    if (!skip(t)) fail("expected '" + std::string(t) + "' and found '" + std::string(token_) + "'");
  }

 private:
  void advance() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
      else if (text_.substr(at_, 2) == "//") at_ = std::min(text_.find('\n', at_), text_.size());
      else break;
    }
    begin_ = at_;
    if (at_ == text_.size()) {
      token_ = {};
      return;
    }
    if (text_[at_] == '"') {
      at_ = std::min(text_.find('"', at_ + 1), text_.size() - 1) + 1;
    } else if (in_word(text_[at_])) {
      while (at_ < text_.size() && (in_word(text_[at_]) || text_.substr(at_, 2) == "::"))
        at_ += in_word(text_[at_]) ? 1 : 2;
    } else {
      ++at_;
    }
    token_ = text_.substr(begin_, at_ - begin_);
  }

  std::string_view text_, token_;
  std::size_t at_, begin_ = 0;
};

std::optional<std::uint64_t> number(std::string_view t) {
  const auto parse = [&](std::size_t from, int base) -> std::optional<std::uint64_t> {
    std::uint64_t v = 0;
    const char* end = t.data() + t.size();
    if (t.ends_with('U')) --end;
    if (std::from_chars(t.data() + from, end, v, base).ptr != end) fail("not a number: " + std::string(t));
    return v;
  };
  if (t.empty() || !std::isdigit(static_cast<unsigned char>(t[0]))) return {};
  if (t.starts_with("0f") || t.starts_with("0F") || t.starts_with("0d") || t.starts_with("0D") || t.starts_with("0x"))
    return parse(2, 16);
  return parse(0, 10);
}
std::size_t to_size(std::string_view t) {
  const auto v = number(t);
  if (!v) fail("expected a number and found '" + std::string(t) + "'");
  return static_cast<std::size_t>(*v);
}
std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
std::size_t bytes_of(std::string_view type) {  // ".b32"
  std::size_t bytes = 0;
  with_type(type.substr(1), [&](auto v) { bytes = sizeof v; });
  return bytes;
}

// ".align 8 .b8 name[16]", ".u64 name" or ".f64 name[2]"
struct Variable {
  std::string_view name;
  std::size_t align = 1, bytes = 0, of_element = 0;
};
Variable read_variable(Tokens& t) {
  Variable v;
  if (t.skip(".align")) v.align = to_size(t.take());
  v.bytes = v.of_element = bytes_of(t.take());
  v.align = std::max(v.align, v.bytes);
  v.name = t.take();
  while (t.skip("[")) {
    if (!t.skip("]")) {
      v.bytes *= to_size(t.take());
      t.expect("]");
    } else {
      v.bytes = 0;
    }
  }
  return v;
}
Parameter place(const Variable& v, std::size_t* end) {
  *end = round_up(*end, v.align);
  const Parameter p{static_cast<std::int64_t>(*end), v.bytes};
  *end += v.bytes;
  return p;
}

std::vector<std::string_view> split(std::string_view opcode) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at <= opcode.size();) {
    const std::size_t dot = std::min(opcode.find('.', at), opcode.size());
    words.push_back(opcode.substr(at, dot - at));
    at = dot + 1;
  }
  return words;
}

}  // namespace

Module::Module(std::string text) : text_(std::move(text)) {
  // cuobjdump writes a few lines before the text itself.
  Tokens t(text_, std::min(text_.find(".version"), text_.size()));
  while (!t.over()) {
    const std::size_t at = t.begin();
    const std::string_view word = t.take();
    if (word == ".entry" || word == ".func") {
      if (t.skip("("))
        while (t.take() != ")") {}
      const std::string_view name = t.take();
      if (t.skip("("))
        while (t.take() != ")") {}
      while (t.peek() != "{" && t.peek() != ";") t.take();
      if (t.take() == ";") continue;  // a declaration
      (word == ".entry" ? kernels_ : functions_)[name] = at;
      for (int depth = 1; depth > 0;) {
        const std::string_view brace = t.take();
        depth += (brace == "{") - (brace == "}");
        if (brace.empty()) fail("a function without end: " + std::string(name));
      }
    } else if (word == ".extern") {
      t.expect(".shared");
      dynamic_shared_ = read_variable(t).name;
    } else if (word == ".global" || word == ".const") {
      const Variable v = read_variable(t);
      std::vector<std::uint64_t> words(v.bytes / 8 + 1);
      auto* bytes = reinterpret_cast<char*>(words.data());
      std::size_t end = 0;
      const auto read_element = [&] {
        std::uint64_t bits = 0;
        if (t.skip("generic")) {  // the address of another
          t.expect("(");
          bits = reinterpret_cast<std::uintptr_t>(globals_.at(t.take()).data());
          t.expect(")");
        } else {
          bits = to_size(t.take());
        }
        if (end + v.of_element > v.bytes) fail("a table with too many elements: " + std::string(v.name));
        std::memcpy(bytes + end, &bits, v.of_element);
        end += v.of_element;
      };
      if (t.skip("=")) {
        if (!t.skip("{")) read_element();
        else
          while (!t.skip("}")) read_element(), t.skip(",");  // trailing zeros may be left out
      }
      t.expect(";");
      globals_[v.name] = std::move(words);
    }
  }
}

// Reads one function.
class Reader {
 public:
  Reader(Module& module, Function& f, std::size_t at) : module_(module), f_(f), t_(module.text_, at) {}

  void read() {
    t_.take();  // .entry, .func
    scopes_.emplace_back();
    if (t_.skip("(")) read_parameters();
    f_.name = t_.take();
    if (t_.skip("(")) read_parameters();
    while (!t_.skip("{")) {
      if (!t_.skip(".maxntid")) {
        t_.take();
        continue;
      }
      f_.most_threads = 1;
      do f_.most_threads *= to_size(t_.take());
      while (t_.skip(","));
    }
    scopes_.push_back({0, {}, {}, {}, {}});
    now_ = 1;
    while (now_ != 0) read_statement();
    for (const Jump& j : jumps_) f_.code[j.instruction].number = label(j);
  }

 private:
  struct Range {
    Slot first;
    std::size_t count;
  };
  struct Scope {
    std::size_t outer = 0;
    std::map<std::string_view, Slot> registers;
    std::map<std::string_view, Range> ranges;    // "%r" of "%r<12>"
    std::map<std::string_view, Operand> places;  // parameters
    std::map<std::string_view, std::int64_t> labels;
  };
  struct Jump {
    std::size_t instruction, scope;
    std::string_view label;
  };

  void read_parameters() {
    while (!t_.skip(")")) {
      t_.expect(".param");
      const Variable v = read_variable(t_);
      f_.parameters.push_back(place(v, &f_.parameter_bytes));
      scopes_[0].places[v.name] = in_space(Space::parameter, f_.parameters.back());
      t_.skip(",");
    }
  }
  static Operand in_space(Space space, const Parameter& p) {
    Operand o;
    o.kind = Operand::Kind::address;
    o.offset = p.offset;
    o.space = space;
    return o;
  }
  Slot new_slots(std::size_t count) {
    const Slot first = static_cast<Slot>(f_.values.size());
    f_.values.resize(f_.values.size() + count, ~std::uint64_t{0});  // NaN until written
    return first;
  }
  Slot constant(std::uint64_t bits) {
    const auto [at, is_new] = constants_.try_emplace(bits, 0);
    if (is_new) f_.values[at->second = new_slots(1)] = bits;
    return at->second;
  }
  Slot relocated(Base base, std::int64_t offset) {
    for (const Relocation& r : f_.relocations)
      if (r.base == base && r.offset == offset) return r.slot;
    return f_.relocations.emplace_back(Relocation{new_slots(1), base, offset}).slot;
  }

  void read_statement() {
    std::string_view word = t_.take();
    if (word == "{") {
      scopes_.push_back({now_, {}, {}, {}, {}});
      now_ = scopes_.size() - 1;
    } else if (word == "}") {
      now_ = scopes_[now_].outer;
    } else if (word == ".reg") {
      read_registers();
    } else if (word == ".shared") {
      read_memory(Base::shared, &f_.shared_bytes);
    } else if (word == ".local") {
      read_memory(Base::local, &f_.local_bytes);
    } else if (word == ".param") {
      const Variable v = read_variable(t_);
      scopes_[now_].places[v.name] = in_space(Space::call, place(v, &f_.call_bytes));
      t_.expect(";");
    } else if (word == ".pragma") {
      while (t_.take() != ";") {}
    } else if (word.starts_with('.')) {
      fail("unknown directive " + std::string(word));
    } else if (t_.skip(":")) {
      scopes_[now_].labels[word] = static_cast<std::int64_t>(f_.code.size());
    } else {
      read_instruction(word);
    }
  }
  void read_memory(Base base, std::size_t* end) {
    const Variable v = read_variable(t_);
    variables_[v.name] = {base, place(v, end).offset};
    t_.expect(";");
  }
  void read_registers() {
    t_.take();  // the type
    do {
      const std::string_view name = t_.take();
      if (t_.skip("<")) {
        const std::size_t count = to_size(t_.take());
        t_.expect(">");
        scopes_[now_].ranges[name] = {new_slots(count), count};
      } else {
        scopes_[now_].registers[name] = new_slots(1);
      }
    } while (t_.skip(","));
    t_.expect(";");
  }

  std::optional<Slot> register_of(std::string_view name) const {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    for (std::size_t s = now_;; s = scopes_[s].outer) {
      const Scope& scope = scopes_[s];
      if (const auto r = scope.registers.find(name); r != scope.registers.end()) return r->second;
      const auto range = scope.ranges.find(name.substr(0, digits));
      if (range != scope.ranges.end() && digits < name.size()) {
        std::size_t n = 0;
        std::from_chars(name.data() + digits, name.data() + name.size(), n);
        if (n < range->second.count) return range->second.first + static_cast<Slot>(n);
      }
      if (s == 0) return {};
    }
  }
  const Operand* place_of(std::string_view name) const {
    for (std::size_t s = now_;; s = scopes_[s].outer) {
      if (const auto p = scopes_[s].places.find(name); p != scopes_[s].places.end()) return &p->second;
      if (s == 0) return nullptr;
    }
  }
  std::int64_t label(const Jump& j) const {
    for (std::size_t s = j.scope;; s = scopes_[s].outer) {
      if (const auto l = scopes_[s].labels.find(j.label); l != scopes_[s].labels.end()) return l->second;
      if (s == 0) fail("no label " + std::string(j.label));
    }
  }

  // A register, a number or the address of a variable; anything else keeps its name.
  Operand value() {
    Operand o;
    o.kind = Operand::Kind::value;
    if (t_.skip("-")) {
      o.slot = constant(-std::uint64_t{to_size(t_.take())});
      return o;
    }
    o.name = t_.take();
    if (o.name == "_") {
      o.kind = Operand::Kind::ignored;
    } else if (const auto r = register_of(o.name)) {
      o.slot = *r;
      if (t_.skip("|")) o.predicate = value().slot;
    } else if (const auto n = number(o.name)) {
      o.slot = constant(*n);
    } else if (const Operand* p = place_of(o.name)) {
      if (p->space == Space::parameter) o.slot = relocated(Base::parameters, p->offset);
      else o = *p;  // an argument of a call
    } else if (const auto v = variables_.find(o.name); v != variables_.end()) {
      o.slot = relocated(v->second.first, v->second.second);
    } else if (o.name == module_.dynamic_shared_) {
      o.slot = relocated(Base::dynamic_shared, 0);
    } else if (const auto g = module_.globals_.find(o.name); g != module_.globals_.end()) {
      o.slot = constant(reinterpret_cast<std::uintptr_t>(g->second.data()));
    } else {
      o.kind = o.name.starts_with('%') ? Operand::Kind::special : Operand::Kind::label;
    }
    return o;
  }
  Operand operand() {
    if (t_.skip("{")) {
      Operand o;
      o.kind = Operand::Kind::list;
      while (!t_.skip("}")) {
        o.list.push_back(value().slot);
        t_.skip(",");
      }
      return o;
    }
    if (!t_.skip("[")) return value();
    Operand o;
    o.kind = Operand::Kind::address;
    if (const Operand* p = place_of(t_.peek())) {
      o = *p;
      t_.take();
    } else {
      o.slot = value().slot;
    }
    if (t_.skip("+")) {
      const bool below = t_.skip("-");
      const auto n = static_cast<std::int64_t>(to_size(t_.take()));
      o.offset += below ? -n : n;
    }
    if (t_.skip(",")) o.list = operand().list;  // a box of a tensor
    t_.expect("]");
    return o;
  }

  // What a kernel does before griddepcontrol.wait may come before what was enqueued before it.
  static bool accesses_global_memory(const Statement& s) {
    const std::string_view op = s.words[0];
    const bool elsewhere = s.has("param") || s.has("shared") || s.has("shared::cta") || s.has("local");
    return op == "call" || op == "cp" ||
           (!elsewhere && (op == "ld" || op == "ldu" || op == "st" || op == "atom" || op == "red" || op == "prefetch"));
  }
  void read_instruction(std::string_view word) {
    Instruction i;
    if (word == "@") {
      i.negated = t_.skip("!");
      i.condition = value().slot;
      word = t_.take();
    }
    Statement s;
    s.text = word;
    s.words = split(word);
    if (word == "griddepcontrol.wait") f_.waits = true;
    else if (!f_.waits && accesses_global_memory(s)) f_.waits_first = false;
    if (s.words[0] == "call") {
      read_call(i);
    } else {
      while (!t_.skip(";")) {
        s.operands.push_back(operand());
        t_.skip(",");
      }
      for (const Operand& o : s.operands) {
        const bool known = o.kind == Operand::Kind::label ? s.words[0] == "bra"
                                                          : o.kind != Operand::Kind::special || s.words[0] == "mov";
        if (!known) fail(std::string(s.text) + ": unknown operand " + std::string(o.name));
      }
      if (s.words[0] == "bra") jumps_.push_back({f_.code.size(), now_, s.operands.at(0).name});
      if (!decode_arithmetic(s, i) && !decode_memory(s, i) && !decode_warp(s, i)) fail_unknown(s);
    }
    f_.code.push_back(std::move(i));
  }
  // call (result), function, (arguments): `list` has offset and bytes of each.
  void read_call(Instruction& i) {
    const auto read_list = [&] {
      t_.expect("(");
      while (!t_.skip(")")) {
        const Operand o = value();
        i.list.push_back(static_cast<Slot>(o.offset));
        t_.skip(",");
      }
      t_.skip(",");
    };
    if (t_.peek() == "(") read_list();
    i.called = &module_.function(t_.take());
    t_.skip(",");
    if (t_.peek() == "(") read_list();
    t_.expect(";");
    if (i.list.size() != i.called->parameters.size()) fail("a call with another number of parameters");
    if (i.called->shared_bytes > 0) fail("a function with shared memory of its own");
    i.step = [](Frame& f, const Instruction& at) {
      const Function& g = *at.called;
      std::vector<std::uint64_t> own(g.parameter_bytes / 8 + 2);
      char* parameters = reinterpret_cast<char*>(own.data());
      for (std::size_t k = 0; k < at.list.size(); ++k)
        std::memcpy(parameters + g.parameters[k].offset, f.call + at.list[k], g.parameters[k].bytes);
      call(g, parameters);
      for (std::size_t k = 0; k < at.list.size(); ++k)
        std::memcpy(f.call + at.list[k], parameters + g.parameters[k].offset, g.parameters[k].bytes);
    };
  }

  Module& module_;
  Function& f_;
  Tokens t_;
  std::vector<Scope> scopes_;
  std::size_t now_ = 0;
  std::map<std::uint64_t, Slot> constants_;
  std::map<std::string_view, std::pair<Base, std::int64_t>> variables_;  // shared and local
  std::vector<Jump> jumps_;
};

const Function& Module::function(std::string_view name) {
  if (const auto known = read_.find(name); known != read_.end()) return *known->second;
  const auto& all = kernels_.contains(name) ? kernels_ : functions_;
  const auto at = all.find(name);
  if (at == all.end()) fail("no function " + std::string(name));
  auto f = std::make_unique<Function>();
  Function& read = *f;
  read_[name] = std::move(f);  // before its body, which may call it
  try {
    Reader(*this, read, at->second).read();
  } catch (...) {
    read_.erase(name);
    throw;
  }
  return read;
}

}  // namespace cuda_shim::ptx
