// Two goroutines send a number back and forth over two channels without a buffer; per message.
package main

import "sync"

func main() {
	size, rounds := arguments()
	there, back := make(chan int64), make(chan int64)
	for ; rounds > 0; rounds-- {
		var group sync.WaitGroup
		group.Add(2)
		since := now()
		go func() {
			for left := int64(size / 2); left > 0; left-- {
				there <- left
				if <-back != left {
					fail("a message")
				}
			}
			group.Done()
		}()
		go func() {
			for left := size / 2; left > 0; left-- {
				back <- <-there
			}
			group.Done()
		}()
		group.Wait()
		since.report(size)
	}
}
