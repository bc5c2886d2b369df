// fib(SIZE) with a fork at every number above 1: one half is spawned, the other computed. Per fork.
package main

import "sync"

func fib(n int, value *int64) {
	if n < 2 {
		*value = int64(n)
		return
	}
	var group sync.WaitGroup
	var left, right int64
	group.Add(1)
	go func() {
		fib(n-1, &left)
		group.Done()
	}()
	fib(n-2, &right)
	group.Wait()
	*value = left + right
}

func plain(n int) int64 {
	a, b := int64(0), int64(1)
	for ; n > 0; n-- {
		a, b = b, a+b
	}
	return a
}

func main() {
	size, rounds := arguments()
	for ; rounds > 0; rounds-- {
		var value int64
		since := now()
		fib(size, &value)
		since.report(int(plain(size+1) - 1))
		if value != plain(size) {
			fail("fib")
		}
	}
}
