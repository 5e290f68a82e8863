"""An ordinary agent: prompt, tool call, tool call, answer; its tools run under effectd.

    agent.py DIRECTORY TASK [STEPS]

It prints its final answer as JSON. It may be killed at any moment, and so may the daemon: started
again with the same TASK it goes on with the same operation. STEPS is how many calls it makes
before its time is up (its "time limit"), after which it continues by itself.
"""

from __future__ import annotations

import contextlib
import json
import sys
import uuid
from pathlib import Path

import model

from effectd.client import CallEnded, CallInterrupted, Client, OutcomeUnknown, Refused

MAX_RUN_MS = 600_000


class CutOff(Exception):
    """This stretch of the conversation is over: its continuation is not open any more."""


class OutOfTime(Exception):
    """The agent's own time limit."""


class Agent:
    def __init__(self, client, task, steps):
        self.client, self.task, self.steps = client, task, steps
        operation = client.open(task, max_run_ms=MAX_RUN_MS)
        self.operation_id = operation["operation_id"]
        self.n = len(operation["continuations"]) - 1
        self.finished = operation["state"] == "succeeded"
        fresh = operation["state"] == "running" and self.n == 0 and not operation["calls"]
        if not fresh and not self.finished:
            self.begin_again("manual")  # somebody was here before, and nobody knows how far

    def begin_again(self, trigger):
        """The next continuation: the model will know nothing of this one but the note."""
        # Found by looking, not by counting: the daemon may have ended one meanwhile.
        newest = self.client.operation(self.operation_id)["continuations"][-1]["n"]
        try:
            self.client.continue_(self.operation_id, after=newest, trigger=trigger)
        except Refused:
            if trigger == "manual":
                raise
            # Three times it goes on by itself; then its user has to press the button.
            self.client.continue_(self.operation_id, after=newest)
        self.n = newest + 1

    def run(self):
        while not self.finished:
            try:
                return self.answered()
            except CutOff:
                self.begin_again("manual")
        return self.recorded()

    def answered(self):
        """The final answer, in as many stretches as its time limit makes of it."""
        try:
            answer = self.converse()
        except OutOfTime:
            self.end("time_limit")
            self.begin_again("auto")
            return self.answered()
        self.end("done")
        return answer

    def end(self, reason):
        """What a restart has ended already cannot be called done: it is gone through once more."""
        try:
            self.client.end(self.operation_id, self.n, reason)
        except Refused as refused:
            if refused.code == "ContinuationRefused":
                raise CutOff from refused
            raise

    def converse(self):
        """One prompt, and everything up to the final answer."""
        prompt = f"{self.client.note(self.operation_id)}\nTask: {self.task}"
        conversation = []
        while (call := model.next_move(prompt, conversation)) is not None:
            if len(conversation) == self.steps:
                self.steps *= 2  # who is continued gets more time
                raise OutOfTime
            tool, given = call
            said, text = self.use(tool, given)
            conversation.append({"tool": tool, "input": given, "said": said, "text": text})
        return model.final_answer(conversation)

    def use(self, tool, given):
        """One tool call; what the model is told of it."""
        told = ""
        for _ in range(3):
            try:
                return "result", json.dumps(self.call(tool, given))
            except OutcomeUnknown as unknown:
                # An identical call does what its contracts allow, and says what is missing.
                told = unknown.for_model
                effect_id = unknown.document.get("effect_id")
                if unknown.code == "ReconciliationRequired" and effect_id is not None:
                    with contextlib.suppress(Refused):  # somebody asked already, or not just now
                        self.client.reconcile(effect_id)  # the provider can tell
            except CallInterrupted as interrupted:
                raise CutOff from interrupted
            except CallEnded as ended:
                return "failed", ended.for_model
            except Refused as refused:
                if refused.code == "ContinuationRefused":
                    raise CutOff from refused
                return "refused", refused.for_model
        return "unknown", told

    def call(self, tool, given):
        # A real model gives its call an id. One call, one id: when the answer is lost the client
        # asks for it again under the same, and it is the same call.
        call_id = f"{self.n}-{uuid.uuid4().hex[:12]}"
        return self.client.invoke(
            self.operation_id, tool, given, request_id=call_id, continuation=self.n
        )

    def recorded(self):
        """The answer of an agent that was killed when it had just finished."""
        found = map(self.client.call, self.client.operation(self.operation_id)["calls"])
        done = {f"{one['handler']} {one['input']['order']}" for one in found}
        return {"done": sorted(done), "unknown": []}


def main():
    directory, task, *steps = sys.argv[1:]
    socket = Path(directory) / "state" / "effectd.sock"
    with Client(socket) as client:
        answer = Agent(client, task, int(steps[0]) if steps else 1_000).run()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
