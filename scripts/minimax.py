#!/usr/bin/env python3
"""minimax.py - print every coefficient of the polynomials of src/kern/kern_math.h.

The method is the Remez exchange in double precision for sum c[j] t^j ~ f(t) on [a, b], with the
error weighted by w(t). Then the coefficients are rounded to f32 one by one, beginning with the
constant. The remaining coefficients are fitted again each time, so that they compensate for the
rounding. The script needs no packages. """
import math
import struct


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def solve(rows, rhs):
    """Solve by Gaussian elimination with partial pivoting."""
    n = len(rhs)
    m = [row[:] + [y] for row, y in zip(rows, rhs)]
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(m[r][i]))
        m[i], m[p] = m[p], m[i]
        for r in range(i + 1, n):
            k = m[r][i] / m[i][i]
            for c in range(i, n + 1):
                m[r][c] -= k * m[i][c]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (m[i][n] - sum(m[i][c] * x[c] for c in range(i + 1, n))) / m[i][i]
    return x


def remez(f, w, a, b, fixed, degree):
    """Fit the coefficients up to `degree`, except fixed[0..] of the low powers."""
    power = range(len(fixed), degree + 1)
    n = len(power) + 1
    at = [(a + b) / 2 - (b - a) / 2 * math.cos(math.pi * (i + 0.5) / n) for i in range(n)]
    grid = [a + (b - a) * i / 4000 for i in range(4001)]

    def base(t):
        return f(t) - sum(c * t**j for j, c in enumerate(fixed))

    for _ in range(30):
        rows = [[t**j for j in power] + [(-1) ** i / w(t)] for i, t in enumerate(at)]
        c = solve(rows, [base(t) for t in at])[:-1]
        err = [(base(t) - sum(x * t**j for x, j in zip(c, power))) * w(t) for t in grid]
        extrema = []  # the greatest error of each run of one sign
        for t, e in zip(grid, err):
            if extrema and (e > 0) == (extrema[-1][1] > 0):
                if abs(e) > abs(extrema[-1][1]):
                    extrema[-1] = (t, e)
            else:
                extrema.append((t, e))
        while len(extrema) > n:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < n or [t for t, _ in extrema] == at:
            break
        at = [t for t, _ in extrema]
    return c, max(abs(e) for e in err)


def fit(name, f, w, a, b, degree, fixed=()):
    c = list(fixed)
    while len(c) <= degree:
        rest, worst = remez(f, w, a, b, c, degree)
        c.append(f32(rest[0]))
    grid = [a + (b - a) * i / 4000 for i in range(4001)]
    worst = max(abs((f(t) - sum(x * t**j for j, x in enumerate(c))) * w(t)) for t in grid)
    print(f"{name}: degree {degree} on [{a:g}, {b:g}], weighted error 2^{math.log2(worst):.1f}")
    for j, x in enumerate(c):
        print(f"    t^{j}: {x.hex()}f")


def tanh_p(z):  # tanh x = x + x z P(z), z = x^2
    x = math.sqrt(z)
    if x < 0.05:
        return -1 / 3 + z * (2 / 15 + z * (-17 / 315 + z * (62 / 2835 - z * 1382 / 155925)))
    return (math.tanh(x) / x - 1) / z


def erf_p(z):  # erf x = x + x P(z), z = x^2
    x = math.sqrt(z)
    if x < 1e-4:
        return 2 / math.sqrt(math.pi) * (1 - z / 3) - 1
    return math.erf(x) / x - 1


def log_r(z):  # ln(1 + f) = s (2 + z R(z)), s = f / (2 + f), z = s^2
    if z < 1e-4:
        return sum(2 * z**j / (2 * j + 3) for j in range(5))
    s = math.sqrt(z)
    return (2 * math.atanh(s) / s - 2) / z


def exp2_p(r):  # 2^r = 1 + r P(r)
    return math.expm1(r * math.log(2)) / r if r else math.log(2)


TANH_SPLIT = 0.75
ERF_SPLIT = 0.9375
LOG_SPLIT = 3 - 2 * math.sqrt(2)  # s at m = sqrt 2
if __name__ == "__main__":
    fit("tanh", tanh_p, lambda z: z * math.sqrt(z) / math.tanh(math.sqrt(z)) if z else 1e-9,
        0, TANH_SPLIT**2, 5)
    fit("erf, small", erf_p, lambda z: math.sqrt(z) / math.erf(math.sqrt(z)) if z else 0.886,
        0, ERF_SPLIT**2, 6)
    fit("erf, large: -ln erfc(t)", lambda t: -math.log(math.erfc(t)),
        lambda t: math.erfc(t) / math.erf(t), ERF_SPLIT, 4, 6)
    fit("2^r", exp2_p, lambda r: abs(r) * 2**-r + 1e-9, -0.5, 0.5, 4)
    fit("log", log_r, lambda z: z / 2 + 1e-9, 0, LOG_SPLIT**2, 3)
