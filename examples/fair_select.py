"""`select` waits for the first of several operations, and prefers none of them.

Both queues always have a value ready. A select that took the first ready case would never serve the second. Bursar's
select draws among the ready cases with the seed of the run, so the choice is fair and repeatable. The cases that were
not chosen have no effect: no value is lost from their channels.

Run:
    bursar run examples/fair_select.py --clock virtual

Prints:
    200 served: 87 urgent, 113 normal; the longest run of one kind: 12
    then: a pause of 0.5 s, because nothing came
    then: default, because nothing was ready
"""

import bursar


async def main():
    urgent_in, urgent = bursar.channel(200)
    normal_in, normal = bursar.channel(200)
    for n in range(200):
        await urgent_in.send(n)
        await normal_in.send(n)

    served = []
    for _ in range(200):
        index, _value = await bursar.select(urgent.receive(), normal.receive())
        served.append(("urgent", "normal")[index])
    print(
        f"200 served: {served.count('urgent')} urgent, {served.count('normal')} normal; "
        f"the longest run of one kind: {longest_run(served)}"
    )

    _, silent = bursar.channel()
    index, _ = await bursar.select(silent.receive(), bursar.sleep(0.5))
    if index == 1:
        print("then: a pause of 0.5 s, because nothing came")

    index, value = await bursar.select(silent.receive(), default="default")
    return f"then: {value}, because nothing was ready"


def longest_run(items):
    longest = length = 0
    for before, item in zip([None, *items], items, strict=False):
        length = length + 1 if item == before else 1
        longest = max(longest, length)
    return longest


if __name__ == "__main__":
    print(bursar.run(main, clock="virtual"))
