"""Circles of agents: each once, against a plain search, and in bounds on the worst of graphs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.definitions import AgentSpec, cycles

Graph = dict[str, list[str]]


def agents(graph: Graph) -> dict[str, AgentSpec]:
    return {slug: AgentSpec(slug=slug, subagents=others) for slug, others in graph.items()}


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({}, []),
        ({"a": ["b"], "b": []}, []),
        ({"a": ["a"]}, [("a", "a")]),
        ({"a": ["b"], "b": ["a"]}, [("a", "b", "a")]),
        ({"a": ["b", "gone"], "b": ["a"]}, [("a", "b", "a")]),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, []),
        ({"b": ["c"], "c": ["a"], "a": ["b", "a"]}, [("a", "a"), ("a", "b", "c", "a")]),
    ],
)
def test_each_circle_is_told_once_from_its_first_slug(graph: Graph, found: list[tuple[str, ...]]) -> None:
    assert cycles(agents(graph)) == found


@given(st.dictionaries(st.sampled_from("abcde"), st.lists(st.sampled_from("abcde"), unique=True), max_size=5))
def test_they_are_those_of_a_search_through_all_ways(graph: Graph) -> None:
    def search(path: tuple[str, ...]) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for other in graph.get(path[-1], ()):
            if other == path[0]:
                found.add((*path, other))
            elif other > path[0] and other not in path:
                found |= search((*path, other))
        return found

    told = cycles(agents(graph), cycles_max=10_000)

    assert len(told) == len(set(told))
    assert set(told) == {cycle for slug in graph for cycle in search((slug,))}


def test_a_graph_of_more_circles_than_atoms_gives_the_first_hundred() -> None:
    slugs = [f"a{n:03}" for n in range(200)]
    started = time.process_time()

    found = cycles(agents(dict.fromkeys(slugs, slugs)))

    assert time.process_time() - started < 10
    assert len(set(found)) == 100


def test_a_ladder_whose_every_way_ends_at_an_agent_on_the_path_is_gone_through_once() -> None:
    """From a, a search that forgets where it has been takes 2**40 ways to learn that they all end at b."""
    graph: Graph = {"a": ["b"], "b": ["a", "n00l", "n00r"]}
    for n in range(40):
        for side in "lr":
            graph[f"n{n:02}{side}"] = [f"n{n + 1:02}l", f"n{n + 1:02}r"]
    graph["n40l"] = graph["n40r"] = ["b"]
    started = time.process_time()

    first, second, third = cycles(agents(graph), cycles_max=3)

    assert time.process_time() - started < 10
    assert first == ("a", "b", "a")
    assert len(second) == len(third) == 43


def test_a_chain_of_thousands_is_no_matter_of_depth() -> None:
    graph = {f"a{n:04}": [f"a{(n + 1) % 2_000:04}"] for n in range(2_000)}

    (found,) = cycles(agents(graph))

    assert len(found) == 2_001
