"""Write ``coefficients.h``: the polynomials of ``sincos`` and ``sincos_dd`` in ``sincos.pxd``.

``python src/coefficients.py > src/coefficients.h`` (it needs mpmath).

The polynomials with the coefficients S0 .. S6 and C0 .. C6 interpolate two functions at Chebyshev nodes, which make the
largest error nearly minimal:

    s(z) = sin(2 pi x) / x,      c(z) = cos(2 pi x),      z = x**2,

for x up to LIMIT turns. LIMIT is slightly more than an eighth of a turn, because a low part is added to the angle after
the choice of the quadrant. T3 .. T20 are Taylor coefficients of sine and cosine in radians. T3 .. T6 also have a low
part.
"""

import mpmath as mp

LIMIT = mp.mpf("0.1255")


def interpolate(function, nodes):
    """Return coefficients, constant first, of the polynomial through the function's values at the nodes."""
    powers = mp.matrix(len(nodes), len(nodes))
    for row, node in enumerate(nodes):
        for column in range(len(nodes)):
            powers[row, column] = node**column
    return list(mp.lu_solve(powers, mp.matrix([function(node) for node in nodes])))


def chebyshev(count):
    """Return the Chebyshev nodes of [-1, 1], ascending."""
    return [-mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def define(name, value, low=False):
    high = float(value)
    print(f"#define {name} {high.hex()}")
    if low:
        print(f"#define {name}_LOW {float(value - high).hex()}")


def main():
    mp.mp.dps = 60
    top = LIMIT**2

    def s(z):
        return mp.sin(2 * mp.pi * mp.sqrt(z)) / mp.sqrt(z)

    def c(z):
        return mp.cos(2 * mp.pi * mp.sqrt(z))

    print("/* Written by coefficients.py. */")
    define("TWO_PI", 2 * mp.pi, low=True)
    define("PER_RADIAN", 1 / (2 * mp.pi), low=True)
    sine = interpolate(s, [top * (1 + node) / 2 for node in chebyshev(7)])
    # the first node is 0, so that the constant and cos 0 are exactly 1
    nodes = chebyshev(7)
    cosine = interpolate(c, [top * (node - nodes[0]) / (1 - nodes[0]) for node in nodes])
    for name, coefficients, function, weight in (("S", sine, s, mp.sqrt), ("C", cosine, c, lambda z: 1)):
        rounded = [mp.mpf(float(k)) for k in coefficients]
        worst = max(
            abs((mp.polyval(rounded[::-1], z) - function(z)) * weight(z))
            for z in (top * k / 2000 for k in range(1, 2001))
        )
        print(f"/* {'sine' if name == 'S' else 'cosine'}: largest error 2^{mp.nstr(mp.log(worst, 2), 4)} */")
        for k, value in enumerate(coefficients):
            define(f"{name}{k}", value)
    for k in range(3, 21):
        define(f"T{k}", mp.mpf(-1) ** (k // 2) / mp.factorial(k), low=k <= 6)


if __name__ == "__main__":
    main()
