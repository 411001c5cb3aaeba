// The PTX interpreter: each kind of instruction gives what the PTX ISA says, also where it differs from C++.
#include "tests/cuda_shim/ptx.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch_compat.h"

using namespace cuda_shim;

namespace {

// A kernel around this text, with registers of every type; %out is its parameter.
std::string kernel(const std::string& body, const std::string& before = "") {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + before +
         ".visible .entry tested(.param .u64 tested_param_0)\n{\n"
         ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n"
         ".reg .b64 %rd<9>;\n.reg .f64 %fd<9>;\n.reg .b64 %out;\n"
         "ld.param.u64 %out, [tested_param_0];\n" +
         body + "\nret;\n}\n";
}
void run(const std::string& text, void* out, unsigned threads = 1, std::size_t shared = 0) {
  const Argument arguments[] = {{&out, sizeof out}, {}};
  const ptx::Thread thread = ptx::thread_of(text, "tested", arguments);
  ptx::run_grid(Kernel{}, thread, {1, threads, shared});
}
std::uint32_t word(const std::string& body) {  // what it leaves in %r1
  std::uint32_t v = 0;
  run(kernel(body + "\nst.global.u32 [%out], %r1;"), &v);
  return v;
}
std::uint64_t wide(const std::string& body) {
  std::uint64_t v = 0;
  run(kernel(body + "\nst.global.u64 [%out], %rd1;"), &v);
  return v;
}
float f32_result(const std::string& body) {
  float v = 0;
  run(kernel(body + "\nst.global.f32 [%out], %f1;"), &v);
  return v;
}
double f64_result(const std::string& body) {
  double v = 0;
  run(kernel(body + "\nst.global.f64 [%out], %fd1;"), &v);
  return v;
}
bool truth(const std::string& body) { return word(body + "\nselp.u32 %r1, 1, 0, %p1;") == 1; }
std::string message_of(const std::string& text, void* out) {
  try {
    run(text, out);
  } catch (const std::exception& e) { return e.what(); }
  return "";
}

constexpr const char *nan_in_f2 = "mov.f32 %f2, 0f7FC00000;", *minus_zero_in_f2 = "mov.f32 %f2, 0f80000000;";

}  // namespace

TEST_CASE("integers: halves of products, carries, shifts by more than a word, bit fields, bytes") {
  CHECK(word("mul.hi.u32 %r1, -1, -1;") == 0xfffffffeu);
  CHECK(word("mov.u32 %r2, 3; mul.hi.s32 %r1, %r2, -1;") == 0xffffffffu);
  CHECK(wide("mov.u32 %r2, -2; mul.wide.s32 %rd1, %r2, 3;") == std::uint64_t(-6));
  CHECK(wide("mov.u32 %r2, -2; mul.wide.u32 %rd1, %r2, 3;") == 0x2fffffffaull);
  CHECK(wide("mov.u64 %rd2, -1; mul.hi.u64 %rd1, %rd2, %rd2;") == std::uint64_t(-2));
  CHECK(word("mov.u32 %r2, -1; add.cc.u32 %r3, %r2, 1; addc.u32 %r1, 5, 0;") == 6);
  CHECK(word("mov.u32 %r2, 0; sub.cc.u32 %r3, %r2, 1; subc.u32 %r1, 5, 0;") == 4);
  CHECK(word("mov.u32 %r2, -1; mad.lo.cc.u32 %r3, %r2, %r2, %r2; madc.hi.u32 %r1, %r2, %r2, 0;") == 0xffffffffu);
  CHECK(word("mov.u32 %r2, 1; shl.b32 %r1, %r2, 32;") == 0);
  CHECK(word("mov.u32 %r2, -8; shr.s32 %r1, %r2, 40;") == 0xffffffffu);
  CHECK(word("mov.u32 %r2, -8; shr.u32 %r1, %r2, 40;") == 0);
  CHECK(word("mov.u32 %r2, 0; mov.u32 %r3, 255; bfi.b32 %r1, %r3, %r2, 8, 4;") == 0xf00);
  CHECK(word("mov.u32 %r2, 0x33221180; mov.u32 %r3, 0x77665544; prmt.b32 %r1, %r2, %r3, 0x8543;") == 0xff554433u);
  CHECK(word("mov.u64 %rd2, 1; clz.b64 %r1, %rd2;") == 63);
  CHECK(word("mov.u32 %r2, 7; popc.b32 %r1, %r2;") == 3);
  CHECK(word("mov.u32 %r2, -7; rem.s32 %r1, %r2, 3;") == 0xffffffffu);
  CHECK(word("mov.u32 %r2, -7; div.u32 %r1, %r2, 2;") == 0x7ffffffcu);
  CHECK(word("mov.u64 %rd2, 0x1122334455667788; mov.b64 {%r2, %r1}, %rd2;") == 0x11223344);
  CHECK(word("mov.u16 %rs1, 0x1111; mov.u16 %rs2, 0x2222; mov.b32 %r1, {%rs1, %rs2};") == 0x22221111);
}

TEST_CASE("floats: directed rounding, NaN, signs of zero, denormals") {
  CHECK(f32_result("mov.f32 %f2, 0f3F800001; fma.rm.f32 %f1, %f2, %f2, 0f00000000;") <
        f32_result("mov.f32 %f2, 0f3F800001; fma.rp.f32 %f1, %f2, %f2, 0f00000000;"));
  CHECK(f32_result("mov.f32 %f2, 0f3F800000; add.rz.f32 %f1, %f2, 0f33C00000;") == 1);
  CHECK(f32_result(std::string(nan_in_f2) + "max.f32 %f1, %f2, 0f40000000;") == 2);
  CHECK(std::isnan(f32_result(std::string(nan_in_f2) + "max.NaN.f32 %f1, 0f40000000, %f2;")));
  CHECK(f32_result("mov.f32 %f2, 0fC0000000; min.NaN.f32 %f1, 0f40000000, %f2;") == -2);
  CHECK(std::signbit(f32_result(std::string(minus_zero_in_f2) + "min.f32 %f1, 0f00000000, %f2;")));
  CHECK(!std::signbit(f32_result(std::string(minus_zero_in_f2) + "max.f32 %f1, %f2, 0f00000000;")));
  CHECK(f32_result(std::string(minus_zero_in_f2) + "copysign.f32 %f1, %f2, 0f40000000;") == -2);
  CHECK(f32_result("mov.f32 %f2, 0f00000001; mul.f32 %f1, %f2, 0f40000000;") ==
        2 * std::numeric_limits<float>::denorm_min());
  CHECK(f32_result("mov.f32 %f2, 0fC3000000; ex2.approx.ftz.f32 %f1, %f2;") == 0);  // 2^-128
  CHECK(f32_result("mov.f32 %f2, 0fC3000000; ex2.approx.f32 %f1, %f2;") > 0);
  const double third = f64_result("mov.f64 %fd2, 0d4008000000000000; rcp.approx.ftz.f64 %fd1, %fd2;");
  CHECK((std::abs(third - 1.0 / 3) < 1e-6 && static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(third)) == 0));
  CHECK(f32_result("mov.f32 %f2, 0f7F000000; div.approx.f32 %f1, %f2, %f2;") == 0);  // 2^127 / 2^127
  CHECK(f32_result("mov.f32 %f2, 0f7F000000; div.rn.f32 %f1, %f2, %f2;") == 1);
  CHECK(truth(std::string(nan_in_f2) + "setp.ltu.f32 %p1, %f2, 0f00000000;"));
  CHECK(!truth(std::string(nan_in_f2) + "setp.lt.f32 %p1, %f2, 0f00000000;"));
  CHECK(!truth(std::string(nan_in_f2) + "setp.ne.f32 %p1, %f2, 0f00000000;"));
  CHECK(truth(std::string(nan_in_f2) + "setp.neu.f32 %p1, %f2, 0f00000000;"));
  CHECK(truth(std::string(nan_in_f2) + "setp.nan.f32 %p1, 0f00000000, %f2;"));
  CHECK(!truth("mov.pred %p2, -1; mov.pred %p3, -1; xor.pred %p1, %p2, %p3;"));
  CHECK(truth("setp.num.f32 %p1, 0f00000000, 0f7F800000;"));
}

TEST_CASE("conversions: to the nearest that fits, ties to even, halves in order") {
  CHECK(word(std::string(nan_in_f2) + "cvt.rzi.s32.f32 %r1, %f2;") == 0);
  CHECK(wide(std::string(nan_in_f2) + "cvt.rzi.s64.f32 %rd1, %f2;") == 0x8000000000000000ull);
  CHECK(word("mov.f32 %f2, 0f7149F2CA; cvt.rzi.s32.f32 %r1, %f2;") == 0x7fffffff);
  CHECK(word("mov.f32 %f2, 0fBF800000; cvt.rzi.u32.f32 %r1, %f2;") == 0);
  CHECK(word("mov.f32 %f2, 0f40200000; cvt.rni.s32.f32 %r1, %f2;") == 2);
  CHECK(f32_result("mov.f32 %f2, 0fC0200000; cvt.rmi.f32.f32 %f1, %f2;") == -3);
  CHECK(f32_result("mov.f32 %f2, 0f40200000; cvt.sat.f32.f32 %f1, %f2;") == 1);
  CHECK(f32_result(std::string(nan_in_f2) + "cvt.sat.f32.f32 %f1, %f2;") == 0);
  CHECK(word("mov.u32 %r2, 200; cvt.s8.s32 %r1, %r2;") == 0xffffffc8u);
  CHECK(wide("mov.u16 %rs1, 0xff80; cvt.s64.s8 %rd1, %rs1;") == std::uint64_t(-128));
  CHECK(word("mov.u64 %rd2, 0x12345678; cvt.u16.u64 %rs1, %rd2; cvt.u32.u16 %r1, %rs1;") == 0x5678);
  CHECK(f32_result("mov.u64 %rd2, -1; cvt.rn.f32.u64 %f1, %rd2;") == 0x1p64f);
  CHECK(word("mov.f32 %f2, 0f3F800000; mov.f32 %f3, 0f40000000; cvt.rn.bf16x2.f32 %r1, %f3, %f2;") == 0x40003f80);
  CHECK(word("mov.f32 %f2, 0f477FF000; cvt.rn.f16.f32 %rs1, %f2; cvt.u32.u16 %r1, %rs1;") == 0x7c00);
  CHECK(f32_result("mov.u16 %rs1, 0x3c01; cvt.f32.f16 %f1, %rs1;") == 1 + 0x1p-10f);
}

TEST_CASE("memory: vectors, signs, offsets, local and shared memory, tables") {
  std::int32_t v[8] = {0, 0, 0, 0, 1, -2, 3, -4};
  run(kernel("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out+16];\nst.global.v2.u32 [%out+8], {%r4, %r3};"), v);
  CHECK((v[2] == -4 && v[3] == 3));
  std::int64_t w[2] = {0x80, 0};
  run(kernel("ld.global.s8 %rd1, [%out];\nst.global.u64 [%out+8], %rd1;"), w);
  CHECK(w[1] == -128);
  CHECK(wide(".local .align 8 .b8 depot[16];\n.reg .b64 %SP;\nmov.u64 %SP, depot;\nadd.u64 %rd2, %SP, 16;\n"
             "mov.u64 %rd3, 7;\nst.local.u64 [%rd2+-8], %rd3;\nld.local.u64 %rd1, [depot+8];") == 7);
  run(kernel("mov.u64 %rd2, table;\nld.global.u32 %r1, [%rd2+4];\nld.global.u32 %r2, [last];\nadd.u32 %r1, %r1, %r2;\n"
             "st.global.u32 [%out], %r1;",
             ".global .align 4 .b8 table[12] = {1, 0, 0, 0, 2, 1};\n.global .align 4 .u32 last = 4096;\n"),
      v);
  CHECK(v[0] == 0x102 + 4096);
  // Each thread reads what the other wrote, in static and in dynamic shared memory.
  std::uint32_t pair[2] = {};
  run(kernel(".shared .align 4 .b8 own[8];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, own;\n"
             "mov.u32 %r4, dynamic;\nadd.s32 %r5, %r3, %r2;\nst.shared.u32 [%r5], %r1;\nadd.s32 %r5, %r4, %r2;\n"
             "add.s32 %r6, %r1, 10;\nst.shared.u32 [%r5], %r6;\nbar.sync 0;\nxor.b32 %r2, %r2, 4;\n"
             "add.s32 %r5, %r3, %r2;\nld.shared.u32 %r6, [%r5];\nadd.s32 %r5, %r4, %r2;\nld.shared.u32 %r7, [%r5];\n"
             "shl.b32 %r7, %r7, 8;\nor.b32 %r6, %r6, %r7;\ncvt.u64.u32 %rd1, %r1;\nshl.b64 %rd1, %rd1, 2;\n"
             "add.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %r6;",
             ".extern .shared .align 16 .b8 dynamic[];\n"),
      pair, 2, 8);
  CHECK((pair[0] == (11 << 8 | 1) && pair[1] == 10 << 8));
  // Both threads learn that one of them found something, and then that none did.
  run(kernel("mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 1;\nbar.red.or.pred %p2, 0, %p1;\nselp.u32 %r2, 1, 0, %p2;\n"
             "setp.eq.u32 %p1, %r1, 2;\nbar.red.or.pred %p2, 0, %p1;\nselp.u32 %r3, 2, 0, %p2;\nor.b32 %r2, %r2, %r3;\n"
             "cvt.u64.u32 %rd1, %r1;\nshl.b64 %rd1, %rd1, 2;\nadd.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %r2;"),
      pair, 2);
  CHECK((pair[0] == 1 && pair[1] == 1));
}

TEST_CASE("branches, predicates, scopes with labels and registers of their own, functions") {
  CHECK(word("mov.u32 %r1, 0;\nmov.u32 %r2, 5;\nloop:\nadd.u32 %r1, %r1, %r2;\nadd.s32 %r2, %r2, -1;\n"
             "setp.ne.s32 %p1, %r2, 0;\n@%p1 bra loop;\n@!%p1 add.u32 %r1, %r1, 100;") == 115);
  const std::string twice_scoped =
      "{\n.reg .b32 own;\nmov.u32 own, 3;\nbra over;\nmov.u32 own, 4;\nover:\n"
      "add.u32 %r1, %r1, own;\n}\n";
  CHECK(word("mov.u32 %r1, 0;\n" + twice_scoped + twice_scoped) == 6);
  std::uint32_t v = 0;
  run(kernel("{\n.param .b32 given;\nst.param.b32 [given], 20;\n.param .align 8 .b8 back[16];\n"
             "call.uni (back), half_and_more, (given);\nld.param.b32 %r1, [back+8];\n}\nst.global.u32 [%out], %r1;",
             ".func (.param .align 8 .b8 result[16]) half_and_more(.param .b32 x)\n{\n.reg .b32 %r<3>;\n"
             "ld.param.b32 %r1, [x];\nshr.u32 %r2, %r1, 1;\nadd.u32 %r2, %r2, 1;\nst.param.b32 [result+8], "
             "%r2;\nret;\n}\n"),
      &v);
  CHECK(v == 11);
}

TEST_CASE("shuffles stay in their segments and say whether they left them") {
  const auto shuffled = [](const std::string& what) {
    std::vector<std::uint32_t> v(32);
    run(kernel("mov.u32 %r1, %tid.x;\nshfl.sync." + what +
               ", -1;\nselp.u32 %r3, 100, 0, %p1;\nadd.u32 %r2, %r2, %r3;\n"
               "cvt.u64.u32 %rd1, %r1;\nshl.b64 %rd1, %rd1, 2;\nadd.u64 %rd1, %rd1, %out;\nst.global.u32 [%rd1], %r2;"),
        v.data(), 32);
    return v;
  };
  const auto down = shuffled("down.b32 %r2|%p1, %r1, 1, 0x101f");  // width 16
  CHECK((down[0] == 101 && down[15] == 15 && down[16] == 117 && down[31] == 31));
  const auto up = shuffled("up.b32 %r2|%p1, %r1, 2, 0");
  CHECK((up[0] == 0 && up[1] == 1 && up[2] == 100 && up[31] == 129));
  const auto across = shuffled("bfly.b32 %r2|%p1, %r1, 16, 0x1f");
  CHECK((across[0] == 116 && across[31] == 115));
  const auto from = shuffled("idx.b32 %r2|%p1, %r1, 3, 0x181f");  // width 8
  CHECK((from[0] == 103 && from[9] == 111 && from[31] == 127));
}

TEST_CASE("what the interpreter does not know, and what a GPU refuses, is an error that names it") {
  std::uint32_t v[4] = {};
  CHECK_THAT(message_of(kernel("frobnicate.u32 %r1, %r2;"), v), Catch::Matchers::Contains("frobnicate.u32"));
  CHECK_THAT(message_of(kernel("frobnicate.u32 %r1, %r2;"), v), Catch::Matchers::Contains("frobnicate.u32"));  // again
  CHECK_THAT(message_of(kernel("add.u32 %r1, %r2, nothing;"), v), Catch::Matchers::Contains("unknown operand nothing"));
  CHECK_THAT(message_of(kernel(".loc 1 2 3\nmov.u32 %r1, 0;"), v), Catch::Matchers::Contains("unknown directive .loc"));
  CHECK_THAT(message_of(kernel("bra nowhere;"), v), Catch::Matchers::Contains("nowhere"));
  CHECK_THAT(message_of(kernel("ld.global.u32 %r1, [%out+2];"), v), Catch::Matchers::Contains("misaligned"));
  CHECK_THAT(message_of(kernel("mov.u32 %r1, -4;\nld.shared.u32 %r2, [%r1];"), v),
             Catch::Matchers::Contains("beyond dynamic shared memory"));
  const auto as_launched = [&](const std::string& body) {
    void* out = v;
    const Argument arguments[] = {{&out, sizeof out}, {}};
    ptx::run_grid(Kernel{}, ptx::thread_of(kernel(body), "tested", arguments), {1, 2, 0, 1, true});
  };
  CHECK_NOTHROW(as_launched("griddepcontrol.wait;\nst.global.u32 [%out], 1;\ngriddepcontrol.launch_dependents;"));
  CHECK_THROWS_WITH(as_launched("st.global.u32 [%out], 1;\ngriddepcontrol.wait;"),
                    Catch::Matchers::Contains("before griddepcontrol.wait"));
  CHECK_THROWS_WITH(as_launched("st.global.u32 [%out], 1;"), Catch::Matchers::Contains("never waits"));
  const Argument short_one[] = {{v, 4}, {}};
  try {
    ptx::thread_of(kernel(""), "tested", short_one);
    FAIL("accepted");
  } catch (const std::exception& e) {
    CHECK_THAT(e.what(), Catch::Matchers::Contains("a parameter has 8 bytes, and on the host 4"));
  }
}
