"""Tells what kind of function is spawned: a coroutine function, one of Bursar's own, or a plain function.

A plain function runs on a thread. Most of Bursar's own functions are not `async def`: `bursar.sleep` and `event.wait`
return a request, which a task then awaits. Such a function looks plain, but it must run on the loop. So the loop calls
it and awaits its request: `n.spawn(bursar.sleep, 1)` is a task that sleeps. Bursar's own functions are recognized by
their module (`request.LOOP_MODULES`): each such module registers itself.

Rejected: a mark on each of these functions. Half of them are written in C and cannot have one, and each new function
would need its mark.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any, cast

from bursar.errors import NotBuilt
from bursar.request import LOOP_MODULES, Request
from bursar.seam import expose_to_c
from bursar.text import TEXT_MAX, brief


def is_own(fn: Any) -> bool:
    """Whether `fn` is one of Bursar's own functions or returns a request."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if inspect.isclass(fn) and issubclass(fn, Request):
        return True
    module: object = getattr(cast("object", fn), "__module__", None)
    if module is None:  # a method in C has no module: then the class of its object, or a base class, says it
        return any(_is_ours(kind.__module__) for kind in type(getattr(cast("object", fn), "__self__", None)).__mro__)
    return _is_ours(module)


def _is_ours(module: object) -> bool:
    return type(module) is str and module in LOOP_MODULES


expose_to_c(own_modules=LOOP_MODULES)


def title_of(fn: object) -> str:
    """The default name of a task that runs `fn`."""
    if type(fn) is FunctionType and len(fn.__qualname__) <= TEXT_MAX:
        return fn.__qualname__  # the usual case, at a fraction of the cost
    return brief(fn, lambda thing: getattr(thing, "__qualname__", None) or repr(thing))


def is_plain_function(fn: Any) -> bool:
    """Whether `fn` runs on a thread. Raises TypeError if it is not a function."""
    if type(fn) is FunctionType:
        if fn.__code__.co_flags & inspect.CO_COROUTINE:
            return False
        return not fn.__dict__ or not is_coroutine_function(fn)  # a wrapper has an entry in its `__dict__`
    if callable(fn):
        return not is_coroutine_function(fn)
    require_coroutine_function(fn)
    return False


def is_coroutine_function(fn: Any) -> bool:
    """Whether a call of `fn` makes a coroutine, as far as this is known without a call."""
    unwrapped = inspect.unwrap(fn) if callable(fn) else fn
    while isinstance(unwrapped, functools.partial):
        unwrapped = unwrapped.func
    call = getattr(unwrapped, "__call__", None)  # noqa: B004 (an object with an async __call__ is fine)
    return inspect.iscoroutinefunction(unwrapped) or inspect.iscoroutinefunction(call)


def require_coroutine_function(fn: Any) -> None:
    """Raise TypeError unless `fn` can run as a coroutine task."""
    if isinstance(fn, FunctionType) and fn.__code__.co_flags & inspect.CO_COROUTINE:
        return  # the usual case, at a fraction of the cost of `inspect`
    if is_coroutine_function(fn):
        return
    if inspect.iscoroutine(fn):
        fn.close()
        raise TypeError(
            f"spawn({fn!r}): pass the function and its arguments, not the coroutine: spawn(fn, x), not spawn(fn(x))"
        )
    if callable(fn):
        raise NotBuilt(
            f"spawn({fn!r}): a plain function runs on a thread, as a task of a nursery: n.spawn(fn, ...); "
            "here use `async def`"
        )
    raise TypeError(f"spawn({fn!r}): not a function")
