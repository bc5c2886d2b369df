// The same as measure.h for C: the command line, the two clocks, the line of a round.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

type mark struct{ cpu, wall float64 }

func clock(which uintptr) float64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&t)), 0)
	return float64(t.Sec)*1e9 + float64(t.Nsec)
}

func now() mark { return mark{clock(2), clock(1)} } // of the process; monotonic

func (since mark) report(operations int) {
	at := now()
	n := float64(operations)
	fmt.Printf("cpu=%.3f wall=%.3f\n", (at.cpu-since.cpu)/n, (at.wall-since.wall)/n)
}

func reportLatencies(ns []float64) {
	sort.Float64s(ns)
	fmt.Printf("best=%.1f p50=%.1f p99=%.1f\n", ns[0], ns[len(ns)/2], ns[len(ns)*99/100])
}

func nanotime() float64 { return float64(time.Since(began).Nanoseconds()) }

var began = time.Now()

func fail(what string) {
	fmt.Fprintln(os.Stderr, "wrong:", what)
	os.Exit(1)
}

// arguments sets GOMAXPROCS to the first number of the command line and answers the other two: size and rounds.
func arguments() (int, int) {
	var numbers [3]int
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(os.Args[i+1])
	}
	runtime.GOMAXPROCS(numbers[0])
	return numbers[1], numbers[2]
}

func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail("no /proc/self/statm")
	}
	var size, pages int
	fmt.Sscan(string(text), &size, &pages)
	return float64(pages) * 4096
}
