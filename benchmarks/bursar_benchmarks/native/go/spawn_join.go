// Groups of 1000 goroutines that do nothing, one after another.
package main

import "sync"

func main() {
	size, rounds := arguments()
	for ; rounds > 0; rounds-- {
		since := now()
		for left := size; left > 0; left -= 1000 {
			var group sync.WaitGroup
			group.Add(1000)
			for i := 0; i < 1000; i++ {
				go group.Done()
			}
			group.Wait()
		}
		since.report(size)
	}
}
