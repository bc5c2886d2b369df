// From before a go statement until the goroutine runs on another processor. The spawner computes and does not yield.
// Go cannot choose that processor. On a busy machine it may be the same one; then this measures a switch of the system.
package main

import "sync/atomic"

const warm = 64

func main() {
	size, rounds := arguments()
	var hand int64
	var arrived float64
	latencies := make([]float64, size)
	for ; rounds > 0; rounds-- {
		atomic.StoreInt64(&hand, 0)
		for i := int64(1); i <= int64(size+warm); i++ {
			number := i
			since := nanotime()
			go func() {
				arrived = nanotime()
				atomic.StoreInt64(&hand, number)
			}()
			for atomic.LoadInt64(&hand) != i {
			}
			if i > warm {
				latencies[i-warm-1] = arrived - since
			}
			for until := nanotime() + 300; nanotime() < until; {
			}
		}
		reportLatencies(latencies)
	}
}
