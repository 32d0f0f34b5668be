"""Cycles of a directed graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def cycles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other, sorted; nodes without a cycle are left out.

    Source: Tarjan, "Depth-first search and linear graph algorithms" (1972), without recursion.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    components: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    start = stack.index(node)
                    group = stack[start:]
                    del stack[start:]
                    on_stack.difference_update(group)
                    if len(group) > 1 or node in graph[node]:
                        components.append(sorted(group))
    return sorted(components)
