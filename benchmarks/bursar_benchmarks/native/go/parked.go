// Goroutines that wait; bytes per goroutine.
package main

import (
	"fmt"
	"runtime"
	"sync"
)

func main() {
	size, _ := arguments()
	channel := make(chan int64)
	var group sync.WaitGroup
	group.Add(size)
	bytes := residentBytes()
	for i := 0; i < size; i++ {
		go func() {
			<-channel
			group.Done()
		}()
	}
	runtime.Gosched() // one processor: all of them run and wait before we go on
	runtime.Gosched()
	fmt.Printf("bytes=%.1f\n", (residentBytes()-bytes)/float64(size))
	close(channel)
	group.Wait()
}
