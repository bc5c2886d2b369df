"""Bound tokens, money and processor time of agents, for each tenant.

A tenant pays for tokens and tool calls, in millionths of a dollar, and may use a share of the processor. These are the
program's own units: named counters of a budget. Each tenant has a nursery with a purse. Its agent, the sub-agents and
their tools all draw on that purse, at any depth, so no tenant can spend more than it has, and none can spend what
another one paid for. `cpu_ns` is measured: a tool that computes too long is stopped at its next await.

Run:
    bursar run examples/agent_tenants.py

Prints:
    acme: 3 answers for 2,700 tokens, 3 calls, 5,700 usd_micros
    acme: 1,300 tokens and 4,300 usd_micros are left
    bolt: out of tokens
    crew: out of calls
    dune: out of cpu_ns
"""

import bursar
from bursar import Budget, BudgetExceeded

USD_MICROS_PER_TOKEN = 2
USD_MICROS_PER_CALL = 100
TENANTS = {
    "acme": Budget(tokens=4_000, calls=5, usd_micros=10_000, cpu_ns=10**10),
    "bolt": Budget(tokens=2_000, calls=5, usd_micros=10_000, cpu_ns=10**10),
    "crew": Budget(tokens=4_000, calls=2, usd_micros=10_000, cpu_ns=10**10),
    "dune": Budget(tokens=4_000, calls=5, usd_micros=10_000, cpu_ns=1_000),
}


async def ask_model(question):
    """Stands for a call of a language model. The answer has as many tokens as the price list says."""
    tokens = 700 + 100 * len(question)
    await bursar.charge(tokens=tokens, usd_micros=USD_MICROS_PER_TOKEN * tokens)
    return f"answer to {question}"


async def call_tool(text):
    await bursar.charge(calls=1, usd_micros=USD_MICROS_PER_CALL)
    return text.upper()


async def sub_agent(question):
    return await call_tool(await ask_model(question))


async def agent(questions):
    """One sub-agent per question, one after the other. None of them states a budget: all draw on the tenant's purse."""
    answers = []
    async with bursar.nursery() as n:
        for question in questions:
            answers.append(await n.spawn(sub_agent, question, name=f"sub-agent {question}"))
    return answers


async def serve(tenant, budget):
    """Run the agent of one tenant, and print how it ended. A failure of one tenant is not one of the others."""
    try:
        async with bursar.nursery(budget=budget, name=tenant) as n:
            answers = await n.spawn(agent, ["aa", "bb", "cc"], name=f"agent of {tenant}")
            left = n.budget
            spent = {name: f"{limit - getattr(left, name):,} {name}" for name, limit in budget.named}
            print(f"{tenant}: {len(answers)} answers for {spent['tokens']}, {spent['calls']}, {spent['usd_micros']}")
            print(f"{tenant}: {left.tokens:,} tokens and {left.usd_micros:,} usd_micros are left")
    except* BudgetExceeded as failures:
        print(f"{tenant}: out of {component_of(failures)}")


def component_of(failure):
    """The counter of which a tenant had too little: its innermost task has the error."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure.component


async def main():
    for tenant, budget in TENANTS.items():
        await serve(tenant, budget)


if __name__ == "__main__":
    bursar.run(main)
