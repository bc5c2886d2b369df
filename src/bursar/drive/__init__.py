"""From a call of the host to one poll of one task: the pump, the driver of coroutines, and what guards them."""
