// Two goroutines that yield to each other; per yield.
package main

import (
	"runtime"
	"sync"
)

func main() {
	size, rounds := arguments()
	for ; rounds > 0; rounds-- {
		var group sync.WaitGroup
		group.Add(2)
		since := now()
		for i := 0; i < 2; i++ {
			go func() {
				for left := size / 2; left > 0; left-- {
					runtime.Gosched()
				}
				group.Done()
			}()
		}
		group.Wait()
		since.report(size)
	}
}
