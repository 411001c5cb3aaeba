// Reads files written by io/onnx.h, as far as tests need it: protocol buffers field by field, and the rules that ONNX
// readers rely on.
#pragma once

#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/temp_dir.h"

namespace mantissa::test {

// The fields of one message.
struct ProtoField {
  int number;
  std::uint64_t integer;
  std::string_view bytes;
};
inline std::vector<ProtoField> proto_fields(std::string_view s) {
  std::vector<ProtoField> fields;
  const auto varint = [&] {
    std::uint64_t n = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (s.empty()) throw std::runtime_error("a number ends too early");
      const auto byte = static_cast<unsigned char>(s[0]);
      s.remove_prefix(1);
      n |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return n;
    }
    throw std::runtime_error("a number is too long");
  };
  while (!s.empty()) {
    const std::uint64_t key = varint();
    ProtoField f{static_cast<int>(key >> 3), 0, {}};
    std::size_t length = 0;
    if ((key & 7) == 0) f.integer = varint();
    else if ((key & 7) == 1) length = 8;
    else if ((key & 7) == 5) length = 4;
    else if ((key & 7) == 2) length = varint();
    else throw std::runtime_error("an unknown kind of field");
    if (length > s.size()) throw std::runtime_error("a field ends too early");
    f.bytes = s.substr(0, length);
    s.remove_prefix(length);
    fields.push_back(f);
  }
  return fields;
}

struct OnnxFile {
  struct Node {
    std::string type;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, std::vector<std::int64_t>> ints;  // attributes that are integers or lists of them
  };
  struct Initialiser {
    std::int64_t dtype = 0;
    std::vector<std::int64_t> sizes;
    std::string bytes;
  };
  struct Port {
    std::string name;
    std::int64_t dtype = 0;
    std::vector<std::string> sizes;  // numbers or names
  };
  std::int64_t ir_version = 0, opset = 0;
  std::vector<Node> nodes;
  std::map<std::string, Initialiser> initialisers;
  std::vector<Port> inputs, outputs;

  int count(std::string_view type) const {
    int n = 0;
    for (const Node& node : nodes) n += node.type == type;
    return n;
  }
};

inline OnnxFile::Port read_onnx_port(std::string_view bytes) {
  OnnxFile::Port port;
  for (const ProtoField& f : proto_fields(bytes)) {
    if (f.number == 1) port.name = f.bytes;
    if (f.number != 2) continue;
    for (const ProtoField& type : proto_fields(f.bytes)) {
      for (const ProtoField& tensor : proto_fields(type.bytes)) {
        if (tensor.number == 1) port.dtype = static_cast<std::int64_t>(tensor.integer);
        if (tensor.number != 2) continue;
        for (const ProtoField& dim : proto_fields(tensor.bytes))
          for (const ProtoField& d : proto_fields(dim.bytes))
            port.sizes.push_back(d.number == 1 ? std::to_string(d.integer) : std::string(d.bytes));
      }
    }
  }
  return port;
}
inline OnnxFile::Node read_onnx_node(std::string_view bytes) {
  OnnxFile::Node node;
  for (const ProtoField& f : proto_fields(bytes)) {
    if (f.number == 1) node.inputs.emplace_back(f.bytes);
    if (f.number == 2) node.outputs.emplace_back(f.bytes);
    if (f.number == 4) node.type = f.bytes;
    if (f.number != 5) continue;
    std::string name;
    for (const ProtoField& a : proto_fields(f.bytes)) {
      if (a.number == 1) name = a.bytes;
      if (a.number == 3 || a.number == 8) node.ints[name].push_back(static_cast<std::int64_t>(a.integer));
    }
  }
  return node;
}
inline OnnxFile read_onnx(const std::string& path) {
  const std::string all = get_file(path);
  OnnxFile file;
  for (const ProtoField& m : proto_fields(all)) {
    if (m.number == 1) file.ir_version = static_cast<std::int64_t>(m.integer);
    if (m.number == 8)
      for (const ProtoField& o : proto_fields(m.bytes))
        if (o.number == 2) file.opset = static_cast<std::int64_t>(o.integer);
    if (m.number != 7) continue;
    for (const ProtoField& g : proto_fields(m.bytes)) {
      if (g.number == 1) file.nodes.push_back(read_onnx_node(g.bytes));
      if (g.number == 11) file.inputs.push_back(read_onnx_port(g.bytes));
      if (g.number == 12) file.outputs.push_back(read_onnx_port(g.bytes));
      if (g.number != 5) continue;
      OnnxFile::Initialiser i;
      std::string name;
      for (const ProtoField& t : proto_fields(g.bytes)) {
        if (t.number == 1) i.sizes.push_back(static_cast<std::int64_t>(t.integer));
        if (t.number == 2) i.dtype = static_cast<std::int64_t>(t.integer);
        if (t.number == 8) name = t.bytes;
        if (t.number == 9) i.bytes = t.bytes;
      }
      if (!file.initialisers.emplace(name, i).second) throw std::runtime_error("two initialisers " + name);
    }
  }
  // Every value is produced once, before it is used; initializers have as many bytes as their shapes say.
  constexpr std::size_t widths[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
  std::set<std::string> known;
  const auto define = [&](const std::string& name) {
    if (name.empty() || !known.insert(name).second) throw std::runtime_error("made twice: " + name);
  };
  for (const auto& p : file.inputs) define(p.name);
  for (const auto& [name, i] : file.initialisers) {
    define(name);
    std::size_t count = 1;
    for (const std::int64_t n : i.sizes) count *= static_cast<std::size_t>(n);
    if (count * widths[i.dtype] != i.bytes.size()) throw std::runtime_error("wrong length: " + name);
  }
  for (const auto& n : file.nodes) {
    for (const std::string& x : n.inputs)
      if (!x.empty() && !known.contains(x)) throw std::runtime_error(n.type + " uses " + x + " before it is made");
    for (const std::string& y : n.outputs) define(y);
  }
  for (const auto& p : file.outputs)
    if (!known.contains(p.name)) throw std::runtime_error("nothing makes the result " + p.name);
  return file;
}

}  // namespace mantissa::test
