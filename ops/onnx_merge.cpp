#include "ops/onnx_merge.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "core/ops.h"

namespace mantissa {
namespace {

using Ints = std::vector<std::int64_t>;

std::size_t index(OnnxId id) { return static_cast<std::size_t>(id); }

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         (a.nbytes() == 0 || a.raw_data() == b.raw_data() ||
          std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.nbytes())) == 0);
}

class Merger {
 public:
  Merger(std::span<const OnnxGraph> traces, std::span<const OnnxDynamicSize> sizes)
      : traces_(traces), sizes_(sizes), graph_(traces[0]) {}

  OnnxGraph merged() {
    check_same_form();
    for (std::size_t n = 0; n < traces_[0].nodes.size(); ++n) merge_node(n);
    merge_ports(graph_.inputs);
    merge_ports(graph_.outputs);
    graph_.nodes.insert(graph_.nodes.begin(), first_.begin(), first_.end());
    return std::move(graph_);
  }

 private:
  const OnnxValue& value(std::size_t trace, OnnxId id) const { return traces_[trace].values[index(id)]; }

  // Checks that all traces have the same operators in the same order with the same operands.
  void check_same_form() const {
    for (std::size_t t = 1; t < traces_.size(); ++t) {
      const OnnxGraph &a = traces_[0], &b = traces_[t];
      const std::size_t count = std::min(a.nodes.size(), b.nodes.size());
      for (std::size_t n = 0; n < count; ++n) {
        check(a.nodes[n].type == b.nodes[n].type && a.nodes[n].inputs == b.nodes[n].inputs, other_program(t),
              a.nodes[n].call, " became ", b.nodes[n].call);
      }
      check(a.nodes.size() == b.nodes.size() && a.values.size() == b.values.size() &&
                a.outputs.size() == b.outputs.size(),
            other_program(t), "it ran ", a.nodes.size(), " and ", b.nodes.size(), " nodes");
    }
  }
  std::string other_program(std::size_t trace) const {
    return concat("save_onnx: the net ran other operators with ", what_changed(trace),
                  ", and a file has room for one program: ");
  }
  std::string what_changed(std::size_t trace) const {
    std::string text;
    for (const OnnxDynamicSize& s : sizes_) {
      if (s.each[trace] == s.each[0]) continue;
      text += concat(text.empty() ? "" : ", ", s.name, " = ", s.each[trace], " instead of ", s.each[0]);
    }
    return text.empty() ? "other values in its inputs" : text;
  }

  void merge_node(std::size_t n) {
    const OnnxNode& node = graph_.nodes[n];
    for (std::size_t t = 1; t < traces_.size(); ++t) {
      const OnnxNode& other = traces_[t].nodes[n];
      check(other.attributes.size() == node.attributes.size(), other_program(t), node.call, " became ", other.call);
    }
    for (std::size_t a = 0; a < node.attributes.size(); ++a) {
      for (std::size_t t = 1; t < traces_.size(); ++t) {
        check(traces_[t].nodes[n].attributes.at(a).value == node.attributes[a].value, "save_onnx: the attribute ",
              node.attributes[a].name, " of ", node.call, " is another with ", what_changed(t),
              "; ONNX wants a number there: make that size a fixed one");
      }
    }
    const bool is_reshape = node.type == "Reshape", is_expand = node.type == "Expand";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const OnnxId id = node.inputs[i];
      if (id < 0 || index(id) >= traces_[0].values.size()) continue;  // undefined, or created by this merge
      if (!value(0, id).constant.defined() || is_same(id)) continue;
      if ((is_reshape || is_expand) && i == 1 && shape_without_nodes(n)) continue;
      merge_constant(id, n);
    }
  }
  bool is_same(OnnxId id) const {
    for (std::size_t t = 1; t < traces_.size(); ++t)
      if (!same_bytes(value(0, id).constant, value(t, id).constant)) return false;
    return true;
  }

  // Shapes that can be expressed without nodes: in Reshape 0 keeps a size and one -1 is deduced; in Expand 1 keeps a
  // size.
  bool shape_without_nodes(std::size_t n) {
    OnnxNode& node = graph_.nodes[n];
    const bool is_reshape = node.type == "Reshape";
    Ints shape = ints(0, node.inputs[1]);
    const Ints given = shape;
    if (is_reshape && std::ranges::count(given, 0) > 0) return false;
    int unknown = -1, count = 0;
    for (std::size_t d = 0; d < given.size(); ++d) {
      bool changes = false, follows = true;
      for (std::size_t t = 0; t < traces_.size(); ++t) {
        const OnnxValue& x = value(t, traces_[t].nodes[n].inputs[0]);  // node's may be merged already
        const std::int64_t now = ints(t, node.inputs[1])[d];
        const int at = static_cast<int>(d) - (is_reshape ? 0 : static_cast<int>(given.size()) - x.sizes.rank());
        changes = changes || now != given[d];
        follows = follows && x.has_sizes && at >= 0 && at < x.sizes.rank() && x.sizes[at] == now;
      }
      if (!changes) continue;
      if (follows) shape[d] = is_reshape ? 0 : 1;
      else unknown = static_cast<int>(d), ++count;
    }
    if (count > (is_reshape ? 1 : 0)) return false;
    if (count == 1) shape[static_cast<std::size_t>(unknown)] = -1;
    node.inputs[1] = add_ints(shape);
    return true;
  }

  Ints ints(std::size_t trace, OnnxId id) const { return value(trace, id).constant.to_vector<std::int64_t>(); }
  OnnxId add(OnnxValue v) {
    graph_.values.push_back(std::move(v));
    return static_cast<OnnxId>(graph_.values.size()) - 1;
  }
  OnnxId add_constant(const Tensor& t) {
    OnnxValue v;
    v.dtype = t.dtype();
    v.sizes = t.sizes();
    v.has_sizes = v.is_fixed = true;
    v.constant = t;
    return add(std::move(v));
  }
  OnnxId add_ints(const Ints& v) {
    return add_constant(from_data<std::int64_t>(v, {static_cast<std::int64_t>(v.size())}));
  }
  // Nodes that depend only on the inputs' sizes are placed before all others.
  OnnxId first(const char* type, std::vector<OnnxId> inputs, std::vector<OnnxAttribute> attributes = {}) {
    const OnnxId y = add({});
    first_.push_back({type, std::move(inputs), {y}, std::move(attributes), "a dynamic size", "size"});
    return y;
  }

  std::optional<OnnxExpression> expression(const Ints& each) const {
    OnnxExpression e;
    if (std::ranges::count(each, each[0]) == static_cast<std::ptrdiff_t>(each.size())) {
      e.offset = each[0];
      return e;
    }
    std::vector<unsigned> choices;
    for (unsigned set = 1; set < 1u << sizes_.size(); ++set) choices.push_back(set);
    std::ranges::stable_sort(choices, {}, [](unsigned set) { return std::popcount(set); });
    for (const unsigned set : choices) {
      Ints product(each.size(), 1);
      for (std::size_t t = 0; t < each.size(); ++t)
        for (std::size_t s = 0; s < sizes_.size(); ++s)
          if (set >> s & 1) product[t] *= sizes_[s].each[t];
      std::size_t other = 1;
      while (other < each.size() && product[other] == product[0]) ++other;
      if (other == each.size() || (each[other] - each[0]) % (product[other] - product[0]) != 0) continue;
      e.factor = (each[other] - each[0]) / (product[other] - product[0]);
      e.offset = each[0] - e.factor * product[0];
      bool fits = true;
      for (std::size_t t = 0; t < each.size(); ++t) fits = fits && e.factor * product[t] + e.offset == each[t];
      if (!fits) continue;
      for (std::size_t s = 0; s < sizes_.size(); ++s)
        if (set >> s & 1) e.sizes.push_back(s);
      return e;
    }
    return {};
  }
  // i64 [1].
  OnnxId write(const OnnxExpression& e) {
    if (e.sizes.empty()) return add_ints({e.offset});
    OnnxId y = -1;
    for (const std::size_t s : e.sizes) {
      if (!known_.contains(s)) {
        const std::int64_t axis = sizes_[s].axis;
        known_[s] = first("Shape", {graph_.inputs[static_cast<std::size_t>(sizes_[s].input)].value},
                          {{"start", axis}, {"end", axis + 1}});
      }
      y = y < 0 ? known_[s] : first("Mul", {y, known_[s]});
    }
    if (e.factor != 1) y = first("Mul", {y, add_ints({e.factor})});
    return e.offset == 0 ? y : first("Add", {y, add_ints({e.offset})});
  }
  // i64 [n], from the values in each trace; -1 if one of them cannot be expressed.
  OnnxId write(const std::vector<Ints>& each) {
    std::vector<OnnxId> parts;
    for (std::size_t i = 0; i < each[0].size(); ++i) {
      Ints one;
      for (const Ints& trace : each) one.push_back(trace[i]);
      const auto e = expression(one);
      if (!e) return -1;
      parts.push_back(write(*e));
    }
    return parts.size() == 1 ? parts[0] : first("Concat", parts, {{"axis", 0}});
  }

  void merge_constant(OnnxId id, std::size_t n) {
    if (replaced_.contains(id)) return use(id, replaced_[id], n);
    OnnxId y = -1;
    const auto rank = value(0, id).sizes.rank();
    bool same_sizes = true, same_rank = true;
    for (std::size_t t = 1; t < traces_.size(); ++t) {
      same_sizes = same_sizes && value(t, id).sizes == value(0, id).sizes;
      same_rank = same_rank && value(t, id).sizes.rank() == rank;
    }
    if (same_sizes) y = numbers(id);
    else if (same_rank) y = array(id);
    check(y >= 0, "save_onnx: a constant ", value(0, id).constant, " of ", graph_.nodes[n].call, " is another, ",
          value(differing(id), id).constant, ", with ", what_changed(differing(id)),
          same_sizes ? "; is something random, or does the program look at values?"
                     : ", in a way that cannot be written down; make that size a fixed one");
    replaced_[id] = y;
    use(id, y, n);
  }
  void use(OnnxId id, OnnxId instead, std::size_t n) { std::ranges::replace(graph_.nodes[n].inputs, id, instead); }
  std::size_t differing(OnnxId id) const {
    for (std::size_t t = 1; t < traces_.size(); ++t)
      if (!same_bytes(value(0, id).constant, value(t, id).constant)) return t;
    return 0;
  }
  // Constants [n] or [] whose values depend on sizes: i64 shapes and slice ends, and counts that sums are divided by,
  // in the sums' dtype.
  OnnxId numbers(OnnxId id) {
    const OnnxValue& v = value(0, id);
    if ((v.dtype != i64 && !is_floating(v.dtype)) || v.sizes.rank() > 1) return -1;
    std::vector<Ints> each;
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      if (!same_bytes(cast(cast(value(t, id).constant, i64), v.dtype), value(t, id).constant)) return -1;
      each.push_back(ints(t, id));
    }
    OnnxId y = write(each);
    if (y >= 0 && v.dtype != i64) y = first("Cast", {y}, {{"to", onnx_type(v.dtype)}});
    return y < 0 || v.sizes.rank() == 1 ? y : first("Squeeze", {y, add_ints({0})});
  }
  // Constants whose shapes differ between traces.
  OnnxId array(OnnxId id) {
    const int rank = value(0, id).sizes.rank();
    std::vector<Ints> shapes;
    std::vector<bool> changes(static_cast<std::size_t>(rank), false);
    std::size_t largest = 0;
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const Dims& sizes = value(t, id).sizes;
      shapes.emplace_back(sizes.begin(), sizes.end());
      for (int d = 0; d < rank; ++d)
        if (sizes[d] != value(0, id).sizes[d]) changes[static_cast<std::size_t>(d)] = true;
      if (numel_of(sizes) > numel_of(value(largest, id).sizes)) largest = t;
    }
    if (const OnnxId y = repeated(id, changes, shapes); y >= 0) return y;
    if (const OnnxId y = range(id, shapes); y >= 0) return y;
    return beginning(id, changes, largest, shapes);
  }
  // Constants that are uniform along the dimensions whose sizes change.
  OnnxId repeated(OnnxId id, const std::vector<bool>& changes, const std::vector<Ints>& shapes) {
    Tensor one;
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const Tensor whole = value(t, id).constant;
      if (whole.numel() == 0) return -1;
      Tensor part = whole;
      for (std::size_t d = 0; d < changes.size(); ++d)
        if (changes[d]) part = slice(part, static_cast<int>(d), 0, 1);
      part = contiguous(part);
      if (!same_bytes(contiguous(expand(part, whole.sizes())), whole)) return -1;
      if (t == 0) one = part;
      if (!same_bytes(one, part)) return -1;
    }
    const OnnxId shape = write(shapes);
    return shape < 0 ? -1 : first("Expand", {add_constant(one), shape});
  }
  // Numbers in equal steps (Range).
  OnnxId range(OnnxId id, const std::vector<Ints>& shapes) {
    const OnnxValue& v = value(0, id);
    if (v.dtype != i64 || v.sizes.rank() != 1) return -1;
    const Ints begin = ints(0, id);
    if (begin.size() < 2) return -1;
    const std::int64_t from = begin[0], step = begin[1] - begin[0];
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const Ints all = ints(t, id);
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i] != from + step * static_cast<std::int64_t>(i)) return -1;
    }
    std::vector<Ints> ends;
    for (const Ints& s : shapes) ends.push_back({from + step * s[0]});
    const OnnxId end = write(ends);
    if (end < 0 || step == 0) return -1;
    const auto number = [&](std::int64_t n) { return add_constant(from_data<std::int64_t>(Ints{n}, {})); };
    return first("Range", {number(from), first("Squeeze", {end, add_ints({0})}), number(step)});
  }
  // Tables with a common beginning: a Slice of the longest one seen. Slice returns less than requested if the table is
  // too short, which would go unnoticed; a Reshape to the required sizes fails instead.
  OnnxId beginning(OnnxId id, const std::vector<bool>& changes, std::size_t largest, const std::vector<Ints>& shapes) {
    const Tensor whole = value(largest, id).constant;
    Ints starts, axes;
    std::vector<Ints> ends(shapes.size());
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      Tensor part = whole;
      for (std::size_t d = 0; d < changes.size(); ++d) {
        if (!changes[d]) continue;
        part = slice(part, static_cast<int>(d), 0, shapes[t][d]);
        ends[t].push_back(shapes[t][d]);
        if (t == 0) starts.push_back(0), axes.push_back(static_cast<std::int64_t>(d));
      }
      if (!same_bytes(contiguous(part), value(t, id).constant)) return -1;
    }
    const OnnxId end = write(ends);
    const OnnxId shape = write(shapes);
    if (end < 0 || shape < 0) return -1;
    return first("Reshape", {first("Slice", {add_constant(whole), add_ints(starts), end, add_ints(axes)}), shape});
  }

  void merge_ports(std::vector<OnnxPort>& ports) {
    for (OnnxPort& port : ports) {
      for (int d = 0; d < value(0, port.value).sizes.rank(); ++d) {
        Ints each;
        for (std::size_t t = 0; t < traces_.size(); ++t) {
          const Dims& sizes = value(t, port.value).sizes;
          check(sizes.rank() == value(0, port.value).sizes.rank(), other_program(t), "a result has another rank");
          each.push_back(sizes[d]);
        }
        port.sizes.push_back(size_of_port(each));
      }
    }
  }
  OnnxSize size_of_port(const Ints& each) {
    const auto e = expression(each);
    if (e && e->sizes.empty()) return {e->offset, {}};
    if (!e) return {-1, concat("size_", static_cast<unsigned>(++unnamed_))};
    std::string text = e->factor == 1 ? "" : concat(e->factor, "*");
    for (std::size_t i = 0; i < e->sizes.size(); ++i) text += (i ? "*" : "") + sizes_[e->sizes[i]].name;
    if (e->offset != 0) text += concat(e->offset > 0 ? "+" : "", e->offset);
    return {-1, text};
  }

  std::span<const OnnxGraph> traces_;
  std::span<const OnnxDynamicSize> sizes_;
  OnnxGraph graph_;
  std::vector<OnnxNode> first_;
  std::map<std::size_t, OnnxId> known_;
  std::map<OnnxId, OnnxId> replaced_;
  int unnamed_ = 0;
};

}  // namespace

OnnxGraph merge_traces(std::span<const OnnxGraph> traces, std::span<const OnnxDynamicSize> sizes) {
  return Merger(traces, sizes).merged();
}

void tidy(OnnxGraph& graph) {
  std::set<OnnxId> needed;
  for (const OnnxPort& p : graph.outputs) needed.insert(p.value);
  std::vector<OnnxNode> nodes;
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (std::ranges::none_of(n->outputs, [&](OnnxId id) { return needed.contains(id); })) continue;
    for (const OnnxId id : n->inputs) needed.insert(id);
    while (n->outputs.size() > 1 && !needed.contains(n->outputs.back())) n->outputs.pop_back();
    nodes.push_back(std::move(*n));
  }
  for (const OnnxId id : needed) {
    if (id < 0) continue;
    const std::string& missing = graph.values[index(id)].missing;
    check(missing.empty(), "save_onnx: ", missing);
  }
  graph.nodes.assign(std::make_move_iterator(nodes.rbegin()), std::make_move_iterator(nodes.rend()));

  std::set<std::string> taken;
  for (const OnnxValue& v : graph.values) taken.insert(v.name);
  for (const OnnxPort& p : graph.outputs) taken.insert(p.name);
  std::map<std::string, int> count;
  const auto fresh = [&](const std::string& stem) {
    std::string name;
    do name = stem + "_" + std::to_string(count[stem]++);
    while (!taken.insert(name).second);
    return name;
  };
  for (const OnnxNode& n : graph.nodes) {
    for (const OnnxId id : n.inputs) {
      if (id < 0) continue;
      OnnxValue& v = graph.values[index(id)];
      if (v.name.empty() && v.constant.defined()) v.name = fresh("constant");
    }
    for (const OnnxId id : n.outputs) {
      OnnxValue& v = graph.values[index(id)];
      if (v.name.empty()) v.name = fresh(n.op);
    }
  }
}

}  // namespace mantissa
