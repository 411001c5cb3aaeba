// Golden cases of linear algebra. tests/golden/case.h explains a line.
// clang-format off
#pragma once

#include "tests/golden/case.h"

namespace mantissa::test {

inline constexpr Case linalg_cases[] = {
  GOLDEN("matmul", "randn(3, 4), randn(4, 2)", "x @ y", matmul(x, y))
  GOLDEN("matmul.vectors", "randn(4), randn(4), randn(3, 4), randn(4, 2)", "x @ y, z @ x, x @ u", matmul(x, y), matmul(z, x), matmul(x, u))
  GOLDEN("matmul.batched", "randn(2, 3, 4), randn(2, 4, 5), randn(4, 2), randn(4)", "x @ y, x @ z, x @ u", matmul(x, y), matmul(x, z), matmul(x, u))
  GOLDEN("matmul.broadcast", "randn(2, 1, 3, 4), randn(5, 4, 2), randn(3)", "x @ y, z @ x", matmul(x, y), matmul(z, x))
  GOLDEN("matmul.transposed", "randn(4, 3), randn(2, 4)", "x.t() @ y.t()", matmul(x.t(), y.t()))
  GOLDEN("matmul.empty", "randn(3, 0), randn(0, 2)", "x @ y", matmul(x, y))
  GOLDEN("linear", "randn(2, 3, 4), randn(5, 4), randn(5)", "F.linear(x, y, z), F.linear(x, y)", linear(x, y, z), linear(x, y))
  GOLDEN("linear.vector", "randn(4), randn(5, 4), randn(5)", "F.linear(x, y, z)", linear(x, y, z))
  GOLDEN("bmm", "randn(2, 3, 4), randn(2, 4, 5)", "x.bmm(y)", bmm(x, y))
  GOLDEN("mv", "randn(3, 4), randn(4)", "x.mv(y)", mv(x, y))
  GOLDEN("dot", "randn(4), randn(4), ints(-5, 5, 3), ints(-5, 5, 3)", "x.dot(y), z.dot(u)", dot(x, y), dot(z, u))
  GOLDEN("outer", "randn(3), randn(4)", "x.outer(y)", outer(x, y))
  GOLDEN("addmm", "randn(3, 2), randn(3, 4), randn(4, 2), randn(2)", "torch.addmm(x, y, z), torch.addmm(u, y, z, beta=0.5, alpha=-2)", addmm(x, y, z), addmm(u, y, z, 0.5, -2))
  GOLDEN("addmm.beta_zero", "const(of([nan, 1.], [inf, 2.])), randn(2, 3), randn(3, 2)", "torch.addmm(x, y, z, beta=0)", addmm(x, y, z, 0))
  GOLDEN("baddbmm", "randn(2, 3, 5), randn(2, 3, 4), randn(2, 4, 5), randn(5)", "torch.baddbmm(x, y, z), torch.baddbmm(u, y, z, beta=0.5, alpha=-2)", baddbmm(x, y, z), baddbmm(u, y, z, 0.5, -2))
  GOLDEN("einsum", "randn(2, 3), randn(3, 4)", "torch.einsum('ij,jk->ik', x, y), torch.einsum('ij,jk', x, y), torch.einsum('ij->ji', x), torch.einsum('ij->', x), torch.einsum('ij->j', x)", einsum("ij,jk->ik", {x, y}), einsum("ij,jk", {x, y}), einsum("ij->ji", {x}), einsum("ij->", {x}), einsum("ij->j", {x}))
  GOLDEN("einsum.batch", "randn(2, 3, 4), randn(2, 4, 5), randn(2, 3)", "torch.einsum('bij,bjk->bik', x, y), torch.einsum('...ij,...jk->...ik', x, y), torch.einsum('bij,bjk,bi->bk', x, y, z)", einsum("bij,bjk->bik", {x, y}), einsum("...ij,...jk->...ik", {x, y}), einsum("bij,bjk,bi->bk", {x, y, z}))
  GOLDEN("einsum.diagonal", "randn(3, 3), randn(3)", "torch.einsum('ii->i', x), torch.einsum('ii', x), torch.einsum('i,j->ij', y, y)", einsum("ii->i", {x}), einsum("ii", {x}), einsum("i,j->ij", {y, y}))
  GOLDEN("tril", "randn(3, 4), randn(2, 3, 3)", "x.tril(), x.tril(1), y.tril(-1)", tril(x), tril(x, 1), tril(y, -1))
  GOLDEN("triu", "randn(3, 4), randn(2, 3, 3)", "x.triu(), x.triu(1), y.triu(-1)", triu(x), triu(x, 1), triu(y, -1))
  GOLDEN("diagonal", "randn(3, 4), randn(2, 3, 4)", "x.diagonal(), x.diagonal(1), x.diagonal(-2), y.diagonal(0, 1, 2), y.diagonal(1, -1, 0)", diagonal(x), diagonal(x, 1), diagonal(x, -2), diagonal(y, 0, 1, 2), diagonal(y, 1, -1, 0))
  GOLDEN("trace", "randn(3, 4), ints(-9, 9, 3, 3)", "x.trace(), y.trace()", trace(x), trace(y))
  GOLDEN("cross", "randn(2, 3), randn(1, 3), randn(3, 2), randn(3, 2)", "torch.linalg.cross(x, y), torch.linalg.cross(z, u, dim=0)", cross(x, y), cross(z, u, 0))
  GOLDEN("cdist", "randn(2, 4, 3), randn(5, 3)", "torch.cdist(x, y), torch.cdist(x, y, 1), torch.cdist(x, y, 3)", cdist(x, y), cdist(x, y, 1), cdist(x, y, 3))
  GOLDEN("cdist.many", "randn(30, 3), randn(4, 3)", "torch.cdist(x, y)", cdist(x, y))
  GOLDEN("pdist", "randn(4, 3)", "F.pdist(x), F.pdist(x, 1)", pdist(x), pdist(x, 1))
  GOLDEN("normalize", "randn(3, 4), randn(2, 3, 2)", "F.normalize(x), F.normalize(y, 1, -1)", normalize(x), normalize(y, 1, {-1}))
  GOLDEN("bilinear", "randn(2, 3, 2), randn(2, 3, 4), randn(5, 2, 4), randn(5)", "F.bilinear(x, y, z, u), F.bilinear(x, y, z)", bilinear(x, y, z, u), bilinear(x, y, z))
  GOLDEN("diag", "randn(3), randn(3, 4)", "x.diag(), x.diag(-1), y.diag(1)", diag(x), diag(x, -1), diag(y, 1))
  GOLDEN("diag_embed", "randn(2, 3)", "torch.diag_embed(x), torch.diag_embed(x, 1)", diag_embed(x), diag_embed(x, 1))
  GOLDEN("inner", "randn(2, 3), randn(4, 3)", "torch.inner(x, y)", inner(x, y))
  GOLDEN("tensordot", "randn(2, 3, 4), randn(3, 4, 2)", "torch.tensordot(x, y), torch.tensordot(x, y[0], 1)", tensordot(x, y), tensordot(x, y[0], 1))
  GOLDEN("kron", "randn(2, 3), randn(3, 2), randn(2)", "torch.kron(x, y), torch.kron(x, z)", kron(x, y), kron(x, z))

  // --- products, powers and norms of matrices ---
  GOLDEN("addmv", "randn(2), randn(2, 3), randn(3), randn()", "torch.addmv(x, y, z), torch.addmv(u, y, z, beta=0.5, alpha=-2)", addmv(x, y, z), addmv(u, y, z, 0.5, -2))
  GOLDEN("addmv.beta_0", "const(of(nan, 1.)), randn(2, 3), randn(3)", "torch.addmv(x, y, z, beta=0)", addmv(x, y, z, 0))
  GOLDEN("addr", "randn(2, 3), randn(2), randn(3), randn(3)", "torch.addr(x, y, z), torch.addr(u, y, z, beta=0.5, alpha=-2)", addr(x, y, z), addr(u, y, z, 0.5, -2))
  GOLDEN("addbmm", "randn(2, 4), randn(5, 2, 3), randn(5, 3, 4), randn(4)", "torch.addbmm(x, y, z), torch.addbmm(u, y, z, beta=0.5, alpha=-2)", addbmm(x, y, z), addbmm(u, y, z, 0.5, -2))
  GOLDEN("addbmm.empty", "randn(2, 4), randn(0, 2, 3), randn(0, 3, 4)", "torch.addbmm(x, y, z)", addbmm(x, y, z))
  GOLDEN("multi_dot", "randn(4, 2), randn(2, 5), randn(5, 1), randn(1, 3), randn(4), randn(3)", "torch.linalg.multi_dot([x, y, z, u]), torch.linalg.multi_dot([v, x, y]), torch.linalg.multi_dot([v, x, y, z, u, w])", multi_dot({x, y, z, u}), multi_dot({v, x, y}), multi_dot({v, x, y, z, u, w}))
  GOLDEN("matrix_power", "randn(2, 3, 3), randn(1, 1)", "torch.matrix_power(x, 1), torch.matrix_power(x, 2), torch.matrix_power(x, 3), torch.matrix_power(x, 6), torch.matrix_power(y, 7), torch.matrix_power(x, 0)", matrix_power(x, 1), matrix_power(x, 2), matrix_power(x, 3), matrix_power(x, 6), matrix_power(y, 7), matrix_power(x, 0))
  GOLDEN("matrix_norm", "randn(2, 3, 4)", "torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 1), torch.linalg.matrix_norm(x, -1, (0, 2), True), torch.linalg.matrix_norm(x, inf, (2, 0)), torch.linalg.matrix_norm(x, -inf)", matrix_norm(x), matrix_norm(x, 1), matrix_norm(x, -1, {0, 2}, true), matrix_norm(x, HUGE_VAL, {2, 0}), matrix_norm(x, -HUGE_VAL))
  GOLDEN("matrix_norm.special", "const(of(1., nan, 2., -inf).reshape(2, 2)), randn(0, 3)", "torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 1), torch.linalg.matrix_norm(x, -inf), torch.linalg.matrix_norm(const(y)), torch.linalg.matrix_norm(const(y), 1), torch.linalg.matrix_norm(const(y), inf)", matrix_norm(x), matrix_norm(x, 1), matrix_norm(x, -HUGE_VAL), matrix_norm(y.detach()), matrix_norm(y.detach(), 1), matrix_norm(y.detach(), HUGE_VAL))
  GOLDEN("vander", "const(randn(4)), randn(2, 3), ints(-3, 4, 3), randn(0)", "torch.vander(x), torch.vander(x, 6), torch.vander(x, 2, increasing=True), torch.linalg.vander(y), torch.linalg.vander(y, N=5).flip(-1), torch.vander(z), torch.vander(const(u))", vander(x), vander(x, 6), vander(x, 2, true), vander(y, {}, true), vander(y, 5), vander(z), vander(u.detach()))

  // --- systems of equations ---
  GOLDEN("solve", "randn(3, 3), randn(3, 2), randn(3), randn(2, 3, 3), randn(2, 3)", "torch.linalg.solve(x, y), torch.linalg.solve(x, z), torch.linalg.solve(u, y), torch.linalg.solve(u, v)", solve(x, y), solve(x, z), solve(u, y), solve(u, v))
  GOLDEN("solve.empty", "const(randn(0, 0)), const(randn(0, 2)), const(randn(0, 3, 3)), const(randn(3, 1)), const(randn(2, 2)), const(randn(2, 0))", "torch.linalg.solve(x, y), torch.linalg.solve(z, u), torch.linalg.solve(v, w)", solve(x, y), solve(z, u), solve(v, w))
  GOLDEN("inv", "randn(3, 3), randn(2, 2, 4, 4)", "torch.linalg.inv(x), torch.linalg.inv(y)", inv(x), inv(y))
  GOLDEN("det", "randn(3, 3), randn(2, 4, 4), const(of(1., 2., 2., 4.).reshape(2, 2)), const(randn(0, 0))", "torch.linalg.det(x), torch.linalg.det(y), torch.linalg.det(z), torch.linalg.det(u)", det(x), det(y), det(z), det(u))
  GOLDEN("slogdet", "randn(3, 3), randn(2, 4, 4), const(of(1., 2., 2., 4.).reshape(2, 2))", "*torch.linalg.slogdet(x), *torch.linalg.slogdet(y), *torch.linalg.slogdet(z)", slogdet(x), slogdet(y), slogdet(z))
  GOLDEN("logdet", "randn(3, 3), const(of(0., 1., 1., 0.).reshape(2, 2))", "torch.logdet(x @ x.mT), torch.logdet(y)", logdet(matmul(x, transpose(x))), logdet(y))
  GOLDEN("cholesky", "randn(3, 4), randn(2, 3, 3)", "torch.linalg.cholesky(x @ x.mT), torch.linalg.cholesky(y @ y.mT + torch.eye(3, dtype=torch.float64), upper=True)", cholesky(matmul(x, transpose(x))), cholesky(matmul(y, transpose(y)) + eye(3, {.dtype = y.dtype()}), true))
  GOLDEN("solve_triangular", "randn(3, 3), randn(2, 3, 2)", "torch.linalg.solve_triangular(x, y, upper=True), torch.linalg.solve_triangular(x, y, upper=False)", solve_triangular(x, y, true), solve_triangular(x, y, false))
  GOLDEN("cholesky_solve", "randn(3, 2), randn(2, 3, 3)", "torch.cholesky_solve(x.expand(2, 3, 2), (y + 3 * torch.eye(3, dtype=torch.float64)).tril()), torch.cholesky_solve(x.expand(2, 3, 2), (y + 3 * torch.eye(3, dtype=torch.float64)).triu(), upper=True)", cholesky_solve(x, y + 3.0 * eye(3, {.dtype = y.dtype()})), cholesky_solve(x, y + 3.0 * eye(3, {.dtype = y.dtype()}), true))
  GOLDEN("cholesky_inverse", "randn(2, 3, 3)", "torch.cholesky_inverse((x + 3 * torch.eye(3, dtype=torch.float64)).tril()), torch.cholesky_inverse((x + 3 * torch.eye(3, dtype=torch.float64)).triu(), upper=True)", cholesky_inverse(x + 3.0 * eye(3, {.dtype = x.dtype()})), cholesky_inverse(x + 3.0 * eye(3, {.dtype = x.dtype()}), true))
  GOLDEN("tensorinv", "randn(2, 3, 6), randn(4, 2, 2)", "torch.linalg.tensorinv(x), torch.linalg.tensorinv(y, 1)", tensorinv(x), tensorinv(y, 1))
  GOLDEN("tensorsolve", "randn(2, 3, 6), randn(2, 3), randn(2, 6, 3)", "torch.linalg.tensorsolve(x, y), torch.linalg.tensorsolve(z, y, dims=(1,))", tensorsolve(x, y), tensorsolve(z, y, {1}))
  GOLDEN("lu_factor", "randn(4, 4), randn(2, 1, 3, 3), const(of(0., 1., 2., 0., 0., 3., 4., 0., 0.).reshape(3, 3)), const(of(1., 2., 2., 4.).reshape(2, 2))", "torch.linalg.lu_factor(x)[0], torch.linalg.lu_factor(x)[1].long(), torch.linalg.lu_factor(y)[0], torch.linalg.lu_factor(y)[1].long(), torch.linalg.lu_factor(z)[0], torch.linalg.lu_factor(z)[1].long(), torch.linalg.lu_factor_ex(u)[0]", lu_factor(x), lu_factor(y), lu_factor(z), lu_factor(u).lu)
  GOLDEN("lu", "randn(4, 4), randn(2, 3, 3)", "*torch.linalg.lu(x), *torch.linalg.lu(y)", lu(x), lu(y))
  GOLDEN("lu_solve", "randn(3, 3), randn(3, 2), randn(2, 3, 3)", "torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y), torch.linalg.lu_solve(*torch.linalg.lu_factor(z), y)", lu_solve(lu_factor(x).lu, lu_factor(x).pivots, y), lu_solve(lu_factor(z).lu, lu_factor(z).pivots, y))

  // --- QR, exponentials ---
  GOLDEN("qr", "randn(4, 3), randn(2, 3, 3), randn(1, 2, 2, 5), randn(3, 1)", "*torch.linalg.qr(x), *torch.linalg.qr(y), *torch.linalg.qr(z), *torch.linalg.qr(u)", qr(x), qr(y), qr(z), qr(u))
  GOLDEN("qr.modes", "const(randn(4, 2)), randn(2, 4), const(of(2., 1., 0., -3.).reshape(2, 2)), const(randn(2, 0)), const(of(0., 1., 0., -3., 0., 2.).reshape(3, 2))", "*torch.linalg.qr(x, 'complete'), *torch.linalg.qr(y, 'complete'), torch.linalg.qr(x, 'r')[1], *torch.linalg.qr(z), *torch.linalg.qr(u), *torch.linalg.qr(v)", qr(x, "complete"), qr(y, "complete"), qr(x, "r").r, qr(z), qr(u), qr(v))
  GOLDEN("householder_product", "randn(4, 3), randn(3), randn(2, 3, 3), randn(2, 2)", "torch.linalg.householder_product(x, y), torch.linalg.householder_product(z, u)", householder_product(x, y), householder_product(z, u))
  GOLDEN("matrix_exp", "randn(3, 3), randn(2, 2, 2, 2), const(of(0., 0., 0., 0.).reshape(2, 2)), const(of(0., -9., 9., 0.).reshape(2, 2)), const(randn(0, 0))", "torch.matrix_exp(x), torch.matrix_exp(y * 0.01), torch.matrix_exp(z), torch.matrix_exp(u), torch.matrix_exp(v)", matrix_exp(x), matrix_exp(y * 0.01), matrix_exp(z), matrix_exp(u), matrix_exp(v))

  // --- singular values. Signs of vectors are free, so what is compared does not depend on them. ---
  GOLDEN("svd", "randn(5, 3)", "(lambda r: (r.U * r.S.exp()[..., None, :]) @ r.Vh)(torch.linalg.svd(x, full_matrices=False)), torch.linalg.svd(x, full_matrices=False).U.square(), torch.linalg.svd(x, full_matrices=False).Vh.square(), torch.linalg.svd(x, full_matrices=False).S", matmul(svd(x).u * unsqueeze(exp(svd(x).s), -2), svd(x).vh), square(svd(x).u), square(svd(x).vh), svd(x).s)
  GOLDEN("svd.wide", "randn(2, 3, 4)", "(lambda r: (r.U * r.S.exp()[..., None, :]) @ r.Vh)(torch.linalg.svd(x, full_matrices=False)), torch.linalg.svd(x, full_matrices=False).U.square(), torch.linalg.svd(x, full_matrices=False).Vh.square(), torch.linalg.svd(x, full_matrices=False).S", matmul(svd(x).u * unsqueeze(exp(svd(x).s), -2), svd(x).vh), square(svd(x).u), square(svd(x).vh), svd(x).s)
  GOLDEN("svd.square", "randn(2, 1, 4, 4)", "(lambda r: (r.U * r.S.exp()[..., None, :]) @ r.Vh)(torch.linalg.svd(x, full_matrices=False)), torch.linalg.svd(x, full_matrices=False).U.square(), torch.linalg.svd(x, full_matrices=False).Vh.square(), torch.linalg.svd(x, full_matrices=False).S", matmul(svd(x).u * unsqueeze(exp(svd(x).s), -2), svd(x).vh), square(svd(x).u), square(svd(x).vh), svd(x).s)
  GOLDEN("svdvals", "randn(4, 3), randn(2, 2, 7), const(of(1., 2., 2., 4.).reshape(2, 2)), randn(1, 1), const(randn(0, 3)), randn(3, 1)", "torch.linalg.svdvals(x), torch.linalg.svdvals(y), torch.linalg.svdvals(z), torch.linalg.svdvals(u), torch.linalg.svdvals(v), torch.linalg.svdvals(w)", svdvals(x), svdvals(y), svdvals(z), svdvals(u), svdvals(v), svdvals(w))
  GOLDEN("pinv", "randn(4, 2), randn(2, 3, 5), randn(3, 3), const(of(1., 2., 2., 4.).reshape(2, 2))", "torch.linalg.pinv(x), torch.linalg.pinv(y), torch.linalg.pinv(z), torch.linalg.pinv(u)", pinv(x), pinv(y), pinv(z), pinv(u))
  GOLDEN("matrix_rank", "const(randn(2, 4, 2)), const(randn(2, 5)), const(of(1., 2., 2., 4.).reshape(2, 2)), const(randn(3, 3))", "torch.linalg.matrix_rank(x @ y), torch.linalg.matrix_rank(z), torch.linalg.matrix_rank(u)", matrix_rank(matmul(x, y)), matrix_rank(z), matrix_rank(u))
  GOLDEN("lstsq", "randn(4, 2), randn(4, 3), randn(2, 2, 4), randn(2, 2, 1), randn(3, 3), randn(3)", "torch.linalg.lstsq(x, y).solution, torch.linalg.lstsq(z, u).solution, torch.linalg.lstsq(v, w[:, None]).solution[:, 0]", lstsq(x, y), lstsq(z, u), lstsq(v, w))
  GOLDEN("cond", "randn(2, 3, 3), randn(4, 2), randn(3, 3)", "torch.linalg.cond(x), torch.linalg.cond(y), torch.linalg.cond(y, -2), torch.linalg.cond(z, 'nuc')", cond(x), cond(y), cond(y, -2), cond(z, "nuc"))
  GOLDEN("cond.norms", "const(randn(2, 3, 3))", "torch.linalg.cond(x, 1), torch.linalg.cond(x, -1), torch.linalg.cond(x, inf), torch.linalg.cond(x, -inf), torch.linalg.cond(x, 'fro')", cond(x, 1), cond(x, -1), cond(x, HUGE_VAL), cond(x, -HUGE_VAL), cond(x, "fro"))
  GOLDEN("matrix_norm.singular_values", "randn(2, 3, 4)", "torch.linalg.matrix_norm(x, 2), torch.linalg.matrix_norm(x, -2, (2, 0), True), torch.linalg.matrix_norm(x, 'nuc')", matrix_norm(x, 2), matrix_norm(x, -2, {2, 0}, true), matrix_norm(x, "nuc"))
  GOLDEN("matrix_power.negative", "randn(2, 3, 3)", "torch.matrix_power(x, -1), torch.matrix_power(x, -3)", matrix_power(x, -1), matrix_power(x, -3))

  GOLDEN("polar", "randn(4, 3), randn(2, 3, 3)", "*torch.linalg.polar(x), *torch.linalg.polar(y)", polar(x), polar(y))
  GOLDEN("svd_lowrank", "randn(5, 2), randn(2, 4)", "torch.svd_lowrank(x @ y, 2)[1], (lambda r: (r[0] * r[1]) @ r[2].mT)(torch.svd_lowrank(const(x) @ const(y), 2)), torch.svd_lowrank((x @ y).mT, 2, 0)[1]", svd_lowrank(matmul(x, y), 2).s, matmul(svd_lowrank(matmul(x, y).detach(), 2).u * svd_lowrank(matmul(x, y).detach(), 2).s, transpose(svd_lowrank(matmul(x, y).detach(), 2).v)), svd_lowrank(transpose(matmul(x, y)), 2, 0).s)
  GOLDEN("pca_lowrank", "randn(6, 2), randn(2, 4)", "torch.pca_lowrank(x @ y, 2)[1], torch.pca_lowrank(x @ y, 2, center=False)[1], torch.pca_lowrank(const(x) @ const(y), 2)[2].square()", pca_lowrank(matmul(x, y), 2).s, pca_lowrank(matmul(x, y), 2, false).s, square(pca_lowrank(matmul(x, y).detach(), 2).v))

  // --- eigenvalues of symmetric matrices ---
  GOLDEN("eigvals", "randn(4, 4), randn(2, 1, 3, 3), const(randn(0, 0))", "(lambda l: (l.real ** 3).sum(-1))(torch.linalg.eigvals(x)), (lambda l: (l.real.exp() * l.imag.cos()).sum(-1))(torch.linalg.eigvals(x)), (lambda l: (l.real * l.imag ** 2).sum(-1))(torch.linalg.eigvals(y)), torch.linalg.eigvals(z).real", sum(pow(real(eigvals(x)), 3), {-1}), sum(exp(real(eigvals(x))) * cos(imag(eigvals(x))), {-1}), sum(real(eigvals(y)) * square(imag(eigvals(y))), {-1}), real(eigvals(z)))
  GOLDEN("eig", "randn(4, 4), randn(2, 1, 3, 3)", "(lambda r: (r[1].abs() ** 2 * r[0].real.exp()[..., None, :]).sum(-1))(torch.linalg.eig(x)), (lambda r: (r[0].imag ** 2).sum(-1))(torch.linalg.eig(x)), (lambda r: ((r[1][..., :, None, :] * r[1][..., None, :, :].conj()).real * r[0].real.exp()[..., None, None, :]).sum(-1))(torch.linalg.eig(y))", sum(square(complex_abs(eig(x).vectors)) * unsqueeze(exp(real(eig(x).values)), -2), {-1}), sum(square(imag(eig(x).values)), {-1}), sum(real(complex_mul(unsqueeze(eig(y).vectors, -3), complex_conj(unsqueeze(eig(y).vectors, -4)))) * unsqueeze(unsqueeze(exp(real(eig(y).values)), -2), -2), {-1}))
  GOLDEN("eigh", "randn(4, 4)", "(lambda r: (r[1] * r[0].exp()[..., None, :]) @ r[1].mT)(torch.linalg.eigh((x + x.mT) / 2)), torch.linalg.eigh((x + x.mT) / 2)[1].square(), torch.linalg.eigh((x + x.mT) / 2)[0]", matmul(eigh((x + transpose(x)) / 2.0).vectors * unsqueeze(exp(eigh((x + transpose(x)) / 2.0).values), -2), transpose(eigh((x + transpose(x)) / 2.0).vectors)), square(eigh((x + transpose(x)) / 2.0).vectors), eigh((x + transpose(x)) / 2.0).values)
  GOLDEN("eigh.batch", "randn(2, 1, 3, 3)", "(lambda r: (r[1] * r[0].exp()[..., None, :]) @ r[1].mT)(torch.linalg.eigh((x + x.mT) / 2)), torch.linalg.eigh((x + x.mT) / 2)[1].square(), torch.linalg.eigh((x + x.mT) / 2)[0]", matmul(eigh((x + transpose(x)) / 2.0).vectors * unsqueeze(exp(eigh((x + transpose(x)) / 2.0).values), -2), transpose(eigh((x + transpose(x)) / 2.0).vectors)), square(eigh((x + transpose(x)) / 2.0).vectors), eigh((x + transpose(x)) / 2.0).values)
  GOLDEN("eigvalsh", "randn(5, 5), randn(1, 1), const(randn(3, 3)), const(of(1., 2., 2., 4.).reshape(2, 2)), const(randn(0, 0))", "torch.linalg.eigvalsh(x + x.mT), torch.linalg.eigvalsh(y), torch.linalg.eigvalsh(z), torch.linalg.eigvalsh(u), torch.linalg.eigvalsh(-u), torch.linalg.eigvalsh(v)", eigvalsh(x + transpose(x)), eigvalsh(y), eigvalsh(z), eigvalsh(u), eigvalsh(-u), eigvalsh(v))
};

}  // namespace mantissa::test
