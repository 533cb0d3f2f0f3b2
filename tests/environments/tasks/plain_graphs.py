"""Graphs read from the words of prompts, and searched without the code under test."""


def edges_of(task, prompt):
    """Vertex -> the vertices that it has edges to, and the goal, from a prompt in plain words."""
    first, second, *_ = task.prompt_text(prompt).splitlines()
    heads = {}
    for edge in second.split(", "):
        tail, head = edge.split("->")
        heads.setdefault(tail, []).append(head)
    return heads, first.split(" to ")[1][0]


def every_path(heads, goal, vertex="A"):
    """All paths to the goal, without their first vertex."""
    if vertex == goal:
        return [[]]
    return [[head, *rest] for head in heads.get(vertex, []) for rest in every_path(heads, goal, head)]


def is_correct(heads, goal, thought):
    """Whether a thought is the beginning of a path to the goal, at least one vertex long."""
    return bool(thought) and any(path[: len(thought)] == thought for path in every_path(heads, goal))
