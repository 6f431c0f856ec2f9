# SPDX-License-Identifier: GPL-2.0
"""Tables of what guest.py found: one of each run, and one of the medians of several runs, with the bounds that they are held against.

What was found in a run is a dictionary: by server, what hostile.py read of guest.py's lines. Either table consists of lines.
"""

import statistics

KINDS = ("GETATTR", "READ")

# How much longer a call of the mount may take, 99th percentile, than with the in-tree server during the same attack; and, during all
# others, than the larger of the two values without an attack. Of the last two a mount has its share of a busy server, whatever that does.
BESIDE_IN_TREE = {"more calls than credits, 8": 1.5}
BESIDE_QUIET = 2.0
NOT_BOUND = ("all of the first five, 200", "idle connections, 1000, and busy ones, 200")


def pairs(row):
    """How many queue pairs the server had more when all connections of the attack were made."""
    return row["begun"]["objects"]["qp"] - row["before"]["objects"]["qp"]


def times(measured):
    return f"{measured['median']} / {measured['p99']}"


def quiet(found, kind):
    """Returns the larger 99th percentile of the two that were measured without an attack; without an end there is one."""
    return max([1] + [found["alone"][when][kind]["p99"] for when in ("before", "after") if when in found["alone"]])


def beside_quiet(found, name, kind):
    """Returns what the attack makes of the 99th percentile, as a ratio."""
    return found["attacks"][name]["beside"][kind]["p99"] / quiet(found, kind)


def names_in(runs):
    return list(dict.fromkeys(name for results in runs for found in results.values() for name in found["attacks"]))


def table(results):
    """Yields what was found in one run."""
    yield "microseconds, median / p99, and p99 beside the attack / the larger p99 alone; nfsd threads asleep in the module, most at once in so many samples / longest sleep"
    yield "memory of the server in KiB: what is in use more after the attack (slab caches and vmalloc areas), and what is available less"
    yield f"{'':46}{'':9}" + f"{'GETATTR':>20}{'ratio':>8}{'READ 4 KiB':>20}{'ratio':>8}{'asleep':>22}{'kept':>8}{'less':>8}"
    for server, found in results.items():
        for when in "before", "after":
            if measured := found["alone"].get(when):
                columns = "".join(f"{times(measured[kind]):>20}{'':8}" for kind in KINDS)
                yield f"{f'alone, {when} all attacks':46}{server:9}{columns}"
    names = names_in([results])
    for name in names:
        for server, found in results.items():
            if not (row := found["attacks"].get(name)):
                continue
            beside, asleep = row["beside"], row["threads"]
            columns = [f"{times(beside[kind]):>20}{beside_quiet(found, name, kind):>8.1f}" for kind in KINDS]
            less = row["before"]["available"] - row["after"]["available"]
            yield f"{name:46}{server:9}" + "".join(columns) \
                + f"{asleep['most']:>4} in {asleep['samples']:>4} / {asleep['longest']:5.1f} s" + f"{row['kept']:>8}{less:>8}"
    for server, found in results.items():
        for name, row in found["attacks"].items():
            if row["begun"] and (connections := pairs(row)) > 0:
                each = (row["before"]["available"] - row["begun"]["available"]) / connections
                yield f"{server}: {name}: {connections} queue pairs for {row['asked']} connections, {each:.0f} KiB for each"
    yield "what the server's device counted of missing Receives; calls in a second"
    for name in names:
        for server, found in results.items():
            if row := found["attacks"].get(name):
                yield f"{name:46}{server:9}" + ", ".join(f"{what} {count}" for what, count in row["rnr"].items()) \
                    + f"; mount {row['calls']['mount']}, attackers {row['calls']['attackers']}: the mount has {share(row):.0f} %"
    for server, found in results.items():
        load = f"; load of this machine {min(found['load']):.1f} to {max(found['load']):.1f}" if found["load"] else ""
        if found["failed"]:
            yield f"{server}: the VMs failed {found['failed']}{load}"
        else:
            yield f"{server}: rmmod {'works' if found['unloads'] else 'FAILS'}{load}"


def share(row):
    """Returns the mount's share of the calls that were answered, in per cent."""
    return 100 * row["calls"]["mount"] / max(1, sum(row["calls"].values()))


def median(values):
    """Returns the median, which is None if there are no values."""
    return statistics.median(values) if values else None


def found_of(runs, server, name):
    """Returns what was found of that server, in each run in which the attack came to its end."""
    return [results[server] for results in runs if server in results and name in results[server]["attacks"]]


def ratios(runs, name, kind):
    """Returns what is held against the bound of that attack, in each run, with the bound: None if it has none."""
    ours = found_of(runs, "ours", name)
    if bound := BESIDE_IN_TREE.get(name):
        both = [results for results in runs if len(found_of([results], "ours", name) + found_of([results], "in-tree", name)) == 2]
        p99 = [[results[server]["attacks"][name]["beside"][kind]["p99"] for server in ("ours", "in-tree")] for results in both]
        return [mine / max(1, other) for mine, other in p99], bound
    return [beside_quiet(found, name, kind) for found in ours], None if name in NOT_BOUND else BESIDE_QUIET


def within(runs, name, kind):
    """Returns the median that is held against the bound, and whether it keeps to that: None if there is none."""
    values, bound = ratios(runs, name, kind)
    middle = median(values)
    return middle, None if bound is None or middle is None else middle <= bound


def verdict(runs, name, kind):
    middle, keeps = within(runs, name, kind)
    return "none" if middle is None else f"{middle:.1f}" + {None: "", True: " ok", False: " MORE"}[keeps]


def middle_times(measurements, kind):
    """Returns the medians of what was measured in several runs, as the table of one run has it."""
    measured = [measurement[kind] for measurement in measurements]
    return "none" if not measured else times({what: round(median([one[what] for one in measured])) for what in ("median", "p99")})


def medians(runs):
    """Yields the medians of several runs."""
    loads = [load for results in runs for found in results.values() for load in found["load"]]
    load = f"; load of this machine {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    yield f"medians of {len(runs)} runs, in microseconds: median / p99; the mount's share of the calls{load}"
    yield f"bound: p99 at most {BESIDE_QUIET} times the larger one without an attack; " \
        + "; ".join(f"{name}: at most {bound} times that beside the in-tree server" for name, bound in BESIDE_IN_TREE.items())
    servers = list(dict.fromkeys(server for results in runs for server in results))
    yield f"{'':46}" + "".join(f"{f'{kind}, {server}':>22}" for kind in KINDS for server in servers) \
        + "".join(f"{f'{kind}: ratio':>16}" for kind in KINDS) + "".join(f"{f'share, {server}':>16}" for server in servers)
    for when in "before", "after":
        alone = {server: [results[server]["alone"][when] for results in runs if when in results.get(server, {"alone": {}})["alone"]] for server in servers}
        yield f"{f'alone, {when} all attacks':46}" + "".join(f"{middle_times(alone[server], kind):>22}" for kind in KINDS for server in servers)
    for name in names_in(runs):
        rows = {server: [found["attacks"][name] for found in found_of(runs, server, name)] for server in servers}
        columns = [f"{middle_times([row['beside'] for row in rows[server]], kind):>22}" for kind in KINDS for server in servers]
        columns += [f"{verdict(runs, name, kind):>16}" for kind in KINDS]
        columns += [f"{f'{median(list(map(share, rows[server]))):.0f} %' if rows[server] else 'none':>16}" for server in servers]
        yield f"{name:46}" + "".join(columns)
