"""Sets every attribute of C objects to wrong values, and deletes it. `test_attributes.py` runs this in a child process.

    python hostile_attributes.py bare TYPE ...         objects that `__new__` made, without `__init__`
    python hostile_attributes.py live ATTRIBUTE ...    attributes of the kernel of a runtime, which then runs

It prints each name once it has survived.
"""

import contextlib
import gc
import sys

import bursar
from bursar import _native

WRONG = (None, -1, 5, 10**30, 0.5, "text", b"", (), [], {}, object(), type, bursar.Budget(ops=1))


def bare(name):
    kind = getattr(_native, name)
    for made_with in ((), (None,), (None, None), (5, "x"), (0, 0, 0)):
        try:
            thing = kind.__new__(kind, *made_with)
        except Exception:
            continue
        for attribute in dir(thing):
            if attribute == "__class__":
                continue
            with contextlib.suppress(Exception):
                getattr(thing, attribute)
            for wrong in WRONG:
                with contextlib.suppress(Exception):
                    setattr(thing, attribute, wrong)
                with contextlib.suppress(Exception):
                    getattr(thing, attribute)
            with contextlib.suppress(Exception):
                delattr(thing, attribute)
            with contextlib.suppress(Exception):
                getattr(thing, attribute)
        call_methods(thing)
        del thing
        gc.collect()


def call_methods(thing):
    for method, found in vars(type(thing)).items():
        for arguments in ((), (None,), (5,), (None, None), (5, 5), ("x", {}, [])):
            if type(found).__name__ == "method_descriptor":
                with contextlib.suppress(Exception):
                    getattr(thing, method)(*arguments)


def live(name):
    for wrong in (*WRONG, AttributeError):
        runtime = bursar.Runtime(clock="virtual")
        kernel = runtime.kernel

        async def main(kernel=kernel, wrong=wrong):
            with contextlib.suppress(Exception):
                delattr(kernel, name) if wrong is AttributeError else setattr(kernel, name, wrong)
            async with bursar.nursery() as n:
                n.spawn(bursar.sleep, 0)

        with contextlib.suppress(BaseException):
            runtime.run(main)
        del runtime, kernel
        gc.collect()


if __name__ == "__main__":
    for asked in sys.argv[2:]:
        {"bare": bare, "live": live}[sys.argv[1]](asked)
        print(asked, flush=True)
