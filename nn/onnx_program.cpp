#include "nn/onnx_program.h"

#include <algorithm>
#include <cmath>

#include "io/file.h"

namespace mantissa::nn::onnx {

using Attribute = io::OnnxFileAttribute;
using io::quote;

// --- running ---

Tensors Inputs::list() const {
  Tensors t;
  for (int i = 0; i < count(); ++i) t.push_back((*this)[i]);
  return t;
}
Integers Inputs::integers(int i) const {
  const Tensor& t = all[static_cast<std::size_t>(i)];
  check(!t.is_floating(), "input ", i, " must be integers, got ", t);
  if (t.dtype() == i64 && t.device().is_cpu() && t.is_contiguous())
    return Integers(t.data<std::int64_t>(), t.data<std::int64_t>() + t.numel());
  return t.to_vector<std::int64_t>();
}
double Inputs::number(int i) const {
  const Tensor& t = all[static_cast<std::size_t>(i)];
  check(t.numel() == 1, "input ", i, " must be one number, got ", t);
  return t.item<double>();
}
std::int64_t Inputs::integer(int i) const {
  const double v = number(i);
  if (!all[static_cast<std::size_t>(i)].is_floating()) return all[static_cast<std::size_t>(i)].item<std::int64_t>();
  check(v == std::floor(v) && std::abs(v) < 0x1p62, "input ", i, " must be an integer, got ", v);
  return static_cast<std::int64_t>(v);
}

Tensors Program::run(std::span<const Tensor> given, std::span<const Tensor> captured, bool training) const {
  Tensors values(static_cast<std::size_t>(size)), in;
  const auto value = [&](int id) -> Tensor& { return values[static_cast<std::size_t>(id)]; };
  for (std::size_t i = 0; i < inputs.size(); ++i) value(inputs[i]) = given[i];
  for (std::size_t i = 0; i < captures.size(); ++i) value(captures[i]) = captured[i];
  for (const Step& s : steps) {
    in.clear();
    Device device = cpu;
    for (const int id : s.inputs) {
      in.push_back(id < 0 ? Tensor() : value(id));
      if (device.is_cpu() && in.back().defined()) device = in.back().device();
    }
    try {
      Tensors out = s.run({in, device, training});
      for (std::size_t i = 0; i < s.outputs.size(); ++i) {
        if (s.outputs[i] < 0) continue;
        check(i < out.size() && out[i].defined(), "result ", static_cast<int>(i), " is not supported");
        value(s.outputs[i]) = std::move(out[i]);
      }
    } catch (Error& e) {
      e.add_outer_context(s.name);
      throw;
    }
    for (const int id : s.last) value(id) = Tensor();
  }
  Tensors results;
  for (const int id : outputs) results.push_back(value(id));
  return results;
}

Tensors Node::Body::operator()(const Tensors& inputs, const Inputs& x) const {
  return program->run(inputs, x.all.subspan(static_cast<std::size_t>(captured), static_cast<std::size_t>(captures)),
                      x.training);
}

Tensor from_start(const Tensor& index, std::int64_t size) {
  const Tensor i = cast(index, i64);
  if (i.device().is_cpu()) {  // negative indices are rare
    const Tensor c = contiguous(i);
    const auto* v = c.data<std::int64_t>();
    if (std::all_of(v, v + c.numel(), [](std::int64_t n) { return n >= 0; })) return i;
  }
  return where(i < 0, i + size, i);
}

// --- building ---

namespace {

const Operator* find_operator(std::string_view type) {
  static const auto all = [] {
    std::map<std::string_view, const Operator*> m;
    for (const auto table : {math_operators(), shape_operators(), layer_operators(), recurrent_operators(),
                             control_operators(), detection_operators()})
      for (const Operator& o : table) m.emplace(o.type, &o);
    return m;
  }();
  const auto at = all.find(type);
  return at == all.end() ? nullptr : at->second;
}

constexpr std::size_t most_steps = 1'000'000;  // bounds the expansion of functions that call functions
constexpr int most_calls = 64;                 // nesting depth of functions

// Whether it contains values too large for a weight.
bool is_mask(const Tensor& t) {
  const double most = t.dtype() == f16 ? 6e4 : 1e30;
  return t.numel() > 0 && !(amax(t).item<double>() < most && amin(t).item<double>() > -most);
}

}  // namespace

// A name scope: of a graph, which also sees those of the enclosing graphs, or of a function's body, which does not.
struct Scope {
  Program* program;
  Scope* around;  // enclosing scope, whose names are visible
  int opset;
  std::map<std::string, int> names;
  const io::OnnxFileNode* call = nullptr;  // for a function body: the calling node
  const io::OnnxFileFunction* function = nullptr;
  const Scope* call_scope = nullptr;
};

class Builder {
 public:
  Builder(const io::OnnxFile& file, std::vector<State>& state) : file_(file), state_(state) {
    for (const auto& f : file.functions)
      valid(functions_.emplace(std::pair(f.domain, f.name), &f).second, "the function ", quote(f.name),
            " is there twice");
    find_roles(file.graph);
  }

  std::shared_ptr<const Program> root() {
    valid(file_.opset >= 6 && file_.opset <= 28, "is of opset ", file_.opset,
          ", 6 to 28 can be read; torch.onnx.export(..., opset_version=20) or onnx.version_converter make another one");
    auto program = std::make_shared<Program>();
    root_ = program.get();
    parents_[root_] = nullptr;
    Scope scope{root_, nullptr, file_.opset, {}};
    graph(file_.graph, scope, "");
    if (!problems_.empty()) {
      std::string all;
      for (const auto& [what, where] : problems_) {
        all += concat("\n  ", what, ": ");
        const std::size_t shown = std::min<std::size_t>(where.size(), 8);
        for (std::size_t i = 0; i < shown; ++i) all += concat(i ? ", " : "", where[i]);
        if (shown < where.size()) all += concat(" and ", where.size() - shown, " more");
      }
      fail(file_.path, ": has nodes that cannot be run:", all);
    }
    std::map<int, Tensor> known;
    for (std::size_t i = 0; i < state_.size(); ++i) known.emplace(program->captures[i], state_[i].value);
    fuse(*program, known);
    finish(*program);
    return program;
  }

  // A subgraph in an attribute of a node.
  Node::Body body(Node& n, const io::OnnxFileGraph& g, int inputs, int outputs) {
    check(static_cast<int>(g.inputs.size()) == inputs, "its graph has ", g.inputs.size(), " inputs instead of ",
          inputs);
    check(outputs < 0 || static_cast<int>(g.outputs.size()) == outputs, "its graph has ", g.outputs.size(),
          " results instead of ", outputs);
    auto program = std::make_shared<Program>();
    Scope* around = scope_;
    parents_[program.get()] = around->program;
    Scope inside{program.get(), around, around->opset, {}, around->call, around->function, around->call_scope};
    graph(g, inside, n.node_.name + ".");
    scope_ = around;
    if (problems_.empty()) finish(*program);
    Node::Body b{program, n.inputs() + static_cast<int>(n.captured_.size()), 0};
    for (const auto& [outer, inner] : captured_[program.get()]) {
      n.captured_.push_back(outer);
      program->captures.push_back(inner);
      ++b.captures;
    }
    return b;
  }

  const Attribute* attribute(const io::OnnxFileNode& node, std::string_view name) const {
    for (const Attribute& a : node.attributes) {
      if (a.name != name) continue;
      return a.refers_to.empty() ? &a : referred(a.refers_to, scope_);
    }
    return nullptr;
  }

 private:
  template <class... Parts> void valid(bool ok, const Parts&... parts) const {
    if (!ok) io::fail_format(file_.path, parts...);
  }
  // The attribute of a function's caller, which may itself be inside a function.
  const Attribute* referred(const std::string& name, const Scope* scope) const {
    check(scope && scope->call, "refers to an attribute ", quote(name), " of a function, and is in none");
    for (const Attribute& a : scope->call->attributes)
      if (a.name == name) return a.refers_to.empty() ? &a : referred(a.refers_to, scope->call_scope);
    for (const Attribute& a : scope->function->defaults)
      if (a.name == name) return &a;
    return nullptr;
  }

  // Initialisers that are not trainable, by their use: running statistics, operands of fills and comparisons,
  // exponents; and numbers that operators read, which stay on the host.
  void find_roles(const io::OnnxFileGraph& g) {
    static const std::set<std::string_view> set_or_compared{"Equal",       "Greater", "GreaterOrEqual",  "Less",
                                                            "LessOrEqual", "Pow",     "ScatterElements", "ScatterND"};
    static const std::set<std::string_view> read{"Clip", "Dropout", "OneHot", "Pad", "Range", "Resize", "Upsample"};
    std::set<std::string> learned;
    std::map<std::string, std::string> same;  // exporters use Identity to share equal values
    for (const auto& [name, value] : g.initialisers) same.emplace(name, name);
    for (const io::OnnxFileNode& n : g.nodes) {
      const bool is_name = n.type == "Identity" && n.inputs.size() == 1 && same.contains(n.inputs[0]);
      if (is_name && n.outputs.size() == 1) {
        same.emplace(n.outputs[0], same.at(n.inputs[0]));
        continue;
      }
      for (std::size_t i = 0; i < n.inputs.size(); ++i) {
        const auto at = same.find(n.inputs[i]);
        if (at == same.end()) continue;
        const std::string& name = at->second;
        if (n.type == "BatchNormalization" && i >= 3) roles_[name] = State::buffer;
        else if (set_or_compared.contains(n.type) && i >= 1) roles_.emplace(name, State::buffer);
        else if (read.contains(n.type) && i >= 1) roles_[name] = State::constant;
        else learned.insert(name);
      }
    }
    for (const std::string& name : learned) roles_.erase(name);
  }

  // Statistics are written to, so each layer needs its own. Exporters merge equal ones, such as all new layers' zeros
  // and ones.
  void own_statistics(int& id) {
    const auto at = std::ranges::lower_bound(root_->captures, id);  // ascending
    if (at == root_->captures.end() || *at != id) return;
    State own = state_[static_cast<std::size_t>(at - root_->captures.begin())];
    if (own.kind == State::buffer && taken_.insert(id).second) return;  // the first user keeps it
    own.value = own.value.clone();
    own.kind = State::buffer;
    id = add_state(root_, own);
  }

  int define(Scope& s, const std::string& name) {
    valid(!name.empty(), "a value has no name");
    valid(s.names.emplace(name, s.program->size).second, "the value ", quote(name), " is made twice");
    return s.program->size++;
  }
  // Captures a value of p's enclosing program as a value of p.
  int capture(Program* p, int outer) {
    const auto [at, fresh] = captured_[p].try_emplace(outer, p->size);
    if (fresh) ++p->size;
    return at->second;
  }
  int find(Scope* s, const std::string& name) {
    const auto at = s->names.find(name);
    if (at != s->names.end()) return at->second;
    if (!s->around) return missing;
    const int outer = find(s->around, name);
    return outer < 0 || s->around->program == s->program ? outer : capture(s->program, outer);
  }
  int needed(Scope* s, const std::string& name) {
    const int id = find(s, name);
    valid(id != missing, "the value ", quote(name),
          " is used before it is made; nothing makes it, or it depends on itself");
    return id;
  }

  // Adds a value that exists from the start as a value of p, wherever in the file it is defined. Renamed if its name is
  // already used by another branch, or by another call of a function.
  int add_state(Program* p, State s) {
    if (p != root_) return capture(p, add_state(parents_.at(p), std::move(s)));
    const std::string name = s.name;
    while (s.kind != State::constant && !state_names_.insert(s.name).second)
      s.name = concat(name, "_", ++copies_[name]);
    state_.push_back(std::move(s));
    root_->captures.push_back(root_->size);
    return root_->size++;
  }
  State::Kind kind_of(const std::string& initialiser, const Tensor& value) const {
    if (!value.is_floating() || value.dim() == 0) return State::constant;
    const auto role = roles_.find(initialiser);
    return role != roles_.end() ? role->second : is_mask(value) ? State::buffer : State::parameter;
  }

  void graph(const io::OnnxFileGraph& g, Scope& s, const std::string& prefix) {
    std::set<std::string> known;
    for (const auto& [name, value] : g.initialisers) {
      valid(!name.empty() && known.insert(name).second, "the value ", quote(name), " is made twice");
      s.names.emplace(name, add_state(s.program, {prefix + name, value, kind_of(prefix + name, value)}));
    }
    for (const io::OnnxFilePort& p : g.inputs)  // old files also list initialisers as inputs
      if (!known.contains(p.name)) s.program->inputs.push_back(define(s, p.name));
    nodes(g.nodes, s);
    if (!problems_.empty()) return;
    for (const io::OnnxFilePort& p : g.outputs) {
      s.program->outputs.push_back(needed(&s, p.name));
      valid(s.program->outputs.back() >= 0, "the result ", quote(p.name), " is absent");
    }
  }

  void nodes(const std::vector<io::OnnxFileNode>& list, Scope& s) {
    for (const io::OnnxFileNode& n : list) {
      scope_ = &s;
      const auto f = functions_.find(std::pair(n.domain, n.type));
      if (f != functions_.end()) call(n, *f->second, s);
      else if (n.type == "Constant" && n.domain.empty()) constant(n, s);
      else node(n, s);
      valid(steps_ <= most_steps, "has more than ", most_steps, " nodes");
    }
  }

  static std::string label(const io::OnnxFileNode& n) {
    const std::string name = !n.name.empty() ? n.name : n.outputs.empty() ? "" : n.outputs[0];
    return concat(n.type, " ", quote(name));
  }
  void problem(const io::OnnxFileNode& n, const std::string& what) {
    const std::string domain = n.domain.empty() ? "" : concat(n.domain, ".");
    problems_[concat(domain, n.type, ": ", what)].push_back(quote(!n.name.empty()     ? n.name
                                                                  : n.outputs.empty() ? ""
                                                                                      : n.outputs[0]));
  }

  void call(const io::OnnxFileNode& n, const io::OnnxFileFunction& f, Scope& s) {
    ++steps_;
    valid(++calls_ <= most_calls, "functions call functions, more than ", most_calls, " deep");
    valid(n.inputs.size() <= f.inputs.size() && n.outputs.size() <= f.outputs.size(), label(n),
          " has more inputs or results than its function");
    Scope inside{s.program, nullptr, f.opset, {}, &n, &f, &s};
    for (std::size_t i = 0; i < f.inputs.size(); ++i) {
      const bool given = i < n.inputs.size() && !n.inputs[i].empty();
      valid(inside.names.emplace(f.inputs[i], given ? needed(&s, n.inputs[i]) : absent).second, "the input ",
            quote(f.inputs[i]), " of a function is there twice");
    }
    nodes(f.nodes, inside);
    for (std::size_t i = 0; i < n.outputs.size() && problems_.empty(); ++i)
      if (!n.outputs[i].empty())
        valid(s.names.emplace(n.outputs[i], needed(&inside, f.outputs[i])).second, "the value ", quote(n.outputs[i]),
              " is made twice");
    if (!problems_.empty())
      for (const std::string& name : n.outputs) s.names.emplace(name, 0);
    --calls_;
  }

  void constant(const io::OnnxFileNode& node, Scope& s) {
    ++steps_;
    Node n(node, s.opset, *this, {});
    const std::string name = node.outputs.empty() ? "" : node.outputs[0];
    try {
      Tensor t;
      if (const auto value = n.tensor("value")) t = *value;
      else if (n.has("value_float")) t = scalar(n.f("value_float"));
      else if (n.has("value_int")) t = reshape(from_data(Integers{n.i("value_int")}, {1}), {});
      else if (const auto reals = n.numbers("value_floats"))
        t = cast(from_data(*reals, {static_cast<std::int64_t>(reals->size())}), f32);
      else if (const auto ints = n.integers("value_ints"))
        t = from_data(*ints, {static_cast<std::int64_t>(ints->size())});
      else n.refuse("is no tensor of numbers");
      n.check_all_read();
      const bool is_new = !name.empty() && !s.names.contains(name);
      valid(is_new, "the value ", quote(name), " is made twice");
      // Only non-scalar floating tensors move with the net. Scalars and integers stay on the host.
      const bool moves = t.is_floating() && t.numel() > 1;
      s.names.emplace(name, add_state(s.program, {name, t, moves ? State::buffer : State::constant}));
    } catch (const FormatError&) { throw; } catch (const Error& e) {
      problem(node, e.what());
      s.names.emplace(name, 0);
    }
  }

  void node(const io::OnnxFileNode& node, Scope& s) {
    if (node.type == "Identity" && node.domain.empty() && node.inputs.size() == 1 && node.outputs.size() == 1) {
      const int id = find(&s, node.inputs[0]);
      if (s.program == root_ && std::ranges::binary_search(root_->captures, id)) {
        valid(!node.outputs[0].empty() && s.names.emplace(node.outputs[0], id).second, "the value ",
              quote(node.outputs[0]), " is made twice");
        return;
      }
    }
    ++steps_;
    Program::Step step;
    for (const std::string& name : node.inputs) step.inputs.push_back(name.empty() ? absent : needed(&s, name));
    if (node.type == "BatchNormalization" && s.program == root_)
      for (std::size_t i = 3; i < step.inputs.size(); ++i) own_statistics(step.inputs[i]);
    Node n(node, s.opset, *this, step.inputs);
    try {
      const Operator* op = node.domain.empty() ? find_operator(node.type) : nullptr;
      if (!op) fail(node.domain.empty() ? "there is no such operator here" : "of this domain nothing can be run");
      check(n.outputs() <= op->outputs && n.outputs() >= 1, "has ", n.outputs(), " results, ", op->outputs,
            " are supported");
      check(n.inputs() <= op->most, "has ", n.inputs(), " inputs, ", op->most, " are supported");
      for (int i = 0; i < op->least; ++i) check(n.has_input(i), "its input ", i, " is absent");
      step.run = op->make(n);
      n.check_all_read();
    } catch (const FormatError&) { throw; } catch (const Error& e) {
      problem(node, e.what());
    }
    scope_ = &s;
    step.inputs.insert(step.inputs.end(), n.captured_.begin(), n.captured_.end());
    for (const std::string& name : node.outputs) step.outputs.push_back(name.empty() ? absent : define(s, name));
    step.name = label(node);
    if (n.is_plain) step.type = node.type;
    s.program->steps.push_back(std::move(step));
  }

  // Records the last use of each value.
  static void finish(Program& p) {
    std::vector<bool> kept(static_cast<std::size_t>(p.size));
    for (const int id : p.outputs) kept[static_cast<std::size_t>(id)] = true;
    for (auto step = p.steps.rbegin(); step != p.steps.rend(); ++step)
      for (const auto* list : {&step->inputs, &step->outputs})
        for (const int id : *list) {
          if (id < 0 || kept[static_cast<std::size_t>(id)]) continue;
          kept[static_cast<std::size_t>(id)] = true;
          step->last.push_back(id);
        }
  }

  static constexpr int absent = -1, missing = -2;
  const io::OnnxFile& file_;
  std::vector<State>& state_;
  std::map<std::pair<std::string, std::string>, const io::OnnxFileFunction*> functions_;
  std::map<std::string, State::Kind> roles_;
  std::map<std::string, int> copies_;
  std::set<std::string> state_names_;
  std::set<int> taken_;
  std::map<std::string, std::vector<std::string>> problems_;
  std::map<Program*, Program*> parents_;
  std::map<Program*, std::map<int, int>> captured_;
  Program* root_ = nullptr;
  Scope* scope_ = nullptr;
  int calls_ = 0;
  std::size_t steps_ = 0;
};

std::shared_ptr<const Program> build(const io::OnnxFile& file, std::vector<State>& state) {
  return Builder(file, state).root();
}

// --- attributes ---

const Attribute* Node::find(const char* name, Attribute::Kind kind) {
  read_.insert(name);
  const Attribute* a = builder_.attribute(node_, name);
  check(!a || kind == Attribute::none || a->kind == kind, "the attribute ", name,
        " is of another kind than it must be");
  return a;
}
std::int64_t Node::i(const char* name, std::optional<std::int64_t> otherwise) {
  const Attribute* a = find(name, Attribute::integer);
  check(a || otherwise, "the attribute ", name, " is missing");
  return a ? a->whole : *otherwise;
}
int Node::axis(const char* name, std::optional<std::int64_t> otherwise) {
  const std::int64_t v = i(name, otherwise);
  check(v >= -Dims::max_rank && v <= Dims::max_rank, "the attribute ", name, " is ", v);
  return static_cast<int>(v);
}
double Node::f(const char* name, std::optional<double> otherwise) {
  const Attribute* a = find(name, Attribute::real);
  check(a || otherwise, "the attribute ", name, " is missing");
  return a ? a->number : *otherwise;
}
std::string Node::s(const char* name, const char* otherwise) {
  const Attribute* a = find(name, Attribute::text);
  return a ? a->letters : otherwise;
}
std::optional<Integers> Node::integers(const char* name) {
  const Attribute* a = find(name, Attribute::integers);
  return a ? std::optional(a->wholes) : std::nullopt;
}
std::optional<std::vector<double>> Node::numbers(const char* name) {
  const Attribute* a = find(name, Attribute::reals);
  return a ? std::optional(a->numbers) : std::nullopt;
}
std::vector<std::string> Node::texts(const char* name) {
  const Attribute* a = find(name, Attribute::texts);
  return a ? a->strings : std::vector<std::string>();
}
std::optional<Tensor> Node::tensor(const char* name) {
  const Attribute* a = find(name, Attribute::tensor);
  return a ? std::optional(a->value) : std::nullopt;
}
std::optional<Dtype> Node::dtype(const char* name) {
  if (!has(name)) return {};
  std::string called;
  const std::int64_t number = i(name);
  const Dtype* found = io::find_onnx_dtype(number, &called);
  // a dtype that was widened on loading would not wrap around as specified
  check(found && onnx_type(*found) == number, "of the type ", called, ", which Mantissa has not");
  return *found;
}
Setting Node::setting(const char* name, int input) { return {integers(name), input}; }
Node::Body Node::body(const char* name, int inputs, int outputs) {
  const Attribute* a = find(name, Attribute::graph);
  check(a, "the attribute ", name, " is missing");
  return builder_.body(*this, *a->body, inputs, outputs);
}
void Node::check_all_read() const {
  for (const Attribute& a : node_.attributes)
    check(read_.contains(a.name), "the attribute ", quote(a.name), " is not supported");
}

}  // namespace mantissa::nn::onnx
