#!/bin/sh
# A module that forgets a member in MANTISSA_FIELDS must not compile, with a message that says so, and a plain value
# must not be listed; nor must x[0] = y compile, which would write nothing. Mistakes with Sequential and apply_function
# are said in one sentence: fields_test.sh SOURCE COMPILER
set -eu
source=$1
compiler=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include "%s"\n' nn/functions.h nn/linear.h nn/rnn.h nn/sequential.h ops/function.h >"$work/headers.h"
echo '#include <map>' >>"$work/headers.h"
"$compiler" -std=c++20 -I"$source" -x c++-header "$work/headers.h" -o "$work/headers.h.gch"  # once for all modules
compile() { "$compiler" -std=c++20 -I"$source" -include "$work/headers.h" -fsyntax-only -x c++ - 2>&1; }

# compile_module MEMBERS_AND_FIELDS: the compiler's output; its exit status
compile_module() {
  printf '%s\n' 'using namespace mantissa;' "struct Net { $1 };" 'std::int64_t f(Net& net) { return nn::count(net); }' |
    compile
}
expect_error() {
  if output=$(compile_module "$1"); then
    echo "compiles, but must not: $1"
    failures=$((failures + 1))
  elif ! printf '%s' "$output" | grep -q "$2"; then
    printf 'the error does not say "%s": %s\n%s\n' "$2" "$1" "$output"
    failures=$((failures + 1))
  fi
}

if ! output=$(compile_module 'nn::Linear a{2, 2}, b{2, 2}; int width = 2; MANTISSA_FIELDS(a, b)'); then
  printf 'a complete module does not compile:\n%s\n' "$output"
  failures=$((failures + 1))
fi
expect_error 'nn::Linear a{2, 2}, b{2, 2}; int width = 2; MANTISSA_FIELDS(a)' 'missing from MANTISSA_FIELDS'
expect_error 'std::vector<nn::Param> list; nn::Param p; MANTISSA_FIELDS(p)' 'missing from MANTISSA_FIELDS'
expect_error 'nn::Param p; Tensor t; MANTISSA_FIELDS(p, t)' 'wrap a tensor in nn::Param or nn::Buffer'
expect_error 'nn::Param p; int width = 2; MANTISSA_FIELDS(p, width)' 'lists a plain value'
expect_error 'nn::Linear a{2, 2}; std::optional<nn::Linear> b; MANTISSA_FIELDS(a)' 'missing from MANTISSA_FIELDS'
for hidden in 'std::shared_ptr<nn::Linear>' 'std::map<int, nn::Linear>' 'std::vector<std::pair<int, nn::Param>>'; do
  expect_error "nn::Linear a{2, 2}; $hidden b; MANTISSA_FIELDS(a)" 'missing from MANTISSA_FIELDS'
  expect_error "nn::Linear a{2, 2}; $hidden b; MANTISSA_FIELDS(a, b)" 'does not look into a map, pair, tuple'
done
if output=$(echo 'void f(mantissa::Tensor& x) { x[0] = x[1]; }' | compile) ||
  ! printf '%s' "$output" | grep -q 'x\[...\] = y does not write into x'; then
  printf 'x[0] = x[1] compiles, or the error does not say what to write:\n%s\n' "$output"
  failures=$((failures + 1))
fi
expect_message() {  # what does not compile; what the compiler says
  if output=$(printf '%s\n' 'using namespace mantissa;' "$1" | compile) ||
    ! printf '%s' "$output" | grep -q "$2"; then
    printf 'compiles, or the error does not say "%s": %s\n%s\n' "$2" "$1" "$output"
    failures=$((failures + 1))
  fi
}
expect_message 'void f() { nn::Sequential s{relu, nn::LSTM{3, 4}}; }' 'a layer is called as'
expect_message 'struct L { Tensor operator()(const Tensor& x) { return x; } }; void f() { nn::Sequential s{L{}}; }' \
  'that is not const'
expect_message 'void f(Tensor x) { apply_function([](const Tensor& y) { return y; }, x); }' 'needs a struct with name'
echo "12 modules, an assignment and 3 calls compiled, $failures failures"
exit "$failures"
