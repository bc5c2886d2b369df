"""An actor owns its state and takes one message at a time, so no lock is needed.

`send` puts a message into the mailbox and waits only while the mailbox is full. `ask` sends a `Call` and waits for
the answer. A thousand deposits from ten tasks arrive in some order, but never two at once. Actors belong to the
cluster and sovereign profiles.

Run:
    bursar run examples/actor_counter.py --profile cluster

Prints:
    the balance is 5500 after 1000 deposits
    refused: cannot withdraw 6000 from 5500
    the balance is 5000
    the account was closed with 5000 in it
"""

import bursar
from bursar import Call


async def account(mailbox):
    balance = 0
    async for message in mailbox:
        match message:
            case int():
                balance += message
            case Call(payload="balance"):
                message.reply(balance)
            case Call(payload=("withdraw", amount)) if amount <= balance:
                balance -= amount
                message.reply(balance)
            case Call(payload=("withdraw", amount)):
                message.fail(ValueError(f"cannot withdraw {amount} from {balance}"))
    return f"the account was closed with {balance} in it"


async def depositor(savings, amount):
    for _ in range(100):
        await savings.send(amount)


async def main():
    async with bursar.nursery() as n:
        savings = bursar.actor(n, account, mailbox=8)
        async with bursar.nursery() as depositors:
            for amount in range(1, 11):
                depositors.spawn(depositor, savings, amount)
        print("the balance is", await savings.ask("balance"), "after 1000 deposits")
        try:
            await savings.ask(("withdraw", 6000))
        except ValueError as refused:
            print("refused:", refused)
        print("the balance is", await savings.ask(("withdraw", 500)))
        savings.close()
    return savings.task.result


if __name__ == "__main__":
    print(bursar.run(main, profile="cluster"))
