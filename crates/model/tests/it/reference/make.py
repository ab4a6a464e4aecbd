#!/usr/bin/env python3
"""Writes values.tsv: what the formulas say, from another hand.

    pip install mpmath==1.4.1 && python3 make.py > values.tsv

Everything is evaluated at 50 digits by the textbook sums as printed (with factorials,
where the crate walks from the mode), by series until nothing is left (where
the crate sums in closed form), by truncated chains (where it finds the matrix R),
and by roots of the printed distribution. Arguments are the doubles that are
written, so that a rate just below the capacity is just as far below it in both.
Each line: kind, arguments, values; all separated by tabs.
"""

from mpmath import exp, expm, factorial, findroot, log, lu_solve, matrix, mp, mpf, nstr

mp.dps = 50


def line(kind, arguments, values):
    cells = [kind] + [repr(a) for a in arguments] + [nstr(v, 20, min_fixed=0, max_fixed=0) for v in values]
    print("\t".join(cells))


# Erlang's B and M/M/m [Welsh02 eq. 4.3-4.9]


def erlang_b(arrivals, rate, servers):
    load = mpf(arrivals) / mpf(rate)
    return load**servers / factorial(servers) / sum(load**n / factorial(n) for n in range(servers + 1))


def multi_server(arrivals, rate, servers):
    lam, mu, m = mpf(arrivals), mpf(rate), servers
    a, rho = lam / mu, lam / (m * mu)
    p0 = 1 / (sum(a**n / factorial(n) for n in range(m)) + a**m / (factorial(m) * (1 - rho)))
    waiting = p0 * a**m / (factorial(m) * (1 - rho))
    number = m * rho + waiting * rho / (1 - rho)
    variance = m * rho + waiting * rho * ((1 + rho - waiting * rho) / (1 - rho) ** 2 + m)
    mean = (1 + waiting / (m * (1 - rho))) / mu

    def tail(r):
        if m - 1 == m * rho:
            return exp(-mu * r) + waiting * mu * r * exp(-mu * r)
        return exp(-mu * r) + waiting / (1 - m + m * rho) * (exp(-m * mu * (1 - rho) * r) - exp(-mu * r))

    return p0, waiting, number, variance, mean, tail


def quantile(tail, mean, percentile):
    wanted = log(1 - mpf(percentile))
    low, high = mpf(0), mean / (1 - mpf(percentile))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if log(tail(middle)) > wanted else (low, middle)
    return high


MULTI_SERVER = [
    (0.5, 1.0, 1), (0.999999, 1.0, 1), (2.0, 1.0, 3), (2.999, 1.0, 3), (1e-9, 1.0, 4),
    # λ = (m − 1)μ, and just beside it
    (1.0, 1.0, 2), (1.0000001, 1.0, 2), (3.0, 1.0, 4), (297.0, 3.0, 100), (296.9999999, 3.0, 100),
    (150.0, 100.0, 2), (0.0512, 0.0016, 33), (40.0, 1.0, 100), (99.0, 1.0, 100), (99.999999, 1.0, 100),
    (190.0, 1.0, 200), (499.5, 1.0, 500), (999.0, 1.0, 1000), (1.0, 1.0, 2000), (1500.0, 1.0, 2000),
    (1999.0, 1.0, 2000), (1999.999999999, 1.0, 2000), (7.3e5, 400.0, 2000),
]
for arguments in MULTI_SERVER:
    p0, waiting, number, variance, mean, tail = multi_server(*arguments)
    line("multi_server", arguments, [p0, waiting, number, variance, mean])
    for percentile in [0.001, 0.5, 0.9, 0.99, 0.999999]:
        line("quantile", arguments + (percentile,), [quantile(tail, mean, percentile)])
    for factor in [0.01, 0.5, 1.0, 3.0, 20.0]:
        t = float(nstr(mean * mpf(factor), 6))
        line("tail", arguments + (t,), [tail(mpf(t))])

for arguments in [(8.108, 1.0, 15), (0.01, 1.0, 8), (100.0, 1.0, 100), (1e4, 1.0, 100), (1900.0, 1.0, 2000), (2500.0, 1.0, 2000), (5000.0, 1.0, 5000)]:
    line("blocking", arguments, [erlang_b(*arguments)])


# Load-dependent centres [Welsh02 eq. 4.11-4.15]


def load_dependent(arrivals, rate, threads, parallelism, lost):
    lam, mu, phi = mpf(arrivals), mpf(rate), mpf(lost)

    def rate_at(n):
        if threads < parallelism:
            served = n * mu if n < threads else threads * mu
        else:
            served = n * mu if n < parallelism else parallelism * mu
        return max(mpf(0), served - phi)

    first = 0
    while rate_at(first + 1) == 0:
        first += 1
    weights, n, weight, greatest = {first: mpf(1)}, first, mpf(1), mpf(1)
    while n < threads + 5 or weight > mpf(10) ** -40 * greatest:
        n += 1
        weight *= lam / rate_at(n)
        greatest = max(greatest, weight)
        weights[n] = weight
    total = sum(weights.values())
    number = sum(n * w for n, w in weights.items()) / total
    variance = sum((n - number) ** 2 * w for n, w in weights.items()) / total
    servers = min(threads, parallelism)
    waiting = sum(w for n, w in weights.items() if n >= servers) / total
    return [waiting, number, variance, number / lam, weights.get(5, mpf(0)) / total]


for arguments in [
    (0.1, 0.05, 3, 4, 0.0), (0.15, 0.05, 16, 4, 0.01), (0.1, 0.05, 20, 4, 0.05), (0.05, 0.05, 24, 4, 0.09),
    (0.098, 0.05, 25, 4, 0.1), (30.0, 1.0, 40, 50, 7.5), (90.0, 1.0, 400, 100, 3.2), (1.0, 1.0, 400, 100, 3.2),
]:
    line("load_dependent", arguments, load_dependent(*arguments))


# M/PH/m by a chain that is cut off where nothing is left

HALF = mpf(1) / 2
SERVICES = {
    # steps: entry, rates, routes
    "erlang2": ([1, 0], [1.0, 1.0], [[0, 1], [0, 0]]),
    "erlang3": ([1, 0, 0], [2.0, 2.0, 2.0], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]),
    "choice": ([HALF, HALF], [0.02, 0.07], [[0, 0], [0, 0]]),
    "branch": ([1, 0, 0], [0.9, 0.02, 0.07], [[0, HALF, HALF], [0, 0, 0], [0, 0, 0]]),
}


def states(total, parts):
    if parts == 1:
        return [(total,)]
    return [(k,) + rest for k in range(total + 1) for rest in states(total - k, parts - 1)]


def phase_server(service, arrivals, workers):
    entry, rates, routes = SERVICES[service]
    lam, rates, steps = mpf(arrivals), [mpf(r) for r in rates], range(len(rates))
    exits = [1 - sum(routes[i]) for i in steps]
    mean_service = sum(
        x / r for x, r in zip(lu_solve((matrix(routes) - mp.eye(len(rates))).T, -matrix(entry)), rates)
    )
    rho = lam * mean_service / workers
    last = workers + 20 + int(28 * log(10) / -log(rho))

    def block(n, target):
        here, there = states(min(n, workers), len(rates)), states(min(target, workers), len(rates))
        place = {s: i for i, s in enumerate(there)}
        result = matrix(len(here), len(there))

        def add(i, state, value):
            if value:
                result[i, place[tuple(state)]] += value

        for i, state in enumerate(here):
            for step in steps:
                rate = state[step] * rates[step]
                for following in steps:
                    moved = list(state)
                    moved[step] -= 1
                    moved[following] += 1
                    if rate and target == n:
                        add(i, moved, rate * routes[step][following])
                    if rate and target == n - 1 and n > workers:
                        add(i, moved, rate * exits[step] * entry[following])
                if rate and target == n - 1 and n <= workers:
                    moved = list(state)
                    moved[step] -= 1
                    add(i, moved, rate * exits[step])
                if target == n + 1 and n < workers:
                    moved = list(state)
                    moved[step] += 1
                    add(i, moved, lam * entry[step])
            if target == n + 1 and n >= workers:
                add(i, state, lam)
            if target == n:
                leaving = sum(state[s] * rates[s] for s in steps) + (lam if n < last else 0)
                add(i, state, -leaving)
        return result

    homogeneous = block(workers, workers), block(workers, workers + 1), block(workers + 1, workers)
    ways = {}
    inverse = None
    for n in range(last, 0, -1):
        if n > workers and n < last:
            within, up, down = homogeneous
        else:
            within, up, down = block(n, n), block(n, n + 1) if n < last else None, block(n + 1, n) if n < last else None
        inverse = -(within + up * inverse * down if inverse is not None else within) ** -1
        ways[n] = inverse
    level, levels = matrix([[1]]), []
    levels.append(mpf(1))
    for n in range(1, last + 1):
        level = level * (homogeneous[1] if n > workers else block(n - 1, n)) * ways[n]
        levels.append(sum(level))
    total = sum(levels)
    waiting = sum(levels[workers:]) / total
    number = sum(n * p for n, p in enumerate(levels)) / total
    return [waiting, number, number / lam]


for arguments in [
    ("erlang2", 0.45, 1), ("erlang2", 0.3, 2), ("erlang2", 1.8, 4), ("erlang2", 5.5, 12), ("erlang3", 1.2, 2),
    ("erlang3", 2.4, 4), ("choice", 0.02, 1), ("choice", 0.1, 4), ("branch", 0.05, 2), ("branch", 0.1, 4),
]:
    print("phase_server\t" + arguments[0] + "\t", end="")
    values = phase_server(*arguments)
    print("\t".join([repr(a) for a in arguments[1:]] + [nstr(v, 20, min_fixed=0, max_fixed=0) for v in values]))


# M/E_r/1 by the formula of Pollaczek and Khinchine: E[R] with steps of rate 1

for steps, arrivals in [(2, 0.25), (5, 0.19), (20, 0.049)]:
    mean, second, lam = mpf(steps), mpf(steps) * (steps + 1), mpf(arrivals)
    line("pollaczek_khinchine", (steps, arrivals), [mean + lam * second / (2 * (1 - lam * mean))])


# A network with a way back: read -> parse -> {disk 0.3, send 0.7}, disk -> parse 0.1, send 0.9;
# two of its stages have several workers. Service rates and workers by stage:

RATES, WORKERS = [500.0, 120.0, 30.0, 300.0], [1, 2, 4, 1]
ROUTES = [[0, 1, 0, 0], [0, 0, 0.3, 0.7], [0, 0.1, 0, 0.9], [0, 0, 0, 0]]
for arrivals in [10.0, 150.0, 225.0]:
    routes = matrix([[mpf(repr(float(p))) for p in row] for row in ROUTES])
    flows = lu_solve((mp.eye(4) - routes).T, matrix([arrivals, 0, 0, 0]))
    solved = [multi_server(flows[i], RATES[i], WORKERS[i]) for i in range(4)]
    mean = sum(s[2] for s in solved) / mpf(arrivals)
    # Steps: the wait and the service of each stage.
    generator, entry = matrix(8, 8), matrix(1, 8)
    for i in range(4):
        slack = WORKERS[i] * mpf(RATES[i]) - flows[i]
        generator[2 * i, 2 * i], generator[2 * i, 2 * i + 1] = -slack, slack
        generator[2 * i + 1, 2 * i + 1] -= mpf(RATES[i])
        for j in range(4):
            generator[2 * i + 1, 2 * j] += mpf(RATES[i]) * routes[i, j] * solved[j][1]
            generator[2 * i + 1, 2 * j + 1] += mpf(RATES[i]) * routes[i, j] * (1 - solved[j][1])
    entry[0], entry[1] = solved[0][1], 1 - solved[0][1]

    def tail(t):
        return sum(entry * expm(generator * t))

    wanted = {p: findroot(lambda t: log(tail(t)) - log(1 - mpf(p)), mean * -log(1 - mpf(p))) for p in [0.5, 0.9, 0.99]}
    line("network", (arrivals,), [mean] + [flows[i] for i in range(4)] + [wanted[p] for p in [0.5, 0.9, 0.99]])
