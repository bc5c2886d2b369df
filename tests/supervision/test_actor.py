"""Actors: a bounded mailbox, questions and answers, and what happens to both when the actor's task ends."""

import pytest

import bursar
from bursar import Call, ChannelClosed, OutcomeKind, actor, nursery, sleep, supervisor


@pytest.fixture
def cluster(run):
    """Run a program in the cluster profile."""

    def call(fn, *args, **keywords):
        return run(fn, *args, profile="cluster", **keywords)

    return call


async def collector(mailbox, into):
    async for message in mailbox:
        into.append(message)


async def calculator(mailbox):
    async for message in mailbox:
        if not isinstance(message, Call):
            raise ValueError(f"crashed on {message!r}")
        if message.payload == "fail":
            message.fail(KeyError("asked for it"))
        elif message.payload == "crash":
            raise ValueError("crashed")
        elif message.payload == "ignore":
            continue
        else:
            message.reply(message.payload * 2)


# ---- messages


def test_messages_arrive_in_order_and_the_loop_ends_when_the_actor_is_closed(cluster):
    got = []

    async def main():
        async with nursery() as n:
            ref = actor(n, collector, got, name="collector")
            for i in range(10):
                await ref.send(i)
            ref.close()
        return ref.task.name, ref.task.outcome.kind

    assert cluster(main) == ("collector", OutcomeKind.OK)
    assert got == list(range(10))


def test_a_full_mailbox_makes_the_sender_wait(cluster):
    async def slow(mailbox):
        async for _ in mailbox:
            await sleep(1)

    async def main():
        async with nursery() as n:
            ref = actor(n, slow, mailbox=2)
            times = []
            for i in range(5):
                await ref.send(i)
                times.append(await bursar.now())
            with pytest.raises(bursar.WouldBlock):
                ref.send_nowait("full")
            n.cancel()
        return times

    assert cluster(main) == [0.0, 0.0, 0.0, 1.0, 2.0]


def test_a_message_can_be_sent_without_waiting(cluster):
    got = []

    async def main():
        async with nursery() as n:
            ref = actor(n, collector, got)
            ref.send_nowait(1)
            ref.close()

    cluster(main)
    assert got == [1]


def test_a_mailbox_is_read_with_receive_too(cluster):
    async def one(mailbox, log):
        assert mailbox
        log.append(len(mailbox))
        log.append(await mailbox.receive())
        with pytest.raises(ChannelClosed):
            await mailbox.receive()

    async def main():
        log = []
        async with nursery() as n:
            ref = actor(n, one, log)
            ref.send_nowait("x")
            ref.close()
        return log

    assert cluster(main) == [1, "x"]


def test_sending_to_an_actor_that_has_ended_fails(cluster):
    async def brief(mailbox):
        return None

    async def main():
        async with nursery() as n:
            ref = actor(n, brief)
            await ref.task
            with pytest.raises(ChannelClosed):
                await ref.send(1)
            with pytest.raises(ChannelClosed):
                ref.send_nowait(1)
            with pytest.raises(ChannelClosed):
                await ref.ask(1)

    cluster(main)


def test_a_sender_that_still_waits_when_the_actor_ends_is_told(cluster):
    results = []

    async def brief(mailbox):
        await mailbox.receive()
        await sleep(1)

    async def sender(ref, i):
        try:
            await ref.send(i)
            results.append("accepted")
        except ChannelClosed:
            results.append("told")

    async def main():
        async with nursery() as n:
            ref = actor(n, brief, mailbox=1)
            for i in range(4):
                n.spawn(sender, ref, i)

    cluster(main)
    assert results == ["accepted", "accepted", "told", "told"]


# ---- questions


def test_ask_gives_the_answer(cluster):
    async def main():
        async with nursery() as n:
            ref = actor(n, calculator)
            answers = [await ref.ask(i) for i in range(5)]
            ref.close()
        return answers

    assert cluster(main) == [0, 2, 4, 6, 8]


def test_many_ask_at_once_and_each_gets_its_own_answer(cluster):
    async def asker(ref, i):
        return await ref.ask(i)

    async def main():
        async with nursery() as n:
            ref = actor(n, calculator, mailbox=2)
            async with nursery() as askers:
                tasks = [askers.spawn(asker, ref, i) for i in range(20)]
            ref.close()
        return [t.result for t in tasks]

    assert cluster(main) == [2 * i for i in range(20)]


def test_a_failed_call_raises_to_who_asked(cluster):
    async def main():
        async with nursery() as n:
            ref = actor(n, calculator)
            with pytest.raises(KeyError, match="asked for it"):
                await ref.ask("fail")
            assert await ref.ask(3) == 6
            ref.close()

    cluster(main)


def test_a_call_is_answered_once(cluster):
    async def twice(mailbox):
        async for call in mailbox:
            assert not call.answered
            call.reply(1)
            assert call.answered
            with pytest.raises(bursar.BursarError, match="answered already"):
                call.reply(2)
            with pytest.raises(bursar.BursarError, match="answered already"):
                call.fail(ValueError())

    async def main():
        async with nursery() as n:
            ref = actor(n, twice)
            assert await ref.ask("x") == 1
            ref.close()

    cluster(main)


def test_an_answer_that_nobody_wants_any_more_is_no_error(cluster):
    async def slow(mailbox):
        async for call in mailbox:
            await sleep(5)
            call.reply("late")

    async def main():
        async with nursery() as n:
            ref = actor(n, slow)
            with pytest.raises(TimeoutError):
                async with bursar.timeout(1):
                    await ref.ask("x")
            assert await ref.ask("y") == "late"
            ref.close()

    cluster(main)


def test_a_crash_fails_the_calls_that_were_taken_and_those_that_wait_in_the_mailbox(cluster):
    answers = []

    async def asker(ref, payload):
        try:
            answers.append(await ref.ask(payload))
        except ChannelClosed:
            answers.append("closed")

    async def main():
        try:
            async with nursery() as outer:
                try:
                    async with nursery() as n:
                        ref = actor(n, calculator, mailbox=2, name="calculator")
                        for payload in (1, "ignore", "crash", 2, 3, 4):
                            outer.spawn(asker, ref, payload)
                except* ValueError:
                    pass
        finally:
            answers.append("over")

    cluster(main)
    assert answers[0] == 2
    assert answers[1:] == ["closed"] * 5 + ["over"]


def test_an_actor_that_is_cancelled_before_it_started_closes_its_mailbox(cluster):
    async def main():
        async with nursery() as n:
            ref = actor(n, calculator)
            ref.task.cancel()
            with pytest.raises(ChannelClosed):
                await ref.ask("x")
        return ref.task.outcome.kind

    assert cluster(main) is OutcomeKind.CANCELLED


# ---- under a supervisor


def test_the_mailbox_outlives_a_crash_and_the_restarted_actor_goes_on(cluster):
    async def main():
        answers = []

        async def asker(ref, payload):
            try:
                answers.append(await ref.ask(payload))
            except ChannelClosed:
                answers.append("closed")

        async with supervisor() as s:
            ref = actor(s, calculator, name="calculator")
            first = ref.task
            async with nursery() as n:
                for payload in (1, "ignore", "crash", 2, 3):
                    n.spawn(asker, ref, payload)
            assert ref.task != first
            assert ref.task.name == "calculator"
            ref.close()
        return answers

    assert sorted(cluster(main), key=str) == [2, 4, 6, "closed", "closed"]


def test_an_actor_that_ends_well_is_not_restarted_and_closes_its_mailbox(cluster):
    async def once(mailbox):
        await mailbox.receive()

    async def main():
        async with supervisor() as s:
            ref = actor(s, once)
            await ref.send(1)
            await sleep(1)
            with pytest.raises(ChannelClosed):
                await ref.send(2)
        return s.children

    assert cluster(main) == []


def test_nobody_waits_for_an_actor_whose_supervisor_gave_up(cluster):
    answers = []

    async def asker(ref):
        for _ in range(5):
            try:
                answers.append(await ref.ask("crash"))
            except ChannelClosed:
                answers.append("closed")

    async def main():
        async with nursery() as n:
            try:
                async with supervisor(max_restarts=1) as s:
                    n.spawn(asker, actor(s, calculator))
            except* bursar.RestartLimitExceeded:
                answers.append("gave up")

    cluster(main)
    assert answers.count("closed") == 5
    assert "gave up" in answers


def test_nobody_waits_for_an_actor_whose_supervisor_was_cancelled(cluster):
    answers = []

    async def asker(ref):
        try:
            await ref.ask("ignore")
        except ChannelClosed:
            answers.append("closed")

    async def opener(outer):
        async with supervisor() as s:
            outer.spawn(asker, actor(s, calculator))
            await sleep(100)

    async def main():
        async with nursery() as n:
            task = n.spawn(opener, n)
            await sleep(1)
            task.cancel()

    cluster(main)
    assert answers == ["closed"]


# ---- arguments


def test_actors_belong_to_the_profiles_that_have_them(run):
    async def main():
        async with nursery() as n:
            with pytest.raises(bursar.ProfileError, match=r"actor\(\) belongs to the cluster and sovereign"):
                actor(n, calculator)
            assert n.tasks == []

    run(main)


@pytest.mark.parametrize("places", [0, -1, 1.5, None, True])
def test_a_mailbox_has_places(places):
    with pytest.raises(ValueError, match="at least 1"):
        actor(None, calculator, mailbox=places)


@pytest.mark.parametrize("kind", ["nursery", "supervisor"])
def test_a_plain_function_is_no_actor(cluster, kind):
    def plain(mailbox):
        pass

    async def main():
        scope = nursery() if kind == "nursery" else supervisor()
        async with scope as inside:
            with pytest.raises(bursar.NotBuilt):
                actor(inside, plain)

    cluster(main)
