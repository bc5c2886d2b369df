// A tree of ten children per node; every leaf has a number, and the root gets the sum. Per leaf.
package main

import "sync"

func node(first, leaves int64, sum *int64, parent *sync.WaitGroup) {
	if leaves == 1 {
		*sum = first
		parent.Done()
		return
	}
	var group sync.WaitGroup
	var sums [10]int64
	group.Add(10)
	for i := range sums {
		go node(first+int64(i)*(leaves/10), leaves/10, &sums[i], &group)
	}
	group.Wait()
	for _, one := range sums {
		*sum += one
	}
	parent.Done()
}

func main() {
	size, rounds := arguments()
	for ; rounds > 0; rounds-- {
		var group sync.WaitGroup
		var sum int64
		since := now()
		group.Add(1)
		go node(0, int64(size), &sum, &group)
		group.Wait()
		since.report(size)
		if sum != int64(size)*int64(size-1)/2 {
			fail("the sum")
		}
	}
}
