"""A language model, scripted: it wants a few things done, and has nothing but its prompt.

Like a real one it decides from its prompt and the conversation alone what to do next. It does not
even read the note in the prompt: after every interruption it begins from the top, which is the
worst that a model can do.
"""

from __future__ import annotations

ORDERS = ("apples", "pears")
TOOLS = ("charge", "reserve", "mail")


def plan(task):
    """What the task takes, as (tool, input)."""
    return [(tool, {"order": f"{task}-{order}"}) for order in ORDERS for tool in TOOLS]


def next_move(prompt, conversation):
    """The next tool call as (tool, input); None when there is nothing left to do.

    `conversation` holds what was said since the prompt: {"tool", "input", "said", "text"}.
    """
    task = prompt.rpartition("Task: ")[2]
    answered = {(one["tool"], one["input"]["order"]) for one in conversation}
    left = [call for call in plan(task) if (call[0], call[1]["order"]) not in answered]
    return left[0] if left else None


def final_answer(conversation):
    """What it tells its user: what was done, and honestly what nobody knows."""
    answers = {f"{one['tool']} {one['input']['order']}": one["said"] for one in conversation}
    return {
        "done": sorted(name for name, said in answers.items() if said == "result"),
        "unknown": sorted(name for name, said in answers.items() if said == "unknown"),
    }
